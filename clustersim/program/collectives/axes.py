"""The communicators of every axis, and the cost of collectives inside blocks.

tensor, context            of a cell: the groups of one stage of one replica
expert, data and others    of a stage: the groups of all replicas
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers, first_of, numbered
from clustersim.cost.closed_form import Cost
from clustersim.plan.placement import Placement
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.job import Job
from clustersim.traffic import LimitedBy, LinkRows, TrafficRows, added, stacked
from clustersim.workload.kernels import Axis, Collective

OF_CELL: tuple[Axis, ...] = ("tensor", "context")


class Call(NamedTuple):
    """A collective of the groups along an axis; `nbytes` of the buffer [B]."""

    axis: Axis
    operation: str
    nbytes: float

    @classmethod
    def of(cls, collective: Collective) -> "Call":
        """Return the call of a collective."""
        return cls(collective.axis, collective.operation, collective.nbytes)


Load = tuple[str, str]
"""The load of an algorithm and an operation."""

Parts = Sequence[tuple[Integers, Communicator]]

Pattern = tuple[tuple[Axis, int], ...]
"""What the costs of the collectives of a block depend on: for each axis, its class of groups."""


def groups_along(placement: Placement, axis: Axis) -> Integers:
    """Return the devices of the groups along an axis: by cell or by stage, group and member."""
    groups = {
        "tensor": placement.tensor_groups,
        "context": placement.context_groups,
        "expert": placement.expert_groups,
        "expert-tensor": placement.expert_tensor_groups,
        "data": placement.shard_groups,
        "copies": placement.shard_copies,
        "expert-data": placement.expert_copies,
    }
    return groups[axis]()


class AxisGroups:
    """The groups along an axis, of all cells or of all stages, which are its rows.

    Rows are of one class where the costs of all operations are equal.

    Parameters
    ----------
    parts : communicators with the rows that each is for
    operations : the collectives that the groups run

    Attributes
    ----------
    classes : the class of each row
    """

    def __init__(self, parts: Parts, operations: Sequence[str]) -> None:
        self._parts = parts
        numbers: dict[Hashable, int] = {}
        self.classes = np.empty(sum(len(rows) for rows, _ in parts), dtype=np.int64)
        self._examples: list[tuple[Communicator, int]] = []
        for rows, communicator in self._parts:
            of_row, signatures = communicator.signatures(operations)
            for index, signature in zip(first_of(of_row).tolist(), signatures, strict=True):
                if numbers.setdefault(signature, len(numbers)) == len(self._examples):
                    self._examples.append((communicator, index))
            known = np.array([numbers[signature] for signature in signatures])
            self.classes[rows] = known[of_row]

    @property
    def ranks(self) -> int:
        """Ranks of each group."""
        return self._parts[0][1].span.ranks

    def cost(self, number: int, operation: str, nbytes: float) -> Cost:
        """Return the closed-form cost of a collective of a class."""
        communicator, index = self._examples[number]
        return communicator.cost(operation, nbytes, index)

    def limited_by(self, number: int, operation: str, nbytes: float) -> LimitedBy:
        """Return what limits a collective of a class."""
        communicator, index = self._examples[number]
        return communicator.limited_by(operation, nbytes, index)

    def least(self, operation: str, nbytes: float) -> Cost:
        """Return the cost of a collective of the class for which it takes least time."""
        costs = (self.cost(number, operation, nbytes) for number in self._numbers)
        return min(costs, key=lambda cost: cost.seconds)

    def traffic(self, name: str, operation: str, nbytes: float, rows: slice) -> TrafficRows:
        """Return a collective of some rows as traffic."""
        costs = [self.cost(number, operation, nbytes) for number in self._numbers]
        amounts = np.array([(cost.nbytes, cost.latency, cost.rate) for cost in costs])
        flows: dict[Load, Floats] = {}
        for number, cost in enumerate(costs):
            unit = self._unit(number, cost, operation)
            self._add(flows, number, (cost.algorithm, operation), 1.0 / unit)
        return TrafficRows(name, self._loads(flows, rows), *amounts[self.classes[rows]].T)

    def carried(self, calls: Iterable[tuple[str, float, float]], rows: slice) -> LinkRows:
        """Return the load of collectives of some rows on each link [B].

        Parameters
        ----------
        calls : operation, bytes of the buffer [B], and number of calls
        """
        streams: dict[Load, Floats] = {}
        for operation, nbytes, times in calls:
            for number in self._numbers:
                cost = self.cost(number, operation, nbytes)
                wire = cost.nbytes / self._unit(number, cost, operation)
                self._add(streams, number, (cost.algorithm, operation), times * wire)
        return self._loads(streams, rows)

    @property
    def _numbers(self) -> range:
        return range(len(self._examples))

    def _unit(self, number: int, cost: Cost, operation: str) -> float:
        """Return the bytes of one of the equal flows of a class, for each byte of the buffer."""
        communicator, index = self._examples[number]
        return float(communicator.units(cost.algorithm, operation)[index])

    def _add(self, factors: dict[Load, Floats], number: int, key: Load, more: float) -> None:
        factors.setdefault(key, np.zeros(len(self._examples)))[number] += more

    def _loads(self, factors: Mapping[Load, Floats], rows: slice) -> LinkRows:
        """Return for some rows the sum of loads, each times a factor of the row's class."""
        sums, order = [], []
        for all_rows, communicator in self._parts:
            own = slice(*np.searchsorted(all_rows, [rows.start, rows.stop]).tolist())
            classes, parts = self.classes[all_rows[own]], []
            for key, of_class in factors.items():
                times = of_class[classes]
                if times.any():
                    scaled = communicator.load(*key).total.part(own).scaled(times)
                    parts.append(scaled if times.all() else scaled.only(scaled.values != 0))
            sums.append(added(parts, len(classes)))
            order.append(all_rows[own])
        if len(sums) == 1:
            return sums[0]
        return stacked(sums).take(np.argsort(np.concatenate(order)))


