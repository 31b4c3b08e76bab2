"""Which nodes of the machine each job has.

explicit     those that the job names
pods         0 0 1 1 1 1 2 2     in as few pods as possible, or leaves, or groups of a dragonfly
blocks       a box of a torus, the one with fewest links to other nodes
contiguous   0 0 0 0 1 1 1 1     the next free ones
interleaved  0 1 0 1 0 1 0 1     one each in turn, of all such jobs
scattered    1 0 0 1 1 0 1 0     at random, by the seed
best         of the free ones those that `best` chooses
"""

import random
from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from clustersim.errors import ScenarioError
from clustersim.scenario.ranges import numbers_of
from clustersim.scenario.sharing import PLACES, UNITS
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.units import counted


class Need(NamedTuple):
    """The nodes that a job needs.

    Attributes
    ----------
    nodes : how many
    rule : a word of `PLACES`, or numbers and ranges
    where : with which messages begin
    """

    nodes: int
    rule: str
    where: str


def assign_nodes(
    jobs: Sequence[Need], total: int, seed: int, fabric: Fabric | None = None
) -> list[tuple[int, ...]]:
    """Return the nodes of each job, in the order of its ranks; none of those with the best ones.

    Parameters
    ----------
    total : nodes of the machine
    fabric : that has units or a grid, for jobs that are placed by these

    Raises
    ------
    ScenarioError
        when the machine has too few nodes, or a job names nodes that are not there, are too few or
        too many for it, or are those of another job.

    >>> jobs = [Need(2, "interleaved", ""), Need(1, "0", ""), Need(2, "interleaved", "")]
    >>> assign_nodes(jobs, 6, 0)
    [(1, 3), (0,), (2, 4)]
    """
    needed = sum(job.nodes for job in jobs)
    if needed > total:
        raise ScenarioError(
            f"{jobs[-1].where}: all jobs together need {counted(needed, 'node')}, and the machine"
            f" has {total:,} (fewer or smaller jobs, or cluster.nodes: {needed})"
        )
    nodes: list[tuple[int, ...]] = [()] * len(jobs)
    owner: dict[int, int] = {}
    for number, job in _of(jobs, "explicit"):
        nodes[number] = _named(job, total)
        for node in nodes[number]:
            if node in owner:
                raise ScenarioError(
                    f"{job.where}: node {node} is already of {jobs[owner[node]].where}"
                    " (each node to one job)"
                )
            owner[node] = number
    free = [node for node in range(total) if node not in owner]
    for rule in (*UNITS, "blocks"):
        for number, job in _of(jobs, rule):
            take = taken_block if rule == "blocks" else taken_packed
            taken = take(job, free, fabric)
            nodes[number], free = taken, [node for node in free if node not in {*taken}]
    for number, job in _of(jobs, "contiguous"):
        nodes[number], free = tuple(free[: job.nodes]), free[job.nodes :]
    turns = _of(jobs, "interleaved")
    for (number, _), of_job in zip(
        turns, taken_in_turn([job for _, job in turns], free), strict=True
    ):
        nodes[number] = of_job
    free = free[sum(job.nodes for _, job in turns) :]
    random.Random(seed).shuffle(free)
    for number, job in _of(jobs, "scattered"):
        nodes[number], free = tuple(sorted(free[: job.nodes])), free[job.nodes :]
    return nodes


def _of(jobs: Sequence[Need], rule: str) -> list[tuple[int, Need]]:
    """Return the jobs of a rule, each with its number."""
    named = [job.rule if job.rule in PLACES else "explicit" for job in jobs]
    return [(number, job) for number, job in enumerate(jobs) if named[number] == rule]


