"""`clustersim sweep SCENARIO --over KEY=VALUES`: the best of all combinations of some values."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import clustersim
from clustersim.cli.destination import destination
from clustersim.cli.options import (
    STORE,
    AsJson,
    Execution,
    Executor,
    Figures,
    Force,
    Jobs,
    Out,
    Settings,
    StoreFile,
    command_line,
    print_rows,
    print_table,
    progress_bar,
    reject_unused,
)
from clustersim.cli.output import echo

if TYPE_CHECKING:
    from clustersim.render.tables import Row
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
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="TIME=VALUE",
        help="Limit of a mean time of a service: tpot=50ms, ttft=2s, latency=20s. Repeatable.",
    ),
]


def sweep(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    over: Over = None,
    table: Table = None,
    by: By = None,
    pareto: Pareto = None,
    limit: Limit = None,
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
    from clustersim.scenario.load import is_service, name_of

    place = destination(f"{name_of(scenario)}-sweep", out, figures, as_json=as_json, force=force)
    how = Execution(store=store, jobs=jobs, executor=executor)
    command = command_line(
        "sweep", [scenario], set=settings, list=table, over=over, by=by, pareto=pareto, limit=limit
    )
    if is_service(scenario):
        reject_unused({"--pareto": pareto}, "a serving scenario")
        from clustersim.studies.service_sweep import files as service_files

        with progress_bar("sweep", store) as on_progress:
            services = clustersim.sweep_services(
                scenario,
                over or (),
                table=table,
                by=by or DEFAULT_OF_SERVICE,
                limits=limit or (),
                settings=settings or (),
                on_progress=on_progress,
                **how,
            )
        place.report(services, partial(service_files.files_of, services, command), _show_services)
        return
    reject_unused({"--limit": limit}, "the scenario of a training step")
    from clustersim.studies.sweep import files

    with progress_bar("sweep", store) as on_progress:
        answer = clustersim.sweep(
            scenario,
            over=over or (),
            table=table,
            by=by or DEFAULT_MEASURE,
            pareto=pareto,
            settings=settings or (),
            on_progress=on_progress,
            **how,
        )
    place.report(answer, partial(files.files_of, answer, command), _show)


def _show_services(answer: "ServiceSweep", written: "list[Row]") -> None:
    """Print the sweep of a service in lines, then its combinations as a table."""
    from clustersim.studies.service_sweep.text import combination_table, rows

    print_rows(answer.title, [*rows(answer), *written])
    echo("\ncombinations:")
    print_table(combination_table(answer))


def _show(answer: "SweepAnswer", written: "list[Row]") -> None:
    """Print the answer in lines, then the best layouts and the front as tables."""
    from clustersim.studies.sweep.text import layout_tables, rows

    print_rows(answer.title, [*rows(answer), *written])
    for heading, table in layout_tables(answer):
        echo(f"\n{heading}:")
        print_table(table)
