"""Operations: what a layer does, forward and backward, and what it keeps from one to the other.

A layer is a list of operations.  Everything that is asked of it follows from that list: the
kernels of its forward, of its backward (the list turned round), of what is computed again, and the
bytes that stay alive in between.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from clustersim.workload.kernels import Kernel


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
