"""Uniform programs: equal stages without a machine or a model, to study schedules."""

from collections.abc import Mapping, Sequence

from clustersim.cost.compute import Seconds
from clustersim.plan.parallelism import Wiring
from clustersim.program.links.in_use import NO_LINKS
from clustersim.program.program import Actor, Block, Fused, Position, Program, Tail
from clustersim.program.schedules.steps import Code, Order, Step, receiver_of
from clustersim.timeline import FORWARD
from clustersim.traffic import Traffic

NO_TAIL = Tail((), False, None, 0.0, ())


def uniform_program(
    order: Order, wiring: Wiring, microbatches: int, seconds: Mapping[str, float],
    factors: Sequence[float] = (), *, latency: float = 0.0, nbytes: float = 0.0,
    bandwidth: float = 1.0, blocking: bool = False, tail: Tail = NO_TAIL,
    norm_sync: float = 0.0,
) -> Program:  # fmt: skip
    """Return a program whose stages have separate links in both directions.

    Parameters
    ----------
    order : the steps of all stages
    seconds : of a chunk's step, by kind [s]
    factors : by stage, its time relative to these; equal stages if it is left out
    latency, nbytes, bandwidth : of transfers between stages [s], [B], [B/s]
    """
    actors = []
    for stage in range(wiring.stages):
        blocks, send = {}, dict[Code, Traffic | None]()
        for code in order.codes:
            duration = seconds[code.kind] * (factors[stage] if factors else 1.0)
            blocks[code] = Block(Seconds(gemm=duration), Seconds(), (duration,))
            upward = wiring.upward(code.chunk, forward=code.kind == FORWARD)
            link = 2 * stage + (not upward)
            name = f"{code.kind} of {stage}"
            transfer = Traffic(name, (link,), (1.0,), nbytes, latency, bandwidth)
            target = receiver_of(Step(code.kind, 0, code.chunk), stage, wiring)
            send[code] = transfer if target is not None and target[0] != stage else None
        actors.append(Actor(Position(0, stage), 1, (0,), blocks, send, tail, order))
    stages = range(wiring.stages)
    return Program(
        actors=tuple(actors),
        wiring=wiring,
        microbatches=microbatches,
        tensor_ranks=1,
        blocking=blocking,
        norm_sync=norm_sync,
        capacities=(bandwidth,) * (2 * wiring.stages),
        link_names=tuple(f"{direction} of {s}" for s in stages for direction in ("up", "down")),
        fused=Fused(True, 0.0),
        carried=NO_LINKS,
        limits={},
    )
