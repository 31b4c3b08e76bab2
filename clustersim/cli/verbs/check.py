"""`clustersim check LOG --scenario SCENARIO`: a log or a trace next to its prediction."""

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
    reject_unused,
)
from clustersim.cli.output import echo
from clustersim.cli.studies import StudyOptions, folder_of, study_options

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.check import CheckAnswer
    from clustersim.studies.check_trace import TraceCheckAnswer


@study_options
def check(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="Log of training, trace of PyTorch, or JSON of a serving benchmark.",
        ),
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
    from clustersim.importers.traces.formats import trace_format

    if trace_format(Path(log)) is not None:
        reject_unused({"--anchor": anchor}, "a trace")
        _check_trace(log, scenario, study)
        return
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


def _check_trace(trace: str, scenario: str, study: StudyOptions) -> None:
    """Compare a trace with its prediction, part by part."""
    import clustersim
    from clustersim.runs.arguments import variant_of

    variant = variant_of(scenario, study.changes)
    place = study.destination("check", folder_of([scenario]))
    command = command_line("check", [trace], set=study.changes, scenario=scenario)
    settings = variant.settings
    answer = clustersim.check_trace(trace, scenario=variant.scenario, settings=settings)
    place.report(answer, command, _show_trace)


def _show_trace(answer: "TraceCheckAnswer", written: "list[Row]") -> None:
    """Print the parts of the step, each communication, and remarks."""
    from clustersim.studies.check_trace import text

    print_rows(text.finding(answer), [])
    echo()
    print_table(text.part_table(answer), text.WORDS)
    if cells := text.communication_table(answer):
        echo()
        print_table(cells, text.WORDS)
    echo()
    print_rows(None, [*text.rows(answer), *written])


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
