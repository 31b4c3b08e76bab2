"""Which device each rank runs on.

    rank --order of the axes--> position --order of the devices--> device

Ranks are assigned to devices in sequence.  The order of the axes gives the position of a rank: the
first axis varies fastest.  The devices are ordered node by node as they are numbered, or through a
torus box by box.  By default rank r runs on device r: with the numbering of `plan.parallelism` a
tensor group has neighbouring devices, the replicas of a stage follow each other, and the stages as
well, as with a launcher that numbers ranks node by node.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from clustersim.errors import PlanError
from clustersim.plan.checks import Where
from clustersim.plan.parallelism import Plan
from clustersim.records import dataclass
from clustersim.topology.cluster import Cluster
from clustersim.topology.fabrics.torus import TorusFabric

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Placement:
    """Devices of a plan's ranks.

    Attributes
    ----------
    devices : the device of each rank
    """

    plan: Plan
    devices: Integers

    @property
    def mesh(self) -> Integers:
        """The device of each rank by stage, replica, context slice and tensor rank."""
        plan = self.plan
        return self.devices.reshape(plan.pipeline, plan.data, plan.context, plan.tensor)

    @property
    def cells(self) -> Integers:
        """The devices that share a microbatch, by stage, replica and part of the cell."""
        return self.mesh.reshape(self.plan.pipeline, self.plan.data, self.plan.cell)

    @cached_property
    def own(self) -> "Placement":
        """The same on a machine without other devices: their numbers among those of the job."""
        _, numbers = np.unique(self.devices, return_inverse=True)
        return Placement(self.plan, numbers)

    # Groups of every cell, cells by stage and then by replica: an array of cell, group and member.

    def tensor_groups(self) -> Integers:
        """Return for each context slice of a cell the devices that share its layers."""
        plan = self.plan
        return self.mesh.reshape(-1, plan.context, plan.tensor)

    def context_groups(self) -> Integers:
        """Return for each tensor rank of a cell the devices that share its sequences."""
        plan = self.plan
        return self.mesh.swapaxes(2, 3).reshape(-1, plan.tensor, plan.context)

    # Groups of every stage: an array of stage, group and member.

    def data_groups(self) -> Integers:
        """Return for each tensor rank of a stage the devices that hold the same weights."""
        plan = self.plan
        return self.mesh.reshape(plan.pipeline, plan.copies, plan.tensor).swapaxes(1, 2)

    def shard_groups(self) -> Integers:
        """Return the data groups of a stage cut into those that share what ZeRO shards."""
        return self.data_groups().reshape(self.plan.pipeline, -1, self.plan.sharers)

    def shard_copies(self) -> Integers:
        """Return across the shard groups of a stage the devices that hold the same shards."""
        plan = self.plan
        shards = self.data_groups().reshape(plan.pipeline, plan.tensor, -1, plan.sharers)
        return shards.swapaxes(2, 3).reshape(plan.pipeline, -1, shards.shape[2])

    def expert_groups(self) -> Integers:
        """Return the devices of a stage that share the experts, one group for each tensor rank."""
        plan = self.plan
        shape = plan.pipeline, plan.expert_copies, plan.expert, plan.expert_tensor
        return self.mesh.reshape(shape).swapaxes(2, 3).reshape(plan.pipeline, -1, plan.expert)

    def expert_tensor_groups(self) -> Integers:
        """Return the devices of a stage that share one expert's columns."""
        return self.mesh.reshape(self.plan.pipeline, -1, self.plan.expert_tensor)

    def expert_copies(self) -> Integers:
        """Return the devices of a stage that hold the same weights of experts."""
        plan = self.plan
        shape = plan.pipeline, plan.expert_copies, plan.expert * plan.expert_tensor
        return self.mesh.reshape(shape).swapaxes(1, 2)

    def model_group(self, replica: int) -> Integers:
        """Return the devices that hold one replica of the model, stage by stage."""
        return self.mesh[:, replica].ravel()

    def groups(self, axis: str) -> Integers:
        """Return the devices of all groups along an axis, a row a group, members in order."""
        degrees = self.plan.degrees
        mesh = self.mesh.reshape([*reversed(degrees.values())])
        last = len(degrees) - 1 - [*degrees].index(axis)
        return np.moveaxis(mesh, last, -1).reshape(-1, degrees[axis])


