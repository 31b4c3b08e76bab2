"""`clustersim list [KIND] [TEXT]`: the entries of the catalogue."""

from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import print_json
from clustersim.cli.output import echo
from clustersim.reports.listing.kinds import BY_WORD, PLURALS
from clustersim.units import counted

if TYPE_CHECKING:
    from clustersim.reports.listing.answer import ListedEntry


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help=f"Only this kind ({', '.join(PLURALS)}), or a text to search."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Only entries with this text.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List machines, models, frameworks, scenarios and schedules with their sizes, and measures."""
    from clustersim.reports.listing.answer import list_entries

    listing = list_entries(kind, text)
    if json_output:
        print_json(listing)
        return
    width = max((len(entry.name) for found in listing.values() for entry in found), default=0)
    for i, (plural, found) in enumerate(listing.items()):
        if kind not in BY_WORD:
            echo(f"{'' if i == 0 else chr(10)}{plural}")
        for entry in found:
            echo(f"  {entry.name:<{width}}  {entry.title}{_size(entry)}".rstrip())


def _size(entry: "ListedEntry") -> str:
    """Return sizes in brackets: ``" (127 nodes, 1,016 devices)"``, ``" (PUE 1.2)"``."""
    words = []
    if entry.pue is not None:
        words.append(f"PUE {entry.pue:g}")
    if entry.carbon is not None:
        words.append(f"{entry.carbon:g} g CO2e/kWh")
    if entry.parameters is not None:
        words.append(f"{_billions(entry.parameters)} parameters")
    if entry.nodes is not None:
        words.append(counted(entry.nodes, "node"))
    if entry.devices is not None:
        words.append(counted(entry.devices, "device"))
    return f" ({', '.join(words)})" if words else ""


def _billions(count: int) -> str:
    """Return a number of parameters as models are named: ``8.03B``, ``355M``.

    >>> _billions(8_030_000_000), _billions(1_008_000_000_000)
    ('8.03B', '1008B')
    """
    amount, symbol = (count / 1e9, "B") if count >= 1e9 else (count / 1e6, "M")
    return f"{amount:.0f}{symbol}" if amount >= 999.5 else f"{amount:.3g}{symbol}"
