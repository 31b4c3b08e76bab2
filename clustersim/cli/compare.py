"""`clustersim compare A B`: what changed between runs, by how much, and why."""

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
    Settings,
    StoreFile,
    command_line,
    print_rows,
    print_table,
    progress_bar,
)
from clustersim.cli.output import echo

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.compare import CompareAnswer
    from clustersim.studies.service_compare import CompareServicesAnswer


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
            help="Measure that findings state: days, goodput, energy or cost of whole runs,"
            " tokens_per_s_per_device, tpot, ... of services.",
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
    """Compare runs: inputs, results and causes.

    Each run is compared with the first one.
    """
    from clustersim.runs.arguments import variant_of
    from clustersim.scenario.load import is_service, name_of

    first, *others = (variant_of(one).scenario for one in scenarios)
    place = destination(f"{name_of(first)}-compare", out, figures, as_json=as_json, force=force)
    how = Execution(store=store, jobs=jobs, executor=executor)
    command = command_line("compare", scenarios, set=settings, by=by)
    if all(map(is_service, (first, *others))):
        from clustersim.studies.service_compare import files as service_files

        with progress_bar("compare", store) as on_progress:
            services = clustersim.compare_services(
                scenarios, by=by, settings=settings or (), on_progress=on_progress, **how
            )
        place.report(services, partial(service_files.files_of, services, command), _show_services)
        return
    from clustersim.studies.compare import files

    with progress_bar("compare", store) as on_progress:
        answer = clustersim.compare(
            scenarios, by=by, settings=settings or (), on_progress=on_progress, **how
        )
    place.report(answer, partial(files.files_of, answer, command), _show)


def _show_services(answer: "CompareServicesAnswer", written: "list[Row]") -> None:
    """Print each comparison in lines, then all services as a table."""
    from clustersim.studies.service_compare.text import result_table, rows

    for comparison in answer.comparisons:
        print_rows(comparison.finding, rows(comparison))
        echo()
    print_table(result_table(answer), [""])
    if written:
        print_rows(None, written)


def _show(answer: "CompareAnswer", written: "list[Row]") -> None:
    """Print each comparison in lines."""
    from clustersim.studies.compare.text import rows

    for comparison in answer.comparisons:
        print_rows(comparison.finding, rows(comparison))
        echo()
    if written:
        print_rows(None, written)
