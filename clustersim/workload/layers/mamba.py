"""Mamba-2 and Gated DeltaNet: projections around a scan, whose states replace keys and values.

    hidden --in--> gate | x B C --convolution--> scan --gate--> norm --out--> hidden
                        | steps                  of chunks of tokens

A state of P by N numbers a head summarises all previous tokens.  The scan multiplies matrices
within chunks of tokens, and passes a state from chunk to chunk.  Dao and Gu
2024, arXiv:2405.21060, sections 6 and 7.  Tensor ranks share heads and groups.  Megatron-Core,
``ssm/mamba_mixer.py``, with the kernels of state-spaces/mamba, ``ops/triton/ssd_combined.py``,
``MambaSplitConv1dScanCombinedFn``: it saves its input and its result, and its backward computes the
convolution, the products and the states of chunks again.  A Gated DeltaNet is that of
Megatron-Core, ``ssm/gated_delta_net.py``, with the kernels of fla-org/flash-linear-attention,
``ops/gated_delta_rule/chunk.py``: it also saves what is convolved.

Letters: n tokens of this rank, P the width of a head, N the numbers of a state for each of these, Q
tokens of a chunk.
"""

from clustersim.catalog.records.models import MambaShape
from clustersim.workload.kernels import Collective, Gemm, Kernel, Stream
from clustersim.workload.layers.pieces import column_op, norm_op, row_op
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def mamba_ops(shard: Slice) -> list[Op]:
    """Return the projection to the scan, the scan, the norm of its groups and the projection."""
    m, shape = shard.model, _shape(shard)
    inner, columns = shape.inner // shard.tensor, shape.columns // shard.tensor
    normed = float(shard.tokens * inner)
    return [
        column_op("mamba in", shard, "mamba in", "mamba", columns, m.hidden),
        _scan_op(shard),
        norm_op("scan norm", shard, normed, residual=False),
        row_op("mamba out", shard, "mamba out", "mamba", m.hidden, inner),
    ]


def _shape(shard: Slice) -> MambaShape:
    assert shard.model.mamba is not None
    return shard.model.mamba


def _scan_op(shard: Slice) -> Op:
    """The convolution and the scan are one operation, with one set of saved tensors.

    Where sequences are shared, some tokens of all heads are exchanged for all tokens of some heads,
    and back: Megatron-Core, ``ssm/mamba_context_parallel.py``.
    """
    shape, per_column = _shape(shard), float(shard.width * shard.tokens)
    before = per_column * (shape.columns / shard.tensor + _copied(shard))
    made = per_column * shape.inner / shard.tensor
    ahead, back = _exchanged(shard, "tokens for heads", made), _exchanged(shard, "scan", before)
    turned, returned = _turned(shard, before), _turned(shard, made)
    return Op(
        "scan",
        forward=(*back, *turned, *_ahead(shard), *returned, *ahead),
        backward=(*ahead, *returned, *_back(shard), *turned, *back),
        inputs=before,
        inside=made + (_delta_saved(shard) if shape.delta else 0.0),
    )


def _exchanged(shard: Slice, name: str, nbytes: float) -> list[Kernel]:
    """An all-to-all of the context group; none for a single rank."""
    if shard.context == 1:
        return []
    return [Collective(f"{name} exchange", "all-to-all", nbytes, "context")]


def _copied(shard: Slice) -> float:
    """Columns that a rank sends more of, where groups are fewer than the ranks that share them."""
    shape = _shape(shard)
    groups = shape.groups / shard.tensor
    return 2 * shape.state * (max(groups, shard.context) - groups)


def _turned(shard: Slice, nbytes: float) -> list[Kernel]:
    """Copy tokens to the layout of sequences, or back; the same layout for one sequence."""
    return [Stream("sequence copies", 2 * nbytes)] if shard.micro > 1 else []


# --- the kernels of the scan ----------------------------------------------------------------------


