"""`clustersim list [KIND] [TEXT]`: the entries of the catalogue."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from clustersim.catalog.tree import nearest
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError
from clustersim.studies.show.lookup import sizes, titles
from clustersim.units import counted

PLURALS: Final = {
    "clusters": "cluster",
    "nodes": "node",
    "accelerators": "accelerator",
    "libraries": "library",
    "models": "model",
    "frameworks": "framework",
    "scenarios": "scenario",
    "schedules": "schedule",
}
"""Kinds of entries in the plural, with the singular of each."""


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
    """List machines, models, frameworks, scenarios and schedules, with their sizes."""
    entries = _entries(kind, text)
    if json_output:
        objects = {plural: _objects(PLURALS[plural], found) for plural, found in entries.items()}
        echo(json.dumps(objects))
        return
    width = max((len(name) for found in entries.values() for name in found), default=0)
    for i, (plural, found) in enumerate(entries.items()):
        if kind not in (plural, PLURALS[plural]):
            echo(f"{'' if i == 0 else chr(10)}{plural}")
        for name, title in found.items():
            size = _size(sizes(PLURALS[plural], name))
            echo(f"  {name:<{width}}  {title}{size}".rstrip())


def _entries(kind: str | None, text: str | None) -> dict[str, dict[str, str]]:
    """Return the titles of entries by kind: all, those of a kind, or those with a text."""
    known = kind is None or kind in (*PLURALS, *PLURALS.values())
    plurals = [*PLURALS] if kind is None or not known else [_plural(kind)]
    words = [word.lower() for word in ([] if known else [str(kind)]) + ([text] if text else [])]
    entries = {
        plural: {
            name: title
            for name, title in titles(PLURALS[plural]).items()
            if all(word in f"{name} {title}".lower() for word in words)
        }
        for plural in plurals
    }
    if words and not any(entries.values()):
        if known:
            raise ScenarioError(f"{text}: in no name or title of {', '.join(plurals)}")
        _plural(str(kind))
    return {plural: found for plural, found in entries.items() if found} if words else entries


def _size(counts: Mapping[str, int]) -> str:
    """Return sizes in brackets: ``" (127 nodes, 1,016 devices)"``."""
    words = [
        f"{_billions(count)} parameters" if what == "parameters" else counted(count, what[:-1])
        for what, count in counts.items()
    ]
    return f" ({', '.join(words)})" if words else ""


def _billions(count: int) -> str:
    """Return a number of parameters as models are named: ``8.03B``, ``355M``."""
    return f"{count / 1e9:.3g}B" if count >= 1e9 else f"{count / 1e6:.3g}M"


def _plural(kind: str) -> str:
    """Return the plural of a kind that is given in the singular or plural."""
    for plural, single in PLURALS.items():
        if kind in (plural, single):
            return plural
    known = ", ".join(PLURALS)
    raise ScenarioError(f"{kind}: unknown kind{nearest(kind, PLURALS)} (allowed: {known})")


def _objects(kind: str, found: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "title": title, **sizes(kind, name)} for name, title in found.items()]


__all__ = ["PLURALS", "list_"]
