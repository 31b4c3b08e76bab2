"""Where the time of a token goes, and what limits it: parts of the steps of requests, and waiting.

    time per token = parts of the step without prompts + what prompts in the step add + waiting

Waiting is the time between the steps of a sequence: steps of prompts alone, other batches of the
pipeline, preemption.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from clustersim.arrays import Integers
from clustersim.engine.requests.replica import Steps
from clustersim.engine.requests.request import Request
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

Cost = Callable[[Batch], StepTime]
"""Returns the parts of a step."""


def token_attribution(
    steps: Sequence[Steps], requests: Sequence[Request], cost: Cost, mean: float, gain: float
) -> dict[str, float]:
    """Return the mean time per token by cause [s].

    Parameters
    ----------
    mean : the time that the parts add up to [s]
    gain : tokens that a sequence gains in a step
    """
    sampled = sampled_batches(steps, [each.sequences for each in steps])
    in_steps = _mean_step(steps) / gain
    tokens = sum(request.output - 1 for request in requests)
    between = sum(request.finish - request.first for request in requests) / tokens
    waiting = max(0.0, between - in_steps)
    parts: dict[str, float] = defaultdict(float)
    for batch in sampled:
        for name, seconds in _split(batch, cost).items():
            parts[name] += seconds * batch.sequences
    return _scaled(parts, waiting, mean, in_steps)


def first_token_attribution(
    requests: Sequence[Request], steps: Sequence[Steps], cost: Cost, before: float
) -> dict[str, float]:
    """Return the mean time to the first token by cause [s].

    Parameters
    ----------
    steps : of the replicas that process prompts
    before : time of a request before it reaches a replica [s]
    """
    means = {
        "frontend": before,
        "queue": _mean([r.admitted - (r.arrival + before) for r in requests]),
        "transfer": _mean([r.first - r.prompted for r in requests if r.prompted == r.prompted]),
    }
    whole = _mean([request.first - request.arrival for request in requests])
    processed = max(0.0, whole - sum(means.values()))
    parts: dict[str, float] = defaultdict(float)
    for batch in sampled_batches(steps, [each.prompt_tokens for each in steps]):
        for name, seconds in cost(batch).parts.items():
            parts[name] += seconds
    total = sum(parts.values())
    named = {name: seconds * processed / total for name, seconds in parts.items()} if total else {}
    others = {} if total else {"prompt": processed}
    return {name: s for name, s in {**means, **named, **others}.items() if s > 0}


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


def _mean_step(steps: Sequence[Steps]) -> float:
    """Return the mean time of a step, of all its sequences [s]."""
    seconds = sum(float(((each.end - each.start) * each.sequences).sum()) for each in steps)
    return seconds / sum(int(each.sequences.sum()) for each in steps)


def sampled_batches(steps: Sequence[Steps], amounts: Sequence[Integers]) -> list[Batch]:
    """Return steps with some amount, evenly spaced over all of them."""
    batches = [
        replica.batches[step]
        for replica, amount in zip(steps, amounts, strict=True)
        for step in np.flatnonzero(amount).tolist()
    ]
    if not batches:
        return []
    chosen = np.unique(np.linspace(0, len(batches) - 1, SAMPLES).round().astype(int)).tolist()
    return [batches[i] for i in chosen]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


# --- limits ---------------------------------------------------------------------------------------


def mean_step(steps: Sequence[Steps]) -> Batch:
    """Return the step of mean size: of those that decode, the one nearest to their mean."""
    batches = [batch for each in steps for batch in each.batches if batch.sequences]
    batches = batches or [batch for each in steps for batch in each.batches]
    counts = np.array([batch.sequences for batch in batches], dtype=float)
    return batches[int(np.abs(counts - counts.mean()).argmin())]


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
