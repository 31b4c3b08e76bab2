"""A mixture of experts: tokens are sent to the ranks of their experts, and back.

    router | permute | dispatch | up | activation | down | combine | unpermute
                      all-to-all                         all-to-all

Letters: n tokens of this rank, k experts per token, E ranks that share the experts, T ranks that
share one expert, f the width inside an expert.  A rank computes n k T rows on average; all ranks
wait for the busiest one.  Megatron-Core,
``megatron/core/transformer/moe/token_dispatcher.py``, ``MoEAlltoAllTokenDispatcher``.
"""

from dataclasses import replace

from clustersim.workload.kernels import Collective, Kernel, Stream
from clustersim.workload.layers.adapters import narrowed
from clustersim.workload.layers.mlp import activation_op, mlp_ops
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice

ROUTER_PASSES = 6
"""Passes over the 32-bit scores of all experts: softmax 3, top k 1, counts and balance 2.
Counted in the source of Megatron-Core, ``moe/moe_utils.py``, not in a profile."""


def experts_ops(part: Slice) -> list[Op]:
    """Return the operations of a layer's experts, with the router first."""
    shape, m = part.model.experts, part.model
    assert shape is not None
    columns = shape.ffn // part.expert_tensor
    experts = [
        _product(part, "expert up", (2 if m.gated else 1) * columns, m.hidden),
        activation_op(part, float(_rows(part) * columns), "expert activation"),
        _product(part, "expert down", m.hidden, columns),
    ]
    return [
        _router(part),
        _permute(part),
        _dispatch(part),
        *(_skewed(op, part.routing.skew) for op in experts),
        _combine(part),
        _unpermute(part),
    ]


def shared_ops(part: Slice) -> list[Op]:
    """Return the operations of the shared experts, if any."""
    shape = part.model.experts
    assert shape is not None
    return mlp_ops(part, shape.shared * shape.ffn, "shared ") if shape.shared else []


def _skewed(op: Op, skew: float) -> Op:
    """Return an operation whose busiest rank computes and saves more than the mean."""
    return replace(op, skew=skew, inputs=skew * op.inputs, inside=skew * op.inside)


def _tokens(part: Slice) -> int:
    """Tokens of this rank, n = b s / c, over the tensor ranks in sequence parallelism."""
    return part.tokens // part.shared


def _copies(part: Slice) -> float:
    """Rows of this rank's tokens, one per expert within capacity, n k."""
    assert part.model.experts is not None
    return _tokens(part) * part.model.experts.top_k * part.routing.kept


def _rows(part: Slice) -> int:
    """Mean number of rows of a rank's experts, n k T."""
    return max(1, round(_copies(part) * part.expert_tensor))


def _router(part: Slice) -> Op:
    """Scores of all experts for each token, and the top k."""
    m, shape = part.model, part.model.experts
    assert shape is not None
    tokens, scores = _tokens(part), 4.0 * _tokens(part) * shape.count
    return Op(
        "router",
        forward=(
            part.wide("router", tokens, shape.count, m.hidden),
            Stream("router choice", ROUTER_PASSES * scores, ROUTER_PASSES),
        ),
        backward=(
            Stream("router choice backward", ROUTER_PASSES * scores, ROUTER_PASSES),
            part.wide("router input gradient", tokens, m.hidden, shape.count),
            part.wide("router weight gradient", shape.count, m.hidden, tokens, of_weight=True),
        ),
        inputs=0.0 if shape.shared else part.width * part.residual,
        inside=scores,
    )


def _permute(part: Slice) -> Op:
    """Copy tokens in the order of their experts; backward sums the gradients of the copies."""
    moved = part.width * (_tokens(part) + _copies(part)) * part.model.hidden
    return Op(
        "permute",
        forward=(Stream("permute", moved, 2),),
        backward=(Stream("permute backward", moved, 2),),
    )


def _dispatch(part: Slice) -> Op:
    """Send rows to the ranks of their experts; ranks that share an expert gather them."""
    width = part.width if part.kernels.dispatched is None else part.kernels.dispatched
    whole = part.width * _rows(part) * part.model.hidden
    return Op(
        "dispatch",
        forward=(
            *_counts(part),
            *_exchange(part, "dispatch", width),
            *_weights(part, "dispatch weights"),
            *_over_expert(part, "dispatch gather", "all-gather", whole),
            *_sorting(part, "expert sort"),
        ),
        backward=(
            *_sorting(part, "expert sort backward"),
            *_over_expert(part, "dispatch backward sum", "reduce-scatter", whole),
            *_weights(part, "dispatch backward weights"),
            *_exchange(part, "dispatch backward", part.width),
        ),
    )


