"""The quickest closed form of a collective over all groups of a job along an axis.

Groups in equal places of the machine have equal costs, and meshes share most of their groups, so
that one of equal groups is kept by its place, and costs by their bytes.
"""

from collections import deque
from hashlib import sha256
from typing import Final

import numpy as np

from clustersim.arrays import Integers, first_of, numbered
from clustersim.cost.closed_form import Cost
from clustersim.errors import PlanError
from clustersim.program.collectives.axes import AxisGroups, Parts, groups_along
from clustersim.program.collectives.messages import places_on_machine
from clustersim.program.job import Job
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.lower_bound.layout_values import (
    ANY_SHAPE,
    Column,
    Layout,
    Mesh,
)
from clustersim.topology.cluster import Cluster
from clustersim.workload.kernels import Axis

GroupKey = bytes
"""Digest of the places of groups: equal for groups in equal places."""

Groups = tuple[tuple[Axis, GroupKey], ...]
"""The groups of a layout along axes."""

OF_EXPERTS: Final = frozenset({"expert", "expert-tensor", "expert-data"})
"""Axes whose groups depend on the degrees of experts."""

OF_SHARDS: Final = frozenset({"data", "copies"})
"""Axes whose groups depend on how many ranks share what ZeRO shards."""

MOST_DEVICES: Final = 2**19
"""Devices of groups whose loads are kept; a device has about 0.5 kB of them."""


class QuickestCollectives:
    """Costs of collectives, kept for all layouts of a scenario."""

    def __init__(self, jobs: LayoutJobs) -> None:
        self._jobs = jobs
        self._keys: dict[object, GroupKey | None] = {}
        self._places: dict[GroupKey, tuple[Job, Integers]] = {}
        self._parts: dict[GroupKey, Parts] = {}
        self._recent: deque[tuple[int, Parts]] = deque()
        self._groups: dict[tuple[Mesh, int, tuple[Axis, ...]], Groups] = {}
        self._costed: dict[tuple[GroupKey, str], AxisGroups | None] = {}
        self._costs: dict[tuple[GroupKey, str, float], Cost | None] = {}

    def groups(self, column: Column, axes: tuple[Axis, ...]) -> Groups:
        """Return the groups of a layout along some axes, those of several ranks."""
        mesh, shard = column.cell.mesh, column.sharding.shard
        known = mesh, shard, axes
        if known not in self._groups:
            placed = mesh.placed, mesh._replace(context_method="")
            keys = []
            for axis in axes:
                own = axis, placed[axis in OF_EXPERTS], shard if axis in OF_SHARDS else 0
                if own not in self._keys:
                    self._keys[own] = self._key(column, axis)
                keys.append((axis, self._keys[own]))
            self._groups[known] = tuple((axis, key) for axis, key in keys if key is not None)
        return self._groups[known]

    def _key(self, column: Column, axis: Axis) -> GroupKey | None:
        """Return the groups along an axis, known from now on; None where each has one rank."""
        job = self._jobs.job(Layout(column.cell, ANY_SHAPE, column.sharding))
        groups = groups_along(job.placement, axis)
        if groups.shape[2] == 1:
            return None
        key, different = _different(job.cluster, groups)
        if key not in self._parts:
            self._places.setdefault(key, (job, different))
        return key

    def cost(self, key: GroupKey, operation: str, nbytes: float) -> Cost | None:
        """Return the cost of a collective of the groups for which it takes least time.

        None where the library has no algorithm for it, so that the layout is invalid.
        """
        call = key, operation, nbytes
        if call not in self._costs:
            groups = self._of(key, operation)
            self._costs[call] = None if groups is None else groups.least(operation, nbytes)
        return self._costs[call]

    def seconds(self, key: GroupKey, operation: str, nbytes: float) -> float:
        """Return the time of the same; 0 for an invalid layout [s]."""
        cost = self.cost(key, operation, nbytes)
        return 0.0 if cost is None else cost.seconds

    def _of(self, key: GroupKey, operation: str) -> AxisGroups | None:
        known = key, operation
        if known not in self._costed:
            try:
                self._costed[known] = AxisGroups(self._communicators(key), (operation,))
            except PlanError:
                self._costed[known] = None
        return self._costed[known]

    def _communicators(self, key: GroupKey) -> Parts:
        if key not in self._parts:
            job, groups = self._places.pop(key)
            self._parts[key] = job.communicators(groups)
            self._recent.append((groups.size, self._parts[key]))
            self._forget_old_loads()
        return self._parts[key]

    def _forget_old_loads(self) -> None:
        """Free loads on links of groups that were added long ago, whose costs are mostly known."""
        while sum(devices for devices, _ in self._recent) > MOST_DEVICES:
            for _, communicator in self._recent.popleft()[1]:
                communicator.forget_loads()


def _different(cluster: Cluster, groups: Integers) -> tuple[GroupKey, Integers]:
    """Return rows of groups in different places, and a key of these places.

    The key does not depend on the order of the rows, nor on that of the groups of a row.
    """
    rows, of_row, members = groups.shape
    order = np.argsort(groups[:, :, 0], axis=1)
    within = np.take_along_axis(groups, order[:, :, None], axis=1)
    places = places_on_machine(cluster, within.reshape(rows, -1))
    first = first_of(numbered(places))
    shape = np.array([of_row, members])
    ordered = b"".join([shape.tobytes(), *sorted(map(bytes, places[first]))])
    return sha256(ordered).digest(), within[first]
