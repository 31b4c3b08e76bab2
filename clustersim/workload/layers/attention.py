"""Attention: projections, rotary positions, the core, and multi-head latent attention.

Multi-head latent attention computes queries, keys and values from narrow vectors:

    hidden --down--> queries' latent            --norm--> up --> a heads of nope + rope
    hidden --down--> latent of keys and values  --norm--> up --> a heads of nope and of value
                     and one key for positions, which all heads share

Every tensor rank computes the down projections as a whole, on its share of the tokens in sequence
parallelism; the up projections are split by heads.  DeepSeek-V2, arXiv:2405.04434, section 2.1;
Megatron-LM, ``megatron/core/transformer/multi_latent_attention.py``.

Letters: a query heads of this rank, k its key and value heads, d the width of a key, e of a value.
"""

from clustersim.catalog.records.models import IndexerShape
from clustersim.workload.kernels import Stream
from clustersim.workload.layers.adapters import linear
from clustersim.workload.layers.core import core
from clustersim.workload.layers.pieces import column_op, gathered, norm_op, row_op, summed
from clustersim.workload.model import Layer
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def attention_ops(shard: Slice, layer: Layer) -> list[Op]:
    """Return the projection to queries, keys and values, the core, and the projection back."""
    m = shard.model
    before = latent_ops(shard) if m.latent else _plain(shard)
    inner = shard.heads * m.value_size
    return [
        *before,
        _core_op(shard, layer),
        *([_gate_op(shard, inner)] if m.attention_gate else []),
        row_op("projection", shard, "projection", "output", m.hidden, inner),
    ]


def _plain(shard: Slice) -> list[Op]:
    """Queries, keys and values of the hidden state, with per-head norms and rotary positions."""
    m, a, k = shard.model, shard.heads, shard.kv_heads
    queries = m.query_heads // shard.tensor
    columns = (queries * m.head_size, k * m.head_size, k * m.value_size)
    made = column_op("qkv", shard, "qkv", "qkv", columns, m.hidden, biased="qkv" in m.biases)
    turned = float(shard.tokens * (a + k) * m.head_size)
    ops = [made]
    if m.qk_norm:
        ops.append(norm_op("qk norm", shard, turned, residual=False))
    if m.positions == "rotary":
        ops.append(rotary_op(shard, turned, sum(columns)))
    return ops


def _gate_op(shard: Slice, columns: int) -> Op:
    """The product of the result of attention and the sigmoid of its gate, in one kernel each way.

    The backward reads both and the gradient, and writes two gradients.
    """
    moved = float(shard.width * shard.tokens * columns)
    return Op(
        "attention gate",
        forward=(Stream("attention gate", 3 * moved),),
        backward=(Stream("attention gate backward", 5 * moved),),
        inputs=2 * moved,
    )


def rotary_op(shard: Slice, numbers: float, columns: int) -> Op:
    """Rotary position embedding of queries and keys: read and write both.

    Its recomputation reads queries and keys, and the next operation also reads the values stored
    with them.

    Unfused, it is a product with the cosine, a negation of half of the elements, a concatenation,
    a product with the sine, and a sum: 10 elements moved per element of queries and of keys.
    Hugging Face transformers, ``apply_rotary_pos_emb``. The backward is the inverse rotation.
    """
    fused = shard.kernels.rotary_fused
    moved = (2 if fused else 10) * shard.width * numbers
    launches = 2 if fused else 10
    return Op(
        "rotary",
        forward=(Stream("rotary", moved, launches),),
        backward=(Stream("rotary backward", moved, launches),),
        reads=float(shard.width * shard.tokens * columns),
    )


def _core_op(shard: Slice, layer: Layer) -> Op:
    """The core saves queries, keys and values, and the softmax for its backward.

    Flash attention saves a 32-bit number per row, and where queries are a view of a larger tensor
    the rest of it; otherwise the softmax is saved, and with dropout its mask and result as well.
    """
    m, w = shard.model, shard.width
    made = core(shard, layer)
    matrix = 2 * w + shard.kernels.dropout_mask if m.dropout else w
    apart = shard.kv_heads == shard.heads
    viewed = (shard.kernels.query_kept - 1) * w * m.head_size if apart else 0.0
    rows = (4.0 + viewed) * shard.tokens * shard.heads
    return Op(
        "attention",
        forward=tuple(made.forward),
        backward=tuple(made.backward),
        inputs=w * made.numbers,
        inside=rows if shard.attention == "flash" else matrix * shard.scores,
    )


