"""Which of several equal paths a flow takes.

    hashed    each queue pair of the flow by a hash of both ends and its number (ECMP): flows may
              share a cable while another is idle, the less the more queue pairs they have
    static    all flows to a NIC by its number, whatever they come from: flows to different NICs
              below a leaf meet on no cable up to as many NICs as there are paths
    sprayed   packet by packet: an equal share of the flow on each path

Static routing is D-mod-k of fat trees: Zahavi 2012, D-Mod-K Routing Providing Non-Blocking Traffic
for Shift Permutations on Real Life Fat Trees; the `ftree` engine of InfiniBand's subnet manager.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Integers
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.links import choose_each

MOST_SPRAYED: Final = 1_024
"""Paths over which a flow is sprayed at most."""


class Flows(NamedTuple):
    """Flows between devices, or the parts of them.

    Attributes
    ----------
    counts : equal paths of each
    a, b : devices at its ends
    place : number of the NIC that receives it
    part : its number among the parts of the same flow
    """

    counts: Integers
    a: Integers
    b: Integers
    place: Integers
    part: Integers


def _hashed(fabric: Fabric, flows: Flows) -> Integers:
    return choose_each(flows.counts, fabric.seed, flows.a, flows.b, flows.part)


def _static(_: Fabric, flows: Flows) -> Integers:
    return flows.place % flows.counts


def _sprayed(fabric: Fabric, flows: Flows) -> Integers:
    return flows.part * flows.counts // parts_of(fabric, flows.counts)


PATHS: Final[Mapping[str, Callable[[Fabric, Flows], Integers]]] = {
    "hashed": _hashed, "static": _static, "sprayed": _sprayed,
}  # fmt: skip
"""The path of each flow, by the kind of routing."""


def chosen_paths(fabric: Fabric, flows: Flows) -> Integers:
    """Return the path of each of several flows, from 0 to its count less one."""
    if not fabric.several_paths:
        return np.zeros_like(flows.part)
    return PATHS[fabric.routing](fabric, flows)


def parts_of(fabric: Fabric, counts: Integers) -> Integers:
    """Return into how many equal parts flows are divided, each with a path of its own.

    Parameters
    ----------
    counts : equal paths of each flow
    """
    if fabric.routing == "sprayed":
        return np.minimum(counts, MOST_SPRAYED)
    return np.where(counts > 1, fabric.queue_pairs, 1)


def most_parts(fabric: Fabric) -> int:
    """Return into how many parts a flow is divided at most."""
    return int(parts_of(fabric, np.array([fabric.most_paths])).max())
