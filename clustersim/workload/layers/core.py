"""The core of attention, by kernel.

    unfused          scores, softmax, dropout and their backward in separate passes over the matrix
    fused-softmax    scale, mask and softmax in one pass
    flash            one kernel, which never writes the matrix

Letters: s tokens, c context ranks, d the width of a key, e of a value.
"""

from collections.abc import Callable
from typing import NamedTuple

from clustersim.workload.kernels import Collective, Flash, Gemm, Kernel, Overlapped, Stream
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


def core(part: Slice, layer: Layer) -> Core:
    """Return the core of attention on the heads of this rank."""
    made = _CORES[part.attention](part, layer)
    return made if part.context == 1 else _METHODS[part.context_method](part, made)


def _numbers(part: Slice, kv_heads: int) -> float:
    """Elements of queries, keys and values."""
    m = part.model
    per_token = part.heads * m.head_size + kv_heads * (m.head_size + m.value_size)
    return float(part.tokens * per_token)


def _materialised(part: Slice, softmax: Stream, softmax_backward: Stream) -> Core:
    """Scores (s, d)(d, s), softmax, dropout and context (s, s)(s, e) of every head of this rank.

    Scores outside a window are computed and then masked. Shared keys and values are copied to each
    query first.
    """
    m, w = part.model, part.width
    heads, s, d, e = part.micro * part.heads, m.sequence, m.head_size, m.value_size
    rows = s // part.context
    made = float(w * part.tokens * part.heads * e)
    dropout = (2 * w + 1) * part.scores
    spread, gathered = _spread(part)
    ahead: list[Kernel] = [
        *spread,
        part.core("scores", rows, s, d, heads),
        *([Stream("alibi", 2 * w * part.scores)] if m.positions == "alibi" else []),
        softmax,
        *([Stream("attention dropout", dropout)] if m.dropout else []),
        part.core("context", rows, e, s, heads),
        Stream("context transpose", 2 * made),
    ]
    back: list[Kernel] = [
        Stream("context transpose backward", 2 * made),
        part.core("context score gradient", rows, s, e, heads),
        part.core("context value gradient", s, e, rows, heads),
        *([Stream("attention dropout backward", dropout)] if m.dropout else []),
        softmax_backward,
        part.core("scores query gradient", rows, d, s, heads),
        part.core("scores key gradient", s, d, rows, heads),
        *gathered,
        Stream("qkv gather", 2 * w * _numbers(part, part.kv_heads)),
    ]
    return Core(ahead, back, _numbers(part, part.heads))


def _spread(part: Slice) -> tuple[list[Stream], list[Stream]]:
    """Copy shared keys and values to their queries, and sum their gradients."""
    if part.kv_heads == part.heads:
        return [], []
    each = part.model.head_size + part.model.value_size
    moved = float(part.width * part.tokens * (part.kv_heads + part.heads) * each)
    return [Stream("key value copies", moved, 2)], [Stream("key value gradient sums", moved, 2)]


def _fused_softmax(part: Slice, layer: Layer) -> Core:
    """Scale, causal mask and softmax in one kernel: read the lower triangle, write whole rows."""
    scores = part.width * part.scores
    return _materialised(
        part, Stream("softmax", 1.5 * scores), Stream("softmax backward", 2 * scores)
    )


def _unfused(part: Slice, layer: Layer) -> Core:
    """Cast to 32 bits, scale, mask, softmax, cast back: each reads and writes the whole matrix.

    In the order and width of Megatron-LM, ``megatron/model/fused_softmax.py``, ``forward``, with
    its scaling of queries and keys by layer, the default of 2021. The backward has the same
    five; that of softmax reads gradient and result. Numbers of 32 bits need no cast.
    """
    w, cast = part.width, part.width < 4
    casts, launches = (2 * (w + 4) if cast else 0), 5 if cast else 3
    ahead = casts + (4 + 4) + (4 + 4) + (4 + 4)
    back = casts + (4 + 4 + 4) + (4 + 4) + (4 + 4)
    return _materialised(
        part,
        Stream("softmax", ahead * part.scores, launches),
        Stream("softmax backward", back * part.scores, launches),
    )


def _flash(part: Slice, layer: Layer) -> Core:
    r"""Two products over the visible pairs of tokens, five backward.

    .. math:: \text{pairs} = w s - w^2 / 2

    with a window of w tokens, s^2 / 2 with a causal mask. The backward recomputes the scores.
    Dao 2023, arXiv:2307.08691. Shared keys and values are read in place, unless the framework
    copies them to each query first.
    """
    m, w = part.model, part.width
    s, d, e = m.sequence, m.head_size, m.value_size
    window = float(min(s, layer.window or s))
    pairs = part.micro * part.heads * (window * s - window**2 / 2) / part.context
    made = part.tokens * part.heads * e
    repeated = part.kernels.kv_repeated
    numbers = _numbers(part, part.heads if repeated else part.kv_heads)
    spread, gathered = _spread(part) if repeated else ([], [])
    ahead = Flash(
        "flash attention", 2 * pairs * (d + e), w * (numbers + made), d,
        backward=False, sequence=int(window), peak=part.precision.wide,
        share=part.kernels.attention_share, cudnn=part.kernels.attention_cudnn,
    )  # fmt: skip
    moved = 2 * w * (numbers + made)
    back = ahead._replace(
        name="flash attention backward", flops=2 * pairs * (3 * d + 2 * e), nbytes=moved,
        backward=True,
    )  # fmt: skip
    laid, given = (_copies(part, way) for way in (0, 1))
    return Core([*laid, *spread, ahead], [back, *gathered, *given], numbers)


