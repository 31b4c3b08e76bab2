"""The core of attention, by kernel.

    unfused          scores, softmax, dropout and their backward in separate passes over the matrix
    math             the same with a mask that is added in place, and no cast of the matrix
    fused-softmax    scale, mask and softmax in one pass
    flash            one kernel, which never writes the matrix

Letters: s tokens, c context ranks, d the width of a key, e of a value.
"""

from collections.abc import Callable
from typing import NamedTuple

from clustersim.workload.kernels import Collective, Flash, Gemm, Head, Kernel, Overlapped, Stream
from clustersim.workload.model import Layer
from clustersim.workload.slice import Slice


class Core(NamedTuple):
    """Forward and backward of the core.

    Attributes
    ----------
    numbers : elements of queries, keys and values
    """

    forward: list[Kernel]
    backward: list[Kernel]
    numbers: float


def core(shard: Slice, layer: Layer) -> Core:
    """Return the core of attention on the heads of this rank."""
    made = _CORES[shard.attention](shard, layer)
    return made if shard.context == 1 else _METHODS[shard.context_method](shard, made)


def _numbers(shard: Slice, kv_heads: int) -> float:
    """Elements of queries, keys and values."""
    m = shard.model
    per_token = shard.heads * m.head_size + kv_heads * (m.head_size + m.value_size)
    return float(shard.tokens * per_token)


def _materialised(shard: Slice, softmax: Stream, softmax_backward: Stream) -> Core:
    """Scores (s, d)(d, s), softmax, dropout and context (s, s)(s, e) of every head of this rank.

    Scores outside a window are computed and then masked. Shared keys and values are copied to each
    query first.
    """
    m, w = shard.model, shard.width
    heads, s, d, e = shard.micro * shard.heads, m.sequence, m.head_size, m.value_size
    rows = s // shard.context
    made = float(w * shard.tokens * shard.heads * e)
    dropout = (2 * w + 1) * shard.scores
    spread, gathered = _spread(shard)
    ahead: list[Kernel] = [
        *spread,
        shard.core("scores", rows, s, d, heads),
        *([Stream("alibi", 2 * w * shard.scores)] if m.positions == "alibi" else []),
        softmax,
        *([Stream("attention dropout", dropout)] if m.dropout else []),
        shard.core("context", rows, e, s, heads),
        Stream("context transpose", 2 * made),
    ]
    back: list[Kernel] = [
        Stream("context transpose backward", 2 * made),
        shard.core("context score gradient", rows, s, e, heads),
        shard.core("context value gradient", s, e, rows, heads),
        *([Stream("attention dropout backward", dropout)] if m.dropout else []),
        softmax_backward,
        shard.core("scores query gradient", rows, d, s, heads),
        shard.core("scores key gradient", s, d, rows, heads),
        *gathered,
        Stream("qkv gather", 2 * w * _numbers(shard, shard.kv_heads)),
    ]
    return Core(ahead, back, _numbers(shard, shard.heads))


def _spread(shard: Slice) -> tuple[list[Stream], list[Stream]]:
    """Copy shared keys and values to their queries, and sum their gradients."""
    if shard.kv_heads == shard.heads:
        return [], []
    each = shard.model.head_size + shard.model.value_size
    moved = float(shard.width * shard.tokens * (shard.kv_heads + shard.heads) * each)
    return [Stream("key value copies", moved, 2)], [Stream("key value gradient sums", moved, 2)]


def _fused_softmax(shard: Slice, layer: Layer) -> Core:
    """Scale, causal mask and softmax in one kernel: read the lower triangle, write whole rows."""
    scores = shard.width * shard.scores
    return _materialised(
        shard, Stream("softmax", 1.5 * scores), Stream("softmax backward", 2 * scores)
    )


def _unfused(shard: Slice, layer: Layer) -> Core:
    """Cast to 32 bits, scale, mask, softmax, cast back: each reads and writes the whole matrix.

    In the order and width of Megatron-LM, ``megatron/model/fused_softmax.py``, ``forward``, with
    its scaling of queries and keys by layer, the default of 2021. The backward has the same
    five; that of softmax reads gradient and result. Numbers of 32 bits need no cast.
    """
    w, cast = shard.width, shard.width < 4
    casts, launches = (2 * (w + 4) if cast else 0), 5 if cast else 3
    ahead = casts + (4 + 4) + (4 + 4) + (4 + 4)
    back = casts + (4 + 4 + 4) + (4 + 4) + (4 + 4)
    return _materialised(
        shard,
        Stream("softmax", ahead * shard.scores, launches),
        Stream("softmax backward", back * shard.scores, launches),
    )


