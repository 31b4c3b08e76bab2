"""`clustersim check LOG --scenario SCENARIO`: a log next to its prediction."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import (
    command_line,
    option,
    print_rows,
    print_table,
    progress_bar,
)
from clustersim.cli.output import echo
from clustersim.cli.studies import StudyOptions, folder_of, study_options

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.check import CheckAnswer


@study_options
def check(
    log: Annotated[
        str,
        typer.Argument(metavar="LOG", help="Log of training, or JSON of a serving benchmark."),
    ],
    study: StudyOptions,
    scenario: Annotated[
        str,
        option(
            "SCENARIO",
            "Scenario or launch file of the run, or a shipped name; 'A plan.zero=1' is A with a"
            " change.",
            "--scenario",
        ),
    ],
    anchor: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the factors on the catalogue's values that explain the log, for other scenarios"
            " of the job: 'anchor: FILE'.",
        ),
    ] = None,
) -> None:
    """Compare a log with its prediction: normal, slow or fast, and the likely causes."""
    import clustersim
    from clustersim.catalog.writing import check_new, write_new

    place = study.destination("check", folder_of([scenario]))
    if anchor is not None:
        check_new(anchor, force=study.force)
    command = command_line("check", [log], set=study.changes, scenario=scenario, anchor=anchor)
    with progress_bar("check", study.store) as on_progress:
        answer = clustersim.check(
            log,
            scenario=scenario,
            anchor=anchor is not None,
            on_progress=on_progress,
            **study.execution(),
        )
    if anchor is not None and answer.anchor is not None:
        write_new(anchor, answer.anchor.file, force=study.force)
    place.report(answer, command, partial(_show, anchor))


def _show(anchor: Path | None, answer: "CheckAnswer", written: "list[Row]") -> None:
    """Print the verdict, measured and predicted values, then the causes."""
    from clustersim.studies.check import text

    print_rows(text.finding(answer), [])
    echo()
    print_table(text.table(answer), text.WORDS)
    print_rows(None, list(text.rows(answer)))
    if causes := text.cause_table(answer):
        echo()
        print_table(causes[: 1 + text.MOST_CAUSES], text.WORDS)
    if factors := text.anchor_table(answer):
        echo()
        print_table(factors, text.WORDS)
        print_rows(None, list(text.anchor_rows(answer, anchor)))
    if written:
        echo()
        print_rows(None, written)
