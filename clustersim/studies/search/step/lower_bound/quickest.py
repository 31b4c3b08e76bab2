"""The quickest closed form of a collective over all groups of a job along an axis.

Groups in equal places of the machine have equal costs, and meshes share most of their groups, so
that groups are kept by their devices and costs by their bytes.
"""

import numpy as np

from clustersim.arrays import Integers
from clustersim.cost.closed_form import Cost
from clustersim.errors import PlanError
from clustersim.program.collectives.axes import AxisGroups, Parts, groups_along
from clustersim.program.job import Job
from clustersim.workload.kernels import Axis

GroupKey = bytes


class QuickestCollectives:
    """Costs of collectives, kept for all layouts of a scenario."""

    def __init__(self) -> None:
        self._parts: dict[GroupKey, Parts] = {}
        self._groups: dict[tuple[GroupKey, str], AxisGroups | None] = {}
        self._costs: dict[tuple[GroupKey, str, float], Cost | None] = {}

    def key(self, job: Job, axis: Axis) -> GroupKey:
        """Return the groups of a job along an axis, known from now on: equal for equal groups."""
        groups = groups_along(job.placement, axis)
        key = _canonical(groups)
        if key not in self._parts:
            self._parts[key] = job.communicators(groups)
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
        if known not in self._groups:
            try:
                self._groups[known] = AxisGroups(self._parts[key], (operation,))
            except PlanError:
                self._groups[known] = None
        return self._groups[known]


def _canonical(groups: Integers) -> GroupKey:
    """Return groups by row as bytes, whatever the order of the rows and of the groups in a row."""
    rows, of_row, members = groups.shape
    firsts = groups[:, :, 0]
    within = np.take_along_axis(groups, np.argsort(firsts, axis=1)[:, :, None], axis=1)
    ordered = within[np.argsort(within[:, 0, 0])]
    shape = np.array([rows, of_row, members])
    return shape.tobytes() + ordered.tobytes()
