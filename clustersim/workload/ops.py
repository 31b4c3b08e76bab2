"""Operations: what a layer does, forward and backward, and what it keeps from one to the other.

A layer is a list of operations.  Everything that is asked of it follows from that list: the
kernels of its forward, of its backward (the list turned round), of what is computed again, and the
bytes that stay alive in between.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from clustersim.workload.kernels import Beside, Gemm, Kernel, Stream


@dataclass(frozen=True)
class Op:
    """One operation of a layer.

    Attributes
    ----------
    name : as in ``recompute: {ops: [...]}``
    forward, backward : its kernels
    inputs : what it reads and needs again for its backward [B]
    inside : what it makes for its backward, which need not be kept if it is run again [B]
    skew : time of the rank that has most to do over the mean rank's, whose kernels these are
    reads : all that it reads from the one before it to be run again, where that is more than its
        `inputs` [B]
    sources : the operations that made what it reads and how much each made [B], where that is not
        the one before it alone
    """

    name: str
    forward: tuple[Kernel, ...] = ()
    backward: tuple[Kernel, ...] = ()
    inputs: float = 0.0
    inside: float = 0.0
    skew: float = 1.0
    reads: float = 0.0
    sources: tuple[tuple[str, float], ...] = ()


def forward(ops: Iterable[Op]) -> list[Kernel]:
    """Return the kernels of a forward."""
    return [kernel for op in ops for kernel in op.forward]


def backward(ops: Sequence[Op]) -> list[Kernel]:
    """Return the kernels of a backward, from the last operation to the first."""
    return [kernel for op in reversed(ops) for kernel in op.backward]


def of_inputs(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return what of a backward the stage below waits for: all but the gradients of weights.

    A collective beside these has nothing left to run beside.
    """
    found: list[Kernel] = []
    for kernel in kernels:
        if isinstance(kernel, Beside):
            left = tuple(each for each in kernel.kernels if not _of_weight(each))
            found.append(kernel._replace(kernels=left) if left else kernel.moved)
        elif not _of_weight(kernel):
            found.append(kernel)
    return found


def of_weights(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return what of a backward makes the gradients of weights."""
    found: list[Kernel] = []
    for kernel in kernels:
        inner = kernel.kernels if isinstance(kernel, Beside) else (kernel,)
        found += [each for each in inner if _of_weight(each)]
    return found


def _of_weight(kernel: Kernel) -> bool:
    return isinstance(kernel, Gemm | Stream) and kernel.of_weight


def kept_for_weights(ops: Iterable[Op]) -> float:
    """Return what stays alive until the gradients of weights are made: both factors of each [B].

    For a layer of Megatron-LM 32 s b h, as Qi et al. 2023 count it, arXiv:2401.10241, Table 1.
    """
    total = 0.0
    for op in ops:
        products = [k for k in of_weights(op.backward) if isinstance(k, Gemm)]
        if products:
            total += op.inputs + sum(each.width * each.batch * each.m * each.k for each in products)
    return total


def kept(ops: Iterable[Op], again: Collection[str] = (), *, outputs: bool = True) -> float:
    """Return what stays alive from forward to backward when some operations are run again [B].

    An operation that is run again keeps nothing of its own, and its inputs only where the
    operation that made them is not run again as well.

    Parameters
    ----------
    outputs : whether what they hand on is kept, or given up and made again as well
    """
    total, before = 0.0, ""
    for op in (op for op in ops if op.forward):
        read = op.inputs if outputs else max(op.inputs, op.reads)
        sources = op.sources or ((before, read),)
        made_again = sum(nbytes for name, nbytes in sources if name in again)
        if op.name in again:
            total += sum(nbytes for _, nbytes in sources) - made_again
        else:
            total += op.inside + (op.inputs if outputs else max(0.0, op.inputs - made_again))
        before = op.name
    return total


def names(ops: Iterable[Op]) -> frozenset[str]:
    """Return the names of operations."""
    return frozenset(op.name for op in ops)
