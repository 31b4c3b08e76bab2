"""The kernels of a training step, with their shapes.

Kernels have no duration.  A `Gemm` has a shape, a `Stream` the bytes that it moves, a `Flash` its
FLOPs and a `Collective` its payload; `cost` computes their times.
"""

from typing import Final, Literal, NamedTuple

Axis = Literal["tensor", "context", "expert", "expert-tensor", "data", "copies", "expert-data"]
"""The group of ranks of a collective: ranks that share a layer, a sequence, experts or ZeRO shards;
replicas of these shards with hybrid sharding; holders of the same experts."""

HALF: Final = 2
"""Bytes of a 16-bit number."""

VECTOR: Final = 16
"""Bytes of one vector load of a GPU thread."""


class Gemm(NamedTuple):
    """`batch` products of (m, k) by (k, n); `attention` if they belong to the attention core.

    `peak` names the peak rate of the device, `width` is the bytes of an element. `of_weight`: they
    compute the gradient of a weight, on which nothing depends.  `row` is the number of contiguous
    elements of which the rows of all operands are multiples, to find rows that are not aligned to
    vectors; 0 for aligned rows.  `share` is its rate relative to the device's own.  `launches` is
    the kernels as which the host issues the products, concurrent on the device.  `factor`: the last
    use of a factor of an adapter, forward or backward.
    """

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    attention: bool = False
    peak: str = "bf16"
    width: float = HALF
    of_weight: bool = False
    row: int = 0
    share: float = 1.0
    launches: int = 1
    factor: bool = False

    @property
    def ragged(self) -> bool:
        """Whether rows are not aligned to vector loads."""
        return self.row * self.width % VECTOR != 0

    @property
    def flops(self) -> float:
        """Multiplications and additions [FLOP]."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> float:
        """Bytes of the operands and the result, each accessed once [B]."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return float(self.width * self.batch * elements)


class Stream(NamedTuple):
    """An elementwise or reduction pass: `nbytes` read and written in total, by `launches` kernels.

    `of_weight` as in `Gemm`.
    """

    name: str
    nbytes: float
    launches: int = 1
    of_weight: bool = False


class Head(NamedTuple):
    """The attention of one device.

    Attributes
    ----------
    heads, kv_heads : of queries, and of keys and values
    key, value : widths of a head
    read : numbers of a cached token and head of keys
    latent : whether queries are multiplied with latent vectors
    """

    heads: int
    kv_heads: int
    key: int
    value: int
    read: int
    latent: bool = False


class Flash(NamedTuple):
    """Fused attention: executed `flops` (half of the square with a causal mask).

    `sequence` is the largest number of keys of a query. `share` is its rate relative to the kernel
    that was measured on the device; `cudnn` selects that of cuDNN, if the device file has one.
    `head` has the heads of all sequences, where they are known.
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
    head: Head | None = None


class Routed(NamedTuple):
    """The routed experts of a layer.

    Attributes
    ----------
    experts : of all devices
    chosen : experts of a token
    hidden, inner : widths, the second on one device
    gated : whether the first product of an expert has a gate
    """

    experts: int
    chosen: int
    hidden: int
    inner: float
    gated: bool


class Collective(NamedTuple):
    """A collective over the group of an axis; `nbytes` is the size of the whole buffer [B]."""

    name: str
    operation: str
    nbytes: float
    axis: Axis = "tensor"


class Overlapped(NamedTuple):
    """A collective that overlaps with the computation of `kernels`.

    Only its excess over their time is exposed.
    """

    moved: Collective
    kernels: tuple[Gemm | Stream | Flash, ...]


Kernel = Gemm | Stream | Flash | Collective | Overlapped


def flat(kernels: Kernel | tuple[Kernel, ...] | list[Kernel]) -> list[Kernel]:
    """Return kernels as a flat list, with overlapped ones in sequence."""
    if isinstance(kernels, Overlapped):
        return [kernels.moved, *kernels.kernels]
    if isinstance(kernels, Gemm | Stream | Flash | Collective):
        return [kernels]
    return [each for kernel in kernels for each in flat(kernel)]
