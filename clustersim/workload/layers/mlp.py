"""The MLP: two products around an activation, or three around a gate.

A mixture of experts: tokens are sent to the ranks of their experts, and back.

    router | permute | dispatch | up | activation | down | combine | unpermute
                      all-to-all                         all-to-all

Letters: n tokens of this rank, k experts per token, E ranks that share the experts, T ranks that
share one expert, f the width inside an expert.  A rank computes n k T rows on average; all ranks
wait for the busiest one.  Megatron-Core,
``megatron/core/transformer/moe/token_dispatcher.py``, ``MoEAlltoAllTokenDispatcher``.
"""

from dataclasses import replace

from clustersim.workload.kernels import Collective, Gemm, Kernel, Stream
from clustersim.workload.layers.adapters import linear, narrowed
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


ROUTER_PASSES = 6
"""Passes over the 32-bit scores of all experts: softmax 3, top k 1, counts and balance 2.
Counted in the source of Megatron-Core, ``moe/moe_utils.py``, not in a profile."""


def experts_ops(shard: Slice) -> list[Op]:
    """Return the operations of a layer's experts, with the router first."""
    shape, m = shard.experts, shard.model
    columns = shape.ffn // shard.expert_tensor
    fused = shard.expert_kernels.fused
    activation = activation_op(shard, float(_rows(shard) * columns), "expert activation")
    padding = _padding(shard)
    experts = [
        *padding,
        _product(shard, "expert up", (2 if m.gated else 1) * columns, m.hidden, made=fused),
        replace(activation, forward=(), backward=()) if fused else activation,
        _product(shard, "expert down", m.hidden, columns, read=fused),
        *_biases(shard),
        *(replace(op, name="expert unpadding") for op in padding),
    ]
    return [
        _router(shard),
        _permute(shard),
        _dispatch(shard),
        *(_skewed(op, shard.routing.skew) for op in experts),
        _combine(shard),
        _unpermute(shard),
    ]


def shared_ops(shard: Slice) -> list[Op]:
    """Return the operations of the shared experts, if any."""
    width = shard.experts.shared * shard.experts.ffn
    return mlp_ops(shard, width, "shared ") if width else []


def _skewed(op: Op, skew: float) -> Op:
    """Return an operation whose busiest rank computes and saves more than the mean."""
    return replace(op, skew=skew, inputs=skew * op.inputs, inside=skew * op.inside)


def _tokens(shard: Slice) -> int:
    """Tokens of this rank, n = b s / c, over the tensor ranks in sequence parallelism."""
    return shard.tokens // shard.shared


def _copies(shard: Slice) -> float:
    """Rows of this rank's tokens, one per expert within capacity, n k."""
    return _tokens(shard) * shard.experts.top_k * shard.routing.kept


def _rows(shard: Slice) -> int:
    """Mean number of rows of a rank's experts, n k T."""
    return max(1, round(_copies(shard) * shard.expert_tensor))


def _router(shard: Slice) -> Op:
    """Scores of all experts for each token, and the top k."""
    m, shape = shard.model, shard.experts
    tokens, scores = _tokens(shard), 4.0 * _tokens(shard) * shape.count
    ahead, back = shard.expert_kernels.bookkeeping
    return Op(
        "router",
        forward=(
            shard.wide("router", tokens, shape.count, m.hidden),
            Stream("router choice", ROUTER_PASSES * scores, ROUTER_PASSES),
            *([Stream("row counts", 0.0, ahead)] if ahead else []),
        ),
        backward=(
            *([Stream("row counts backward", 0.0, back)] if back else []),
            Stream("router choice backward", ROUTER_PASSES * scores, ROUTER_PASSES),
            shard.wide("router input gradient", tokens, m.hidden, shape.count),
            shard.wide("router weight gradient", shape.count, m.hidden, tokens, of_weight=True),
        ),
        inputs=0.0 if shape.shared else shard.width * shard.residual,
        inside=scores,
    )


