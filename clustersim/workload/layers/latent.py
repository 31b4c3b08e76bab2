"""Multi-head latent attention: queries, keys and values by way of narrow vectors.

    hidden --down--> queries' latent            --norm--> up --> a heads of nope + rope
    hidden --down--> latent of keys and values  --norm--> up --> a heads of nope and of value
                     and one key for positions, which all heads share

Every tensor rank runs the products down as a whole, on its share of the tokens where these are
shared out; those up are split by heads.  DeepSeek-V2, arXiv:2405.04434, section 2.1; Megatron-LM,
``megatron/core/transformer/multi_latent_attention.py``.
"""

from clustersim.workload.kernels import Stream
from clustersim.workload.layers.adapters import linear
from clustersim.workload.layers.pieces import column_op, gathered, norm_op, summed
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def latent_ops(part: Slice) -> list[Op]:
    """Return the operations from the hidden state to queries, keys and values of this rank."""
    shape, m, a = part.model.latent, part.model, part.heads
    assert shape is not None
    compressed = (shape.query or 0) + shape.keys_values
    rows = part.tokens // part.shared
    queries = column_op(
        "query up", part, "query up", "qkv", a * m.head_size, shape.query or m.hidden
    )
    return [
        _down(part, [*([shape.query] if shape.query else []), shape.keys_values + shape.rope]),
        norm_op("latent norm", part, float(rows * compressed), residual=False),
        queries,
        column_op(
            "qkv", part, "key value up", "qkv", a * (shape.nope + shape.value), shape.keys_values
        ),
        _positions(part),
    ]


def _down(part: Slice, columns: list[int]) -> Op:
    """The products that every tensor rank runs as a whole; no gradient has to be summed up."""
    rows = part.tokens // part.shared
    found = linear(part, "latent down", "qkv", rows, columns, part.model.hidden)
    return Op("qkv down", found.forward, found.backward, found.inputs, found.inside)


def _positions(part: Slice) -> Op:
    """Turn the parts of queries and of the shared key, and put the keys of all heads together."""
    m, w, a = part.model, part.width, part.heads
    assert m.latent is not None
    fused = part.kernels.rotary_fused
    turned = (2 if fused else 10) * w * part.tokens * (a + 1) * m.latent.rope
    joined = 2 * w * part.tokens * a * m.head_size
    launches = 2 if fused else 10
    return Op(
        "rotary",
        forward=(
            *gathered(part, "shared key", m.latent.rope, w),
            Stream("rotary", float(turned), launches),
            Stream("key parts joined", float(joined)),
        ),
        backward=(
            Stream("key parts apart", float(joined)),
            Stream("rotary backward", float(turned), launches),
            *summed(part, "shared key backward", m.latent.rope),
        ),
    )