def _ahead(shard: Slice) -> list[Kernel]:
    """Convolution, states of chunks, their passing, products within a chunk and the output.

    The output multiplies by the state before the chunk and by the tokens within it at once, and
    applies the gate: it reads the gate, and writes the result with and without it.
    """
    shape, w = _shape(shard), shard.width
    if shape.delta:
        return _delta_ahead(shard)
    q, p, n = _chunk(shard), shape.head_size, shape.state
    return [
        *_states(shard),
        _of_groups(shard, "chunk products", q, q, n),
        _of_heads(shard, "chunk outputs", q, p, q + n),
        Stream("scan gate", 2 * w * _numbers(shard, shape.inner), 0),
    ]


def _states(shard: Slice) -> list[Kernel]:
    """The states before each chunk, from the convolution on.

    Steps are read, and written in 32 bits with the sums of their decay; states are written in 32
    bits, read, and written in order.
    """
    shape, w = _shape(shard), shard.width
    return [
        Stream("convolution", 2 * w * _convolved(shard)),
        Stream("scan steps", (w + 8) * _numbers(shard, shape.heads)),
        _of_heads(shard, "chunk states", shape.head_size, shape.state, _chunk(shard)),
        Stream("state passing", 8 * _state_numbers(shard)),
    ]


def _back(shard: Slice) -> list[Kernel]:
    """The states again, then the gradients of the gate, states, tokens, B and C, and the decay.

    Heads of a group add to the same gradients of B, C and their products. The gradients of the
    steps are sums of the decay from behind, in separate passes of PyTorch.
    """
    shape, w = _shape(shard), shard.width
    if shape.delta:
        return _delta_back(shard)
    q, p, n = _chunk(shard), shape.head_size, shape.state
    together = p * shape.heads // shape.groups
    return [
        *_states(shard),
        _of_groups(shard, "chunk products", q, q, n),
        Stream("scan gate backward", 6 * w * _numbers(shard, shape.inner)),
        _of_heads(shard, "chunk state gradients", p, n, q),
        Stream("state passing backward", 16 * _state_numbers(shard)),
        _of_heads(shard, "scan input gradient", q, p, q + n),
        _of_groups(shard, "B gradient", q, n, together),
        _of_groups(shard, "C gradient", q, n, together),
        _of_groups(shard, "chunk product gradient", q, q, together),
        _of_groups(shard, "B gradient in chunks", q, n, q),
        _of_groups(shard, "C gradient in chunks", q, n, q),
        _of_heads(shard, "decay gradient", q, q, p),
        Stream("scan steps backward", (2 * w + 56) * _numbers(shard, shape.heads), 7),
        Stream("convolution backward", 3 * w * _convolved(shard)),
    ]


# --- the kernels of the delta rule ----------------------------------------------------------------


def _delta_ahead(shard: Slice) -> list[Kernel]:
    """Keys by keys of a chunk, its reduced keys and values, states and results.

    Queries and keys are normed, and copied to the heads of the values.
    """
    shape, w = _shape(shard), shard.width
    q, p, n = _chunk(shard), shape.head_size, shape.state
    return [
        Stream("convolution", 2 * w * _convolved(shard)),
        Stream("scan norm of keys", 3 * w * _numbers(shard, 2 * shape.heads * n), 4),
        _of_heads(shard, "keys by keys", q, q, n),
        *_delta_states(shard),
        _of_heads(shard, "chunk products", q, q, n),
        _of_heads(shard, "chunk outputs", q, p, q + n),
        Stream("scan gate", w * _numbers(shard, shape.inner), 0),
    ]


def _delta_states(shard: Slice) -> list[Kernel]:
    """The reduced keys and values of a chunk, each without the others, and the states before it.

    Steps are summed in 32 bits; the inverse of keys by keys is read and written in 16; states are
    in 16 bits between chunks.
    """
    shape, w = _shape(shard), shard.width
    q, p, n = _chunk(shard), shape.head_size, shape.state
    return [
        Stream("scan steps", (2 * w + 8) * _numbers(shard, shape.heads), 2),
        Stream("inverses", 3 * w * _numbers(shard, shape.heads * q), 1),
        _of_heads(shard, "reduced keys", q, n, q),
        _of_heads(shard, "reduced values", q, p, q),
        _of_heads(shard, "corrections", q, p, n),
        _of_heads(shard, "chunk states", n, p, q),
        Stream("state passing", 2 * w * _state_numbers(shard)),
    ]


