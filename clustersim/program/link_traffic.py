"""Crossings: what the links that are used most carry, and who puts it there.

    inside blocks    bytes for one microbatch, by stage and replica
    handed on        flows, by replica and name of the traffic
    together         flows, by name, replica -1

A step uses thousands of links, and what crosses each of them is only ever asked of a few.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from clustersim.program.blocks import Blocks
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.ops import Crossing, LinkUse
from clustersim.traffic import Traffic

JOINT = -1
"""Stands for all replicas, where a replica is asked for."""


def most_used(links: Iterable[LinkUse], count: int = 10) -> list[LinkUse]:
    """Return the links that would take longest for what they carry, then by name.

    Of links that differ in nothing but their number, the first stands for all.
    """
    kinds: dict[tuple[str, str], LinkUse] = {}
    for seconds, link in sorted((-link.nbytes / link.capacity, link) for link in links):
        if len(kinds) == count:
            break
        kinds.setdefault((_kind(link.name), f"{seconds:.9g}"), link)
    return list(kinds.values())


_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def _kind(name: str) -> str:
    """Return a link's name without numbers: ``"n3.dev1>n3.nic0"`` is a ``"n.dev>n.nic"``."""
    return name.translate(_DIGITS)


def crossings_of(
    job: Job,
    blocks: Blocks,
    sends: Sequence[dict[Name, Traffic]],
    joint: dict[Name, Traffic],
    carried: Iterable[LinkUse],
) -> dict[str, Crossing]:
    """Return what crosses the links that are used most, by their name."""
    number = job.cluster.links.names.index
    found = {number(link.name): Crossing({}, {}) for link in most_used(carried)}
    for place, loads in _inside(job, blocks):
        for link in found.keys() & loads.keys():
            found[link].inside[place] = loads[link]
    for replica, transfers in [*enumerate(sends), (JOINT, joint)]:
        for traffic in transfers.values():
            if not found.keys().isdisjoint(traffic.links):
                loads = dict(zip(traffic.links, traffic.weights, strict=True))
                for link in found.keys() & loads.keys():
                    found[link].moved[traffic.name, replica] = loads[link]
    return {job.cluster.links.names[link]: crossing for link, crossing in found.items()}


def _inside(job: Job, blocks: Blocks) -> Iterator[tuple[tuple[int, int], Mapping[int, float]]]:
    """Yield what collectives inside blocks put on links, by stage and replica."""
    stages, replicas = range(job.plan.pipeline), range(job.plan.data)
    if blocks.axes:
        for place in product(stages, replicas):
            yield place, blocks.carried(*place)
    for stage in stages:
        yield (stage, JOINT), blocks.carried_by_stage(stage)


__all__ = ["JOINT", "crossings_of", "most_used"]
