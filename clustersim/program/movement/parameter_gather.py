"""What is left to wait for of a stage's new weights, where they come part by part.

    network   | gather 0 | gather 1 | gather 2 |
    forward              | chunk 0 ... | chunk 1 ... | chunk 2 ...      only gather 0 is seen

Chunks of an interleaved stage begin their first forward one after another, each p microbatches
after the one before.  Software that gathers chunk by chunk hides all but one of them, as far as
they are short enough.
"""

from dataclasses import replace

from clustersim.program.blocks import Blocks
from clustersim.program.communicators import Pattern
from clustersim.program.job import Job
from clustersim.program.ops import Tail
from clustersim.program.steps import FORWARD
from clustersim.traffic import Traffic


def with_hidden(job: Job, blocks: Blocks, stage: int, pattern: Pattern, tail: Tail) -> Tail:
    """Return the tail of a stage without what its new weights have hidden beside forwards."""
    plan, beside = job.plan, job.framework.gradients.gather_overlap
    if beside is None or not beside.value:
        return tail
    block = blocks.block(stage, 0, FORWARD, pattern)[0].total
    layers = max(1, len(plan.layers_of(stage, 0)))
    parts, window = (plan.chunks, plan.pipeline * block) if plan.chunks > 1 else (
        layers, block / layers
    )  # fmt: skip
    left = tuple(waited_for(each, parts, window) for each in tail.parameters)
    return replace(tail, parameters=left)


def waited_for(traffic: Traffic, parts: int, window: float) -> Traffic:
    r"""Return what is left to wait for of traffic that goes part by part.

    .. math:: g + (v - 1) \max(0, g - w)

    with g the time of one of v parts and w that of what runs beside each but one.
    """
    if parts == 1 or not traffic.cap or traffic.cap == float("inf"):
        return traffic
    one = traffic.nbytes / traffic.cap / parts
    left = one + (parts - 1) * max(0.0, one - window)
    return traffic._replace(nbytes=left * traffic.cap)
