"""`clustersim whatif SCENARIO --set ...`: which change saves most, and what all save together."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

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
    StoreFile,
    command_line,
    print_rows,
    print_table,
    progress_bar,
)
from clustersim.cli.output import echo

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.service_whatif import ServiceWhatIf
    from clustersim.studies.whatif import WhatIfAnswer


Changed = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A change of one value: plan.data=4. Repeatable."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--change",
        metavar="SETTINGS",
        help="A change of several values: 'plan.pipeline=4 plan.data=16'. Repeatable.",
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="MEASURE",
        help="Measure that ranks the changes: days, goodput, energy or cost of whole runs,"
        " tokens_per_s_per_device, tpot, ... of services.",
    ),
]


def whatif(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file or shipped name; 'A plan.zero=1' is A with a change.",
        ),
    ],
    settings: Changed = None,
    changes: Changes = None,
    by: By = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Out = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Rank changes of a scenario by the time that they save, alone and together.

    Changes of a whole run or of a service are ranked by a measure (`--by`), by default days of a
    run, and tokens/s per device or the latency of a service.
    """
    from clustersim.runs.arguments import variant_of
    from clustersim.scenario.load import is_service, name_of

    base = variant_of(scenario).scenario
    place = destination(f"{name_of(base)}-whatif", out, figures, as_json=as_json, force=force)
    how = Execution(store=store, jobs=jobs, executor=executor)
    command = command_line("whatif", [scenario], set=settings, change=changes, by=by)
    if is_service(base):
        from clustersim.studies.service_whatif import files as service_files

        with progress_bar("whatif", store) as on_progress:
            services = clustersim.whatif_service(
                scenario,
                settings=settings or (),
                changes=changes or (),
                by=by,
                on_progress=on_progress,
                **how,
            )
        place.report(services, partial(service_files.files_of, services, command), _show_service)
        return
    from clustersim.studies.whatif import files

    with progress_bar("whatif", store) as on_progress:
        answer = clustersim.whatif(
            scenario,
            settings=settings or (),
            changes=changes or (),
            by=by,
            on_progress=on_progress,
            **how,
        )
    place.report(answer, partial(files.files_of, answer, command), _show)


def _show_service(answer: "ServiceWhatIf", written: "list[Row]") -> None:
    """Print the ranking of changes of a service, and remarks on it."""
    from clustersim.studies.service_whatif import text

    print_rows(text.finding(answer), [])
    echo()
    print_table(text.change_table(answer), text.WORDS)
    print_rows(None, [*text.rows(answer), *written])


def _show(answer: "WhatIfAnswer", written: "list[Row]") -> None:
    """Print the ranking and remarks on it."""
    from clustersim.studies.whatif import text

    print_rows(text.finding(answer), [])
    echo()
    print_table(text.table(answer), text.WORDS, text.UNFIT)
    print_rows(None, [*text.rows(answer), *written])