class Communicators:
    """The communicators of a job, made once.

    Parameters
    ----------
    operations : for each axis, the collectives of its groups inside blocks
    """

    def __init__(self, job: Job, operations: Mapping[Axis, Sequence[str]]) -> None:
        self.job = job
        self.operations = {axis: sorted(names) for axis, names in operations.items() if names}
        self._groups: dict[tuple[Axis, tuple[str, ...]], AxisGroups] = {}
        self._parts: dict[Axis, Parts] = {}

    def along(self, axis: Axis, *operations: str) -> AxisGroups:
        """Return the groups along an axis: a row for each cell, by stage and replica, or stage.

        Parameters
        ----------
        operations : that they run; those inside blocks if none are given
        """
        key = axis, operations or tuple(self.operations[axis])
        if key not in self._groups:
            groups = groups_along(self.job.placement, axis)
            made = partial(self._axis_groups, axis, groups, key[1])
            self._groups[key] = self.job.kept(("along an axis", key[1]), groups, made)
        return self._groups[key]

    def _axis_groups(self, axis: Axis, groups: Integers, operations: tuple[str, ...]) -> AxisGroups:
        if axis not in self._parts:
            self._parts[axis] = self.job.communicators(groups)
        return AxisGroups(self._parts[axis], operations)

    def rows_of(self, axis: Axis, run: range) -> slice:
        """Return the rows of adjacent stages along an axis: their replicas, or only themselves."""
        count = self.job.plan.data if axis in OF_CELL else 1
        return slice(run.start * count, run.stop * count)

    @cached_property
    def _classes(self) -> dict[Axis, Integers]:
        """For each axis, the class of the groups of each cell, by stage and replica."""
        plan = self.job.plan
        shape = plan.pipeline, plan.data
        return {
            axis: np.broadcast_to(
                self.along(axis).classes.reshape(-1, plan.data if axis in OF_CELL else 1), shape
            )
            for axis in self.operations
        }

    def pattern(self, stage: int, replica: int) -> Pattern:
        """Return the classes on which the times of blocks of a cell depend, by axis."""
        return tuple((axis, int(of[stage, replica])) for axis, of in self._classes.items())

    @cached_property
    def pattern_numbers(self) -> Integers:
        """By stage and replica, a number for each different pattern."""
        plan = self.job.plan
        classes = [*self._classes.values()]
        if not classes:
            return np.zeros((plan.pipeline, plan.data), dtype=np.int64)
        return numbered(np.stack([of.ravel() for of in classes], axis=1)).reshape(classes[0].shape)

    def patterns(self, stage: int) -> list[Pattern]:
        """Return the different patterns of the cells of a stage."""
        _, first = np.unique(self.pattern_numbers[stage], return_index=True)
        return [self.pattern(stage, replica) for replica in first.tolist()]

    def seconds(self, collective: Collective, pattern: Pattern) -> float:
        """Return the time of a collective on uncontended links [s]."""
        return self.cost(collective, pattern).seconds

    def cost(self, collective: Collective, pattern: Pattern) -> Cost:
        """Return the closed-form cost of a collective."""
        number = dict(pattern)[collective.axis]
        return self.along(collective.axis).cost(number, collective.operation, collective.nbytes)
