"""`clustersim compare A B`: what changed between runs, by how much, and why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import clustersim
from clustersim.cli.options import (
    STORE,
    AsJson,
    Executor,
    Figures,
    Force,
    Jobs,
    Out,
    Settings,
    StoreFile,
    command_line,
    figure_formats,
    output_folder,
    print_json,
    print_rows,
    progress_bar,
)
from clustersim.cli.output import echo

if TYPE_CHECKING:
    from clustersim.studies.compare import CompareAnswer


def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...]",
            help="Scenario files or shipped names; 'A plan.zero=1' is A with a change.",
        ),
    ],
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Out = None,
    figures: Figures = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Compare runs: inputs, results and causes.

    Each run is compared with the first one.
    """
    from clustersim.render.study_folder import write_study
    from clustersim.runs.arguments import variant_of
    from clustersim.scenario.load import name_of
    from clustersim.studies.compare.files import files_of

    name = name_of(variant_of(scenarios[0]).scenario)
    formats = figure_formats(figures)
    place = output_folder("compare", name, out, json_output=json_output, force=force)
    with progress_bar("compare", store) as on_progress:
        answer = clustersim.compare(
            scenarios,
            settings=settings or (),
            store=store,
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    files: list[str] = []
    if place is not None:
        command = command_line("compare", scenarios, set=settings)
        contents = files_of(answer, command)
        files = write_study(answer, contents, place, formats=formats, force=force)
    if json_output:
        print_json(answer)
    else:
        _show(answer, place, files)


def _show(answer: "CompareAnswer", place: Path | None, files: list[str]) -> None:
    """Print each comparison: a table on a terminal, plain lines elsewhere."""
    from clustersim.render import tables
    from clustersim.studies.compare.text import rows

    for comparison in answer.comparisons:
        print_rows(comparison.finding, rows(comparison))
        echo()
    if place is not None:
        print_rows(None, [tables.files(place, files)])


__all__ = ["compare"]
