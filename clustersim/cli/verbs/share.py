"""`clustersim share SCENARIO`: several jobs on one machine, alone and together."""

from typing import TYPE_CHECKING, Annotated

import typer

import clustersim
from clustersim.cli import options
from clustersim.cli.options import (
    check_strict,
    command_line,
    destination,
    end_strictly,
    print_rows,
)

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.scenario.load import LoadedSharing
    from clustersim.simulation.sharing.answer import ShareAnswer


def share(
    scenario: Annotated[
        str, typer.Argument(help="Scenario with the key jobs, or - for standard input.")
    ],
    settings: options.Settings = None,
    out: options.Out = None,
    figures: options.Figures = None,
    as_json: options.AsJson = False,
    force: options.Force = False,
    strict: options.Strict = False,
) -> None:
    """Simulate several jobs on one machine: what each costs the others, and on which links."""
    from clustersim.scenario.load import load_sharing

    loaded = load_sharing(scenario, settings or ())
    place = destination(f"{loaded.name}-share", out, figures, as_json=as_json, force=force)
    command = command_line("share", [scenario], set=settings)
    report_sharing(loaded, place, command, strict=strict)


def report_sharing(
    loaded: "LoadedSharing", place: options.Destination, command: str, *, strict: bool
) -> None:
    """Simulate the jobs of a machine, write their files and print the answer."""
    check_strict(loaded, strict=strict)
    answer = clustersim.share(loaded)
    place.report(answer, command, _show)
    end_strictly(loaded, answer.expectations, strict=strict)


def _show(answer: "ShareAnswer", written: "list[Row]") -> None:
    """Print the answer in lines."""
    from clustersim.reports.sharing import text

    print_rows(f"{answer.title}: {text.finding(answer)}", [*text.rows(answer), *written])
