"""`clustersim serve SCENARIO`: the requests of a service, and how long they take."""

from pathlib import Path
from typing import Annotated

import typer

import clustersim
from clustersim.cli.options import (
    AsJson,
    Figures,
    Force,
    Settings,
    command_line,
    figure_formats,
    print_json,
    print_rows,
)
from clustersim.errors import ScenarioError


def serve(
    scenario: Annotated[
        str, typer.Argument(help="Serving scenario (- for standard input), or a shipped one.")
    ],
    settings: Settings = None,
    loads: Annotated[
        str | None,
        typer.Option(
            metavar="VALUES",
            help="Loads of the curve, as the scenario has them: 1,8,64 users, or 1:64 (doublings)"
            " [up to that of the scenario, in the files].",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Output folder [runs/NAME].", show_default=False),
    ] = None,
    figures: Figures = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Simulate the requests of a service: latency, throughput, goodput."""
    from clustersim.scenario.load import load_service

    formats = figure_formats(figures)
    loaded = load_service(scenario, settings or ())
    sizes = _sizes(loads)
    if json_output and out is None:
        print_json(clustersim.serve(loaded, loads=sizes).answer)
        return
    from clustersim.render import tables
    from clustersim.render.folder import check_free
    from clustersim.render.study_folder import write_study
    from clustersim.simulation.serve import usual_loads
    from clustersim.studies.serve.files import files_of
    from clustersim.studies.serve.text import curve_table, rows

    place = out or Path("runs") / loaded.name
    check_free(place, force=force)
    result = clustersim.serve(loaded, loads=sizes or usual_loads(loaded))
    command = command_line("serve", [scenario], set=settings, loads=loads)
    files = files_of(result, loaded, command)
    names = write_study(result.answer, files, place, formats=formats, force=force)
    if json_output:
        print_json(result.answer)
        return
    print_rows(result.scenario.title, rows(result))
    if len(result.curve) > 1:
        _print_curve(result.scenario.load.kind, curve_table(result.curve))
    print_rows(None, [tables.files(place, names)])


def _print_curve(kind: str, table: list[list[str]]) -> None:
    """Print the curve over the load."""
    from clustersim.cli.options import print_table
    from clustersim.cli.output import echo

    echo(f"\nover {kind}:")
    print_table(table)
    echo()


def _sizes(loads: str | None) -> tuple[float, ...]:
    """Return the loads of a list or range of values."""
    if loads is None:
        return ()
    from clustersim.scenario.ranges import values_of

    try:
        sizes = tuple(float(value) for value in values_of(loads))
    except ValueError as problem:
        raise ScenarioError(f"--loads {loads}: {problem}") from None
    if not all(size > 0 for size in sizes):
        raise ScenarioError(f"--loads {loads}: must be greater than 0")
    return sizes


__all__ = ["serve"]