def _math(shard: Slice, layer: Layer) -> Core:
    """PyTorch's attention without a fused kernel: a mask added in place, and a softmax.

    Queries and keys are scaled before their product, and copied to its layout with the values.  The
    softmax computes in 32 bits and reads and writes the width of its input; the mask has no
    backward.  PyTorch, ``aten/src/ATen/native/transformers/attention.cpp``,
    ``_scaled_dot_product_attention_math``.
    """
    m, w = shard.model, shard.width
    numbers = float(shard.tokens * shard.heads * m.head_size)
    made = _materialised(
        shard,
        Stream("softmax", 4 * w * shard.scores, 2),
        Stream("softmax backward", 3 * w * shard.scores),
    )
    scaled = Stream("scaling", 4 * w * numbers, 2)
    laid = Stream("head copies", 2 * w * _numbers(shard, shard.heads), 3)
    return made._replace(forward=[scaled, laid, *made.forward], backward=[*made.backward, scaled])


def _flash(shard: Slice, layer: Layer) -> Core:
    r"""Two products over the visible pairs of tokens, five backward.

    The pairs are those of each packed sample or chunk alone, whose kernels have the lengths
    (``cu_seqlens`` of FlashAttention and Transformer Engine). The backward recomputes the scores.
    Dao 2023, arXiv:2307.08691. Shared keys and values are read in place, unless the framework
    copies them to each query first.
    """
    m, w = shard.model, shard.width
    d, e, samples = m.head_size, m.value_size, shard.micro * m.sequence / m.length(layer)
    pairs = shard.micro * shard.heads * m.pairs(layer) / shard.context
    made = shard.tokens * shard.heads * e
    repeated = shard.kernels.kv_repeated
    numbers = _numbers(shard, shard.heads if repeated else shard.kv_heads)
    spread, gathered = _spread(shard) if repeated else ([], [])
    groups = shard.heads if repeated else shard.kv_heads
    head = Head(round(samples * shard.heads), round(samples * groups), d, e, d + e)
    ahead = Flash(
        "flash attention", 2 * pairs * (d + e), w * (numbers + made), d,
        backward=False, sequence=max(1, int(m.seen(layer))), peak=shard.precision.wide,
        share=shard.kernels.attention_share, cudnn=shard.kernels.attention_cudnn, head=head,
    )  # fmt: skip
    moved = 2 * w * (numbers + made)
    back = ahead._replace(
        name="flash attention backward", flops=2 * pairs * (3 * d + 2 * e), nbytes=moved,
        backward=True,
    )  # fmt: skip
    before, after = (_copies(shard, way) for way in (0, 1))
    return Core([*before, *spread, ahead], [back, *gathered, *after], numbers)


def _copies(shard: Slice, way: int) -> list[Stream]:
    """Copy queries, keys and values, and the result to other layouts.

    Parameters
    ----------
    way : 0 forward, 1 backward
    """
    m, facts = shard.model, shard.kernels
    queries = shard.heads * m.head_size
    keys = shard.kv_heads * (m.head_size + m.value_size)
    result = shard.heads * m.value_size if shard.micro > 1 else 0
    parts = (facts.query_copies, queries), (facts.key_copies, keys), (facts.result_copies, result)
    moved = sum(2.0 * times[way] * numbers for times, numbers in parts)
    launches = sum(times[way] for times, numbers in parts if numbers)
    nbytes = shard.width * shard.tokens * moved
    name = "head copies backward" if way else "head copies"
    return [Stream(name, nbytes, launches)] if nbytes else []


_CORES: dict[str, Callable[[Slice, Layer], Core]] = {
    "flash": _flash,
    "fused-softmax": _fused_softmax,
    "math": _math,
    "unfused": _unfused,
}


# --- context parallelism --------------------------------------------------------------------------


