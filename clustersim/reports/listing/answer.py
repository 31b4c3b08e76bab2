"""The entries of the catalogue by kind, all or those that have a text in their name or title."""

from collections.abc import Mapping
from typing import Any

from clustersim.catalog.finding import entry_names, find
from clustersim.errors import ScenarioError
from clustersim.program.schedules import SCHEDULES
from clustersim.records import dataclass
from clustersim.reports.listing.kinds import BY_WORD, PLURALS
from clustersim.scenario.entries import title_of
from clustersim.simulation.measures import ALL
from clustersim.suggestions import nearest


@dataclass(frozen=True)
class ListedEntry:
    """An entry of the catalogue with its size.

    Attributes
    ----------
    name : name by which files and commands refer to the entry
    title : its title
    nodes : nodes of a cluster or a scenario; null for other kinds
    devices : devices of a cluster, a node or a scenario; null for other kinds
    parameters : parameters of a model; null for other kinds
    pue : energy of a site over that of its machines; null for other kinds
    carbon : emissions of a site; null for other kinds, and where none are stated [g CO2e/kWh]
    """

    name: str
    title: str
    nodes: int | None = None
    devices: int | None = None
    parameters: int | None = None
    pue: float | None = None
    carbon: float | None = None


Listing = Mapping[str, tuple[ListedEntry, ...]]
"""Entries by kind, in the plural: what ``clustersim list --json`` prints."""


def list_entries(kind: str | None = None, text: str | None = None) -> Listing:
    """Return all entries, those of a kind, or those with a text in their name or title.

    Parameters
    ----------
    kind : a kind in the singular or plural; any other word is a text to search
    text : a further text that names or titles must have

    Raises
    ------
    ScenarioError
        when no entry has the text.
    """
    plural = BY_WORD.get(kind or "")
    known = kind is None or plural is not None
    plurals = [*PLURALS] if plural is None else [plural]
    words = [word.lower() for word in ([] if known else [str(kind)]) + ([text] if text else [])]
    found = {plural: _with_words(PLURALS[plural], words) for plural in plurals}
    if words and not any(found.values()):
        if known:
            raise ScenarioError(f"{text}: in no name or title of {', '.join(plurals)}")
        known_kinds = ", ".join(PLURALS)
        raise ScenarioError(
            f"{kind}: unknown kind{nearest(str(kind), PLURALS)} (allowed: {known_kinds})"
        )
    return {plural: entries for plural, entries in found.items() if entries} if words else found


def _with_words(kind: str, words: list[str]) -> tuple[ListedEntry, ...]:
    return tuple(
        ListedEntry(name, title, **_sizes(kind, name))
        for name, title in _titles(kind).items()
        if all(word in f"{name} {title}".lower() for word in words)
    )


def _titles(kind: str) -> dict[str, str]:
    """Return the titles of the entries of a kind by name."""
    if kind == "schedule":
        return {name: schedule.title for name, schedule in SCHEDULES.items()}
    if kind == "measure":
        kinds = {each.name: [m.kind for m in ALL if m.name == each.name] for each in ALL}
        return {m.name: f"{m.label} of a {' and a '.join(kinds[m.name])}" for m in ALL}
    return {name: title_of(kind, name) for name in entry_names(kind)}


def _sizes(kind: str, name: str) -> dict[str, Any]:
    """Return the numbers of an entry: its size, or cooling and emissions of a site."""
    if kind == "site":
        site = find("site", name).data
        carbon = _number(site["carbon"]) if "carbon" in site else None
        return {"pue": _number(site["pue"]), "carbon": carbon}
    if kind == "model":
        return {"parameters": round(_number(find("model", name).data["parameters"]))}
    if kind == "node":
        return {"devices": _devices(find("node", name).data)}
    if kind not in ("cluster", "scenario"):
        return {}
    data = find(kind, name).data
    nodes = _number(data["size"] if kind == "cluster" else data["cluster"]["nodes"])
    cluster = data if kind == "cluster" else find("cluster", data["cluster"]["name"]).data
    node = cluster["node"] if isinstance(cluster["node"], str) else cluster["node"]["name"]
    return {"nodes": int(nodes), "devices": int(nodes) * _devices(find("node", node).data)}


def _devices(node: Mapping[str, Any]) -> int:
    return int(_number(node["devices"]))


def _number(value: Any) -> float:
    """Return the number of a fact, or a plain one."""
    return float(value["value"] if isinstance(value, dict) else value)
