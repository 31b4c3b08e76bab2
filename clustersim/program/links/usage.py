"""What every link carries in a step, which links limit it, and a bound of the error of fusion.

inside blocks     bytes for one microbatch, by stage and replica
stage transfers   flows, by replica and name of the traffic
joint             flows of all replicas together, by name; replica -1
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from itertools import product

import numpy as np

from clustersim.arrays import Floats, adjacent
from clustersim.plan.parallelism import Plan
from clustersim.program.blocks.blocks import Blocks, tensor_name
from clustersim.program.collectives.axes import OF_CELL, Call
from clustersim.program.links.in_use import LinksInUse
from clustersim.program.links.tables import TrafficTable, tables_of
from clustersim.program.movement.transfers import reductions, send_name
from clustersim.program.program import Crossing, Limit
from clustersim.program.schedules.steps import WHOLE
from clustersim.timeline import FORWARD
from clustersim.traffic import LimitedBy, LinkRows, Name, TrafficRows, Transfers, added
from clustersim.workload.kernels import Axis


class InnerTraffic:
    """The collectives inside the blocks of a job as traffic.

    Attributes
    ----------
    runs : adjacent stages that run the same collectives for a microbatch
    loads : for each run the load of collectives on links, of each cell and of each stage [B]
    """

    def __init__(self, blocks: Blocks) -> None:
        self._data, self._groups = blocks.job.plan.data, blocks.communicators
        self.axes, self.calls = blocks.axes, blocks.calls
        self.runs = adjacent([calls.all for calls in self.calls])
        joint = [axis for axis in self.axes if axis not in OF_CELL]
        self.loads = [
            (run, self._on_links(OF_CELL, run, self._data), self._on_links(joint, run, 1))
            for run in self.runs
        ]

    def of(self, stage: int, call: Call) -> TrafficRows:
        """Return a collective of a stage as traffic: of each replica, or of all in one row."""
        name = inner_title(stage, call)
        rows = self._groups.rows_of(call.axis, range(stage, stage + 1))
        return self._groups.along(call.axis).traffic(name, call.operation, call.nbytes, rows)

    def of_tensor_groups(self) -> dict[Name, TrafficRows]:
        """Return the collectives of the tensor groups of all replicas, by name."""
        return {
            tensor_name(stage, call): self.of(stage, call)
            for stage, calls in enumerate(self.calls)
            for call in calls.all
            if call.axis == "tensor"
        }

    # --- bytes of a microbatch -------------------------------------------------------------------

    def add_to(self, totals: Floats, times: float) -> None:
        """Add the loads of all runs, times a number, to the totals of their links."""
        for _, of_cells, of_stages in self.loads:
            of_cells.add_to(totals, times)
            of_stages.add_to(totals, times)

    def along(self, axis: Axis, run: range) -> LinkRows:
        """Return the load of collectives of one axis on links, for one microbatch, by row [B]."""
        calls = [
            (call.operation, call.nbytes, times)
            for call, times in self.calls[run.start].all.items()
            if call.axis == axis
        ]
        return self._groups.along(axis).carried(calls, self._groups.rows_of(axis, run))

    def _on_links(self, axes: Iterable[Axis], run: range, rows: int) -> LinkRows:
        parts = [self.along(axis, run) for axis in axes if axis in self.axes]
        return added(parts, rows * len(run))


def inner_title(stage: int, call: Call) -> str:
    """Return the name of collectives of an operation inside blocks of a stage."""
    return f"{call.operation} of {call.axis} group, stage {stage}"


JOINT = -1
"""Number of the replica that represents all replicas together."""


class LinkUsage:
    """The traffic of a step on the links of the machine.

    Parameters
    ----------
    sends : stage transfers of all replicas, by name
    joint : traffic of all replicas together, by name
    """

    def __init__(
        self, blocks: Blocks, inner: InnerTraffic, sends: Transfers, joint: Transfers
    ) -> None:
        self._job, self._blocks, self._inner = blocks.job, blocks, inner
        self._sends, self._joint = tables_of(sends), tables_of(joint)
        self._links = blocks.job.cluster.loaded

    # --- fusion ----------------------------------------------------------------------------------

    def fusion_bound(self) -> float:
        """Return the maximum share by which other traffic can lengthen a forward and backward.

        While a stage runs one microbatch forward and backward, each transfer on the links of its
        tensor group occurs at most once, and so do the collectives of other tensor groups. Each
        delays the group by no more than the time of its own bytes.
        """
        if not self._inner.axes:
            return 0.0
        totals = self._bytes_of_microbatch()
        worst = 0.0
        for run, of_cells, of_stages in self._inner.loads:
            seconds = [self._blocks.shortest(stage) for stage in run]
            of_cell = self._delays(totals, of_cells).reshape(len(run), -1)
            delays = np.maximum(self._delays(totals, of_stages)[:, None], of_cell)
            worst = max(worst, float((delays / np.stack(seconds)).max()))
        return worst

    def _bytes_of_microbatch(self) -> Floats:
        """Return the bytes on each link while a stage runs one microbatch of a chunk [B]."""
        plan = self._job.plan
        totals = np.zeros(len(self._links))
        for table in self._sends:
            _add(totals, table, dict.fromkeys(table.names, 1.0))
        if self._job.overlapped_reduction:
            for table in self._joint:
                reduced = [name for name in table.names if name[0] == "gradients"]
                _add(totals, table, dict.fromkeys(reduced, 1.0 / plan.microbatches))
        self._inner.add_to(totals, 1.0 / plan.chunks)
        return totals

    def _delays(self, totals: Floats, own: LinkRows) -> Floats:
        """Return for each row the longest time of other traffic on a link that it uses [s]."""
        others = totals[own.links] - own.values / self._job.plan.chunks
        return own.largest(others / self._links.capacities[own.links])

    # --- the step --------------------------------------------------------------------------------

    def carried(self) -> LinksInUse:
        """Return the load of every link in the step."""
        return self._step[0]

    def seconds_of_others(self, stage: int) -> list[float]:
        """Return for each gather of a stage's new weights how long others occupy its links [s].

        The time of the bytes of all other traffic of the step, on the link where it is longest.
        """
        return self._step[1].get(stage, [])

    @cached_property
    def _step(self) -> tuple[LinksInUse, dict[Hashable, list[float]]]:
        """The load of every link in the step, and the times of others by stage."""
        totals = self._totals()
        used = np.flatnonzero(totals)
        return LinksInUse(self._links, used, totals[used]), self._seconds_of_others(totals)

    def _seconds_of_others(self, totals: Floats) -> dict[Hashable, list[float]]:
        of_stages: dict[Hashable, list[float]] = {}
        for table in self._joint:
            crossed = table.crossings.scaled(table.moved.nbytes)
            others = totals[crossed.links] - crossed.values
            seconds = crossed.largest(others / self._links.capacities[crossed.links]).tolist()
            for name, longest in zip(table.names, seconds, strict=True):
                if name[0] == "parameters":
                    of_stages.setdefault(name[1], []).append(longest)
        return of_stages

    def _totals(self) -> Floats:
        """Return the bytes of the step on each link [B]."""
        plan = self._job.plan
        totals = np.zeros(len(self._links))
        for table in self._joint:
            _add(totals, table, dict.fromkeys(table.names, 1.0))
        times = _sends_of_step(plan)
        for table in self._sends:
            _add(totals, table, times)
        self._inner.add_to(totals, plan.microbatches / plan.wired.copies)
        return totals

    def limits(self) -> dict[str, Limit]:
        """Return the link that limits each kind of communication of replica 0, without contention.

        Of several transfers of a kind, the longest decides.
        """
        found: dict[str, tuple[LinkRows, LimitedBy]] = {}
        for axis in self._inner.axes:
            stages = (range(run.start, run.start + 1) for run in self._inner.runs)
            rows = (
                (self._inner.along(axis, stage).part(slice(1)), stage.start) for stage in stages
            )
            row, stage = next(each for each in rows if len(each[0].links))
            found[axis] = row, self._longest_call(axis, stage)
        for kind, prefix, transfers in (
            ("pipeline", "send", self._sends),
            ("data", "gradients", self._joint),
            ("embedding", "embedding", self._joint),
        ):
            if (longest := _longest(transfers, prefix)) is not None:
                table, at = longest
                name = table.names[at // table.rows]
                by = table.moved.of_row(at).limited_by(self._links.capacities)
                if prefix == "gradients":
                    by = self._reduction_limit(name)
                found[kind] = table.crossings.part(slice(at, at + 1)), by
        links, capacities = self._links, self._links.capacities
        limits = {}
        for kind, (load, by) in found.items():
            link = int(load.links[np.argmax(load.values / capacities[load.links])])
            limits[kind] = Limit(links.names[link], links.kinds[link], float(capacities[link]), by)
        return limits

    def _longest_call(self, axis: Axis, stage: int) -> LimitedBy:
        """Return what limits the collective inside blocks of a stage that takes longest in all."""
        communicators = self._blocks.communicators
        groups = communicators.along(axis)
        number = int(groups.classes[communicators.rows_of(axis, range(stage, stage + 1)).start])
        calls = [
            (times * groups.cost(number, call.operation, call.nbytes).seconds, call)
            for call, times in self._inner.calls[stage].all.items()
            if call.axis == axis
        ]
        _, call = max(calls, key=lambda each: each[0])
        return groups.limited_by(number, call.operation, call.nbytes)

    def _reduction_limit(self, name: Name) -> LimitedBy:
        """Return what limits the longest reduction of the gradients of a name."""
        _, stage, axis = name
        trained = self._job.weights.trained(int(str(stage)))
        limits = [
            (groups.cost(0, call.operation, call.nbytes).seconds, call, groups)
            for call in reductions(self._job, trained)
            if call.axis == axis
            for groups in [self._blocks.communicators.along(call.axis, call.operation)]
        ]
        _, call, groups = max(limits, key=lambda each: each[0])
        return groups.limited_by(0, call.operation, call.nbytes)

    # --- what crosses a link ---------------------------------------------------------------------

    def crossings(self, used: LinksInUse, inner: Transfers) -> dict[str, Crossing]:
        """Return what crosses the links with the highest load, by their names.

        A step uses thousands of links, and only the crossings of these few are reported.

        Parameters
        ----------
        inner : collectives of blocks that are replayed separately, of all replicas, by name
        """
        crossings = {link: Crossing({}, {}) for link in used.busiest_numbers}
        chosen = np.zeros(len(self._links), dtype=np.bool_)
        chosen[[*crossings]] = True
        inside = (
            (run, *each)
            for run, of_cells, of_stages in self._inner.loads
            for each in ((of_cells, 0, self._job.plan.data), (of_stages, JOINT, 1))
        )
        for run, load, first, rows in inside:
            few = load.only(chosen[load.links])
            for row, link, nbytes in zip(few.row, few.links, few.values, strict=True):
                stage, replica = divmod(int(row), rows)
                crossings[int(link)].inside[run[stage], first + replica] = float(nbytes)
        sends = [*self._sends, *tables_of(inner)]
        for first, tables in ((0, sends), (JOINT, self._joint)):
            for table in tables:
                for title, row, link, weight in table.only(chosen).entries():
                    crossings[link].moved[title, first + row] = weight
        return {self._links.names[link]: crossing for link, crossing in crossings.items()}


def _add(totals: Floats, table: TrafficTable, times: Mapping[Name, float]) -> None:
    """Add the bytes of traffic on each link, times a number for its name; 0 without one."""
    each = table.each_name([times.get(name, 0.0) for name in table.names])
    table.crossings.scaled(table.moved.nbytes).scaled(each).add_to(totals)


def _longest(tables: Iterable[TrafficTable], kind: str) -> tuple[TrafficTable, int] | None:
    """Return the table and row of the longest transfer of a kind of replica 0; None without any."""
    longest: tuple[float, TrafficTable, int] | None = None
    for table in tables:
        first = slice(None, None, table.rows)
        seconds = (table.moved.nbytes[first] / table.moved.cap[first]).tolist()
        for index, (name, taken) in enumerate(zip(table.names, seconds, strict=True)):
            if name[0] == kind and (longest is None or taken > longest[0]):
                longest = taken, table, index * table.rows
    return None if longest is None else longest[1:]


def _sends_of_step(plan: Plan) -> Counter[Name]:
    """Return how often each stage transfer occurs in a step."""
    wiring, times = plan.wired, Counter[Name]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        if wiring.onward(stage, chunk, forward=kind == FORWARD) is not None:
            count = len(wiring.batch(chunk, plan.microbatches))
            times[send_name(kind, stage, chunk, wiring)] += count
    return times
