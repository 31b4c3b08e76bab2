"""The scenario of an imported trace: its cluster, the nodes that its ranks need, and its files."""

import os
from pathlib import Path

from clustersim.catalog.files import shown
from clustersim.catalog.finding import find
from clustersim.catalog.tree import bare
from clustersim.errors import ScenarioError
from clustersim.importers.draft import Choices, Draft
from clustersim.importers.traces.formats import read_trace
from clustersim.importers.traces.trace import not_placed_lines
from clustersim.records import dataclass
from clustersim.units import counted


@dataclass(frozen=True)
class TraceDraft(Draft):
    """The plain values of the scenario of a trace, with remarks for the user.

    Attributes
    ----------
    missing : operations without a time, a line for each type and reason
    """

    missing: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of file."""
        return "scenario"


def trace_draft(place: Path, format: str, choices: Choices) -> TraceDraft:
    """Return the scenario of a trace, whose operations are all checked.

    Raises
    ------
    CatalogError
        when the trace is damaged, or its operations do not belong together.
    ScenarioError
        when no cluster is named, or it is not known.
    """
    if choices.cluster is None:
        raise ScenarioError(
            f"{shown(place)}: a trace states no machine (--cluster NAME; all: clustersim list"
            " clusters)"
        )
    folder = choices.folder
    devices, trace = _devices_of(choices.cluster, folder), read_trace(place, format)
    ranks = len(trace.ranks)
    nodes = choices.nodes or -(-ranks // devices)
    data = {
        "title": f"Trace of {counted(ranks, 'rank')}: {place.resolve().name}",
        "cluster": {"name": choices.cluster, "nodes": nodes},
        "trace": {"files": _from(place, folder), "format": format},
    }
    notes = (f"{counted(trace.nodes, 'operation')} of {counted(ranks, 'rank')}", *trace.notes)
    return TraceDraft(data, notes=notes, missing=tuple(not_placed_lines(trace.not_placed)))


def _devices_of(cluster: str, folder: Path | None) -> int:
    """Return the devices of a node of a cluster by name."""
    data = find("cluster", cluster, folder, "--cluster: ").data
    node = bare(data.get("node")) if isinstance(data, dict) else None
    if isinstance(node, str):
        node = find("node", node, folder, "--cluster: ").data
    devices = bare(node.get("devices")) if isinstance(node, dict) else None
    return devices if isinstance(devices, int) and devices > 0 else 1


def _from(place: Path, folder: Path | None) -> str:
    """Return the path of a trace from the folder of its scenario."""
    try:
        return os.path.relpath(place, folder or Path())
    except ValueError:  # on another drive
        return str(place)
