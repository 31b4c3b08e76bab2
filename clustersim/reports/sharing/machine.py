"""The machine of several jobs: whose each node is, and how full the links between nodes are."""

from math import ceil, sqrt
from typing import Final

import numpy as np

from clustersim.program.links.in_use import LinksInUse
from clustersim.render.charts.grids import Owned, OwnerMap
from clustersim.render.charts.picture import Axis, Picture
from clustersim.render.tables import percent
from clustersim.reports.step.links import link_map
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.sharing.recording import Recording
from clustersim.units import counted

COLUMNS: Final = 128
"""Cells of a row at most."""

ROWS: Final = 16
"""Rows from which on several leaves have one row, as far as they fit."""

MOST_ROWS: Final = 64
"""Rows of leaves, above which the next larger unit has a row."""

SINGULAR: Final = {"leaves": "leaf", "pods": "pod", "groups": "group"}

NAMED: Final = 4
"""Jobs of a link that are named."""


def machine_maps(answer: ShareAnswer, recording: Recording) -> list[Picture]:
    """Return the nodes in the colours of their jobs, and the utilisation of links."""
    links = _links(answer, recording)
    return [owners(answer, recording), *([] if links is None else [links])]


# --- nodes ----------------------------------------------------------------------------------------


def owners(answer: ShareAnswer, recording: Recording) -> OwnerMap:
    """Return the map of nodes, those below a leaf, in a pod or in a group next to each other."""
    owner = np.full(answer.nodes, -1)
    for number, job in enumerate(recording.jobs):
        owner[list(job.nodes)] = number
    kind, size = _unit(recording, answer.nodes)
    names, rows = _rows(kind, size, answer.nodes)
    of_jobs = tuple(job.name for job in answer.jobs)

    def cell(node: int) -> Owned:
        number = int(owner[node])
        place = f", {SINGULAR[kind]} {node // size}" if kind else ""
        return Owned(number, f"node {node}{place}: {of_jobs[number] if number >= 0 else 'free'}")

    used = int((owner >= 0).sum())
    return OwnerMap(
        title=f"{counted(len(of_jobs), 'job')} on {used:,} of {counted(answer.nodes, 'node')}"
        f"{_mixed(kind, size, owner)}",
        caption=f"{answer.title} ({answer.name})",
        description=f"A cell for each of {answer.nodes:,} nodes in the colour of its job.",
        note="Nodes are in the order of their numbers"
        + (f", those of a {SINGULAR[kind]} next to each other." if kind else "."),
        contents="nodes of each job",
        measure=Axis("nodes"),
        names=names,
        owners=of_jobs,
        grid=tuple(tuple(None if n < 0 else cell(n) for n in row) for row in rows),
        free="free",
    )


def _unit(recording: Recording, nodes: int) -> tuple[str, int]:
    """Return the unit of nodes that the map shows, and its size; no name without any."""
    several = {
        name: size for name, size in recording.cluster.fabric.units.items() if 1 < size < nodes
    }
    few = {name: size for name, size in several.items() if nodes / size <= MOST_ROWS * 4}
    return min((few or several or {"": nodes}).items(), key=lambda pair: pair[1])


def _rows(kind: str, size: int, nodes: int) -> tuple[tuple[str, ...], list[list[int]]]:
    """Return the names of rows and their nodes, -1 for a gap."""
    if not kind:
        wide = min(COLUMNS, max(16, ceil(sqrt(6 * nodes))), nodes)
        firsts = range(0, nodes, wide)
        rows = [[*range(first, min(first + wide, nodes))] for first in firsts]
        return tuple(f"from node {first:,}" for first in firsts), rows
    units = ceil(nodes / size)
    together = max(1, min(COLUMNS // (size + 1), ceil(units / ROWS)))
    names, rows = [], []
    for first in range(0, units, together):
        last = min(first + together, units) - 1
        row: list[int] = []
        for unit in range(first, last + 1):
            row += [*([-1] if row else []), *range(unit * size, min((unit + 1) * size, nodes))]
        several = f"{kind} {first}-{last}"
        for begin in range(0, len(row), COLUMNS + 1):
            names.append("" if begin else f"{SINGULAR[kind]} {first}" if first == last else several)
            rows.append(row[begin : begin + COLUMNS + 1])
    return tuple(names), rows


def _mixed(kind: str, size: int, owner: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> str:
    """Return how many units have nodes of several jobs."""
    if not kind:
        return ""
    units = [{*owner[first : first + size].tolist()} - {-1} for first in range(0, len(owner), size)]
    mixed = sum(len(jobs) > 1 for jobs in units)
    if not mixed:
        return f"; no {SINGULAR[kind]} has nodes of two jobs"
    whole = "both" if len(units) == 2 else f"all {len(units)}"
    every = whole if mixed == len(units) else f"{mixed} of {len(units)}"
    return f"; {every} {kind} have nodes of several jobs"


# --- links ----------------------------------------------------------------------------------------


def _links(answer: ShareAnswer, recording: Recording) -> Picture | None:
    """Return the utilisation of links by all jobs together, as that of a step is drawn."""
    table, loads = recording.cluster.links, recording.loads
    total = loads.sum(axis=0)
    (numbers,) = np.nonzero(total)
    shares = total[numbers]
    used = LinksInUse(table, numbers, shares * table.capacities[numbers])
    names = [job.name for job in recording.jobs]

    def users(position: int) -> str:
        of_jobs = loads[:, numbers[position]]
        return _users({names[job]: float(of_jobs[job]) for job in np.flatnonzero(of_jobs)})

    return link_map(used, shares, f"{answer.title} ({answer.name})", users)


def _users(load: dict[str, float]) -> str:
    """Return the jobs of a link, those that use it most."""
    most = sorted(load, key=lambda job: -load[job])
    more = f", {len(most) - NAMED} more" if most[NAMED:] else ""
    return ", ".join(f"{job} {percent(load[job])}" for job in most[:NAMED]) + more
