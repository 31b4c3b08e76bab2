"""Which nodes of the machine each job has.

explicit     those that the job names
contiguous   0 0 0 0 1 1 1 1     the next free ones
interleaved  0 1 0 1 0 1 0 1     one each in turn, of all such jobs
scattered    1 0 0 1 1 0 1 0     at random, by the seed
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from clustersim.errors import ScenarioError
from clustersim.scenario.ranges import numbers_of
from clustersim.scenario.sharing import PLACES
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


def assign_nodes(jobs: Sequence[Need], total: int, seed: int) -> list[tuple[int, ...]]:
    """Return the nodes of each job, in the order of its ranks.

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
    for number, job in _of(jobs, "contiguous"):
        nodes[number], free = tuple(free[: job.nodes]), free[job.nodes :]
    turns = [number for number, _ in _of(jobs, "interleaved")]
    while turns:
        for number in turns:
            nodes[number] += (free.pop(0),)
        turns = [number for number in turns if len(nodes[number]) < jobs[number].nodes]
    random.Random(seed).shuffle(free)
    for number, job in _of(jobs, "scattered"):
        nodes[number], free = tuple(sorted(free[: job.nodes])), free[job.nodes :]
    return nodes


def _of(jobs: Sequence[Need], rule: str) -> list[tuple[int, Need]]:
    """Return the jobs of a rule, each with its number."""
    named = [job.rule if job.rule in PLACES else "explicit" for job in jobs]
    return [(number, job) for number, job in enumerate(jobs) if named[number] == rule]


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