def _keys_values(shard: Slice) -> float:
    """Return the keys and values of whole sequences on the heads of this rank [B].

    Where they are copied to each query first, the copies are sent.
    """
    heads = shard.heads if shard.kernels.kv_repeated else shard.kv_heads
    each = heads * (shard.model.head_size + shard.model.value_size)
    return float(shard.width * shard.context * shard.tokens * each)


def _ring(shard: Slice, made: Core) -> Core:
    """Keys and values circulate while the device computes on its current block.

    In the backward their gradients circulate as well. Blocks are assigned in pairs from both ends
    of a sequence, for equal work. Liu et al. 2023, arXiv:2310.01889; Transformer Engine,
    ``attention.py``, ``AttnFuncWithCPAndKVP2P``. Partial results are merged in separate passes:
    results by their sums of exponentials, gradients by addition.  A traced program waits for each
    transfer at once: PyTorch, ``_functional_collectives.py``, ``_maybe_wrap_tensor``.
    """
    facts, result = shard.kernels, float(shard.tokens * shard.heads * shard.model.value_size)
    joined = _joined(shard, "ring result", facts.ring_result, result)
    summed = _joined(shard, "ring gradients", facts.ring_gradients, made.numbers)
    whole = _keys_values(shard)
    ahead = Collective("ring of keys and values", "all-gather", whole, "context")
    back = Collective("ring backward", "all-gather", whole * _circulating(shard), "context")
    forward, backward = [*made.forward, *joined], [*made.backward, *summed]
    if facts.ring_waits:
        return made._replace(forward=[ahead, *forward], backward=[back, *backward])
    return made._replace(
        forward=[Overlapped(ahead, _kernels(forward))],
        backward=[Overlapped(back, _kernels(backward))],
    )


def _circulating(shard: Slice) -> float:
    r"""Return the bytes that circulate in the backward, relative to keys and values.

    .. math:: \frac{f_1 + f_2 (c - 1)}{w (c - 1)}

    with f bytes per element, once and for each step after the first: both and their gradients, 2 w,
    where the framework sends no others.
    """
    sent, steps = shard.kernels.ring_sent, shard.context - 1
    once, step = (0.0, 2.0 * shard.width) if sent is None else sent
    return (once + step * steps) / (shard.width * steps)


def _joined(shard: Slice, name: str, moved: tuple[float, float], numbers: float) -> list[Stream]:
    """Merge the partial results of the ring steps; no passes if their cost is unknown.

    Parameters
    ----------
    moved : bytes per element, once and for each step after the first [B]
    """
    once, step = moved
    nbytes = (once + step * (shard.context - 1)) * numbers
    return [Stream(name, nbytes, shard.context)] if nbytes else []


def _kernels(chain: list[Kernel]) -> tuple[Gemm | Stream | Flash, ...]:
    """Return a chain without its collectives, to overlap with one."""
    return tuple(kernel for kernel in chain if isinstance(kernel, Gemm | Stream | Flash))


def _gathering(shard: Slice, made: Core) -> Core:
    """Keys and values are gathered in forward and backward, and their gradients scattered.

    Llama Team 2024, arXiv:2407.21783, section 3.3.2.
    """
    whole = _keys_values(shard)
    gather = Collective("keys and values", "all-gather", whole, "context")
    scatter = Collective("keys and values backward", "reduce-scatter", whole, "context")
    return made._replace(
        forward=[gather, *made.forward], backward=[gather, *made.backward, scatter]
    )


def _ulysses(shard: Slice, made: Core) -> Core:
    """Some tokens of all heads are exchanged for all tokens of some heads, and back after the core.

    Jacobs et al. 2023, arXiv:2309.14509, section 3.
    """
    numbers = shard.width * _numbers(shard, shard.kv_heads)
    before = Collective("heads for tokens", "all-to-all", numbers, "context")
    result = float(shard.width * shard.tokens * shard.heads * shard.model.value_size)
    after = Collective("tokens for heads", "all-to-all", result, "context")
    return made._replace(
        forward=[before, *made.forward, after], backward=[after, *made.backward, before]
    )


_METHODS: dict[str, Callable[[Slice, Core], Core]] = {
    "ring": _ring,
    "all-gather": _gathering,
    "ulysses": _ulysses,
}