def _permute(shard: Slice) -> Op:
    """Read every row of tokens, and write its copies in the order of the experts.

    Issued by PyTorch, the copies are an `index_select`, whose backward clears the gradients and
    adds those of each copy, which reads and writes them.
    """
    tokens, copies = _passes(shard)
    back = tokens + copies if shard.expert_kernels.permute_fused else tokens + 3 * copies
    return Op(
        "permute",
        (Stream("permute", tokens + copies, 2),),
        (Stream("permute backward", back, 2),),
    )


def _unpermute(shard: Slice) -> Op:
    """Multiply the copies of every token by their routing weights and add them up.

    Issued by PyTorch, forward: weights that are gathered (3 launches), copies times weights (2),
    the result cleared (1), and a `scatter_add_` (3 passes over the copies: it reads them, and reads
    and writes the result for each). Backward: gather (2), gradients of copies (2) and of weights
    (3, and 1 for their sum), and of the weights' gather (2 launches). Megatron-Core,
    ``moe/moe_utils.py``, ``unpermute``.
    """
    tokens, copies = _passes(shard)
    if shard.expert_kernels.permute_fused:
        ahead, back = (tokens + copies, 2), (tokens + copies, 2)
    else:
        ahead, back = (tokens + 5 * copies, 6), (8 * copies, 6)
    return Op(
        "unpermute",
        (Stream("unpermute", *ahead),),
        (Stream("unpermute backward", *back),),
    )


def _passes(shard: Slice) -> tuple[float, float]:
    """Return the bytes of a rank's tokens and of their copies for experts [B]."""
    row = shard.width * shard.model.hidden
    return row * _tokens(shard), row * _copies(shard)


def _dispatch(shard: Slice) -> Op:
    """Send rows to the ranks of their experts; ranks that share an expert gather them."""
    sent = shard.expert_kernels.dispatched
    width = shard.width if sent is None else sent
    whole = shard.width * _rows(shard) * shard.model.hidden
    return Op(
        "dispatch",
        forward=(
            *_counts(shard),
            *_exchange(shard, "dispatch", width),
            *_weights(shard, "dispatch weights"),
            *_over_expert(shard, "dispatch gather", "all-gather", whole),
            *_sorting(shard, "expert sort"),
        ),
        backward=(
            *_sorting(shard, "expert sort backward"),
            *_over_expert(shard, "dispatch backward sum", "reduce-scatter", whole),
            *_weights(shard, "dispatch backward weights"),
            *_exchange(shard, "dispatch backward", shard.width),
        ),
    )


def _sorting(shard: Slice, name: str) -> list[Kernel]:
    """Sort rows by expert, or back by source, with several local experts.

    Megatron-Core, ``MoEAlltoAllTokenDispatcher``, permutation 2 and unpermutation 2.
    """
    if not shard.expert_kernels.sorted or shard.expert in (1, shard.experts.count):
        return []
    return [Stream(name, 2.0 * shard.width * _rows(shard) * shard.model.hidden)]


def _counts(shard: Slice) -> list[Kernel]:
    """Exchange the row counts per expert in the group, in numbers of 8 bytes."""
    if not shard.expert_kernels.counted or shard.expert == 1:
        return []
    nbytes = 8.0 * shard.experts.count * shard.expert
    return [Collective("token counts", "all-gather", nbytes, "expert")]


def _weights(shard: Slice, name: str) -> list[Kernel]:
    """Send the routing weight of each row in 32 bits, in a separate message."""
    if not shard.expert_kernels.counted or shard.expert == 1:
        return []
    return [Collective(name, "all-to-all", 4.0 * _copies(shard), "expert")]


def _combine(shard: Slice) -> Op:
    """Reduce the results of the experts over their shares, and send them back."""
    whole = shard.width * _rows(shard) * shard.model.hidden
    return Op(
        "combine",
        forward=(
            *_sorting(shard, "expert unsort"),
            *_over_expert(shard, "combine sum", "reduce-scatter", whole),
            *_exchange(shard, "combine", shard.width),
        ),
        backward=(
            *_exchange(shard, "combine backward", shard.width),
            *_over_expert(shard, "combine backward gather", "all-gather", whole),
            *_sorting(shard, "expert unsort backward"),
        ),
    )


