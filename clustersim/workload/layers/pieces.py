"""Components of layers: linear layers of a tensor group, norms and residuals.

    columns split    gather tokens, multiply        backward: reduce the gradient of the input
    rows split       multiply, reduce the output    backward: gather the gradient of the output

Without sequence parallelism there are no gathers, and reductions are all-reduces; with it each rank
holds 1 / t of the tokens in between, and reductions are reduce-scatters.  Korthikanti et al. 2022,
section 4.2.2, arXiv:2205.05198.
"""

from collections.abc import Sequence

from clustersim.workload.kernels import Collective, Gemm, Kernel, Overlapped, Stream
from clustersim.workload.layers.adapters import Linear, linear
from clustersim.workload.ops import Op
from clustersim.workload.slice import Slice


def column_op(
    op: str, shard: Slice, name: str, target: str, columns: int | Sequence[int], k: int,
    *, biased: bool = False,
) -> Op:  # fmt: skip
    """Return a linear layer of k inputs with split outputs; `columns` are those of this rank.

    In sequence parallelism tokens are gathered before the product, and again for the weight
    gradient instead of being saved. Megatron-LM, ``mpu/layers.py``, commit 02bb1f5,
    ``ColumnParallelLinearWithSequenceParallelism``.  An adapter reads the gathered tokens as well,
    so that they are gathered in 16 bits, not pipelined with the product: Transformer Engine,
    ``module/layernorm_linear.py``, ``return_layernorm_output``.
    """
    layer = linear(shard, name, target, shard.tokens, columns, k, "input")
    numbers = columns if isinstance(columns, int) else sum(columns)
    bias = shard.width * shard.tokens * numbers
    summed_up = biased and not shard.frozen
    after = (Stream(f"{name} bias gradient", bias, of_weight=True),) if summed_up else ()
    return Op(
        op,
        forward=_column_forward(shard, name, target, k, layer),
        backward=_column_backward(shard, name, k, layer, after),
        inputs=layer.inputs / shard.shared,
        inside=layer.inside,
    )


def _column_forward(
    shard: Slice, name: str, target: str, k: int, layer: Linear
) -> tuple[Kernel, ...]:
    """The gather of tokens comes before the product, or is pipelined with it."""
    if shard.adapts(target):
        return (*gathered(shard, name, k, shard.width), *layer.forward)
    return _pipelined(shard, gathered(shard, name, k, shard.precision.operand), layer.forward)


def _column_backward(
    shard: Slice, name: str, k: int, layer: Linear, after: tuple[Stream, ...]
) -> tuple[Kernel, ...]:
    """The input gradient comes first, so that its reduction can overlap with the weight gradient.

    Only the last product of a trained layer is the weight gradient.  A frozen layer has none, so
    that its input is not gathered again, and nothing overlaps with the reduction.
    """
    total = summed(shard, f"{name} backward", k)
    if shard.frozen:
        return (*layer.backward, *total)
    gather = gathered(shard, f"{name} again", k, shard.precision.operand)
    if not shard.kernels.tensor_overlap:
        return (*gather, *layer.backward, *after, *total)
    first, last = layer.backward[:-1], (*layer.backward[-1:], *after)
    return (*_overlapped(gather, first), *_overlapped(total, last))


def _overlapped(
    moved: Sequence[Collective], kernels: tuple[Gemm | Stream, ...]
) -> tuple[Kernel, ...]:
    """Return kernels that overlap with a collective, if there is one."""
    return (Overlapped(moved[0], kernels),) if moved else kernels


def _pipelined(
    shard: Slice, moved: Sequence[Collective], kernels: tuple[Gemm | Stream, ...],
    *, behind: bool = False,
) -> tuple[Kernel, ...]:  # fmt: skip
    r"""Return kernels with a collective before or after them, or pipelined with them.

    With pipelining, their largest product, that of the weight where there is an adapter as well, is
    cut into one piece per rank, and all but one overlap with the communication: the tokens of the
    rank itself need none.

    .. math:: \max(T, \frac{t - 1}{t} C) + \frac{C}{t}

    with T of the collective and C of the product, for a gather as for a reduction. The partial sums
    of a reduction are added in a separate pass. Transformer Engine,
    ``comm_gemm_overlap``, ring exchange; NeMo, *Communication Overlap*, pipelined overlap; PyTorch,
    ``torch/distributed/_symmetric_memory``, ``_fused_matmul_reduce_scatter``.
    """
    if not (moved and shard.sequence_parallel and shard.kernels.tensor_pipelined):
        return (*kernels, *moved) if behind else (*moved, *kernels)
    products = {i: kernel.flops for i, kernel in enumerate(kernels) if isinstance(kernel, Gemm)}
    largest = max(products, key=products.__getitem__)
    piece, rest = _piece(shard, kernels[largest]), shard.tensor - 1
    sums = (1 + 1 / shard.tensor) * moved[0].nbytes
    return (
        *kernels[:largest],
        Overlapped(moved[0], (piece,) * rest),
        piece,
        *((Stream(f"{moved[0].name} partial sums", sums),) if behind else ()),
        *kernels[largest + 1 :],
    )


