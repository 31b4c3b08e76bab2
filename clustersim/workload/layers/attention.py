"""Attention: the products around it, what is done to queries and keys, and its core.

Letters: a query heads of this rank, k its key and value heads, d the width of a key, e of a value.
"""

from clustersim.workload.kernels import Stream
from clustersim.workload.layers.core import core
from clustersim.workload.layers.latent import latent_ops
from clustersim.workload.layers.pieces import column_op, norm_op, row_op
from clustersim.workload.model import Layer
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def attention_ops(part: Slice, layer: Layer) -> list[Op]:
    """Return the projection to queries, keys and values, the core, and the projection back."""
    m = part.model
    before = latent_ops(part) if m.latent else _plain(part)
    inner = part.heads * m.value_size
    return [
        *before,
        _core_op(part, layer),
        row_op("projection", part, "projection", "output", m.hidden, inner),
    ]


def _plain(part: Slice) -> list[Op]:
    """Queries, keys and values of the hidden state, normed by head and turned where models do."""
    m, a, k = part.model, part.heads, part.kv_heads
    columns = (a * m.head_size, k * m.head_size, k * m.value_size)
    made = column_op("qkv", part, "qkv", "qkv", columns, m.hidden, biased="qkv" in m.biases)
    turned = float(part.tokens * (a + k) * m.head_size)
    ops = [made]
    if m.qk_norm:
        ops.append(norm_op("qk norm", part, turned, residual=False))
    if m.positions == "rotary":
        ops.append(rotary_op(part, turned, sum(columns)))
    return ops


def rotary_op(part: Slice, numbers: float, columns: int) -> Op:
    """Turn queries and keys by their position: read and write both.

    To be run again it needs them, and what follows it needs the values that stand beside them.

    Pass by pass it is a product with the cosine, half of the numbers negated, both halves joined,
    a product with the sine, and the sum: 10 numbers moved for one, for queries and for keys.
    Hugging Face transformers, ``apply_rotary_pos_emb``. The backward turns back.
    """
    fused = part.kernels.rotary_fused
    moved = (2 if fused else 10) * part.width * numbers
    launches = 2 if fused else 10
    return Op(
        "rotary",
        forward=(Stream("rotary", moved, launches),),
        backward=(Stream("rotary backward", moved, launches),),
        reads=float(part.width * part.tokens * columns),
    )


def _core_op(part: Slice, layer: Layer) -> Op:
    """The core keeps queries, keys and values, and what its backward needs of the softmax.

    Flash attention keeps a 32-bit number a row; else it is the softmax, and with dropout the mask
    and the result as well.
    """
    m, w = part.model, part.width
    made = core(part, layer)
    matrix = 2 * w + part.kernels.dropout_mask if m.dropout else w
    rows = 4.0 * part.tokens * part.heads
    return Op(
        "attention",
        forward=tuple(made.forward),
        backward=tuple(made.backward),
        inputs=w * made.numbers,
        inside=rows if part.attention == "flash" else matrix * part.scores,
    )
