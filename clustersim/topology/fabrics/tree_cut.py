r"""The narrowest cut of a fat tree, when it is known which NICs are on which side.

core   core       A cable is cut where its ends stand on different sides.
 |  \ /  |        The NICs' sides are given: o ours, x theirs.
spine  spine      Cores, spines and leaves stand where they cut least: all cores that meet the
 |  \ /  |        same spines on one side, so that the pods can be weighed one by one; spines
leaf   leaf       see only how many leaves are ours; the leaves with most of our NICs are ours.
ooox   xxxx
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

Leaf = tuple[int, int]
"""NICs of a leaf that are ours, and theirs."""


class Plane(NamedTuple):
    """Spines of every pod that meet equally many cores."""

    spines: int
    cores: int


def narrowest_cut(
    pods: Iterable[Sequence[Leaf]], planes: Sequence[Plane], nic: float, cable: float
) -> float:
    """Return the bandwidth from our NICs to theirs [B/s].

    Parameters
    ----------
    pods : the leaves of each pod
    nic, cable : bandwidth of a NIC's cable and of one between switches [B/s]
    """
    kinds = Counter(tuple(sorted(leaves)) for leaves in pods)
    return min(
        sum(
            times * _pod_cut(leaves, planes, cores_ours, nic, cable)
            for leaves, times in kinds.items()
        )
        for cores_ours in product((False, True), repeat=len(planes))
    )


def _pod_cut(
    leaves: Sequence[Leaf],
    planes: Sequence[Plane],
    cores_ours: Sequence[bool],
    nic: float,
    cable: float,
) -> float:
    """Return what a pod adds to the cut when the cores of each plane stand on a given side."""
    return min(
        nic * nics
        + cable
        * sum(
            plane.spines
            * min(
                len(leaves) - ours + (0 if core_ours else plane.cores),
                ours + (plane.cores if core_ours else 0),
            )
            for plane, core_ours in zip(planes, cores_ours, strict=True)
        )
        for ours, nics in _leaf_sides(leaves)
    )


def _leaf_sides(leaves: Sequence[Leaf]) -> Iterator[tuple[int, int]]:
    """Yield how many leaves stand on our side, and how many NICs that cuts off from theirs.

    The leaves with the largest surplus of our NICs go first.
    """
    cut = sum(ours for ours, _ in leaves)
    yield 0, cut
    for count, (ours, theirs) in enumerate(sorted(leaves, key=lambda leaf: leaf[1] - leaf[0]), 1):
        cut += theirs - ours
        yield count, cut
