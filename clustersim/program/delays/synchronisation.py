"""Where replicas wait for each other inside blocks: at collectives that all of them take part in.

    replica 0   | layer | gather | layer      | gather | layer |
    replica 1   | layer      | gather | layer | gather | layer |      both wait for the slower one

Such are exchanges of tokens between experts, and gathers of the weights of a layer that begin where
the layer before it ends.  A gather that is requested a layer ahead makes no replica wait before it
is a whole layer behind, which it hardly ever is, and an exchange next to the computation of another
microbatch is hidden by it.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clustersim.program.blocks.blocks import Blocks
from clustersim.program.blocks.moves import moves_of
from clustersim.program.collectives.axes import OF_CELL, groups_along
from clustersim.program.job import Job
from clustersim.program.movement.limiter import limited
from clustersim.timeline import FORWARD
from clustersim.workload.kernels import Axis, Collective


class Meetings:
    """The collectives inside the blocks of a job at which replicas wait for each other."""

    def __init__(self, job: Job, blocks: Blocks) -> None:
        self._job, self._blocks = job, blocks

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The axes of these collectives between the kernels of a layer."""
        calls = (self._blocks.calls(stage)[0] for stage in self._stages)
        axes = {call.axis for of_stage in calls for call in of_stage} - {*OF_CELL}
        return frozenset() if self._hidden else frozenset(axes)

    def at_gather(self, fetched: Iterable[object]) -> bool:
        """Return whether replicas wait for each other where something is fetched for a layer."""
        sharding = self._job.software.sharding
        ahead = sharding is not None and sharding.prefetch > 0 and not limited(self._job)
        return not ahead and any(isinstance(each, Collective) for each in fetched)

    def in_stage(self, stage: int) -> bool:
        """Return whether blocks of a stage have such collectives."""
        return stage in self._axes_of_stages

    @cached_property
    def everywhere(self) -> bool:
        """Whether blocks of all stages have."""
        return all(map(self.in_stage, self._stages))

    def with_replica(self, replica: int) -> tuple[int, ...]:
        """Return the replicas that wait for a replica, and for each other, itself included."""
        return self._pools[replica]

    # --- groups ----------------------------------------------------------------------------------

    @property
    def _stages(self) -> range:
        return range(self._job.plan.pipeline)

    @property
    def _hidden(self) -> bool:
        """Whether exchanges are hidden by the computation of another microbatch."""
        paired = any(code.paired for code in self._job.order.codes)
        return paired or self._job.software.experts.overlapped

    @cached_property
    def _axes_of_stages(self) -> dict[int, set[Axis]]:
        """For each stage with such collectives their axes."""
        found: dict[int, set[Axis]] = {}
        for stage in self._stages:
            inner, _ = self._blocks.calls(stage)
            axes = {call.axis for call in inner} & self.axes
            for chunk in range(self._job.plan.chunks):
                for fetched, _ in moves_of(self._job, stage, chunk, FORWARD):
                    if self.at_gather(fetched):
                        axes |= {each.axis for each in fetched if isinstance(each, Collective)}
            if axes:
                found[stage] = axes
        return found

    @cached_property
    def _pools(self) -> list[tuple[int, ...]]:
        """For each replica those that it shares groups with, directly or by others."""
        job = self._job
        cells, count = job.placement.cells, job.plan.data
        replica_of = np.empty(cells.size, np.int64)
        replica_of[cells.ravel()] = np.broadcast_to(np.arange(count)[:, None], cells.shape).ravel()
        pool = np.arange(count)
        for stage, axes in self._axes_of_stages.items():
            for axis in sorted(axes - {*OF_CELL}):
                _join(pool, replica_of[groups_along(job.placement, axis)[stage]])
        members: dict[int, list[int]] = {}
        for replica, number in enumerate(pool.tolist()):
            members.setdefault(number, []).append(replica)
        return [tuple(members[number]) for number in pool.tolist()]


def _join(pool: NDArray[np.int64], groups: Sequence[NDArray[np.int64]]) -> None:
    """Give replicas that are in one group the same number."""
    for group in groups:
        numbers = np.unique(pool[group])
        pool[np.isin(pool, numbers)] = numbers[0]
