"""`clustersim serve SCENARIO`: the requests of a service, and how long they take."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

import clustersim
from clustersim.cli import options
from clustersim.cli.options import (
    check_strict,
    command_line,
    destination,
    end_strictly,
    option,
    print_json,
    print_rows,
)

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.scenario.load import LoadedService
    from clustersim.simulation.service.result import ServeResult


def serve(
    scenario: Annotated[
        str,
        typer.Argument(
            help="Serving scenario or launch file, - for standard input, or a shipped one."
        ),
    ],
    settings: options.Settings = None,
    cluster: options.LaunchCluster = None,
    nodes: options.LaunchNodes = None,
    model: options.LaunchModel = None,
    loads: Annotated[
        str | None,
        option(
            "VALUES",
            "Loads of the curve, as the scenario has them: 1,8,64 users, or 1:64 (doublings)"
            " [up to that of the scenario, in the files].",
        ),
    ] = None,
    out: options.RunOut = None,
    figures: options.Figures = None,
    as_json: options.AsJson = False,
    force: options.Force = False,
    strict: options.Strict = False,
) -> None:
    """Simulate the requests of a service: latency, throughput, goodput."""
    from clustersim.scenario.load import load_service
    from clustersim.simulation.service.serve import sizes_of

    changes = [*options.machine_settings(cluster, nodes, model), *(settings or [])]
    loaded = load_service(scenario, changes)
    options.print_remarks(loaded.origin.remarks)
    check_strict(loaded, strict=strict)
    sizes = () if loads is None else sizes_of(loads)
    place = destination(loaded.name, out, figures, as_json=as_json, force=force)
    command = command_line("serve", [scenario], set=changes, loads=loads)
    report_service(loaded, sizes, place, command, strict=strict)


def report_service(
    loaded: "LoadedService",
    sizes: tuple[float, ...],
    place: options.Destination,
    command: str,
    *,
    strict: bool,
) -> None:
    """Simulate a service, write its files and print its answer.

    Parameters
    ----------
    sizes : loads of the curve; in files up to that of the scenario if there are none
    strict : whether to end the command with exit code 3 if an expectation is missed
    """
    from clustersim.simulation.service.serve import usual_loads

    if place.folder is not None:
        sizes = sizes or usual_loads(loaded)
    result = clustersim.serve(loaded, loads=sizes)
    written = place.write(result, command)
    if place.as_json:
        print_json(result.answer)
    else:
        _show(result, written)
    end_strictly(loaded, result.answer.expectations, strict=strict)


LOADS: Final = {
    "concurrency": "users",
    "rate": "requests/s",
    "batch": "requests of a batch",
}
"""What the sizes of a load are, by its kind."""


def _show(result: "ServeResult", written: "list[Row]") -> None:
    """Print the answer in lines, then the curve over the load if it has several."""
    from clustersim.reports.service.text import curve_table, rows, times_table

    print_rows(result.scenario.title, rows(result))
    if len(result.curve) > 1:
        load = LOADS[result.scenario.load.kind]
        _print_curve(f"over {load}", curve_table(result.curve))
        if any(each.intervals for point in result.curve for each in point.times.values()):
            _print_curve(f"times over {load}, with 95 % intervals", times_table(result.curve))
    print_rows(None, written)


def _print_curve(title: str, table: list[list[str]]) -> None:
    """Print a table of the curve over the load."""
    from clustersim.cli.options import print_table
    from clustersim.cli.output import echo

    echo(f"\n{title}:")
    print_table(table, ["time"])
    echo()
