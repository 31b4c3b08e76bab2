"""Linear layers: trained as a whole, frozen, or frozen with an adapter beside them.

    trained            x W                       gradients of x and W
    frozen             x W                       gradient of x
    with an adapter    x W + drop(x) A B         gradients of x, A and B

A frozen weight of few bits is made wide again before each product, forward and backward. The
passes around the products are those of PEFT, ``tuners/lora/layer.py``, ``bnb.py`` and ``dora.py``,
each a kernel of its own.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from clustersim.workload.finetune import Finetune
from clustersim.workload.kernels import Gemm, Stream
from clustersim.workload.slice import Slice

Shape = tuple[int, int, int]
"""Tokens, outputs and inputs of a product, (m, k) by (k, n)."""

Shared = Literal["input", "gradient"] | None
"""Which operand of a layer is gathered from shares of the tokens."""


class Linear(NamedTuple):
    """What linear layers that read the same input run and keep.

    Attributes
    ----------
    forward, backward : kernels on this rank, without collectives
    inputs : of their input, what the backward needs again [B]
    inside : what they make for their backward [B]
    """

    forward: tuple[Gemm | Stream, ...] = ()
    backward: tuple[Gemm | Stream, ...] = ()
    inputs: float = 0.0
    inside: float = 0.0

    def then(self, other: "Linear") -> "Linear":
        """Return both, the backward of the later one first."""
        return Linear(
            self.forward + other.forward,
            other.backward + self.backward,
            max(self.inputs, other.inputs),
            self.inside + other.inside,
        )


def linear(
    part: Slice, name: str, target: str, m: int, columns: int | Sequence[int], k: int,
    shared: Shared = None,
) -> Linear:  # fmt: skip
    """Return linear layers that read the same input of m tokens by k numbers.

    Trained ones are one product; frozen ones a product each, as each may have an adapter, unless
    they are merged.

    Parameters
    ----------
    target : ``qkv``, ``output`` or ``mlp``; ``logits``, which is never quantised
    columns : outputs of each of them on this rank
    shared : what is gathered from shares of the tokens in sequence parallelism
    """
    each = [columns] if isinstance(columns, int) else list(columns)
    if part.finetune is None:
        return _trained(part, name, (m, sum(each), k), shared)
    if part.finetune.merged:
        each = [sum(each)]
    found = Linear()
    for n in each:
        found = found.then(_frozen(part, part.finetune, name, target, (m, n, k), shared))
        if target in part.finetune.targets:
            found = found.then(_adapter(part, part.finetune, name, m, n, k))
    return found


def _trained(part: Slice, name: str, shape: Shape, shared: Shared) -> Linear:
    """Two products backward: the input's gradient (m, n)(n, k) and the weight's (k, m)(m, n).

    The weight's comes last. An 8-bit input is kept in 8 bits.
    """
    facts = part.kernels
    m, n, k = shape
    apart = part.sequence_parallel
    read, turned = _cast(part, name, m * k, apart=apart, first=shared == "input")
    late = apart and shared == "gradient"
    given, given_turned = _cast(part, f"{name} gradient", m * n, apart=late, first=late)
    back: tuple[Gemm | Stream, ...] = (
        *_weight_cast(part, f"{name} weight again", facts.weight_cast_backward * n * k, 1),
        *given,
        part.gemm(f"{name} input gradient", m, k, n),
        *turned,
        *given_turned,
        part.gemm(f"{name} weight gradient", n, k, m, of_weight=True),
    )
    ahead: tuple[Gemm | Stream, ...] = (
        *read,
        *_weight_cast(part, f"{name} weight", facts.weight_cast_forward * n * k, 2),
        part.gemm(name, m, n, k),
    )
    return Linear(ahead, back, inputs=part.precision.operand * m * k)


def _cast(
    part: Slice, name: str, numbers: int, *, apart: bool, first: bool
) -> tuple[tuple[Stream, ...], tuple[Stream, ...]]:
    """Return the passes that make an operand 8 bits wide, and those that turn it round later.

    In sequence parallelism an input is cast by rows alone, its own share where it is to be
    gathered, and turned round for the product of the weight's gradient; so is a gradient that is
    to be gathered. Else one pass does both. Transformer Engine, ``module/linear.py``, commit
    0004dbd, and ``module/base.py``, ``grad_output_preprocess``.

    Parameters
    ----------
    apart : whether it is turned round by a pass of its own
    first : whether it is cast before it is gathered
    """
    if not (part.precision.cast and apart):
        return narrowed(part, name, numbers), ()
    turned = Stream(f"{name} transpose", 2.0 * part.precision.operand * numbers, of_weight=True)
    return narrowed(part, name, numbers // (part.tensor if first else 1), ways=1), (turned,)


def _weight_cast(part: Slice, name: str, nbytes: float, launches: int) -> tuple[Stream, ...]:
    """Return the passes that cast a weight to 8 bits, where that is not done once a step."""
    if not (part.precision.cast and nbytes):
        return ()
    return (Stream(f"{name} cast", nbytes, launches),)


def narrowed(part: Slice, name: str, numbers: int, ways: int = 2) -> tuple[Stream, ...]:
    """Return the pass that finds the largest of some numbers and writes them in 8 bits.

    Twice, by rows and by columns, as products read them in forward and backward: Transformer
    Engine, ``cast_transpose``.
    """
    recipe = part.precision
    if not recipe.cast:
        return ()
    return (Stream(f"{name} cast", float((recipe.width + ways * recipe.operand) * numbers)),)


def _frozen(
    part: Slice, finetune: Finetune, name: str, target: str, shape: Shape, shared: Shared
) -> Linear:
    """The weight is made wide before each of its two products; it has no gradient.

    Input and gradient are cast to 8 bits in one way only, as no product of the weight's gradient
    reads them.
    """
    m, n, k = shape
    wide = () if target == "logits" else widened(finetune, name, n, k, part.width)
    read = m * k // (part.shared if shared == "input" else 1)
    given = m * n // (part.shared if shared == "gradient" else 1)
    return Linear(
        (*narrowed(part, name, read, ways=1), *wide, part.gemm(name, m, n, k)),
        (
            *narrowed(part, f"{name} gradient", given, ways=1),
            *wide,
            part.gemm(f"{name} input gradient", m, k, n),
        ),
    )


def widened(finetune: Finetune, name: str, n: int, k: int, width: int) -> tuple[Stream, ...]:
    """Return the pass that reads a weight of few bits with its constants and writes it wide.

    Constants that are quantised themselves take two more kernels. bitsandbytes,
    ``functional.py``, ``dequantize_4bit``; HQQ, ``core/quantize.py``, ``dequantize``.
    """
    if not finetune.quantised:
        return ()
    each = finetune.bits / 8 + finetune.constants(k) + width
    return (Stream(f"{name} dequantisation", each * n * k, 3 if finetune.bits == 4 else 1),)


def _adapter(part: Slice, finetune: Finetune, name: str, m: int, n: int, k: int) -> Linear:
    """The input with dropout through A and B, scaled and added to the output.

    Products may scale what they make: NeMo AutoModel, ``_peft/lora_kernel.py``.

    Kept are the mask, the input with dropout and what comes out of A; without dropout the input
    itself, which what else reads it may keep as well. The output of a quantised layer is copied
    before anything is added to it.
    """
    r, w = finetune.rank, part.width
    drops = finetune.dropout
    copied = 2 * w * m * n if finetune.quantised else 0
    scaled = 0 if part.kernels.adapters_scaled else 2
    ahead: list[Gemm | Stream] = [
        *([Stream(f"{name} adapter dropout", (2 * w + 1) * m * k)] if drops else []),
        part.gemm(f"{name} adapter down", m, r, k),
        part.gemm(f"{name} adapter up", m, n, r),
        Stream(
            f"{name} adapter sum",
            copied + (scaled + 3) * w * m * n,
            (copied > 0) + (scaled > 0) + 1,
        ),
    ]
    back: list[Gemm | Stream] = [
        *([Stream(f"{name} adapter scale backward", scaled * w * m * n)] if scaled else []),
        part.gemm(f"{name} adapter up input gradient", m, r, n),
        part.gemm(f"{name} adapter up weight gradient", n, r, m, of_weight=True),
        part.gemm(f"{name} adapter down input gradient", m, k, r),
        part.gemm(f"{name} adapter down weight gradient", r, k, m, of_weight=True),
        *([Stream(f"{name} adapter dropout backward", (2 * w + 1) * m * k)] if drops else []),
        Stream(f"{name} adapter gradient sum", 3 * w * m * k),
    ]
    found = Linear(
        tuple(ahead),
        tuple(back),
        inputs=0.0 if drops else w * m * k,
        inside=((w + 1) * m * k if drops else 0) + w * m * r,
    )
    return found.then(_magnitude(part, finetune, name, m, n, k))


def _magnitude(part: Slice, finetune: Finetune, name: str, m: int, n: int, k: int) -> Linear:
    """The norm of each column of W + A B divides the output, a trained magnitude multiplies it.

    No gradient passes through the norm: DoRA, arXiv:2402.09353, section 4.3.
    """
    if finetune.method != "dora":
        return Linear()
    w = part.width
    ahead: tuple[Gemm | Stream, ...] = (
        *widened(finetune, f"{name} norm", n, k, w),
        part.gemm(f"{name} adapter product", n, k, finetune.rank),
        Stream(f"{name} column norm", (3 + 1) * w * n * k, 2),
        Stream(f"{name} magnitude", (2 + 2) * w * m * n, 2),
    )
    back = (
        Stream(f"{name} magnitude backward", (2 + 2 + 2) * w * m * n, 3),
        Stream(f"{name} magnitude gradient sum", w * m * n, of_weight=True),
    )
    return Linear(ahead, back, inside=w * m * n)
