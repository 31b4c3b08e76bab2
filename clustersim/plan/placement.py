"""Which device each rank runs on.

    rank --order of the axes--> position --order of the devices--> device

Ranks are assigned to devices in sequence.  The order of the axes gives the position of a rank: the
first axis varies fastest.  The devices are ordered node by node as they are numbered, or through a
torus box by box.  By default rank r runs on device r: with the numbering of `plan.parallelism` a
tensor group has neighbouring devices, the replicas of a stage follow each other, and the stages as
well, as with a launcher that numbers ranks node by node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from clustersim.errors import PlanError
from clustersim.plan.checks import Where
from clustersim.plan.parallelism import Plan
from clustersim.topology.cluster import Cluster
from clustersim.topology.fabrics.torus import TorusFabric


@dataclass(frozen=True)
class Placement:
    """Devices of a plan's ranks.

    Attributes
    ----------
    devices : the device of each rank
    """

    plan: Plan
    devices: tuple[int, ...]

    def device(self, stage: int, replica: int, part: int) -> int:
        """Return the device of a rank; `part` counts through its cell."""
        plan = self.plan  # plan.rank(), inlined because transfers call this for every rank
        return self.devices[(stage * plan.data + replica) * plan.cell + part]

    def cell(self, stage: int, replica: int) -> tuple[int, ...]:
        """Return the devices that share a microbatch on one stage of one replica."""
        ranks = self.plan.cell_ranks(stage, replica)
        return self.devices[ranks.start : ranks.stop]

    def stage(self, stage: int) -> NDArray[np.int64]:
        """Return the devices of a stage by replica, context slice and tensor rank."""
        plan = self.plan
        size = plan.data * plan.cell
        devices = self.devices[stage * size : (stage + 1) * size]
        return np.array(devices).reshape(plan.data, plan.context, plan.tensor)

    def tensor_groups(self, stage: int, replica: int) -> list[tuple[int, ...]]:
        """Return for each context slice of a cell the devices that share its layers."""
        return _rows(self.stage(stage)[replica])

    def context_groups(self, stage: int, replica: int) -> list[tuple[int, ...]]:
        """Return for each tensor rank of a cell the devices that share its sequences."""
        return _rows(self.stage(stage)[replica].T)

    def data_groups(self, stage: int) -> list[tuple[int, ...]]:
        """Return for each tensor rank of a stage the devices that hold the same weights."""
        plan = self.plan
        return _rows(self.stage(stage).reshape(plan.copies, plan.tensor).T)

    def shard_groups(self, stage: int) -> list[tuple[int, ...]]:
        """Return the data groups of a stage cut into those that share what ZeRO shards."""
        mesh = np.array(self.data_groups(stage))
        return _rows(mesh.reshape(-1, self.plan.sharers))

    def shard_copies(self, stage: int) -> list[tuple[int, ...]]:
        """Return across the shard groups of a stage the devices that hold the same shards."""
        mesh = np.array(self.data_groups(stage)).reshape(self.plan.tensor, -1, self.plan.sharers)
        return _rows(mesh.transpose(0, 2, 1).reshape(-1, mesh.shape[1]))

    def expert_groups(self, stage: int) -> list[tuple[int, ...]]:
        """Return the devices of a stage that share the experts, one group for each tensor rank."""
        plan = self.plan
        mesh = self.stage(stage).reshape(plan.expert_copies, plan.expert, plan.expert_tensor)
        return _rows(mesh.transpose(0, 2, 1).reshape(-1, plan.expert))

    def expert_tensor_groups(self, stage: int) -> list[tuple[int, ...]]:
        """Return the devices of a stage that share one expert's columns."""
        return _rows(self.stage(stage).reshape(-1, self.plan.expert_tensor))

    def expert_copies(self, stage: int) -> list[tuple[int, ...]]:
        """Return the devices of a stage that hold the same weights of experts."""
        plan = self.plan
        mesh = self.stage(stage).reshape(plan.expert_copies, plan.expert * plan.expert_tensor)
        return _rows(mesh.T)

    def model_group(self, replica: int) -> tuple[int, ...]:
        """Return the devices that hold one replica of the model, stage by stage."""
        stages = range(self.plan.pipeline)
        return tuple(device for stage in stages for device in self.cell(stage, replica))

    def groups(self, axis: str) -> NDArray[np.int64]:
        """Return the devices of all groups along an axis, a row a group, members in order."""
        degrees = self.plan.degrees
        mesh = np.array(self.devices).reshape([*reversed(degrees.values())])
        last = len(degrees) - 1 - [*degrees].index(axis)
        return np.moveaxis(mesh, last, -1).reshape(-1, degrees[axis])


def _rows(groups: NDArray[np.int64]) -> list[tuple[int, ...]]:
    return [tuple(group) for group in groups.tolist()]


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
        return Placement(plan, tuple(devices))
    size = cluster.node.devices
    nodes = np.arange(cluster.nodes) if boxes is None else _through_boxes(cluster, boxes, where)
    walk = (nodes[:, None] * size + np.arange(size)).ravel()
    return Placement(plan, tuple(walk[_positions(plan, order)].tolist()))


# --- positions of ranks ---------------------------------------------------------------------------


def _named(plan: Plan, order: Sequence[str]) -> list[str]:
    """Return the axes of more than one rank in an order."""
    return [axis for axis in order if plan.degrees.get(axis, 1) > 1]


def _positions(plan: Plan, order: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each rank in an order of the axes."""
    named = _named(plan, order)
    counted = _named(plan, [*plan.degrees])
    positions = np.arange(plan.ranks).reshape([plan.degrees[axis] for axis in reversed(named)])
    ways = [len(named) - 1 - named.index(axis) for axis in reversed(counted)]
    return positions.transpose(ways).ravel()


# --- order of devices -----------------------------------------------------------------------------


def _through_boxes(cluster: Cluster, boxes: Sequence[int], where: Where) -> NDArray[np.int64]:
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