def latent_ops(shard: Slice) -> list[Op]:
    """Return the operations from the hidden state to queries, keys and values of this rank."""
    shape, m, a = shard.model.latent, shard.model, shard.heads
    assert shape is not None
    compressed = (shape.query or 0) + shape.keys_values
    rows = shard.tokens // shard.shared
    queries = column_op(
        "query up", shard, "query up", "qkv", a * m.head_size, shape.query or m.hidden
    )
    return [
        _down(shard, [*([shape.query] if shape.query else []), shape.keys_values + shape.rope]),
        norm_op("latent norm", shard, float(rows * compressed), residual=False),
        *([_indexer(shard, shape.indexer, shape.query or m.hidden)] if shape.indexer else []),
        queries,
        column_op(
            "qkv", shard, "key value up", "qkv", a * (shape.nope + shape.value), shape.keys_values
        ),
        _positions(shard),
    ]


def _indexer(shard: Slice, indexer: IndexerShape, inputs: int) -> Op:
    """The choice of the tokens that queries attend to, which every tensor rank makes as a whole.

    Queries and keys are normed, rotated and cast; scores of all heads are summed, and the highest
    are found in 32 bits.  The backward, by its own loss, has both gradients of each product.
    """
    m, n, w = shard.model, shard.tokens, shard.width
    heads, width = indexer.heads, indexer.head_size
    sizes = {
        "query": (heads * width, inputs),
        "key": (width, m.hidden),
        "weight": (heads, m.hidden),
    }
    rows, length = m.sequence // shard.context, m.length(Layer())
    made = [shard.wide(f"indexer {name}", n, *size) for name, size in sizes.items()]
    turned = Stream("indexer passes", 6.0 * w * n * (heads + 1) * width, 4)
    scores = shard.core("indexer scores", rows, int(length), width, shard.micro * heads)
    back = [
        each
        for name, (columns, inner) in sizes.items()
        for each in (
            shard.wide(f"indexer {name} input gradient", n, inner, columns),
            shard.wide(f"indexer {name} weight gradient", columns, inner, n, of_weight=True),
        )
    ]
    return Op(
        "indexer",
        forward=(*made, turned, scores, Stream("indexer choice", 8 * n * length, 2)),
        backward=(Stream("indexer loss", 8 * n * length, 2), scores, scores, turned, *back),
        inside=float(w * n * (heads + 1) * width + 4 * n * indexer.tokens),
    )


def _down(shard: Slice, columns: list[int]) -> Op:
    """The products that every tensor rank computes as a whole; no gradient reduction."""
    rows = shard.tokens // shard.shared
    down = linear(shard, "latent down", "qkv", rows, columns, shard.model.hidden)
    return Op("qkv down", down.forward, down.backward, down.inputs, down.inside)


def _positions(shard: Slice) -> Op:
    """Rotary embedding of queries and the shared key, and concatenation of the keys of heads."""
    m, w, a = shard.model, shard.width, shard.heads
    assert m.latent is not None
    fused = shard.kernels.rotary_fused
    turned = (2 if fused else 10) * w * shard.tokens * (a + 1) * m.latent.rope
    joined = 2 * w * shard.tokens * a * m.head_size
    launches = 2 if fused else 10
    return Op(
        "rotary",
        forward=(
            *gathered(shard, "shared key", m.latent.rope, w),
            Stream("rotary", float(turned), launches),
            Stream("key parts joined", float(joined)),
        ),
        backward=(
            Stream("key parts apart", float(joined)),
            Stream("rotary backward", float(turned), launches),
            *summed(shard, "shared key backward", m.latent.rope),
        ),
    )
