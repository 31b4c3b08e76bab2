"""Nodes that jobs could have which are to have the best ones: a stated set of candidates.

contiguous   in each order of the jobs, from the first node of each unit and of some others
by units     in as few leaves, pods or groups as possible, in each order; blocks of a torus alike
spread       one node of each leaf (pod, group) in turn, so that each has a part of every unit
interleaved  one node in turn, of all such jobs
scattered    at random, by the seed and the next ones
mixed        a rule of its own for each of two jobs
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, permutations, product
from typing import Final, NamedTuple

from clustersim.errors import ScenarioError
from clustersim.simulation.sharing.nodes import Need, taken_block, taken_in_turn, taken_packed
from clustersim.topology.fabrics.fabric import Fabric

Nodes = tuple[int, ...]

MOST: Final = 64
"""Candidates of a machine at most; those that differ by a symmetry of its fabric are one."""

MOST_ORDERS: Final = 6
"""Orders of jobs that are tried: all of three."""

OFFSETS: Final = 4
"""First nodes of contiguous jobs that are tried, of each kind of unit, and of the whole."""

SCATTERED: Final = 3
"""Draws of scattered nodes."""


class Candidate(NamedTuple):
    """Nodes of each job that is to have the best ones.

    Attributes
    ----------
    rule : by which nodes are taken
    places : the same with the first node, the seed and the order of jobs
    nodes : of each job, in the order of its ranks
    """

    rule: str
    places: str
    nodes: tuple[Nodes, ...]


class Chooser(NamedTuple):
    """A job that is to have the best nodes.

    Attributes
    ----------
    file : its number among the jobs of the file, which copies share
    """

    name: str
    file: int
    need: Need


Take = Callable[[Need, list[int]], Nodes]
"""Returns the nodes of a job, of those that are free."""

Order = Sequence[int]


def candidate_places(
    jobs: "Sequence[Chooser]", free: Sequence[int], seed: int, fabric: Fabric, *, alike: bool
) -> list[Candidate]:
    """Return the candidates of jobs that are to have the best nodes.

    Parameters
    ----------
    alike : whether nodes differ by the switches alone that they are below
    """
    found: dict[object, Candidate] = {}
    for candidate in islice(_every(jobs, [*free], seed, fabric), 4 * MOST):
        of_copies = sorted(
            (job.file, nodes) for job, nodes in zip(jobs, candidate.nodes, strict=True)
        )
        nodes = [nodes for _, nodes in of_copies]
        found.setdefault(_alike(nodes, fabric) if alike else tuple(nodes), candidate)
    return [*found.values()][:MOST]


def _every(
    jobs: Sequence[Chooser], free: list[int], seed: int, fabric: Fabric
) -> Iterator[Candidate]:
    """Yield candidates, the same nodes perhaps several times."""
    orders, rules = [*_orders(jobs)], _rules(free, seed, fabric)

    def each(rule: str, take: Take, free: list[int], place: str = "") -> Iterator[Candidate]:
        for order in orders:
            yield from _sequential(rule, place, dict.fromkeys(order, take), jobs, free)

    for rule, take in rules.items():
        yield from each(rule, take, free)
    if len(jobs) > 1:
        turns = taken_in_turn([job.need for job in jobs], free)
        yield Candidate("interleaved", "interleaved", tuple(turns))
    for draw in range(seed + 1, seed + SCATTERED):
        yield from each("scattered", _scattered(draw), free, f" by seed {draw}")
    for first in _firsts(len(free), fabric):
        rotated = [*free[first:], *free[:first]]
        yield from each("contiguous", _next, rotated, f" from node {rotated[0]}")
    if len({job.file for job in jobs}) == 2:
        yield from _mixed(rules, orders, jobs, free)


def _mixed(
    rules: Mapping[str, Take], orders: Sequence[Order], jobs: Sequence[Chooser], free: list[int]
) -> Iterator[Candidate]:
    """Yield candidates of two kinds of jobs, each with a rule of its own."""
    (first, a), (second, b) = {job.file: job.name for job in jobs}.items()
    for words, order in product(permutations(rules, 2), orders):
        by_file = {first: rules[words[0]], second: rules[words[1]]}
        takes = {number: by_file[jobs[number].file] for number in order}
        yield from _sequential("", f"{a} {words[0]} and {b} {words[1]}", takes, jobs, free)


def _orders(jobs: Sequence[Chooser]) -> Iterator[Order]:
    """Yield orders of jobs, those of one kind next to each other."""
    files = [*dict.fromkeys(job.file for job in jobs)]
    for order in islice(permutations(files), MOST_ORDERS):
        yield sorted(range(len(jobs)), key=lambda number: order.index(jobs[number].file))


def _rules(free: Sequence[int], seed: int, fabric: Fabric) -> dict[str, Take]:
    """Return the rules by which a job takes free nodes, on its own."""
    rules: dict[str, Take] = {
        f"by {unit}": partial(_by_unit, fabric=fabric, unit=unit) for unit in fabric.units
    }
    if fabric.grid:
        rules["in blocks"] = partial(taken_block, fabric=fabric)
    rules["contiguous"] = _next
    for unit, size in fabric.units.items():
        if 1 < size < len(free):
            rules[f"spread over {unit}"] = partial(_spread, size=size)
    rules["scattered"] = _scattered(seed)
    return rules


def _sequential(
    rule: str, place: str, takes: Mapping[int, Take], jobs: Sequence[Chooser], free: list[int]
) -> Iterator[Candidate]:
    """Yield the candidate whose jobs take their nodes one after another; none if one cannot.

    Parameters
    ----------
    place : what the rule leaves open, in words
    takes : by which each job takes nodes, in the order of the jobs that take them
    """
    nodes: dict[int, Nodes] = {}
    rest = free
    for number, take in takes.items():
        try:
            nodes[number] = tuple(sorted(take(jobs[number].need, rest)))
        except ScenarioError:
            return
        taken = {*nodes[number]}
        rest = [node for node in rest if node not in taken]
    first = jobs[next(iter(takes))]
    in_order = [*takes] == sorted(takes)
    yield Candidate(
        rule or "mixed",
        rule + place + ("" if in_order else f", {first.name} first"),
        tuple(nodes[number] for number in range(len(jobs))),
    )


def _by_unit(job: Need, free: list[int], *, fabric: Fabric, unit: str) -> Nodes:
    return taken_packed(job._replace(rule=unit), free, fabric)


def _next(job: Need, free: list[int]) -> Nodes:
    return tuple(free[: job.nodes])


def _spread(job: Need, free: list[int], *, size: int) -> Nodes:
    """Return free nodes of as many units as possible: those that are first in their unit first."""
    place: dict[int, int] = {}
    keyed = []
    for node in sorted(free):
        unit = node // size
        place[unit] = place.get(unit, -1) + 1
        keyed.append((place[unit], node))
    return tuple(node for _, node in sorted(keyed)[: job.nodes])


def _scattered(seed: int) -> Take:
    """Return what draws nodes for each job with the seed."""
    return lambda job, free: tuple(random.Random(f"{seed} {len(free)}").sample(free, job.nodes))


def _firsts(free: int, fabric: Fabric) -> list[int]:
    """Return places of the first node of contiguous jobs: of units, and at equal distances."""
    firsts: dict[int, None] = {}
    for size in (*fabric.units.values(), -(-free // OFFSETS)):
        firsts |= dict.fromkeys([*range(size, free, size)][: OFFSETS - 1])
    smallest = min(fabric.units.values(), default=1)
    within = range(1, min(smallest, free), max(1, smallest // OFFSETS))
    return [*firsts | dict.fromkeys(within)]


def _alike(nodes: Sequence[Nodes], fabric: Fabric) -> object:
    """Return nodes by the order in which their units are met: equal for those that are alike.

    Nodes below one switch are alike, and so are the switches below one of the next level.
    """
    sizes = sorted(fabric.units.values(), reverse=True)
    met: dict[tuple[int, ...], dict[int, int]] = {}

    def renamed(node: int) -> tuple[int, ...]:
        path: tuple[int, ...] = ()
        for size in sizes:
            numbers = met.setdefault(path, {})
            path = (*path, numbers.setdefault(node // size, len(numbers)))
        return path

    return tuple(tuple(renamed(node) for node in of_job) for of_job in nodes)
