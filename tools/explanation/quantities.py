"""What the model counts for a run: launches, seconds by kind, bytes and calls of collectives.

Of inference it is the time of a token: its parts, layers and collectives.

    program --count--> amounts of the mean rank --times the wait of others--> amounts of a run

A pipeline multiplies what each block takes longer: other stages wait for it as well.  Amounts of
blocks are therefore those of the mean rank times step time over the time outside of bubbles, such
as (m + p - 1) / m for m microbatches on p stages, so that a coefficient is the time of one unit.
Amounts of a token are those of its step, or shares of its predicted seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from clustersim.metrics.attribution import BUBBLES
from clustersim.program.blocks.work import block_work
from clustersim.program.job import Job
from clustersim.program.schedules.steps import Code
from clustersim.reports.measures import part_name
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.result import Result
from clustersim.validation.outcome import Outcome, TokenTime
from clustersim.workload.kernels import Collective, Stream, flat

Unit = Literal["count", "seconds", "bytes"]


class Amount(NamedTuple):
    """How much of a quantity the model counts for a run.

    Attributes
    ----------
    units : amount of it: a count, bytes or seconds
    seconds : step time that the model predicts for it, of which no more can be over-counted; the
        whole one for a quantity without a time of its own
    """

    units: float
    seconds: float


@dataclass(frozen=True)
class Quantity:
    """A quantity that missing time may follow.

    Attributes
    ----------
    title : its name in tables
    unit : of its amounts
    each : one of a count
    part : component of the step time that the model predicts for it; empty for the whole
    """

    title: str
    unit: Unit
    each: str = ""
    part: str = ""


KINDS: Final[Mapping[str, str]] = {
    "tensor": "tensor", "context": "context", "expert": "expert", "expert-tensor": "expert",
    "data": "data", "copies": "data", "expert-data": "data",
}  # fmt: skip
"""The kind of collectives inside blocks, by axis."""

_PARTS: Final = {
    "tensor": "tensor_communication",
    "context": "context_communication",
    "expert": "expert_communication",
    "data": "sharding_communication",
}
"""The component of the step time of each kind."""

_PIPELINE: Final = "pipeline_communication"

QUANTITIES: Final[Mapping[str, Quantity]] = {
    "launches": Quantity("launches of kernels", "count", "launch"),
    "matmul": Quantity("matrix products", "seconds", part="matmul"),
    "attention": Quantity("attention", "seconds", part="attention"),
    "elementwise": Quantity("elementwise passes", "bytes", part="memory_bound"),
    **{
        key: quantity
        for kind, part in _PARTS.items()
        for key, quantity in (
            (f"{kind}_calls", Quantity(f"collectives of {kind} groups", "count", "call", part)),
            (f"{kind}_bytes", Quantity(f"buffers of {kind} collectives", "bytes", part=part)),
        )
    },
    "pipeline_calls": Quantity("sends to other stages", "count", "send", _PIPELINE),
    "pipeline_bytes": Quantity("bytes sent to other stages", "bytes", part=_PIPELINE),
    "gradients": Quantity("gradients that replicas sum", "bytes", part="data_communication"),
    "dispatch": Quantity("exposed dispatch of the host", "seconds", part="dispatch"),
    "memory_pressure": Quantity("step time by share of memory in use", "seconds"),
    "layer_slots": Quantity("layers of a device by microbatches", "count", "layer and slot"),
    "slots": Quantity("microbatches", "count", "microbatch"),
    "steps": Quantity("a constant", "count", "step"),
    "step_time": Quantity("predicted step time", "seconds"),
}
"""All quantities, by their key in the answer."""


def count_quantities(loaded: Loaded, result: Result) -> dict[str, Amount]:
    """Return the amounts of a step: an observer of a validation."""
    return counted_quantities(build_job(loaded), result)


def quantities_of(outcome: Outcome) -> Mapping[str, Amount] | None:
    """Return the amounts of a graded run or of its token; None where none were counted."""
    if outcome.token is not None:
        return token_quantities(outcome.token)
    amounts: Mapping[str, Amount] | None = outcome.observed
    return amounts


def counted_quantities(job: Job, result: Result) -> dict[str, Amount]:
    """Return the amount of each quantity of a run; its keys are those of `QUANTITIES`."""
    parts, plan, whole = result.attribution, job.plan, result.step_time
    waits = whole / (whole - sum(parts[part] for part in BUBBLES))
    of_blocks = _summed(_of_blocks(job, result))
    of_blocks |= {key: parts[key] for key in ("matmul", "attention", "dispatch")}
    of_blocks["slots"] = plan.microbatches
    of_blocks["layer_slots"] = job.model.layers * plan.microbatches / plan.pipeline
    units = dict.fromkeys(QUANTITIES, 0.0)
    units |= {key: amount * waits for key, amount in of_blocks.items()}
    units |= {
        "gradients": _gradient_bytes(job) if plan.copies > 1 else 0.0,
        "memory_pressure": whole * result.memory.fullest.peak / result.memory.capacity,
        "steps": 1.0,
        "step_time": whole,
    }
    predicted = {part: min(seconds * waits, whole) for part, seconds in parts.items()}
    return {
        key: Amount(units[key], predicted.get(quantity.part, whole))
        for key, quantity in QUANTITIES.items()
    }


def _summed(amounts: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for key, amount in amounts:
        sums[key] = sums.get(key, 0.0) + amount
    return sums


def _of_blocks(job: Job, result: Result) -> Iterator[tuple[str, float]]:
    """Yield amounts of the blocks of the mean rank, by key."""
    actors = result.program.actors
    ranks = sum(actor.multiplicity for actor in actors)
    blocks: dict[object, dict[str, float]] = {}
    for actor in actors:
        share, stage = actor.multiplicity / ranks, actor.position.stage
        for code, times in actor.order.times(stage).items():
            yield "launches", share * times * actor.blocks[code].seconds.launches
            if send := actor.send[code]:
                yield "pipeline_calls", share * times
                yield "pipeline_bytes", share * times * send.nbytes
            key = job.layers.stacked(stage, code.chunk), job.plan.ends(stage, code.chunk), code.kind
            if key not in blocks:
                blocks[key] = _summed(_of_block(job, stage, code))
            for name, amount in blocks[key].items():
                yield name, share * times * amount


def _of_block(job: Job, stage: int, code: Code) -> Iterator[tuple[str, float]]:
    """Yield bytes of elementwise passes, and calls and bytes of collectives of one block."""
    work = block_work(job, stage, code.chunk, code.kind)
    before, after = work.ends
    for unit, times in ((before, 1), *work.counts, (after, 1)):
        yield from _of_kernels(flat(unit.kernels), times)
    yield from _of_kernels(work.transfers, 1)


def _of_kernels(kernels: Iterable[object], times: int) -> Iterator[tuple[str, float]]:
    for kernel in kernels:
        if isinstance(kernel, Stream):
            yield "elementwise", times * kernel.nbytes
        elif isinstance(kernel, Collective):
            yield f"{KINDS[kernel.axis]}_calls", times
            yield f"{KINDS[kernel.axis]}_bytes", times * kernel.nbytes


def _gradient_bytes(job: Job) -> float:
    """Return the bytes of the gradients of the mean rank [B]."""
    stages = range(job.plan.pipeline)
    weights = sum(job.weights.on_rank(job.weights.trained(stage)) for stage in stages)
    return weights / len(stages) * job.reduced_bytes


# --- the time of a token --------------------------------------------------------------------------

PARTS: Final = (
    "weights", "compute", "experts", "elementwise", "kv", "prefill", "prompts", "tensor", "expert",
    "context", "pipeline", "sampling", "draft", "host", "waiting", "frontend",
)  # fmt: skip
"""Causes of the time of a token."""

TOKEN: Final = "token_time"
"""The quantity that is the whole predicted time."""

SERVING_QUANTITIES: Final[Mapping[str, Quantity]] = {
    **{f"{part}_time": Quantity(part_name(part), "seconds", part=part) for part in PARTS},
    "token_layers": Quantity("layers of a step", "count", "layer"),
    "token_reduces": Quantity("all-reduces of a step", "count", "call"),
    "token_sequences": Quantity("sequences of a step", "count", "sequence"),
    "tokens": Quantity("a constant", "count", "step"),
    TOKEN: Quantity("predicted time of a token", "seconds"),
}
"""All quantities of inference, by their key in the answer."""

ALL_QUANTITIES: Final[Mapping[str, Quantity]] = {**QUANTITIES, **SERVING_QUANTITIES}
"""Those of steps of training as well."""


def token_quantities(token: TokenTime) -> dict[str, Amount]:
    """Return the amount of each quantity of a case; its keys are those of `SERVING_QUANTITIES`."""
    whole = token.seconds
    counts = {
        "token_layers": float(token.layers),
        "token_reduces": float(token.reduces),
        "token_sequences": float(token.sequences),
        "tokens": 1.0,
        TOKEN: whole,
    }
    parts = {f"{part}_time": token.parts.get(part, 0.0) for part in PARTS}
    return {
        **{key: Amount(seconds, seconds) for key, seconds in parts.items()},
        **{key: Amount(units, whole) for key, units in counts.items()},
    }


def whole_of(amounts: Mapping[str, Amount]) -> float:
    """Return the predicted time that the quantities of a run are parts of [s]."""
    return amounts[TOKEN if TOKEN in amounts else "step_time"].units
