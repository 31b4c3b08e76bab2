"""Linear layers: trained, frozen, or frozen with an adapter.

    trained            x W                       gradients of x and W
    frozen             x W                       gradient of x
    with an adapter    x W + drop(x) A B         gradients of x, A and B

A quantised weight is dequantised before each product, forward and backward. The passes around the
products are those of PEFT, ``tuners/lora/layer.py``, ``bnb.py`` and ``dora.py``, each a separate
kernel.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from clustersim.workload.finetune import Finetune
from clustersim.workload.kernels import Gemm, Stream
from clustersim.workload.slice import Slice

Shape = tuple[int, int, int]
"""Tokens, outputs and inputs of a product, (m, k) by (k, n)."""

Shared = Literal["input", "gradient"] | None
"""The operand of a layer that is gathered in sequence parallelism."""


class Linear(NamedTuple):
    """Kernels and saved activations of linear layers with the same input.

    Attributes
    ----------
    forward, backward : kernels on this rank, without collectives
    inputs : their input as saved for the backward [B]
    inside : intermediate results saved for the backward [B]
    """

    forward: tuple[Gemm | Stream, ...] = ()
    backward: tuple[Gemm | Stream, ...] = ()
    inputs: float = 0.0
    inside: float = 0.0

    def then(self, other: "Linear") -> "Linear":
        """Return both in sequence, with the backward in reverse order."""
        return Linear(
            self.forward + other.forward,
            other.backward + self.backward,
            max(self.inputs, other.inputs),
            self.inside + other.inside,
        )


def linear(
    shard: Slice, name: str, target: str, m: int, columns: int | Sequence[int], k: int,
    shared: Shared = None,
) -> Linear:  # fmt: skip
    """Return linear layers with the same input of m tokens by k elements.

    Trained layers are one product; frozen layers are separate products, as each may have an
    adapter, unless they are merged.

    Parameters
    ----------
    target : ``qkv``, ``output`` or ``mlp``; ``logits``, which is never quantised
    columns : outputs of each layer on this rank
    shared : the operand that is gathered in sequence parallelism
    """
    widths = [columns] if isinstance(columns, int) else list(columns)
    if shard.finetune is None:
        return _trained(shard, name, (m, sum(widths), k), shared)
    if shard.finetune.merged:
        widths = [sum(widths)]
    if shard.adapts(target) and shared == "input":
        shared = None  # gathered in 16 bits, which the adapter reads
    layers = Linear()
    for n in widths:
        layers = layers.then(_frozen(shard, shard.finetune, name, target, (m, n, k), shared))
        if shard.adapts(target):
            layers = layers.then(_adapter(shard, shard.finetune, name, m, n, k))
    return layers


def _trained(shard: Slice, name: str, shape: Shape, shared: Shared) -> Linear:
    """Two products backward: the gradients of the input (m, n)(n, k) and the weight (k, m)(m, n).

    The weight gradient is last. An 8-bit input is saved in 8 bits.
    """
    facts = shard.kernels
    m, n, k = shape
    apart = shard.sequence_parallel
    read, turned = _cast(shard, name, m * k, apart=apart, first=shared == "input")
    late = apart and shared == "gradient"
    gradient, gradient_turned = _cast(shard, f"{name} gradient", m * n, apart=late, first=late)
    back: tuple[Gemm | Stream, ...] = (
        *_weight_cast(shard, f"{name} weight again", facts.weight_cast_backward * n * k, 1),
        *gradient,
        shard.gemm(f"{name} input gradient", m, k, n),
        *turned,
        *gradient_turned,
        shard.gemm(f"{name} weight gradient", n, k, m, of_weight=True),
    )
    ahead: tuple[Gemm | Stream, ...] = (
        *read,
        *_weight_cast(shard, f"{name} weight", facts.weight_cast_forward * n * k, 2),
        shard.gemm(name, m, n, k),
    )
    return Linear(ahead, back, inputs=shard.precision.operand * m * k)


def _cast(
    shard: Slice, name: str, numbers: int, *, apart: bool, first: bool
) -> tuple[tuple[Stream, ...], tuple[Stream, ...]]:
    """Return the passes that cast an operand to fewer bits, and those that transpose it later.

    In sequence parallelism an input with one scale is cast by rows only, before it is gathered if
    it is, and transposed for the product of the weight gradient; so is a gathered gradient.
    Otherwise both are cast, before a gather, which has the one that is needed. Transformer Engine,
    ``module/linear.py``, commit 0004dbd, ``module/base.py``, ``grad_output_preprocess``, and
    ``distributed.py``, ``_all_gather_mxfp8``.

    Parameters
    ----------
    apart : whether the transpose is a separate pass
    first : whether it is cast before it is gathered
    """
    recipe, own = shard.precision, numbers // (shard.tensor if apart and first else 1)
    if not (recipe.cast and recipe.whole and apart):
        return narrowed(shard, name, own), ()
    turned = Stream(f"{name} transpose", 2.0 * recipe.operand * numbers, of_weight=True)
    return narrowed(shard, name, own, ways=1), (turned,)


def _weight_cast(shard: Slice, name: str, nbytes: float, launches: int) -> tuple[Stream, ...]:
    """Return the passes that cast a weight to 8 bits, if not done once per step."""
    if not (shard.precision.cast and nbytes):
        return ()
    return (Stream(f"{name} cast", nbytes, launches),)


def narrowed(shard: Slice, name: str, numbers: int, ways: int = 2) -> tuple[Stream, ...]:
    """Return the pass that finds the maximum of some elements and writes them in fewer bits.

    It writes them by rows and by columns, as products read them in forward and backward:
    Transformer Engine, ``cast_transpose``. Where their own maximum is the scale, and not that of
    earlier steps, a pass before it finds that: ``Float8CurrentScalingQuantizer``, and
    ``NVFP4Quantizer``, which multiplies columns by a Hadamard matrix in both passes.
    """
    recipe = shard.precision
    if not recipe.cast:
        return ()
    searched = recipe.searched or (recipe.whole and shard.kernels.cast_searched)
    moved = (searched + 1) * recipe.width + ways * recipe.operand
    return (Stream(f"{name} cast", float(moved * numbers), 1 + recipe.searched),)


def _frozen(
    shard: Slice, finetune: Finetune, name: str, target: str, shape: Shape, shared: Shared
) -> Linear:
    """The weight is dequantised before each of its two products; it has no gradient.

    Input and gradient are cast to 8 bits in one layout only, as there is no weight gradient.
    """
    m, n, k = shape
    wide = () if target == "logits" else widened(finetune, name, n, k, shard.width)
    read = m * k // (shard.shared if shared == "input" else 1)
    gradient = m * n // (shard.shared if shared == "gradient" else 1)
    return Linear(
        (*narrowed(shard, name, read, ways=1), *wide, shard.gemm(name, m, n, k)),
        (
            *narrowed(shard, f"{name} gradient", gradient, ways=1),
            *wide,
            shard.gemm(f"{name} input gradient", m, k, n),
        ),
    )


def widened(finetune: Finetune, name: str, n: int, k: int, width: int) -> tuple[Stream, ...]:
    """Return the pass that dequantises a weight.

    Constants that are quantised take two more kernels. bitsandbytes,
    ``functional.py``, ``dequantize_4bit``; HQQ, ``core/quantize.py``, ``dequantize``.
    """
    if not finetune.quantised:
        return ()
    per_weight = finetune.bits / 8 + finetune.constants(k) + width
    nbytes = per_weight * n * k
    return (Stream(f"{name} dequantisation", nbytes, 3 if finetune.bits == 4 else 1),)


def _adapter(shard: Slice, finetune: Finetune, name: str, m: int, n: int, k: int) -> Linear:
    """The input with dropout multiplied by A and B, scaled and added to the output.

    Products may include the scale: NeMo AutoModel, ``_peft/lora_kernel.py``.  They stay in 16 bits
    in 8-bit recipes, as adapters are no layers of Transformer Engine: Megatron-Bridge,
    ``peft/utils.py``, ``ParallelLinearAdapter``.

    Saved are the mask, the input with dropout and the output of A; without dropout the input
    itself, which other readers may save as well. The output of a quantised layer is copied before
    the addition.
    """
    r, w = finetune.rank, shard.width
    drops = finetune.dropout
    copied = 2 * w * m * n if finetune.quantised else 0
    scaled = 0 if shard.kernels.adapters_scaled else 2
    ahead: list[Gemm | Stream] = [
        *([Stream(f"{name} adapter dropout", (2 * w + 1) * m * k)] if drops else []),
        _last_use(shard.wide(f"{name} adapter down", m, r, k)),
        _last_use(shard.wide(f"{name} adapter up", m, n, r)),
        Stream(
            f"{name} adapter sum",
            copied + (scaled + 3) * w * m * n,
            (copied > 0) + (scaled > 0) + 1,
        ),
    ]
    back: list[Gemm | Stream] = [
        *([Stream(f"{name} adapter scale backward", scaled * w * m * n)] if scaled else []),
        shard.wide(f"{name} adapter up input gradient", m, r, n),
        _last_use(shard.wide(f"{name} adapter up weight gradient", n, r, m, of_weight=True)),
        shard.wide(f"{name} adapter down input gradient", m, k, r),
        _last_use(shard.wide(f"{name} adapter down weight gradient", r, k, m, of_weight=True)),
        *([Stream(f"{name} adapter dropout backward", (2 * w + 1) * m * k)] if drops else []),
        Stream(f"{name} adapter gradient sum", 3 * w * m * k),
    ]
    adapter = Linear(
        tuple(ahead),
        tuple(back),
        inputs=0.0 if drops else w * m * k,
        inside=((w + 1) * m * k if drops else 0) + w * m * r,
    )
    return adapter.then(_magnitude(shard, finetune, name, m, n, k))


def _last_use(product: Gemm) -> Gemm:
    """Return the product after which a factor of an adapter is not needed in this pass."""
    return product._replace(factor=True)


def _magnitude(shard: Slice, finetune: Finetune, name: str, m: int, n: int, k: int) -> Linear:
    """The output divided by the column norms of W + A B and multiplied by trained magnitudes.

    The norm has no gradient: DoRA, arXiv:2402.09353, section 4.3.
    """
    if finetune.method != "dora":
        return Linear()
    w = shard.width
    ahead: tuple[Gemm | Stream, ...] = (
        *widened(finetune, f"{name} norm", n, k, w),
        shard.gemm(f"{name} adapter product", n, k, finetune.rank),
        Stream(f"{name} column norm", (3 + 1) * w * n * k, 2),
        Stream(f"{name} magnitude", (2 + 2) * w * m * n, 2),
    )
    back = (
        Stream(f"{name} magnitude backward", (2 + 2 + 2) * w * m * n, 3),
        Stream(f"{name} magnitude gradient sum", w * m * n, of_weight=True),
    )
    return Linear(ahead, back, inside=w * m * n)