def _exchange(shard: Slice, name: str, width: float) -> list[Kernel]:
    """The all-to-all of an expert group, limited by the busiest rank.

    A token is sent once to each of its experts, or once to each node with some of them.
    """
    if shard.expert == 1:
        return []
    sent = shard.routing.sent
    rows = _copies(shard) if sent is None else _tokens(shard) * shard.routing.kept * sent
    nbytes = width * rows * shard.model.hidden * shard.routing.skew
    return [Collective(name, "all-to-all", nbytes, "expert")]


def _over_expert(shard: Slice, name: str, operation: str, nbytes: float) -> list[Kernel]:
    """A collective of the ranks that share an expert."""
    if shard.expert_tensor == 1:
        return []
    return [Collective(name, operation, nbytes * shard.routing.skew, "expert-tensor")]


def _product(
    shard: Slice, name: str, columns: int, k: int, *, read: bool = False, made: bool = False
) -> Op:
    """One product per expert of this rank: grouped, on several streams, or one after another.

    Issued separately, the weight of each expert is a parameter, for whose gradient the host runs a
    hook as well: Megatron-Core, ``DistributedDataParallel``, ``_make_backward_post_hook``.

    Parameters
    ----------
    read : whether the input comes from a fused product, as it is read
    made : whether the gradient of the result does
    """
    local = shard.experts.count // shard.expert
    rows = _rows(shard)
    m = max(1, round(rows / local))
    facts = shard.expert_kernels
    batch, times = (local, 1) if facts.grouped else (1, local)
    launches = local if facts.grouped and facts.separate else 1

    def products(of: str, m: int, n: int, k: int, *, of_weight: bool = False) -> list[Gemm]:
        product = shard.gemm(of, m, n, k, batch, of_weight=of_weight)
        hooks = launches if of_weight and facts.separate else 0
        return [product._replace(launches=launches + hooks)] * times

    def casts(of: str, numbers: int) -> list[Stream]:
        return [cast._replace(launches=launches) for cast in narrowed(shard, of, numbers)]

    return Op(
        name,
        forward=(
            *([] if read else casts(name, rows * k)),
            *products(name, m, columns, k),
        ),
        backward=(
            *([] if made else casts(f"{name} gradient", rows * columns)),
            *products(f"{name} input gradient", m, k, columns),
            *products(f"{name} weight gradient", columns, k, m, of_weight=True),
        ),
        inputs=float(shard.precision.operand * rows * k),
    )


def _padding(shard: Slice) -> list[Op]:
    """Copy the rows of experts to multiples that 8-bit products need, or back.

    Megatron-Core, ``moe/experts.py``, ``TEGroupedMLP``, ``Fp8Padding`` and ``Fp8Unpadding``.
    """
    if not (shard.expert_kernels.padded and shard.precision.cast):
        return []
    copied = Stream("expert padding", 2.0 * shard.width * _rows(shard) * shard.model.hidden)
    return [Op("expert padding", forward=(copied,), backward=(copied,))]


def _biases(shard: Slice) -> list[Op]:
    """Add the biases of experts after their products, where each expert is issued separately.

    Forward: that of the first product is added to an expert's rows (2), that of the second is
    multiplied by the routing weights (1) and added (3), and the rows of all experts are joined
    (2 each). Backward: the gradients of each bias are a product and a sum over the rows (3 and 1),
    those of the routing weights the same over the columns. Megatron-Core, ``moe/experts.py``,
    ``TEGroupedMLP``, ``_apply_bias``.
    """
    shape, m = shard.experts, shard.model
    if "mlp" not in m.biases or not shard.expert_kernels.separate:
        return []
    local, rows = shape.count // shard.expert, shard.width * float(_rows(shard))
    first, second = rows * (2 if m.gated else 1) * shape.ffn / shard.expert_tensor, rows * m.hidden
    return [
        Op(
            "expert bias",
            forward=(Stream("expert bias", 4 * first + 6 * second, 3 * local + 2),),
            backward=(Stream("expert bias backward", first + 2 * 4 * second, 5 * local),),
        )
    ]


def shared_sum(shard: Slice) -> Op:
    """Add the results of shared and routed experts."""
    return Op("shared sum", forward=(Stream("shared sum", 3 * shard.width * shard.residual),))
