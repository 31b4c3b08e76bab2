"""`clustersim list [KIND]`: the entries of the catalogue."""

import json
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from clustersim.catalog.tree import nearest
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError
from clustersim.studies.show.lookup import titles

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
        str | None, typer.Argument(metavar="KIND", help=f"Only this kind: {', '.join(PLURALS)}.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List machines, models, frameworks, scenarios and schedules."""
    kinds = list(PLURALS) if kind is None else [_plural(kind)]
    entries = {plural: titles(PLURALS[plural]) for plural in kinds}
    if json_output:
        echo(json.dumps({kind: _objects(found) for kind, found in entries.items()}))
        return
    width = max((len(name) for found in entries.values() for name in found), default=0)
    for i, (plural, found) in enumerate(entries.items()):
        if kind is None:
            echo(f"{'' if i == 0 else chr(10)}{plural}")
        for name, title in found.items():
            echo(f"  {name:<{width}}  {title}".rstrip())


def _plural(kind: str) -> str:
    """Return the plural of a kind that is given in the singular or plural."""
    for plural, single in PLURALS.items():
        if kind in (plural, single):
            return plural
    known = ", ".join(PLURALS)
    raise ScenarioError(f"{kind}: unknown kind{nearest(kind, PLURALS)} (allowed: {known})")


def _objects(found: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "title": title} for name, title in found.items()]


__all__ = ["PLURALS", "list_"]
