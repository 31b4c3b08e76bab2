"""Where the time of a token goes, and what limits it: parts of the steps of requests, and waiting.

    time per token = parts of the step without prompts + what prompts in the step add + waiting

Waiting is the time between the steps of a sequence: steps of prompts alone, other batches of the
pipeline, preemption.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.engine.requests.completed import CompletedRequests
from clustersim.engine.requests.steps import Steps, sums_of
from clustersim.inference.batch import Batch, StepTime
from clustersim.inference.links import narrowest_link
from clustersim.simulation.service.answer import LimitingKernel, LimitingLink
from clustersim.simulation.service.pools import Pool

KERNELS: Final[Mapping[str, str]] = {
    "kv": "attention of decoding sequences",
    "prefill": "attention of prompts",
    "experts": "routed experts",
    "elementwise": "elementwise kernels",
    "sampling": "logits and sampling",
    "draft": "model that drafts tokens",
}
"""Kernels of the parts of a step that are no products."""

COMMUNICATION: Final = ("tensor", "expert", "pipeline", "context", "transfer")
"""Parts of a time that cross links."""

SAMPLES: Final = 48
"""Steps whose parts are computed; the others are like them."""

ROUNDING: Final = 1e-9
"""A part, over the time that it is of, below which it is a difference of rounded times."""

Cost = Callable[[Batch], StepTime]
"""Returns the parts of a step."""


def token_attribution(
    steps: Sequence[Steps], requests: CompletedRequests, cost: Cost, mean: float, gain: float
) -> dict[str, float]:
    """Return the mean time per token by cause [s].

    Parameters
    ----------
    mean : the time that the parts add up to [s]
    gain : tokens that a sequence gains in a step
    """
    sampled = sampled_batches(steps, [each.sequences for each in steps])
    sums = sums_of(steps)
    in_steps = sums.sequence_seconds / sums.sequences / gain
    further = requests.output - 1
    between = float((requests.finish - requests.first)[further > 0].sum()) / int(further.sum())
    waiting = between - in_steps
    if waiting < ROUNDING * between:
        waiting = 0.0
    parts: dict[str, float] = defaultdict(float)
    for batch in sampled:
        for name, seconds in _split(batch, cost).items():
            parts[name] += seconds * batch.sequences
    return _scaled(parts, waiting, mean, in_steps)


def first_token_attribution(
    requests: CompletedRequests,
    steps: Sequence[Steps],
    cost: Cost,
    after: float,
    between: float,
) -> dict[str, float]:
    """Return the mean time to the first token by cause [s].

    Parameters
    ----------
    after : time of the token after the engine [s]
    between : time from one engine into another, with separate pools [s]
    steps : of the replicas that process prompts
    """
    moved = requests.first - after - requests.prompted - between
    means = {
        "frontend": _mean(requests.reached - requests.arrival) + after + between,
        "queue": _mean(requests.admitted - requests.reached),
        "transfer": _mean(np.fmax(0.0, moved)),
    }
    whole = _mean(requests.first - requests.arrival)
    processed = max(0.0, whole - sum(means.values()))
    parts: dict[str, float] = defaultdict(float)
    for batch in sampled_batches(steps, [each.prompt_tokens for each in steps]):
        for name, seconds in cost(batch).parts.items():
            parts[name] += seconds
    total = sum(parts.values())
    named = {name: seconds * processed / total for name, seconds in parts.items()} if total else {}
    others = {} if total else {"prompt": processed}
    every = {**means, **named, **others}
    return {name: s for name, s in every.items() if s > ROUNDING * whole}


def _split(batch: Batch, cost: Cost) -> Mapping[str, float]:
    """Return the parts of a step without its prompts, and what these add."""
    alone = cost(batch._replace(prompts=()))
    if not batch.prompts:
        return alone.parts
    return {**alone.parts, "prompts": max(0.0, cost(batch).seconds - alone.seconds)}


def _scaled(
    parts: Mapping[str, float], waiting: float, mean: float, in_steps: float
) -> dict[str, float]:
    """Return the parts of steps and waiting so that they add up to the mean."""
    total, whole = sum(parts.values()), in_steps + waiting
    of_steps = mean * in_steps / whole
    scaled = {name: seconds * of_steps / total for name, seconds in parts.items() if seconds}
    return scaled | ({"waiting": mean - of_steps} if waiting else {})


def sampled_batches(steps: Sequence[Steps], amounts: Sequence[Integers]) -> list[Batch]:
    """Return steps with some amount, evenly spaced over all of them.

    Parameters
    ----------
    amounts : of the steps of each run
    """
    counts = np.concatenate([
        each.count * (amount > 0) for each, amount in zip(steps, amounts, strict=True)
    ])  # fmt: skip
    ends = counts.cumsum()
    if not counts.any():
        return []
    chosen = np.unique(np.linspace(0, ends[-1] - 1, SAMPLES).round().astype(int))
    runs = ends.searchsorted(chosen, side="right")
    first = ends[runs] - counts[runs]
    return [*map(partial(_batch, steps), runs.tolist(), (chosen - first).tolist())]


def _batch(steps: Sequence[Steps], run: int, step: int = 0) -> Batch:
    """Return a step of a run, which is numbered over all replicas."""
    for each in steps:
        if run < len(each.count):
            return each.batch(run, step)
        run -= len(each.count)
    raise AssertionError("no replica has this run")


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


# --- limits ---------------------------------------------------------------------------------------


def mean_step(steps: Sequence[Steps]) -> Batch:
    """Return the step of mean size: of those that decode, the one nearest to their mean."""
    count, sequences = (
        np.concatenate([getattr(each, name) for each in steps]) for name in ("count", "sequences")
    )
    decoding = sequences > 0
    if decoding.any():
        count = count * decoding
    mean = float((count * sequences).sum() / count.sum())
    return _batch(steps, int(np.where(count, np.abs(sequences - mean), np.inf).argmin()))


def limiting_kernel(pool: Pool, batch: Batch) -> LimitingKernel | None:
    """Return the kernel that takes longest in a step."""
    step, kernels = pool.costs.step(batch), pool.costs.products(batch)
    kernels |= {(part, KERNELS[part]): s for part, s in step.parts.items() if part in KERNELS}
    if not kernels:
        return None
    (part, kernel), seconds = max(kernels.items(), key=lambda item: item[1])
    return LimitingKernel(part, kernel, seconds, seconds / step.seconds)


def limiting_link(
    pools: Sequence[Pool], pool: Pool, attribution: Mapping[str, float]
) -> LimitingLink | None:
    """Return the narrowest link of the longest communication of a time; None without any.

    Parameters
    ----------
    pool : of the replicas in whose steps the time is spent
    """
    spent = {part: s for part, s in attribution.items() if part in COMMUNICATION}
    part = max(spent, key=spent.__getitem__, default=None)
    if part is None:
        return None
    ring = _ring(pools, pool, part)
    link, bandwidth = narrowest_link(pool.costs.replica.links.cluster, ring)
    return LimitingLink(part, link, bandwidth, spent[part] / sum(attribution.values()))


def _ring(pools: Sequence[Pool], pool: Pool, part: str) -> list[int]:
    """Return the devices that a kind of communication joins, of the first of each kind."""
    mesh = pool.layout.mesh + pool.first
    rings: dict[str, Integers] = {
        "tensor": mesh[0, 0, 0, :],
        "expert": mesh[0].ravel(),
        "context": mesh[0, 0, :, 0],
        "pipeline": mesh[:, 0, 0, 0],
        "transfer": np.array([pools[0].first, pools[-1].first]),
    }
    return [int(device) for device in rings[part]]
