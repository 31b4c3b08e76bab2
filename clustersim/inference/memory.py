"""Memory of a replica: what the fullest device holds, and the room of its KV cache.

    share of the device = weights + activations + buffers + KV cache

The KV cache takes what the others leave, or that share of it (`memory.of_free` of an engine);
without room for one block nothing can be served.  States of Mamba-2 are in the same blocks: vLLM,
``HybridAttentionMambaModelConfig``.
"""

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from clustersim.inference.formats import WEIGHTS
from clustersim.inference.layer_work import HALF
from clustersim.inference.replica import Replica
from clustersim.workload.model import Layer
from clustersim.workload.parameters import (
    Parameters,
    embedding_parameters,
    head_parameters,
    parameters_by_part,
)


class ReplicaMemory(NamedTuple):
    """Memory of the fullest device of a replica.

    Attributes
    ----------
    parts : weights, activations, buffers and KV cache [B]
    usable : share of the device that the engine may take [B]
    capacity : of the device [B]
    tokens : that the KV cache of the replica has room for, in whole blocks
    token : bytes of a cached token on all devices of the replica [B]
    state : tokens that take as much as the states of a sequence in layers of Mamba-2
    """

    parts: Mapping[str, float]
    usable: float
    capacity: float
    tokens: int
    token: float
    state: int = 0

    @property
    def fits(self) -> bool:
        """Whether there is room for at least one block of the KV cache."""
        return self.tokens > 0

    @property
    def missing(self) -> float:
        """Bytes by which the parts exceed what the engine may take [B]."""
        return max(0.0, sum(self.parts.values()) - self.usable)


def replica_memory(
    replica: Replica, most_tokens: int | None = None, draft: Replica | None = None
) -> ReplicaMemory:
    """Return the memory of the device with least room for the KV cache.

    Parameters
    ----------
    most_tokens : of the largest step; the engine's limit if None
    draft : a small model on the same devices that drafts tokens; not with several stages
    """
    facts, layout = replica.engine.memory, replica.layout
    capacity = replica.kernels.device.memory_capacity
    of_free = facts.of_free is not None and facts.of_free
    limit = replica.engine.scheduler.tokens
    step = limit if most_tokens is None else min(limit, most_tokens)
    activations = facts.activations * step * replica.model.hidden / layout.context
    candidates, token, state, stacks = [], 0.0, 0, replica.stacks
    for stage, layers in enumerate(stacks):
        weights = _weights(replica, layers, first=stage == 0, last=stage == len(stacks) - 1)
        mixers = Counter(layer.mixer for layer in layers)
        cached = mixers["attention"] * replica.cached_bytes
        token += cached * layout.tensor
        state = max(state, ceil(mixers["mamba"] * replica.state_bytes / cached))
        parts = {
            "weights": weights, "activations": activations, "buffers": facts.buffers,
        }  # fmt: skip
        if draft is not None:
            parts["draft_model"] = _weights(draft, draft.model.stack, first=True, last=True)
            attending = [layer for layer in draft.model.stack if layer.mixer == "attention"]
            cached += len(attending) * draft.cached_bytes
        needed = sum(parts.values())
        room = facts.share * (capacity - needed) if of_free else facts.share * capacity - needed
        candidates.append((room / cached, parts, room))
    tokens, parts, room = min(candidates, key=lambda candidate: candidate[0])
    usable = sum(parts.values()) + room if room > 0 or not of_free else capacity
    block = replica.engine.scheduler.block
    blocks = max(0, int(tokens // block)) * layout.attention_data * layout.context
    pool = {"kv": max(0.0, room)} if blocks else {}
    return ReplicaMemory(parts | pool, usable, capacity, blocks * block, token, state)


def share_behind_windows(replica: Replica, tokens: int) -> float:
    """Return the share of the KV cache of a sequence that no query of a sliding window sees.

    Layers with chunks keep theirs in vLLM by default as well; an indexer chooses among all tokens.
    """
    model = replica.model
    attending = [layer for layer in model.stack if layer.mixer == "attention"]
    if model.latent is not None and model.latent.indexer is not None:
        return 0.0
    windows = [layer.window for layer in attending if layer.window and not layer.chunked]
    return sum(max(0, tokens - window) for window in windows) / (tokens * len(attending))


def _weights(replica: Replica, layers: tuple[Layer, ...], *, first: bool, last: bool) -> float:
    """Return the bytes of the weights of one device of a stage [B]."""
    model, total = replica.model, 0.0
    for layer in layers:
        for part, count in parameters_by_part(model, layer).items():
            total += _local(replica, count) * WEIGHTS[replica.formats.weight(_FORMAT_OF[part])]
    if first:
        total += _local(replica, embedding_parameters(model)) * HALF
    if last:
        total += _local(replica, head_parameters(model, alone=not first)) * HALF
    return total


def _local(replica: Replica, count: Parameters) -> float:
    """Return the parameters of one device."""
    layout = replica.layout
    own = count.dense(layout.tensor)
    return own + count.of_experts(layout.expert, layout.expert_tensor)


_FORMAT_OF: Mapping[str, str] = {
    "attention": "attention",
    "Mamba": "attention",
    "MLP": "mlp",
    "experts": "experts",
    "shared experts": "experts",
    "router": "head",
    "norms": "head",
}
"""The part of `Formats` of each part of a layer; those of the head stay in 16 bits."""