def place(
    plan: Plan, cluster: Cluster, order: Sequence[str], boxes: Sequence[int] | None,
    devices: Sequence[int] | None, where: Where,
) -> Placement:  # fmt: skip
    """Return where the ranks of a plan run on a cluster with as many devices.

    `placement_problems` has found none.

    Parameters
    ----------
    order : axes, innermost first; those of degree 1 may be left out
    boxes : lengths of the boxes that a torus is filled by, along the axes of its numbering
    devices : the device of each rank, instead of the other two

    Raises
    ------
    PlanError
        when the boxes do not fill the job's block of a torus.
    """
    if devices is not None:
        return Placement(plan, np.array(devices))
    size = cluster.node.devices
    nodes = np.arange(cluster.nodes) if boxes is None else _through_boxes(cluster, boxes, where)
    walk = (nodes[:, None] * size + np.arange(size)).ravel()
    return Placement(plan, walk[_positions(plan, order)])


# --- positions of ranks ---------------------------------------------------------------------------


def _named(plan: Plan, order: Sequence[str]) -> list[str]:
    """Return the axes of more than one rank in an order."""
    return [axis for axis in order if plan.degrees.get(axis, 1) > 1]


def _positions(plan: Plan, order: Sequence[str]) -> Integers:
    """Return the position of each rank in an order of the axes."""
    named = _named(plan, order)
    counted = _named(plan, [*plan.degrees])
    positions = np.arange(plan.ranks).reshape([plan.degrees[axis] for axis in reversed(named)])
    ways = [len(named) - 1 - named.index(axis) for axis in reversed(counted)]
    return positions.transpose(ways).ravel()


# --- order of devices -----------------------------------------------------------------------------


def _through_boxes(cluster: Cluster, boxes: Sequence[int], where: Where) -> Integers:
    """Return the nodes of a torus box by box."""
    torus = _divided(cluster, boxes, where)
    inside = [*snake(boxes)]
    axes = zip(torus.lengths, boxes, strict=True)
    corners = product(*(range(0, length, box) for length, box in axes))
    return np.array(
        [
            torus.node(tuple(a + b for a, b in zip(corner, cell, strict=True)))
            for corner in corners
            for cell in inside
        ]
    )


def snake(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the cells of a box in row-major order with every other row backwards.

    So each cell is a neighbour of the one before.

    >>> list(snake((2, 3)))
    [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]
    """
    if not lengths:
        yield ()
        return
    row = [*snake(lengths[1:])]
    for number in range(lengths[0]):
        for cell in row if number % 2 == 0 else reversed(row):
            yield (number, *cell)


def _divided(cluster: Cluster, boxes: Sequence[int], where: Where) -> TorusFabric:
    """Return the torus that boxes divide; check that they fill it."""
    key, torus = where("plan", "placement", "boxes"), cluster.fabric
    if not isinstance(torus, TorusFabric):
        raise PlanError(
            f"{key}: '{cluster.name}' is not a torus, which boxes could divide"
            " (leave boxes out, or list the devices)"
        )
    lengths = torus.lengths
    shape = " x ".join(map(str, lengths))
    if prod(lengths) != cluster.nodes:
        raise PlanError(
            f"{key}: the {cluster.nodes} nodes of the job are not a block of the {shape} torus"
            " (set the block with cluster.fabric.job)"
        )
    if len(boxes) != len(lengths):
        raise PlanError(
            f"{key}: has {len(boxes)} lengths, but the job's {shape} nodes have {len(lengths)} axes"
            " (one length for each)"
        )
    for axis, (box, length) in enumerate(zip(boxes, lengths, strict=True)):
        if length % box:
            allowed = ", ".join(str(n) for n in range(1, length + 1) if length % n == 0)
            raise PlanError(
                f"{where('plan', 'placement', 'boxes', axis)}: {box} does not divide the {length}"
                f" nodes along that axis of the job's {shape} (allowed: {allowed})"
            )
    return torus