def _piece(shard: Slice, product: Gemm | Stream) -> Gemm:
    """Return the part of a product for the tokens of one tensor rank."""
    assert isinstance(product, Gemm)
    return product._replace(m=max(1, product.m // shard.tensor))


def row_op(op: str, shard: Slice, name: str, target: str, n: int, k: int) -> Op:
    """Return a linear layer of n outputs with split inputs; k are those of this rank."""
    layer = linear(shard, name, target, shard.tokens, n, k, "gradient")
    total = summed(shard, name, n)
    gather = gathered(shard, f"{name} backward", n, shard.precision.operand)
    return Op(
        op,
        forward=_pipelined(shard, total, layer.forward, behind=True),
        backward=_pipelined(shard, gather, layer.backward),
        inputs=layer.inputs,
        inside=layer.inside,
    )


def gathered(shard: Slice, name: str, columns: int, width: float) -> list[Collective]:
    """All-gather tokens of some columns over the tensor group in sequence parallelism.

    Parameters
    ----------
    width : bytes per element [B]
    """
    if not shard.sequence_parallel:
        return []
    return shard.over_tensor(f"{name} gather", "all-gather", float(width * shard.tokens * columns))


def summed(shard: Slice, name: str, columns: int) -> list[Collective]:
    """Reduce tokens of some columns over the tensor group."""
    operation = "reduce-scatter" if shard.sequence_parallel else "all-reduce"
    return shard.over_tensor(name, operation, float(shard.width * shard.tokens * columns))


def gradient_sum(name: str, shard: Slice, weights: float) -> tuple[Stream, ...]:
    """Accumulate the gradients of `weights` weights of a microbatch.

    No passes if the products of the backward accumulate.
    """
    moved = shard.kernels.gradient_accumulation * weights
    return (Stream(f"{name} gradient sum", moved, 4, of_weight=True),) if moved else ()


def norm_op(name: str, shard: Slice, numbers: float | None = None, *, residual: bool = True) -> Op:
    """A norm reads and writes `numbers` elements, by default the residual stream.

    The backward has the input gradient (3), the parameter gradients (2, none with a persistent
    kernel or frozen parameters), and the sum with the gradient of the residual (3). Unfused RMSNorm
    casts to 32 bits, squares, averages, scales, casts back and multiplies by the weight: Hugging
    Face transformers, ``LlamaRMSNorm``. Each of these has two kernels in its backward.
    """
    w, x = shard.width, shard.residual if numbers is None else numbers
    once = shard.kernels.norm_persistent or shard.frozen
    ahead, back, launches = 2 * w, (3 if once else 3 + 2) * w, 1
    if shard.model.norm == "rms" and not shard.kernels.norm_fused:
        ahead, launches = (w + 4) + 8 + 4 + 8 + (4 + w) + 2 * w, 6
        back = 2 * ahead
    back += 3 * w if residual else 0
    return Op(
        name,
        forward=(Stream("norm", float(ahead * x), launches),),
        backward=(Stream("norm backward", float(back * x), launches + 3),),
        inputs=w * x,
    )


def residual_op(name: str, shard: Slice, bias: str) -> Op:
    """Bias, dropout and the sum with the residual stream.

    Forward reads input and residual and writes the sum and the mask; unfused, in separate passes.
    Backward reads gradient and mask, writes the gradient, then sums it over tokens for the bias.

    Parameters
    ----------
    bias : ``output`` or ``mlp``, the layer of the bias
    """
    x, w, dropout = shard.residual, shard.width, shard.model.dropout
    biased, mask = bias in shard.model.biases, 1 if dropout else 0
    ahead = Stream("bias dropout add", (3 * w + mask) * x)
    if not shard.kernels.bias_dropout_fused:
        apart = 3 * w + (2 * w if biased else 0) + (2 * w + 1 if dropout else 0)
        ahead = Stream("bias dropout add", apart * x, 1 + biased + dropout)
    back = (w if biased else 0) + (2 * w + 1 if dropout else 0)
    return Op(
        name,
        forward=(ahead,),
        backward=(Stream("bias dropout add backward", back * x, biased + dropout),) if back else (),
        inside=mask * shard.kernels.dropout_mask * x,
    )
