"""The kernels of a training step with their shapes, as one tensor rank runs them.

Nothing here has a duration.  A `Gemm` knows its shape, a `Stream` the bytes it moves, a `Flash`
its FLOPs, a `Collective` its payload; what they take is the business of `cost`.

Letters in the formulas: b sequences of a microbatch, s tokens, h hidden, f ffn, a heads,
t tensor ranks, V vocabulary.  Numbers are 2 bytes wide, dropout masks 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.workload.model import Transformer

WIDTH = 2
"""Bytes of a half-precision number."""


class Gemm(NamedTuple):
    """`batch` products of (m, k) by (k, n); `attention` where they are of the attention core."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    attention: bool = False

    @property
    def flops(self) -> float:
        """Multiplications and additions [FLOP]."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> float:
        """Bytes of the operands and the result, each touched once [B]."""
        each = self.m * self.k + self.k * self.n + self.m * self.n
        return float(WIDTH * self.batch * each)


class Stream(NamedTuple):
    """An elementwise or reduction pass: `nbytes` read and written in all, by `launches` kernels."""

    name: str
    nbytes: float
    launches: int = 1


class Flash(NamedTuple):
    """Fused attention: `flops` carried out (half of the square where a mask skips the rest)."""

    name: str
    flops: float
    nbytes: float
    head_size: int
    backward: bool


class Collective(NamedTuple):
    """A collective over the tensor group: `nbytes` of the whole buffer [B]."""

    name: str
    operation: str
    nbytes: float


Kernel = Gemm | Stream | Flash | Collective


@dataclass(frozen=True)
class KernelChoice:
    """Which kernels the framework runs a layer as.

    Attributes
    ----------
    attention : ``flash``, ``fused-softmax`` or ``unfused``
    bias_gelu_fused, bias_dropout_fused : whether these chains are one kernel
    gradient_accumulation : bytes moved for each weight and microbatch to add its gradient up [B]
    loss_forward, loss_backward : bytes moved for each logit by the cross-entropy [B]
    """

    attention: str
    bias_gelu_fused: bool
    bias_dropout_fused: bool
    gradient_accumulation: float
    loss_forward: float
    loss_backward: float


@dataclass(frozen=True)
class Slice:
    """What one tensor rank computes on for one microbatch.

    Attributes
    ----------
    micro : sequences of a microbatch
    tensor : ranks that share each layer
    """

    model: Transformer
    micro: int
    tensor: int
    kernels: KernelChoice

    @property
    def tokens(self) -> int:
        """Tokens of a microbatch, b s."""
        return self.micro * self.model.sequence

    @property
    def stream(self) -> float:
        """Elements of the residual stream, b s h, whole on every tensor rank."""
        return float(self.tokens * self.model.hidden)

    @property
    def attention(self) -> str:
        """How attention runs on this slice: the fused softmax has shapes that it does not take.

        It needs at most 2,048 keys, and rows and attention matrices in fours. Megatron-LM,
        ``megatron/model/fused_softmax.py``, ``is_kernel_available``.
        """
        chosen, sequence = self.kernels.attention, self.model.sequence
        matrices = self.micro * self.model.heads // self.tensor
        taken = sequence <= 2048 and sequence % 4 == 0 and matrices % 4 == 0
        return "unfused" if chosen == "fused-softmax" and not taken else chosen

    @property
    def scores(self) -> float:
        """Elements of the attention matrix of this rank, b a s^2 / t."""
        return self.micro * self.model.heads * float(self.model.sequence) ** 2 / self.tensor


def boundary_gather(part: Slice, times: int) -> list[Kernel]:
    """Return the gathers of a stage's input or output that was sent or kept in shares."""
    if part.tensor == 1:
        return []
    return [Collective("boundary", "all-gather", WIDTH * part.stream)] * times


