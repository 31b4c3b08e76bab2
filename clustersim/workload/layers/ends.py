"""The two ends of the model: the embedding below the layers, norm, logits and loss above them."""

from clustersim.workload.kernels import Collective, Kernel, Stream
from clustersim.workload.layers.pieces import gathered, gradient_sum, norm_op, summed
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def boundary_gather(shard: Slice, times: int) -> list[Kernel]:
    """Return the gathers of a stage's input or output that was sent or saved in shares.

    In sequence parallelism, each tensor rank uses its share directly.
    """
    if shard.tensor == 1 or shard.sequence_parallel:
        return []
    return [Collective("boundary", "all-gather", shard.width * shard.stream)] * times


def embedding_ops(shard: Slice) -> list[Op]:
    """Return the lookup of tokens and positions, their sum, norm and dropout."""
    m, x, w = shard.model, shard.residual, shard.width
    ops = [_lookup(shard)]
    if m.positions == "learned":
        ops.append(Op("positions", forward=(Stream("position add", 3 * w * shard.stream),)))
    if m.embedding_norm:
        ops.append(norm_op("embedding norm", shard, residual=False))
    if m.dropout:
        moved = (2 * w + 1) * x
        ahead, back = (Stream(f"embedding dropout{what}", moved) for what in ("", " backward"))
        ops.append(
            Op("embedding dropout", (ahead,), (back,), inside=shard.kernels.dropout_mask * x)
        )
    return ops


def _lookup(shard: Slice) -> Op:
    """Rows of the split embedding, reduced over the tensor group.

    Learned positions are added to all tokens before they are scattered. Megatron-LM,
    ``megatron/core/models/common/embeddings/language_model_embedding.py``,
    ``reduce_scatter_embeddings``.  A frozen embedding has no backward.
    """
    whole = shard.width * shard.stream
    if shard.model.positions == "learned":
        total = shard.over_tensor("embedding", "all-reduce", whole)
    else:
        total = summed(shard, "embedding", shard.model.hidden)
    back = () if shard.freezes("embedding") else _scattered(shard, whole)
    return Op("embedding", (Stream("embedding", 2 * whole, 3), *total), back)


def _scattered(shard: Slice, whole: float) -> tuple[Kernel, ...]:
    """Add the gradients of all tokens to their rows.

    Parameters
    ----------
    whole : bytes of the residual stream [B]
    """
    w, rows = shard.width, shard.model.vocab * shard.model.hidden / shard.tensor
    return (
        *gathered(shard, "embedding backward", shard.model.hidden, w),
        Stream("embedding scatter", 2 * whole + w * rows, 2, of_weight=True),
        *gradient_sum("embedding", shard, rows),
    )


def head_ops(shard: Slice) -> list[Op]:
    """Return the final norm, the logits and the cross-entropy over the split vocabulary.

    The loss is about ten kernels: cast, maximum, subtract, mask, lookup, exponential, sum, divide
    and two on the tokens.  Their bytes are set by the framework; their number affects launches.
    """
    m, columns = shard.model, shard.model.vocab // shard.tensor
    logits, w = shard.tokens * columns, shard.width
    weights = 0.0 if shard.freezes("logits") else m.vocab * m.hidden / shard.tensor
    saved = w + 4 if shard.kernels.loss_kept is None else shard.kernels.loss_kept
    return [
        Op("logits gradient sum", backward=gradient_sum("logits", shard, weights)),
        norm_op("final norm", shard),
        _logits(shard, columns),
        Op(
            "loss",
            forward=(
                Stream("loss", shard.kernels.loss_forward * logits, 10),
                *_scalars(shard, "loss", 3),
            ),
            backward=(Stream("loss backward", shard.kernels.loss_backward * logits, 4),),
            inside=saved * logits,
        ),
    ]


def _logits(shard: Slice, columns: int) -> Op:
    """The product with the split vocabulary, in 16 bits in 8-bit recipes as well.

    A frozen weight has no gradient, so its input is neither saved nor gathered twice.
    """
    h, rows, w = shard.model.hidden, shard.tokens, shard.width
    frozen = shard.freezes("logits")
    regathered = () if frozen else gathered(shard, "logits again", h, w)
    weight = shard.wide("logits weight gradient", columns, h, rows, of_weight=True)
    return Op(
        "logits",
        forward=(*gathered(shard, "logits", h, w), shard.wide("logits", rows, columns, h)),
        backward=(
            *regathered,
            shard.wide("logits input gradient", rows, h, columns),
            *(() if frozen else (weight,)),
            *summed(shard, "logits backward", h),
        ),
        inputs=0.0 if frozen else w * shard.residual,
    )


def _scalars(shard: Slice, name: str, times: int) -> list[Kernel]:
    """All-reduces of one 32-bit number per token: maximum, target logit and sum of the softmax."""
    if shard.tensor == 1:
        return []
    return [Collective(f"{name} {i}", "all-reduce", 4.0 * shard.tokens) for i in range(times)]
