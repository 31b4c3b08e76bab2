"""Bytes that are alive on one rank while an operation runs.

What layers keep from forward to backward comes out of their operations, `ops.kept`: the formulas
of Korthikanti et al. 2022, arXiv:2205.05198, section 4, for numbers of 2 bytes and dropout masks
of 1, without sequence parallelism,

.. math:: s b h (10 + 24 / t + 5 a s / h t)
"""

from collections.abc import Sequence
from itertools import pairwise

from clustersim.workload.ops import Op, kept
from clustersim.workload.slice import Slice

LOSS = "loss"
"""The operation that keeps the logits."""


def boundary(part: Slice) -> float:
    """Return the input of a layer, 2 s b h, over the tensor ranks if they share it [B]."""
    return part.width * part.residual


def logits(part: Slice) -> float:
    """Return the logits of one microbatch on this rank, b s V / t c, how many they are."""
    return part.tokens * part.model.vocab / part.tensor


def of_loss(head: Sequence[Op]) -> float:
    """Return what the loss keeps for its backward: the logits in one width or two [B]."""
    return kept(op for op in head if op.name == LOSS)


def gradients_inside(ops: Sequence[Op]) -> float:
    """Return the most that gradients of activations take inside a layer's backward [B].

    An operation has the gradient of its output, which is as large as the input of the next one,
    when it makes that of its own input.
    """
    inputs = [op.inputs for op in ops if op.inputs]
    return max((a + b for a, b in pairwise(inputs)), default=0.0)
