"""The time of one stage of a replica, by cause, for arrays of steps at once.

weights, compute    products that read their weights for longer than they multiply, and the others
experts             routed experts; `exchange` of tokens before and after them
kv, prefill         attention of decoding sequences, and of prompts; states of Mamba-2 of each
elementwise         passes over memory
tensor, context     collectives of the tensor group, and of the devices that share a context
sampling            logits and the choice of tokens
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats
from clustersim.catalog.records.models import IndexerShape
from clustersim.cost.surfaces.prefill import QUERIES
from clustersim.inference.formats import KV_BYTES, NARROW_PROMPTS, WEIGHTS
from clustersim.inference.indexer import INDEX_KERNELS, chosen_seconds, decode_choice, prompt_choice
from clustersim.inference.layer_work import HALF, LayerWork, layer_work
from clustersim.inference.mamba import UPDATE_KERNELS, scan_seconds, update_seconds
from clustersim.inference.replica import Replica
from clustersim.workload.kernels import Head, Routed
from clustersim.workload.model import Layer

Parts = dict[str, Floats]
"""Times by cause [s]."""

_SAMPLING: Final = (3, 12.0)
"""Kernels that choose a token, and the bytes that they move for each logit: conversion to 32 bits,
softmax, and the choice."""

_SINGLE: Final = 4.0
"""Size of a number in 32 bits [B]."""

_UNFUSED: Final = 6
"""Kernels of attention of prompts beyond the first, where they are not fused: transpositions of its
inputs, of keys and of values into the cache, softmax, second product, transposition of its result:
FasterTransformer, ``TensorParallelGptContextAttentionLayer``."""

_ATTENTION_KERNELS: Final = 2
"""Kernels of the attention of a layer: the parts of a long sequence are joined by another one."""


class Stage:
    """One stage.

    Parameters
    ----------
    layers : how many layers of each kind it has
    last : whether it computes the logits
    """

    def __init__(self, replica: Replica, layers: Mapping[Layer, int], *, last: bool) -> None:
        self.replica, self.layers, self.last = replica, layers, last
        self._model, self._layout = replica.model, replica.layout
        self._kernels, self._links = replica.kernels, replica.links
        self._formats, self._fused = replica.formats, replica.engine.kernels

    @cached_property
    def _work(self) -> list[tuple[LayerWork, int]]:
        kinds: Counter[Layer] = Counter()
        for layer, count in self.layers.items():
            kinds[layer._replace(window=None, chunked=False)] += count
        return [(layer_work(self.replica, layer), count) for layer, count in kinds.items()]

    @cached_property
    def _repeats(self) -> int:
        """Products of a step in a row, of all layers of the model."""
        return sum(count * len(work.products) for work, count in self._work)

    @property
    def with_experts(self) -> int:
        """Layers with experts."""
        return sum(count for layer, count in self.layers.items() if layer.experts)

    @cached_property
    def _attending(self) -> int:
        """Layers with attention."""
        return sum(self._attentions.values())

    @cached_property
    def indexer(self) -> IndexerShape | None:
        """What chooses the tokens that a query attends to."""
        return None if self._model.latent is None else self._model.latent.indexer

    @cached_property
    def _scanning(self) -> int:
        """Layers of Mamba-2."""
        return sum(count for layer, count in self.layers.items() if layer.mixer == "mamba")

    @cached_property
    def _halves(self) -> int:
        """Parts of all layers whose result the tensor group sums."""
        of_layers = ((layer.halves, count) for layer, count in self.layers.items())
        joined = bool(self._model.parallel_block)
        return sum(count * (1 if joined else halves) for halves, count in of_layers)

    @property
    def reduces(self) -> int:
        """All-reduces over a tensor group, of all layers."""
        separate = self.with_experts if self._layout.attention_data > 1 else 0
        return self._halves - separate

    @cached_property
    def launches(self) -> float:
        """Kernels that the host issues where no graph has them [count]."""
        reduces = self._halves if self._layout.tensor > 1 else 0
        each = sum(
            count * (len(work.products) + sum(launches for launches, _ in work.passes))
            for work, count in self._work
        )
        more = _ATTENTION_KERNELS * self._attending + UPDATE_KERNELS * self._scanning + reduces
        more += 4 * self.with_experts + (INDEX_KERNELS * self._attending if self.indexer else 0)
        return each + more + (_SAMPLING[0] + 1 if self.last else 0)

    # --- parts ---------------------------------------------------------------------------------

    def dense(self, tokens: Floats) -> Parts:
        """Return the times by cause that depend on the tokens of a device alone [s]."""
        weights, compute, passes = (np.zeros_like(tokens) for _ in range(3))
        for work, count in self._work:
            for kernel, n, k, batch in work.products:
                seconds, limited = self._kernels.products(
                    kernel, tokens, n, k, batch, self._repeats
                )
                weights = weights + np.where(limited, count * seconds, 0.0)
                compute = compute + np.where(limited, 0.0, count * seconds)
            for launches, each in work.passes:
                passes = passes + count * self._kernels.passes(each * tokens, launches)
        nbytes = HALF * self._model.hidden * tokens
        tensor = self.reduces * self._links.tensor_reduce(nbytes)
        return {"weights": weights, "compute": compute, "elementwise": passes, "tensor": tensor}

    def dense_seconds(self, tokens: Floats) -> Floats:
        """Return the sum of the times that depend on the tokens of a device alone [s]."""
        return sum(self.dense(tokens).values(), np.zeros_like(tokens))

    def products(self, tokens: float) -> dict[tuple[str, str], float]:
        """Return the times of products of all layers, by part and shape [s]."""
        times: dict[tuple[str, str], float] = {}
        for work, count in self._work:
            for kernel, n, k, batch in work.products:
                seconds, limited = self._kernels.products(
                    kernel, np.array([tokens]), n, k, batch, self._repeats
                )
                part = "weights" if limited[0] else "compute"
                factor = f"{batch:g} x " if batch > 1 else ""
                key = part, f"product with {factor}{n:,.0f} x {k:,.0f} in {kernel}"
                times[key] = times.get(key, 0.0) + count * float(seconds[0])
        return times

    def routed(self, tokens: Floats) -> Floats:
        """Return the times of the routed experts for tokens of the whole replica [s]."""
        loads, shape = self.replica.loads, self._model.experts
        if not self.with_experts or loads is None or shape is None:
            return np.zeros_like(tokens)
        inner = shape.ffn / self._layout.expert_tensor
        layer = Routed(shape.count, shape.top_k, self._model.hidden, inner, self._model.gated)
        kernel = self.replica.kernel("experts")
        present = tokens
        if self._layout.attention_data > 1:  # only tokens that were sent to a device are there
            present = tokens * (1 - (1 - 1 / self._layout.expert) ** shape.top_k)
        repeated = np.tile(present, loads.kinds)
        seconds = self._kernels.experts(kernel, loads.tiles(tokens), repeated, layer)
        return self.with_experts * loads.slowest(seconds)

    def exchange(self, tokens: Floats, *, prompts: bool) -> Floats:
        """Return the times to exchange the tokens of each device with experts elsewhere [s].

        Without groups of attention all devices of a stage have all tokens, whose results an
        all-reduce of the tensor group sums.
        """
        shape = self._model.experts
        if not self.with_experts or self._layout.attention_data == 1 or shape is None:
            return np.zeros_like(tokens)
        share = tokens / self._layout.tensor
        return self.with_experts * self._links.exchange(
            share, shape.top_k, self._model.hidden, self._sent_width, prompts=prompts
        )

    def exchanged(self, tokens: float) -> float:
        """Return what a device sends of `tokens` to and from the experts of a layer [B]."""
        shape = self._model.experts
        if not self.with_experts or self._layout.attention_data == 1 or shape is None:
            return 0.0
        chosen = min(shape.top_k, self._layout.stage)
        return (
            tokens / self._layout.tensor * chosen * self._model.hidden * (self._sent_width + HALF)
        )

    @property
    def _sent_width(self) -> float:
        """Size of a number on its way to its expert [B]."""
        narrow = WEIGHTS[self._formats.weight("experts")] <= WEIGHTS["fp8-block"]
        return 1.0 if narrow else HALF

    def decode(
        self, sequences: Floats, keys: Floats, queries: int = 1, *, together: bool = False
    ) -> Floats:
        """Return the times of attention of sequences with `keys` cached tokens each [s].

        Layers of Mamba-2 update the states of the sequences.  Queries of a sequence read its tokens
        at once, unless an indexer chooses others for each.

        Parameters
        ----------
        together : whether they share a kernel with prompts, in which each query head reads its keys
        """
        apart, shared = (1, queries) if self.indexer is None else (queries, 1)
        head = self.replica.head._replace(heads=self.replica.head.heads * shared)
        seconds = np.zeros_like(keys)
        for layer, count in self._attentions.items():
            seen = np.maximum(_visible(layer, keys) / self._layout.context, 1.0)
            kernel = self._formats.attention_kernel()
            packed = queries * self._fused.packed
            alone = self._kernels.decode(kernel, head, apart * sequences, seen, packed)
            if together:
                nbytes = KV_BYTES[self._formats.kv] * head.read * sequences * seen
                alone = np.maximum(alone, self._reread(head.heads / queries * nbytes))
            seconds = seconds + count * alone
        if self.indexer is not None:
            choice = decode_choice(self._kernels, self.indexer, sequences, keys, queries)
            seconds = seconds + self._attending * choice
        if self._scanning and self._model.mamba is not None:
            update = update_seconds(self.replica, self._model.mamba, sequences)
            seconds = seconds + self._scanning * update
        return seconds

    @cached_property
    def together(self) -> bool:
        """Whether prompts and decoding sequences of a step are in the same kernel of attention.

        Latent attention has another kernel for each of them.
        """
        fact = self._fused.together
        if fact is None or self._model.latent is not None:
            return False
        return self._kernels.device.capability in fact

    def _reread(self, nbytes: Floats) -> Floats:
        """Return the time in which query heads that share keys read `nbytes` one by one [s]."""
        rate = self._fused.reread
        assert rate is not None, "checked with `together`"
        seconds: Floats = nbytes / (rate * self._kernels.device.memory_bandwidth)
        return seconds

    def prefill(self, queries: Floats, keys: Floats, prompts: float = 1) -> Floats:
        """Return the times of attention of the last `queries` of `keys` tokens of prompts [s].

        Of a context group that of the device with the last ones, which see most.
        """
        launch, seconds = self._prompt_launch, np.full_like(keys, self.prefill_launch)
        for layer, count in self._attentions.items():
            seen = layer if self.indexer is None else layer._replace(window=None)
            for part in _sequences(seen, queries / self._layout.context, keys):
                more = self._prompts(part, prompts * np.maximum(part.number, 1.0)) - launch
                seconds = seconds + np.where(part.number > 0, count * more, 0.0)
        return seconds

    def choice(self, queries: Floats, keys: Floats) -> Floats:
        """Return the times to choose from `keys` tokens for each query of all prompts [s]."""
        if self.indexer is None:
            return np.zeros_like(keys)
        return self._attending * prompt_choice(self._kernels, self.indexer, queries, keys)

    def scan(self, tokens: Floats) -> Floats:
        """Return the times of layers of Mamba-2 to scan the tokens of all prompts [s]."""
        if self._model.mamba is None:
            return np.zeros_like(tokens)
        return self._scanning * scan_seconds(self.replica, self._model.mamba, tokens)

    def _prompts(self, part: "_Sequences", prompts: Floats | float) -> Floats:
        """Return the time of attention of a layer on sequences of prompts [s]."""
        head, own = self.replica.prompt_head, np.maximum(part.queries, 1.0)
        seconds = self._kernels.prefill(self._prompt_kernel, head, own, part.keys, prompts)
        if self.indexer is not None:
            chosen = chosen_seconds(
                self._kernels, self._prompt_kernel, self.replica.head, self.indexer, own, prompts
            )
            return np.where(part.keys >= self.indexer.tokens, chosen, seconds)
        if self._fused.prompts:
            return seconds
        return seconds + self._unfused(head, prompts * own, part.keys)

    def _unfused(self, head: Head, queries: Floats, keys: Floats) -> Floats:
        """Return the times of the passes over memory of attention in separate kernels [s].

        Scores are written by a product, read and written by the softmax, and read by a product.
        Queries, keys and values are transposed, keys and values cached, and results transposed.
        """
        scores = 4 * head.heads * keys
        moved = 2 * head.heads * (head.key + head.value)
        moved += 4 * head.kv_heads * (head.key + head.value)
        return self._kernels.passes(HALF * queries * (scores + moved), _UNFUSED)

    @cached_property
    def prefill_launch(self) -> float:
        """The part of `prefill` that prompts of other lengths in the same step share [s]."""
        return self._attending * self._prompt_launch

    @cached_property
    def _prompt_launch(self) -> float:
        """The part of attention of prompts that those of a layer share [s]."""
        return self._kernels.prefill_launch(self._prompt_kernel, self.replica.prompt_head)

    @cached_property
    def _prompt_kernel(self) -> str:
        """The formats of queries and cached keys in attention of prompts."""
        measured = self._kernels.has("attention-prefill", NARROW_PROMPTS)
        narrow = self._fused.prompts_narrow and self._formats.kv == "fp8"
        if narrow and measured and self._model.latent is None:
            return NARROW_PROMPTS
        return self._formats.attention_kernel()

    def context_gather(self, keys: Floats) -> Floats:
        """Return the times to gather the keys and values of prompts over a context group [s].

        Each device has those of its share of the tokens, and its queries attend to all.
        """
        return self._attending * self._links.context_gather(self.replica.cached_bytes * keys)

    def context_combine(self, tokens: Floats) -> Floats:
        """Return the times to combine the results of decoded tokens over a context group [s].

        Each device attends to its share of the cached tokens. Results of all of them are gathered,
        with the sum of each softmax, in 32 bits.
        """
        head = self.replica.head
        nbytes = _SINGLE * head.heads * (head.value + 1) * tokens * self._layout.context
        return self._attending * self._links.context_gather(nbytes)

    def head(self, rows: Floats) -> Floats:
        """Return the times of logits of `rows` tokens and of their choice [s]."""
        if not self.last:
            return np.zeros_like(rows)
        vocab, kernel = self._model.vocab, self._formats.wide
        each = vocab / self._layout.tensor
        seconds, _ = self._kernels.products(kernel, rows, each, self._model.hidden)
        launches, nbytes = _SAMPLING
        chosen = self._kernels.passes(nbytes * rows * vocab, launches)
        return seconds + chosen + self._links.tensor_gather(HALF * rows * vocab)

    @cached_property
    def _attentions(self) -> Mapping[Layer, int]:
        """Layers that differ in their attention, and how many have it."""
        counted: Counter[Layer] = Counter()
        for layer, count in self.layers.items():
            if layer.mixer == "attention":
                counted[layer._replace(experts=False)] += count
        return counted


class _Sequences(NamedTuple):
    """Parts of a prompt that attend to themselves alone, of the same lengths.

    Attributes
    ----------
    number : of them
    queries : their last tokens, which are processed
    """

    number: Floats
    queries: Floats
    keys: Floats


def _sequences(layer: Layer, queries: Floats, keys: Floats) -> list[_Sequences]:
    """Return the last `queries` of `keys` tokens of a prompt as sequences of a layer.

    Chunks are sequences of their own: the rest of the one that the queries begin in, whole ones,
    and the last. vLLM, ``make_local_attention_virtual_batches``.  The queries of a window are those
    that see all tokens before them, then as many as it is long, whose tiles read it and themselves.
    """
    one, size = np.ones_like(keys), layer.window
    if size is None:
        return [_Sequences(one, queries, keys)]
    before = keys - queries
    if layer.chunked:
        before = before % size
        first = np.minimum(queries, size - before)
        whole, last = np.divmod(queries - first, size)
        return [
            _Sequences(one, first, before + first),
            _Sequences(whole, one * size, one * size),
            _Sequences(np.sign(last), last, last),
        ]
    first = np.clip(size - before, 0.0, queries)
    beyond = queries - first
    each = np.clip(beyond, 1.0, size)
    return [
        _Sequences(np.sign(first), first, before + first),
        _Sequences(beyond / each, each, size + (each + QUERIES) / 2),
    ]


def _visible(layer: Layer, keys: Floats) -> Floats:
    """Return the tokens that a query of a layer sees after as many.

    Beyond a chunk that is half of one in the mean of all places in it.
    """
    if layer.window is None:
        return keys
    if layer.chunked:
        return np.where(keys > layer.window, (layer.window + 1) / 2, keys)
    return np.minimum(keys, layer.window)