def _copies(part: Slice, way: int) -> list[Stream]:
    """Copy queries, keys and values, and the result to other layouts.

    Parameters
    ----------
    way : 0 forward, 1 backward
    """
    m, facts = part.model, part.kernels
    queries = part.heads * m.head_size
    keys = part.kv_heads * (m.head_size + m.value_size)
    result = part.heads * m.value_size if part.micro > 1 else 0
    parts = (facts.query_copies, queries), (facts.key_copies, keys), (facts.result_copies, result)
    moved = sum(2.0 * times[way] * numbers for times, numbers in parts)
    launches = sum(times[way] for times, numbers in parts if numbers)
    nbytes = part.width * part.tokens * moved
    name = "head copies backward" if way else "head copies"
    return [Stream(name, nbytes, launches)] if nbytes else []


_CORES: dict[str, Callable[[Slice, Layer], Core]] = {
    "flash": _flash,
    "fused-softmax": _fused_softmax,
    "unfused": _unfused,
}


# --- context parallelism --------------------------------------------------------------------------


def _keys_values(part: Slice) -> float:
    """Return the keys and values of whole sequences on the heads of this rank [B]."""
    each = part.kv_heads * (part.model.head_size + part.model.value_size)
    return float(part.width * part.context * part.tokens * each)


def _ring(part: Slice, made: Core) -> Core:
    """Keys and values circulate while the device computes on its current block.

    In the backward their gradients circulate as well. Blocks are assigned in pairs from both ends
    of a sequence, for equal work. Liu et al. 2023, arXiv:2310.01889; Transformer Engine,
    ``attention.py``, ``AttnFuncWithCPAndKVP2P``. Partial results are merged in separate passes:
    results by their sums of exponentials, gradients by addition.
    """
    facts, result = part.kernels, float(part.tokens * part.heads * part.model.value_size)
    joined = _joined(part, "ring result", facts.ring_result, result)
    summed = _joined(part, "ring gradients", facts.ring_gradients, made.numbers)
    whole = _keys_values(part)
    ahead = Collective("ring of keys and values", "all-gather", whole, "context")
    back = Collective("ring backward", "all-gather", 2 * whole, "context")
    return made._replace(
        forward=[Overlapped(ahead, _kernels([*made.forward, *joined]))],
        backward=[Overlapped(back, _kernels([*made.backward, *summed]))],
    )


def _joined(part: Slice, name: str, moved: tuple[float, float], numbers: float) -> list[Stream]:
    """Merge the partial results of the ring steps; no passes if their cost is unknown.

    Parameters
    ----------
    moved : bytes per element, once and for each step after the first [B]
    """
    once, step = moved
    nbytes = (once + step * (part.context - 1)) * numbers
    return [Stream(name, nbytes, part.context)] if nbytes else []


def _kernels(chain: list[Kernel]) -> tuple[Gemm | Stream | Flash, ...]:
    """Return a chain without its collectives, to overlap with one."""
    return tuple(kernel for kernel in chain if isinstance(kernel, Gemm | Stream | Flash))


def _gathering(part: Slice, made: Core) -> Core:
    """Keys and values are gathered in forward and backward, and their gradients scattered.

    Llama Team 2024, arXiv:2407.21783, section 3.3.2.
    """
    whole = _keys_values(part)
    gather = Collective("keys and values", "all-gather", whole, "context")
    scatter = Collective("keys and values backward", "reduce-scatter", whole, "context")
    return made._replace(
        forward=[gather, *made.forward], backward=[gather, *made.backward, scatter]
    )


def _ulysses(part: Slice, made: Core) -> Core:
    """Some tokens of all heads are exchanged for all tokens of some heads, and back after the core.

    Jacobs et al. 2023, arXiv:2309.14509, section 3.
    """
    numbers = part.width * _numbers(part, part.kv_heads)
    before = Collective("heads for tokens", "all-to-all", numbers, "context")
    result = float(part.width * part.tokens * part.heads * part.model.value_size)
    after = Collective("tokens for heads", "all-to-all", result, "context")
    return made._replace(
        forward=[before, *made.forward, after], backward=[after, *made.backward, before]
    )


_METHODS: dict[str, Callable[[Slice, Core], Core]] = {
    "ring": _ring,
    "all-gather": _gathering,
    "ulysses": _ulysses,
}
