"""The MLP: two products around an activation, or three around a gate."""

from dataclasses import replace

from clustersim.workload.kernels import Stream
from clustersim.workload.layers.adapters import linear
from clustersim.workload.layers.pieces import column_op, row_op
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def mlp_ops(shard: Slice, width: int | None = None, prefix: str = "") -> list[Op]:
    """Return up, activation and down, each tensor rank with f / t columns.

    Parameters
    ----------
    width : f; by default that of a layer without experts
    prefix : prefix of the names of operations
    """
    m = shard.model
    columns = (m.ffn if width is None else width) // shard.tensor
    inner = float(shard.tokens * columns)
    activation = activation_op(shard, inner, f"{prefix}activation")
    apart = m.gated and not shard.kernels.gate_merged
    wide = (columns, columns) if m.gated and not apart else columns
    ops = [column_op(f"{prefix}up", shard, f"{prefix}mlp up", "mlp", wide, m.hidden)]
    if apart:
        nbytes = shard.width * inner
        ops.append(_gate_product(shard, f"{prefix}gate", columns))
        activation = replace(activation, sources=((ops[0].name, nbytes), (ops[1].name, nbytes)))
    ops.append(activation)
    ops.append(row_op(f"{prefix}down", shard, f"{prefix}mlp down", "mlp", m.hidden, columns))
    return ops


def _gate_product(shard: Slice, name: str, columns: int) -> Op:
    """The gate projection, if it is separate from the up projection.

    It reads the input that the up projection has gathered and saves; the sum of both input
    gradients is omitted, as the second product accumulates.
    """
    gate = linear(shard, f"mlp {name}", "mlp", shard.tokens, columns, shard.model.hidden)
    return Op(name, forward=gate.forward, backward=gate.backward, inside=gate.inside)


def activation_op(shard: Slice, inner: float, name: str) -> Op:
    """Return the activation of an MLP on `inner` elements."""
    return gate_op(shard, inner, name) if shard.model.gated else _gelu_op(shard, inner, name)


def _gelu_op(shard: Slice, inner: float, name: str) -> Op:
    """GELU with its bias on this rank's share of the MLP, b s f / t elements.

    Forward reads and writes, twice if the bias is a separate kernel. Backward reads gradient and
    input and writes, then sums the gradient over tokens for the bias.
    """
    w, biased = shard.width, "mlp" in shard.model.biases
    kernels = 2 if biased and not shard.kernels.bias_gelu_fused else 1
    return Op(
        name,
        forward=(Stream("gelu", 2 * kernels * w * inner, kernels),),
        backward=(Stream("gelu backward", (3 + biased) * w * inner, 1 + biased),),
        inputs=w * inner,
    )


def gate_op(shard: Slice, inner: float, name: str) -> Op:
    """SiLU of one product times the other, b s f / t elements each.

    Fused, it reads two and writes one, and the backward reads three and writes two. Otherwise SiLU
    (2) and the product (3) are separate, and the backward has two gradients of the product (3 + 3)
    and one of SiLU (3); the result of SiLU is saved as well. Gradients of both halves of one
    product are then concatenated (4), as autograd does after ``split`` and ``chunk``. Biases are
    added and summed separately.
    """
    w, fused = shard.width, shard.kernels.gated_fused
    biased = 2 if "mlp" in shard.model.biases else 0
    joined = 4 if shard.kernels.gate_merged and shard.finetune is None else 0
    ahead, back = (3, 5) if fused else (2 + 3, 3 + 3 + 3 + joined)
    launches = 1 if fused else 2
    added = 0 if fused else 2 * biased
    return Op(
        name,
        forward=(Stream("gate", (ahead + added) * w * inner, launches + (added > 0)),),
        backward=(Stream("gate backward", (back + biased) * w * inner, launches + 1),),
        inputs=2 * w * inner,
        inside=0 if fused else w * inner,
    )
