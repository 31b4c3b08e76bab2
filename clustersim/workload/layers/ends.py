"""The two ends of the model: the embedding below the layers, norm, logits and loss above them."""

from clustersim.workload.kernels import Collective, Kernel, Stream
from clustersim.workload.layers.pieces import gathered, gradient_sum, norm_op, summed
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def boundary_gather(part: Slice, times: int) -> list[Kernel]:
    """Return the gathers of a stage's input or output that was sent or saved in shares.

    In sequence parallelism, each tensor rank uses its share directly.
    """
    if part.tensor == 1 or part.sequence_parallel:
        return []
    return [Collective("boundary", "all-gather", part.width * part.stream)] * times


def embedding_ops(part: Slice) -> list[Op]:
    """Return the lookup of tokens and positions, their sum, norm and dropout."""
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
    """Rows of the split embedding, reduced over the tensor group.

    Learned positions are added to all tokens before they are scattered. Megatron-LM,
    ``megatron/core/models/common/embeddings/language_model_embedding.py``,
    ``reduce_scatter_embeddings``.  A frozen embedding has no backward.
    """
    whole = part.width * part.stream
    if part.model.positions == "learned":
        total = part.over_tensor("embedding", "all-reduce", whole)
    else:
        total = summed(part, "embedding", part.model.hidden)
    back = () if part.frozen else _scattered(part, whole)
    return Op("embedding", (Stream("embedding", 2 * whole, 3), *total), back)


def _scattered(part: Slice, whole: float) -> tuple[Kernel, ...]:
    """Add the gradients of all tokens to their rows.

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

    The loss is about ten kernels: cast, maximum, subtract, mask, lookup, exponential, sum, divide
    and two on the tokens.  Their bytes are set by the framework; their number affects launches.
    """
    m, columns = part.model, part.model.vocab // part.tensor
    logits, w = part.tokens * columns, part.width
    weights = 0.0 if part.frozen else m.vocab * m.hidden / part.tensor
    saved = w + 4 if part.kernels.loss_kept is None else part.kernels.loss_kept
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
            inside=saved * logits,
        ),
    ]


def _logits(part: Slice, columns: int) -> Op:
    """The product with the split vocabulary, in 16 bits in 8-bit recipes as well.

    A frozen weight has no gradient, so its input is neither saved nor gathered twice.
    """
    h, rows, w = part.model.hidden, part.tokens, part.width
    regathered = () if part.frozen else gathered(part, "logits again", h, w)
    weight = part.wide("logits weight gradient", columns, h, rows, of_weight=True)
    return Op(
        "logits",
        forward=(*gathered(part, "logits", h, w), part.wide("logits", rows, columns, h)),
        backward=(
            *regathered,
            part.wide("logits input gradient", rows, h, columns),
            *(() if part.frozen else (weight,)),
            *summed(part, "logits backward", h),
        ),
        inputs=0.0 if part.frozen else w * part.residual,
    )


def _scalars(part: Slice, name: str, times: int) -> list[Kernel]:
    """All-reduces of one 32-bit number per token: maximum, target logit and sum of the softmax."""
    if part.tensor == 1:
        return []
    return [Collective(f"{name} {i}", "all-reduce", 4.0 * part.tokens) for i in range(times)]
