"""The exchange of experts next to the computation of another microbatch.

F0 | F1 F2 F3        forwards after the first backward of a stage run concurrently
     B0 B1 B2 B3     with a backward, and the exchange of each is hidden by the other
"""

from typing import Final

from clustersim.cost.compute import Seconds, overlapped_step
from clustersim.program.job import Job
from clustersim.timeline import BACKWARD, FORWARD, KINDS

OPPOSITE: Final = {FORWARD: BACKWARD, BACKWARD: FORWARD}
"""The block of another microbatch that runs concurrently with a block, by kind."""


def overlapped_exchange(job: Job, stage: int, own: Seconds, other: Seconds) -> Seconds:
    """Return a block whose exchange overlaps with the opposite block of another microbatch.

    Megatron-Core, ``overlap_moe_expert_parallel_comm``.  All blocks of a stage have the mean of
    those that run alone and those that do not.
    """
    units, cluster = job.software.experts.exchange_units, job.cluster
    occupied = cluster.occupied if units is None else units / cluster.accelerator.compute_units
    return job.software.dispatch.of(
        overlapped_step(own, other, occupied, _share_concurrent(job, stage))
    )


def _share_concurrent(job: Job, stage: int) -> float:
    """Return the share of the forwards of a stage that follow its first backward."""
    kinds, _ = job.order.columns(stage)
    forwards = kinds == KINDS.index(FORWARD)
    return float(forwards[int(forwards.argmin()) :].sum() / forwards.sum())
