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
    print_table,
    progress_bar,
)
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError

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
    by: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="Measure that findings state, of services: tokens_per_s_per_device, tpot, ...",
        ),
    ] = None,
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
    from clustersim.scenario.load import is_service, name_of
    from clustersim.studies.compare.files import files_of

    name = name_of(variant_of(scenarios[0]).scenario)
    formats = figure_formats(figures)
    serving = all(is_service(variant_of(one).scenario) for one in scenarios)
    if by is not None and not serving:
        raise ScenarioError("--by: has no effect on the scenario of a training step (leave it out)")
    place = output_folder("compare", name, out, json_output=json_output, force=force)
    if serving:
        _compare_services(
            scenarios, by, settings, (store, jobs, executor), place, formats, as_json=json_output
        )
        return
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


def _compare_services(
    scenarios: list[str],
    by: str | None,
    settings: list[str] | None,
    executed: tuple[Path, int | None, str | None],
    place: Path | None,
    formats: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Compare services; `executed` are run cache, processes and executor."""
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.studies.service_compare.files import files_of
    from clustersim.studies.service_compare.text import result_table, rows

    store, jobs, executor = executed
    with progress_bar("compare", store) as on_progress:
        answer = clustersim.compare_services(
            scenarios,
            by=by,
            settings=settings or (),
            store=store,
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    files: list[str] = []
    if place is not None:
        command = command_line("compare", scenarios, set=settings, by=by)
        files = write_study(answer, files_of(answer, command), place, formats=formats, force=True)
    if as_json:
        print_json(answer)
        return
    for comparison in answer.comparisons:
        print_rows(comparison.finding, rows(comparison))
        echo()
    print_table(result_table(answer), [""])
    if place is not None:
        print_rows(None, [tables.files(place, files)])


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
