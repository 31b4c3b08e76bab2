"""The two ends of the model: the embedding below the layers, norm, logits and loss above them."""

from clustersim.workload.kernels import Collective, Kernel, Stream
from clustersim.workload.layers.pieces import gathered, gradient_sum, norm_op, summed
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def boundary_gather(part: Slice, times: int) -> list[Kernel]:
    """Return the gathers of a stage's input or output that was sent or kept in shares.

    Where tensor ranks share the tokens out, each goes on with the share that it was sent.
    """
    if part.tensor == 1 or part.sequence_parallel:
        return []
    return [Collective("boundary", "all-gather", part.width * part.stream)] * times


def embedding_ops(part: Slice) -> list[Op]:
    """Return the look-up of tokens and positions, their sum, its norm and its dropout."""
    m, x, w = part.model, part.residual, part.width
    ops = [_lookup(part)]
    if m.positions == "learned":
        ops.append(Op("positions", forward=(Stream("position add", 3 * w * part.stream),)))
    if m.embedding_norm:
        ops.append(norm_op("embedding norm", part, residual=False))
    if m.dropout:
        moved = (2 * w + 1) * x
        ahead, back = (Stream(f"embedding dropout{what}", moved) for what in ("", " backward"))
        ops.append(Op("embedding dropout", (ahead,), (back,), inside=part.kernels.dropout_mask * x))
    return ops


def _lookup(part: Slice) -> Op:
    """Rows of the split embedding, summed up over the tensor group.

    Learned positions are added to all tokens before these are shared out. Megatron-LM,
    ``megatron/core/models/common/embeddings/language_model_embedding.py``,
    ``reduce_scatter_embeddings``.  A frozen one has no backward: nothing before it is trained.
    """
    whole = part.width * part.stream
    if part.model.positions == "learned":
        total = part.over_tensor("embedding", "all-reduce", whole)
    else:
        total = summed(part, "embedding", part.model.hidden)
    back = () if part.frozen else _scattered(part, whole)
    return Op("embedding", (Stream("embedding", 2 * whole, 3), *total), back)


def _scattered(part: Slice, whole: float) -> tuple[Kernel, ...]:
    """Add the gradients of all tokens to the rows that they looked up.

    Parameters
    ----------
    whole : bytes of the residual stream [B]
    """
    w, rows = part.width, part.model.vocab * part.model.hidden / part.tensor
    return (
        *gathered(part, "embedding backward", part.model.hidden, w),
        Stream("embedding scatter", 2 * whole + w * rows, 2, of_weight=True),
        *gradient_sum("embedding", part, rows),
    )


def head_ops(part: Slice) -> list[Op]:
    """Return the final norm, the logits and the cross-entropy over the split vocabulary.

    The loss is about ten kernels: cast, maximum, subtract, mask, look-up, exponential, sum, divide
    and two on the tokens.  Their bytes are the framework's, their number only costs launches.
    """
    m, columns = part.model, part.model.vocab // part.tensor
    logits, w = part.tokens * columns, part.width
    weights = 0.0 if part.frozen else m.vocab * m.hidden / part.tensor
    each = w + 4 if part.kernels.loss_kept is None else part.kernels.loss_kept
    return [
        Op("logits gradient sum", backward=gradient_sum("logits", part, weights)),
        norm_op("final norm", part),
        _logits(part, columns),
        Op(
            "loss",
            forward=(
                Stream("loss", part.kernels.loss_forward * logits, 10),
                *_scalars(part, "loss", 3),
            ),
            backward=(Stream("loss backward", part.kernels.loss_backward * logits, 4),),
            inside=each * logits,
        ),
    ]


def _logits(part: Slice, columns: int) -> Op:
    """The product with the split vocabulary, which 8-bit recipes leave in 16 bits.

    A frozen weight has no gradient, so that its input is neither kept nor gathered again.
    """
    h, rows, w = part.model.hidden, part.tokens, part.width
    again = () if part.frozen else gathered(part, "logits again", h, w)
    weight = part.wide("logits weight gradient", columns, h, rows, of_weight=True)
    return Op(
        "logits",
        forward=(*gathered(part, "logits", h, w), part.wide("logits", rows, columns, h)),
        backward=(
            *again,
            part.wide("logits input gradient", rows, h, columns),
            *(() if part.frozen else (weight,)),
            *summed(part, "logits backward", h),
        ),
        inputs=0.0 if part.frozen else w * part.residual,
    )


def _scalars(part: Slice, name: str, times: int) -> list[Kernel]:
    """All-reduces of one 32-bit number a token: maximum, target logit and sum of the softmax."""
    if part.tensor == 1:
        return []
    return [Collective(f"{name} {i}", "all-reduce", 4.0 * part.tokens) for i in range(times)]