def _sorting(part: Slice, name: str) -> list[Kernel]:
    """Sort rows by expert, or back by source, with several local experts.

    Megatron-Core, ``MoEAlltoAllTokenDispatcher``, permutation 2 and unpermutation 2.
    """
    shape = part.model.experts
    assert shape is not None
    if not part.kernels.rows_sorted or part.expert == 1 or shape.count == part.expert:
        return []
    return [Stream(name, 2.0 * part.width * _rows(part) * part.model.hidden)]


def _counts(part: Slice) -> list[Kernel]:
    """Exchange the row counts per expert in the group, in numbers of 8 bytes."""
    shape = part.model.experts
    assert shape is not None
    if not part.kernels.rows_counted or part.expert == 1:
        return []
    return [Collective("token counts", "all-gather", 8.0 * shape.count * part.expert, "expert")]


def _weights(part: Slice, name: str) -> list[Kernel]:
    """Send the routing weight of each row in 32 bits, in a separate message."""
    if not part.kernels.rows_counted or part.expert == 1:
        return []
    return [Collective(name, "all-to-all", 4.0 * _copies(part), "expert")]


def _combine(part: Slice) -> Op:
    """Reduce the results of the experts over their shares, and send them back."""
    whole = part.width * _rows(part) * part.model.hidden
    return Op(
        "combine",
        forward=(
            *_sorting(part, "expert unsort"),
            *_over_expert(part, "combine sum", "reduce-scatter", whole),
            *_exchange(part, "combine", part.width),
        ),
        backward=(
            *_exchange(part, "combine backward", part.width),
            *_over_expert(part, "combine backward gather", "all-gather", whole),
            *_sorting(part, "expert unsort backward"),
        ),
    )


def _exchange(part: Slice, name: str, width: float) -> list[Kernel]:
    """The all-to-all of an expert group, limited by the busiest rank.

    A token is sent once to each of its experts, or once to each node with some of them.
    """
    if part.expert == 1:
        return []
    sent = part.routing.sent
    rows = _copies(part) if sent is None else _tokens(part) * part.routing.kept * sent
    nbytes = width * rows * part.model.hidden * part.routing.skew
    return [Collective(name, "all-to-all", nbytes, "expert")]


def _over_expert(part: Slice, name: str, operation: str, nbytes: float) -> list[Kernel]:
    """A collective of the ranks that share an expert."""
    if part.expert_tensor == 1:
        return []
    return [Collective(name, operation, nbytes * part.routing.skew, "expert-tensor")]


def _product(part: Slice, name: str, columns: int, k: int) -> Op:
    """One product per expert of this rank, grouped or one after another."""
    shape = part.model.experts
    assert shape is not None
    local = shape.count // part.expert
    rows = _rows(part)
    m = max(1, round(rows / local))
    batch, times = (local, 1) if part.kernels.experts_grouped else (1, local)
    return Op(
        name,
        forward=(
            *narrowed(part, name, rows * k),
            *[part.gemm(name, m, columns, k, batch)] * times,
        ),
        backward=(
            *narrowed(part, f"{name} gradient", rows * columns),
            *[part.gemm(f"{name} input gradient", m, k, columns, batch)] * times,
            *[part.gemm(f"{name} weight gradient", columns, k, m, batch, of_weight=True)] * times,
        ),
        inputs=float(part.precision.operand * rows * k),
    )


def _unpermute(part: Slice) -> Op:
    """Sum the results of a token's experts, which include the routing weights.

    Megatron-Core, ``moe/experts.py``, ``TEGroupedMLP``: weights multiply the activation, so the
    results need not be saved.
    """
    moved = part.width * (_copies(part) + _tokens(part)) * part.model.hidden
    return Op(
        "unpermute",
        forward=(Stream("unpermute", moved, 2),),
        backward=(Stream("unpermute backward", moved, 2),),
    )


def shared_sum(part: Slice) -> Op:
    """Add the results of shared and routed experts."""
    return Op("shared sum", forward=(Stream("shared sum", 3 * part.width * part.residual),))