def layer_forward(part: Slice) -> list[Kernel]:
    """Return one block, forward."""
    m, t, x = part.model, part.tensor, part.stream
    return [
        Stream("norm", 2 * WIDTH * x),
        Gemm("qkv", part.tokens, 3 * m.hidden // t, m.hidden),
        *_ATTENTION_FORWARD[part.attention](part),
        Gemm("projection", part.tokens, m.hidden, m.hidden // t),
        *_reduce(part, "projection"),
        _bias_dropout_add(part),
        Stream("norm", 2 * WIDTH * x),
        Gemm("mlp up", part.tokens, m.ffn // t, m.hidden),
        _gelu(part, backward=False),
        Gemm("mlp down", part.tokens, m.hidden, m.ffn // t),
        *_reduce(part, "mlp down"),
        _bias_dropout_add(part),
    ]


def layer_backward(part: Slice) -> list[Kernel]:
    """Return one block, backward: the gradients of its input and of its weights."""
    m, t, x = part.model, part.tensor, part.stream
    return [
        _bias_dropout_add_backward(part),
        *_gemm_backward("mlp down", part.tokens, m.hidden, m.ffn // t),
        _gelu(part, backward=True),
        *_gemm_backward("mlp up", part.tokens, m.ffn // t, m.hidden),
        *_reduce(part, "mlp up backward"),
        _norm_backward(part),
        _bias_dropout_add_backward(part),
        *_gemm_backward("projection", part.tokens, m.hidden, m.hidden // t),
        *_ATTENTION_BACKWARD[part.attention](part),
        *_gemm_backward("qkv", part.tokens, 3 * m.hidden // t, m.hidden),
        Stream("qkv bias gradient", WIDTH * 3 * x / t),
        *_reduce(part, "qkv backward"),
        _norm_backward(part),
        _accumulate(part, m.layer_parameters / t, "layer"),
    ]


def embedding_forward(part: Slice) -> list[Kernel]:
    """Return the look-up of tokens and positions, their sum and its dropout."""
    x = part.stream
    return [
        Stream("embedding", 2 * WIDTH * x, 3),
        *_reduce(part, "embedding"),
        Stream("position add", 3 * WIDTH * x),
        Stream("embedding dropout", (2 * WIDTH + 1) * x),
    ]


def embedding_backward(part: Slice) -> list[Kernel]:
    """Return the dropout's gradient and the scatter into the embedding's gradient."""
    x, rows = part.stream, part.model.embedding_parameters / part.tensor
    return [
        Stream("embedding dropout backward", (2 * WIDTH + 1) * x),
        Stream("embedding scatter", 2 * WIDTH * x + WIDTH * rows, 2),
        _accumulate(part, rows, "embedding"),
    ]


def head_forward(part: Slice) -> list[Kernel]:
    """Return the final norm, the logits and the cross-entropy over the split vocabulary.

    The loss is about ten kernels: cast, maximum, subtract, mask, look-up, exponential, sum, divide
    and two on the tokens.  Their bytes are the framework's, their number only costs launches.
    """
    m, columns = part.model, part.model.vocab // part.tensor
    return [
        Stream("norm", 2 * WIDTH * part.stream),
        Gemm("logits", part.tokens, columns, m.hidden),
        Stream("loss", part.kernels.loss_forward * part.tokens * columns, 10),
        *_reduce_small(part, "loss", 3),
    ]


def head_backward(part: Slice) -> list[Kernel]:
    """Return the gradients of the loss, of the logits and of the final norm."""
    m, columns = part.model, part.model.vocab // part.tensor
    return [
        Stream("loss backward", part.kernels.loss_backward * part.tokens * columns, 4),
        *_gemm_backward("logits", part.tokens, columns, m.hidden),
        *_reduce(part, "logits backward"),
        _norm_backward(part),
        _accumulate(part, m.embedding_parameters / part.tensor, "logits"),
    ]


# --- the pieces of a block -----------------------------------------------------------------------


def _gemm_backward(name: str, m: int, n: int, k: int) -> list[Kernel]:
    """Two products: the input's gradient (m, n)(n, k) and the weight's (k, m)(m, n)."""
    return [Gemm(f"{name} input gradient", m, k, n), Gemm(f"{name} weight gradient", n, k, m)]


def _reduce(part: Slice, name: str) -> list[Kernel]:
    """All-reduce of the residual stream over the tensor group."""
    if part.tensor == 1:
        return []
    return [Collective(name, "all-reduce", WIDTH * part.stream)]


def _reduce_small(part: Slice, name: str, times: int) -> list[Kernel]:
    """All-reduces of one 32-bit number a token: maximum, target logit and sum of the softmax."""
    if part.tensor == 1:
        return []
    return [Collective(f"{name} {i}", "all-reduce", 4.0 * part.tokens) for i in range(times)]


def _bias_dropout_add(part: Slice) -> Stream:
    """Read input, residual; write sum and mask.  Unfused: bias, dropout and sum pass by pass."""
    x = part.stream
    if part.kernels.bias_dropout_fused:
        return Stream("bias dropout add", (3 * WIDTH + 1) * x)
    return Stream("bias dropout add", (7 * WIDTH + 1) * x, 3)


def _bias_dropout_add_backward(part: Slice) -> Stream:
    """Read gradient and mask, write gradient, then sum it over tokens for the bias."""
    return Stream("bias dropout add backward", (3 * WIDTH + 1) * part.stream, 2)


def _norm_backward(part: Slice) -> Stream:
    """Input gradient, the two parameter gradients, and the sum with the residual's gradient."""
    return Stream("norm backward", (3 + 2 + 3) * WIDTH * part.stream, 4)


def _gelu(part: Slice, *, backward: bool) -> Stream:
    """GELU with its bias on this rank's share of the MLP, b s f / t elements.

    Forward reads and writes, and once more for the bias where that is a kernel of its own.
    Backward reads gradient and input and writes, then sums the gradient over tokens for the bias.
    """
    inner = part.tokens * part.model.ffn / part.tensor
    if backward:
        return Stream("gelu backward", (3 + 1) * WIDTH * inner, 2)
    kernels = 1 if part.kernels.bias_gelu_fused else 2
    return Stream("gelu", 2 * kernels * WIDTH * inner, kernels)


def _accumulate(part: Slice, weights: float, name: str) -> Stream:
    """Add a microbatch's gradients of `weights` weights to what the earlier ones left."""
    return Stream(f"{name} gradient sum", part.kernels.gradient_accumulation * weights, 4)


# --- attention, by how it is run -----------------------------------------------------------------


def _products(part: Slice) -> tuple[Gemm, Gemm]:
    """The scores (s, d)(d, s) and the context (s, s)(s, d) of every head of this rank."""
    m, heads = part.model, part.micro * part.model.heads // part.tensor
    s, d = m.sequence, m.head_size
    return _core("scores", s, s, d, heads), _core("context", s, d, s, heads)


def _core(name: str, m: int, n: int, k: int, heads: int) -> Gemm:
    """One product of the attention core, for every head of this rank."""
    return Gemm(name, m, n, k, heads, attention=True)


def _materialised(part: Slice, softmax: Stream) -> list[Kernel]:
    scores, context = _products(part)
    return [
        scores,
        softmax,
        Stream("attention dropout", (2 * WIDTH + 1) * part.scores),
        context,
        Stream("context transpose", 2 * WIDTH * part.stream / part.tensor),
    ]


def _fused_softmax_forward(part: Slice) -> list[Kernel]:
    """Scale, causal mask and softmax at once: read the lower triangle, write whole rows."""
    return _materialised(part, Stream("softmax", 1.5 * WIDTH * part.scores))


def _unfused_forward(part: Slice) -> list[Kernel]:
    """Cast to 32 bits, scale, mask, softmax, cast back: each reads and writes all of it.

    In this order and width by Megatron-LM, ``megatron/model/fused_softmax.py``, ``forward``, with
    its scaling of queries and keys by layer, the default of 2021.
    """
    passes = (2 + 4) + (4 + 4) + (4 + 4) + (4 + 4) + (4 + 2)
    return _materialised(part, Stream("softmax", passes * part.scores, 5))


def _materialised_backward(part: Slice, softmax: Stream) -> list[Kernel]:
    m, heads = part.model, part.micro * part.model.heads // part.tensor
    s, d = m.sequence, m.head_size
    return [
        Stream("context transpose backward", 2 * WIDTH * part.stream / part.tensor),
        _core("context score gradient", s, s, d, heads),
        _core("context value gradient", s, d, s, heads),
        Stream("attention dropout backward", (2 * WIDTH + 1) * part.scores),
        softmax,
        _core("scores query gradient", s, d, s, heads),
        _core("scores key gradient", s, d, s, heads),
        Stream("qkv gather", 6 * WIDTH * part.stream / part.tensor),
    ]


def _fused_softmax_backward(part: Slice) -> list[Kernel]:
    """Read the lower triangles of gradient and result, write whole rows."""
    return _materialised_backward(part, Stream("softmax backward", 2 * WIDTH * part.scores))


def _unfused_backward(part: Slice) -> list[Kernel]:
    """The same five backward; that of softmax reads gradient and result and writes."""
    passes = (2 + 4) + (4 + 4 + 4) + (4 + 4) + (4 + 4) + (4 + 2)
    return _materialised_backward(part, Stream("softmax backward", passes * part.scores, 5))


def _flash_flops(part: Slice) -> float:
    """Two products of s^2 h / t for each sequence, half of them skipped by the causal mask."""
    m = part.model
    return 4.0 * part.micro * float(m.sequence) ** 2 * m.hidden / part.tensor / 2


def _flash_forward(part: Slice) -> list[Kernel]:
    nbytes = 4 * WIDTH * part.stream / part.tensor
    return [
        Flash("flash attention", _flash_flops(part), nbytes, part.model.head_size, backward=False)
    ]


def _flash_backward(part: Slice) -> list[Kernel]:
    """Five products instead of two: the scores are computed again. Dao 2023, arXiv:2307.08691."""
    nbytes = 8 * WIDTH * part.stream / part.tensor
    flops = 2.5 * _flash_flops(part)
    head_size = part.model.head_size
    return [Flash("flash attention backward", flops, nbytes, head_size, backward=True)]


_ATTENTION_FORWARD: dict[str, Callable[[Slice], list[Kernel]]] = {
    "flash": _flash_forward,
    "fused-softmax": _fused_softmax_forward,
    "unfused": _unfused_forward,
}
_ATTENTION_BACKWARD: dict[str, Callable[[Slice], list[Kernel]]] = {
    "flash": _flash_backward,
    "fused-softmax": _fused_softmax_backward,
    "unfused": _unfused_backward,
}