def taken_in_turn(jobs: Sequence[Need], free: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the first free nodes, one for each job in turn until it has enough."""
    nodes: list[tuple[int, ...]] = [()] * len(jobs)
    following, turns = iter(free), [*range(len(jobs))]
    while turns:
        for number in turns:
            nodes[number] += (next(following),)
        turns = [number for number in turns if len(nodes[number]) < jobs[number].nodes]
    return nodes


def taken_packed(job: Need, free: Sequence[int], fabric: Fabric | None) -> tuple[int, ...]:
    """Return free nodes of the fullest unit that has enough of them; else of the emptiest units."""
    units = {} if fabric is None else fabric.units
    if job.rule not in units:
        known = f" (units of its fabric: {', '.join(units)})" if units else " (nodes: contiguous)"
        raise ScenarioError(f"{job.where}: the machine has no {job.rule}{known}")
    of_unit: dict[int, list[int]] = {}
    for node in free:
        of_unit.setdefault(node // units[job.rule], []).append(node)
    enough = [each for each in of_unit.values() if len(each) >= job.nodes]
    if enough:
        return tuple(min(enough, key=len)[: job.nodes])
    emptiest = sorted(of_unit.values(), key=lambda each: -len(each))
    return tuple(sorted([node for each in emptiest for node in each][: job.nodes]))


def taken_block(job: Need, free: Sequence[int], fabric: Fabric | None) -> tuple[int, ...]:
    """Return the free box of a torus with the smallest surface, of these the first."""
    grid = () if fabric is None else fabric.grid
    if not grid:
        raise ScenarioError(f"{job.where}: the machine is no torus (nodes: contiguous)")
    numbers = np.arange(prod(grid)).reshape(grid)
    unused = np.isin(numbers, free)
    for box in sorted(_boxes(job.nodes, grid), key=lambda box: (_surface(box, grid), box)):
        fits = unused
        for axis, length in enumerate(box):
            steps = range(fits.shape[axis] - length + 1)
            fits = np.stack(
                [fits.take(range(at, at + length), axis).all(axis) for at in steps], axis
            )
        corners = np.argwhere(fits)
        if len(corners):
            chosen = tuple(slice(a, a + b) for a, b in zip(corners[0], box, strict=True))
            return tuple(numbers[chosen].ravel().tolist())
    raise ScenarioError(
        f"{job.where}: no block of {counted(job.nodes, 'node')} is free on the torus"
        f" {' x '.join(map(str, grid))} (nodes: contiguous, or another number of nodes)"
    )


def _boxes(nodes: int, grid: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of each box with this number of nodes.

    >>> [*_boxes(4, (2, 4))]
    [(1, 4), (2, 2)]
    """
    if not grid:
        yield from [()] * (nodes == 1)
        return
    for length in range(1, min(nodes, grid[0]) + 1):
        if nodes % length == 0:
            yield from ((length, *rest) for rest in _boxes(nodes // length, grid[1:]))


def _surface(box: Sequence[int], grid: Sequence[int]) -> float:
    """Return the links of a node that leave its box in one direction, mean of its nodes."""
    axes = zip(box, grid, strict=True)
    return sum(1 / length for length, whole in axes if length < whole)


def _named(job: Need, total: int) -> tuple[int, ...]:
    """Return the nodes of a text such as ``0-15,32``."""
    try:
        nodes = numbers_of(job.rule, "node")
    except ValueError as problem:
        words = ", ".join(PLACES)
        raise ScenarioError(f"{job.where}: {problem}; nor is it one of {words}") from None
    if max(nodes) >= total:
        raise ScenarioError(
            f"{job.where}: the machine has no node {max(nodes)} (it has 0-{total - 1})"
        )
    if len(nodes) != job.nodes:
        raise ScenarioError(
            f"{job.where}: names {counted(len(nodes), 'node')}, and the job has {job.nodes:,}"
        )
    return tuple(nodes)


def ranges(nodes: Sequence[int]) -> str:
    """Return nodes as numbers and ranges.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    parts: list[list[int]] = []
    for node in sorted(nodes):
        if parts and node == parts[-1][1] + 1:
            parts[-1][1] = node
        else:
            parts.append([node, node])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