def _delta_saved(shard: Slice) -> float:
    """Bytes of queries and keys of each head of values, values, inverses, shares and decay [B].

    The sums of the decay have 32 bits.  Queries and keys are also saved before they are copied to
    heads of values, if these are more.
    """
    shape = _shape(shard)
    normed = shape.groups if shape.heads > shape.groups else 0
    keys = 2 * (shape.heads + normed) * shape.state
    pairs = shape.heads * (_chunk(shard) + 1)
    wide = _numbers(shard, keys + shape.inner + pairs)
    return shard.width * wide + 4 * _numbers(shard, shape.heads)


def _delta_back(shard: Slice) -> list[Kernel]:
    """Reduced keys and values and states again, and the gradients of all of them."""
    shape, w = _shape(shard), shard.width
    q, p, n = _chunk(shard), shape.head_size, shape.state
    return [
        *_delta_states(shard),
        *(_of_heads(shard, f"gradient by states {at}", q, p, n) for at in range(6)),
        *(_of_heads(shard, f"gradient by keys {at}", q, q, n) for at in range(8)),
        *(_of_heads(shard, f"gradient by values {at}", q, q, p) for at in range(4)),
        Stream("scan gate backward", 2 * w * _numbers(shard, shape.inner), 0),
        Stream("state passing backward", 4 * w * _state_numbers(shard)),
        Stream("scan steps backward", (2 * w + 24) * _numbers(shard, shape.heads), 4),
        Stream("scan norm of keys backward", 5 * w * _numbers(shard, 2 * shape.heads * n), 4),
        Stream("convolution backward", 3 * w * _convolved(shard)),
    ]


def _numbers(shard: Slice, columns: int) -> float:
    """Elements of some columns of all tokens that this rank scans."""
    return shard.tokens * columns / shard.tensor


def _convolved(shard: Slice) -> float:
    """Elements of heads, B and C that this rank convolves."""
    return shard.tokens * (_shape(shard).convolved / shard.tensor + _copied(shard))


def _chunk(shard: Slice) -> int:
    """Tokens of a chunk."""
    return min(_shape(shard).chunk, shard.model.sequence)


def _chunks(shard: Slice) -> int:
    """Chunks of all sequences; each has all of its tokens on the rank of its heads."""
    return shard.micro * -(-shard.model.sequence // _chunk(shard))


def _heads(shard: Slice) -> int:
    """Heads that this rank scans."""
    return _shape(shard).heads // (shard.tensor * shard.context)


def _state_numbers(shard: Slice) -> float:
    """Elements of the states of all chunks."""
    shape = _shape(shard)
    return float(_chunks(shard) * _heads(shard) * shape.head_size * shape.state)


def _of_heads(shard: Slice, name: str, m: int, n: int, k: int) -> Gemm:
    """A product in each chunk and head."""
    return _product(shard, name, m, n, k, _heads(shard))


def _of_groups(shard: Slice, name: str, m: int, n: int, k: int) -> Gemm:
    """A product in each chunk and group."""
    return _product(shard, name, m, n, k, _groups(shard))


def _groups(shard: Slice) -> int:
    """Groups whose heads this rank scans, some of them perhaps."""
    return max(1, _shape(shard).groups // (shard.tensor * shard.context))


def _product(shard: Slice, name: str, m: int, n: int, k: int, times: int) -> Gemm:
    """A product in each chunk, which stays in 16 bits in 8-bit recipes, as attention does."""
    product = shard.core(name, m, n, k, _chunks(shard) * times)
    return product._replace(attention=False)
