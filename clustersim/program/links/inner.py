"""Traffic of the collectives inside blocks: of each cell, or of all replicas of a stage."""

from collections.abc import Iterable

from clustersim.arrays import Floats, adjacent
from clustersim.program.blocks.blocks import Blocks, tensor_name
from clustersim.program.collectives.axes import OF_CELL, Call
from clustersim.traffic import LinkRows, Name, TrafficRows, added
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
        name = f"{call.operation} of {call.axis} group, stage {stage}"
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
