"""What limits a service: the kernel of a step that takes longest, and the narrowest link."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from clustersim.engine.requests.replica import Steps
from clustersim.inference.batch import Batch
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


def mean_step(steps: Sequence[Steps]) -> Batch:
    """Return the step of mean size: of those that decode, the one nearest to their mean."""
    batches = [batch for each in steps for batch in each.batches if batch.sequences]
    batches = batches or [batch for each in steps for batch in each.batches]
    counts = np.array([batch.sequences for batch in batches], dtype=float)
    return batches[int(np.abs(counts - counts.mean()).argmin())]


def limiting_kernel(pool: Pool, batch: Batch) -> LimitingKernel | None:
    """Return the kernel that takes longest in a step."""
    step = pool.costs.step(batch)
    found = pool.costs.products(batch)
    found |= {(part, KERNELS[part]): s for part, s in step.parts.items() if part in KERNELS}
    if not found:
        return None
    (part, kernel), seconds = max(found.items(), key=lambda one: one[1])
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
    first, last = pools[0], pools[-1]
    mesh = pool.layout.mesh + pool.first
    rings = {
        "tensor": mesh[0, 0, 0, :],
        "expert": mesh[0].ravel(),
        "context": mesh[0, 0, :, 0],
        "pipeline": mesh[:, 0, 0, 0],
        "transfer": np.array([first.first, last.first]),
    }
    found: list[int] = rings[part].tolist()
    return found
