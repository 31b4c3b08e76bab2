"""Zero bubble by hand: gradients of weights wait until a stage would be idle (ZB-H1, ZB-H2).

    stage 0   F0 F1 F2 F3 I0 W0 F4 I1 W1 ...
    stage 3   F0 I0 F1 I1 F2 I2 F3 I3 W0 ...

Qi et al. 2023, section 2.2, arXiv:2401.10241.
"""

from collections.abc import Iterator

from clustersim.program.schedules.schedule import Schedule
from clustersim.program.steps import FORWARD, INPUT, WEIGHT, Step, whole_batch


def zb_h1(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: 1F1B with each W as many microbatches behind as stages are before.

    As many microbatches are in flight on every stage as on the first one of 1F1B.
    """
    return _delayed(stages - stage - 1, stage, microbatches)


def zb_h2(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: twice the warm-up of ZB-H1, and W twice as far behind.

    Up to 2 p - 1 microbatches are in flight on each of p stages. Stages neither begin nor end
    together, so that what the optimiser waits for together costs a part of the gain again.
    """
    return _delayed(2 * (stages - stage - 1), 2 * stage, microbatches)


def _delayed(warmup: int, behind: int, microbatches: int) -> Iterator[Step]:
    """Yield 1F1B after some forwards, each W `behind` microbatches after its I."""
    warmup = min(warmup, microbatches)
    forwards, inputs, weights = (whole_batch(k, microbatches) for k in (FORWARD, INPUT, WEIGHT))
    yield from forwards[:warmup]
    for at in range(microbatches):
        yield from forwards[warmup + at : warmup + at + 1]
        yield inputs[at]
        yield from weights[at - behind : at - behind + 1] if at >= behind else ()
    yield from weights[max(0, microbatches - behind) :]


ZB_H1 = Schedule("zb-h1", "Zero bubble with the memory of 1F1B", zb_h1, split=True)
ZB_H2 = Schedule("zb-h2", "Zero bubble with twice the memory of 1F1B", zb_h2, split=True)
