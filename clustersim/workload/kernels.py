"""The kernels of a training step, with their shapes.

Nothing here has a duration.  A `Gemm` knows its shape, a `Stream` the bytes it moves, a `Flash`
its FLOPs, a `Collective` its payload; what they take is the business of `cost`.
"""

from typing import Final, Literal, NamedTuple

Axis = Literal["tensor", "context", "expert", "expert-tensor", "data", "copies", "expert-data"]
"""The group of ranks that a collective is run by: those that share a layer, a sequence, experts or
what ZeRO shards; the copies of that, where only some share it; the holders of the same experts."""

HALF: Final = 2
"""Bytes of a 16-bit number."""

VECTOR: Final = 16
"""Bytes that a thread of a GPU loads at once."""


class Gemm(NamedTuple):
    """`batch` products of (m, k) by (k, n); `attention` where they are of the attention core.

    `peak` names the rate of the device that they run at, `width` is the bytes of a number.
    `of_weight` is whether they make the gradient of a weight, which nothing waits for.  `row` is
    the numbers beside each other in memory that rows of all operands are multiples of, where it is
    not plain that they are whole vectors; 0 where it is.
    """

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    attention: bool = False
    peak: str = "bf16"
    width: int = HALF
    of_weight: bool = False
    row: int = 0

    @property
    def ragged(self) -> bool:
        """Whether rows begin in the middle of a vector, which the device loads at once."""
        return self.row * self.width % VECTOR != 0

    @property
    def flops(self) -> float:
        """Multiplications and additions [FLOP]."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> float:
        """Bytes of the operands and the result, each touched once [B]."""
        each = self.m * self.k + self.k * self.n + self.m * self.n
        return float(self.width * self.batch * each)


class Stream(NamedTuple):
    """An elementwise or reduction pass: `nbytes` read and written in all, by `launches` kernels.

    `of_weight` as in `Gemm`.
    """

    name: str
    nbytes: float
    launches: int = 1
    of_weight: bool = False


class Flash(NamedTuple):
    """Fused attention: `flops` carried out (half of the square where a mask skips the rest).

    `sequence` is the tokens that a query meets at most. `share` is its rate over that of the
    kernel which the device was measured with; `cudnn` whether it is that of cuDNN, where the device
    knows one.
    """

    name: str
    flops: float
    nbytes: float
    head_size: int
    backward: bool
    sequence: int
    peak: str = "bf16"
    share: float = 1.0
    cudnn: bool = False


class Collective(NamedTuple):
    """A collective over the group of an axis: `nbytes` of the whole buffer [B]."""

    name: str
    operation: str
    nbytes: float
    axis: Axis = "tensor"


class Beside(NamedTuple):
    """A collective that runs while the device computes `kernels`.

    Only what it takes longer than they do is exposed.
    """

    moved: Collective
    kernels: tuple[Gemm | Stream | Flash, ...]


Kernel = Gemm | Stream | Flash | Collective | Beside


def flat(kernels: Kernel | tuple[Kernel, ...] | list[Kernel]) -> list[Kernel]:
    """Return kernels with those that run beside each other one after another."""
    if isinstance(kernels, Beside):
        return [kernels.moved, *kernels.kernels]
    if isinstance(kernels, Gemm | Stream | Flash | Collective):
        return [kernels]
    return [each for kernel in kernels for each in flat(kernel)]
