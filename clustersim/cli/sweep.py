"""`clustersim sweep SCENARIO --over KEY=VALUES`: the best of all combinations of some values."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

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
    from clustersim.studies.service_sweep import ServiceSweep
    from clustersim.studies.sweep import SweepAnswer

DEFAULT_MEASURE: Final = "tokens_per_s"
DEFAULT_OF_SERVICE: Final = "tokens_per_s_per_device"

Over = Annotated[
    list[str] | None,
    typer.Option(
        "--over",
        metavar="KEY=VALUES",
        help="Axis: plan.tensor=1,2,4,8, batch.micro=1:8 (doublings), plan.pipeline=4:16:4"
        " (steps), plan.data=fill (all remaining devices). Repeatable.",
    ),
]
Table = Annotated[
    Path | None,
    typer.Option("--list", metavar="PATH", help="CSV of combinations, a column for each key."),
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="MEASURE",
        help="Measure that decides which layout is best: mfu, step_time_s, days, ..., of a service"
        " tokens_per_s_per_device, tpot, ... [tokens_per_s, of a service per device].",
        show_default=False,
    ),
]
Pareto = Annotated[
    str | None,
    typer.Option(
        metavar="COST",
        help="Cost of the Pareto front: memory or devices [devices if their number varies].",
    ),
]


def sweep(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    over: Over = None,
    table: Table = None,
    by: By = None,
    pareto: Pareto = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="TIME=VALUE",
            help="Limit of a mean time of a service: tpot=50ms, ttft=2s, latency=20s. Repeatable.",
        ),
    ] = None,
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Out = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Run all combinations of values; find the best that fits in memory.

    Invalid combinations are listed with their reasons. An interrupted sweep resumes when the same
    command is run again.
    """
    from clustersim.render.study_folder import write_study
    from clustersim.scenario.load import is_service, name_of
    from clustersim.studies.sweep.files import files_of

    formats = figure_formats(figures)
    if is_service(scenario):
        _check_unused({"--pareto": pareto}, "a serving scenario")
        place = output_folder("sweep", name_of(scenario), out, json_output=as_json, force=force)
        with progress_bar("sweep", store) as on_progress:
            services = clustersim.sweep_services(
                scenario,
                over or (),
                table=table,
                by=by or DEFAULT_OF_SERVICE,
                limits=limit or (),
                settings=settings or (),
                store=store,
                jobs=jobs,
                executor=executor,
                on_progress=on_progress,
            )
        command = command_line(
            "sweep", [scenario], set=settings, list=table, over=over, by=by, limit=limit
        )
        _report_services(services, place, command, formats, as_json=as_json)
        return
    _check_unused({"--limit": limit}, "the scenario of a training step")
    place = output_folder("sweep", name_of(scenario), out, json_output=as_json, force=force)
    with progress_bar("sweep", store) as on_progress:
        answer = clustersim.sweep(
            scenario,
            over=over or (),
            table=table,
            by=by or DEFAULT_MEASURE,
            pareto=pareto,
            settings=settings or (),
            store=store,
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    files: list[str] = []
    if place is not None:
        command = command_line(
            "sweep", [scenario], set=settings, list=table, over=over, by=by, pareto=pareto
        )
        contents = files_of(answer, command)
        files = write_study(answer, contents, place, formats=formats, force=force)
    if as_json:
        print_json(answer)
    else:
        _print(answer, place, files)


def _check_unused(options: Mapping[str, object], where: str) -> None:
    """Reject options that have no effect on a kind of scenario."""
    for name, value in options.items():
        if value is not None:
            raise ScenarioError(f"{name}: has no effect on {where} (leave it out)")


def _report_services(
    answer: "ServiceSweep",
    place: Path | None,
    command: str,
    formats: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Write and print a sweep of a service; the folder `place` has been checked."""
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.studies.service_sweep.files import files_of
    from clustersim.studies.service_sweep.text import combination_table, rows

    names: list[str] = []
    if place is not None:
        contents = files_of(answer, command)
        names = write_study(answer, contents, place, formats=formats, force=True)
    if as_json:
        print_json(answer)
        return
    files = [] if place is None else [tables.files(place, names)]
    print_rows(answer.title, [*rows(answer), *files])
    echo("\ncombinations:")
    print_table(combination_table(answer))


def _print(answer: "SweepAnswer", place: Path | None, files: list[str]) -> None:
    """Print the answer in lines, then the best layouts and the front as tables."""
    from clustersim.render import tables
    from clustersim.studies.sweep.text import layout_tables, rows

    lines = rows(answer)
    if place is not None:
        lines.append(tables.files(place, files))
    print_rows(answer.title, lines)
    for heading, table in layout_tables(answer):
        echo(f"\n{heading}:")
        print_table(table)


__all__ = ["sweep"]
