"""Mamba-2 layers of a served model, whose states replace the KV cache of attention.

    prompt   in -> convolution -> scan of chunks, from the state before -> norm -> out
    decode   in -> convolution -> update of the state                   -> norm -> out

A state of P by N numbers a head has a constant size for a sequence of any length: it is read and
written once a step.  vLLM, ``model_executor/layers/mamba/mamba_mixer2.py`` and ``mamba_utils.py``
(``mamba2_state_shape``); the kernels of prompts are those of training, `workload.layers.mamba`.
"""

from typing import Final

from clustersim.arrays import Floats
from clustersim.catalog.records.models import MambaShape
from clustersim.inference.layer_work import HALF, Product
from clustersim.inference.replica import Replica

_SINGLE: Final = 4.0
"""Size of a number in 32 bits [B]."""

UPDATE_KERNELS: Final = 2
"""Kernels of a layer that decodes: the convolution, and the update of the state."""

_PASSES: Final = 3
"""Kernels of the scan of prompts next to its products: the convolution, the sums of the decay, and
the states from chunk to chunk."""

_DELTA_PASSES: Final = 6
"""The same of a Gated DeltaNet: the convolution, the gates, the sums of the decay, the norms of
queries and of keys, and the inverse of keys by keys."""


def update_seconds(replica: Replica, shape: MambaShape, sequences: Floats) -> Floats:
    """Return the times of a layer to update the states of some sequences by one token [s]."""
    numbers = HALF * 2 * (shape.convolved + shape.inner) / replica.layout.tensor
    nbytes = (2 * replica.state_bytes + numbers) * sequences
    return replica.kernels.passes(nbytes, UPDATE_KERNELS)


def scan_products(replica: Replica, shape: MambaShape) -> tuple[Product, ...]:
    """Return the products of the scan of prompts, those of all chunks and heads as one.

    They are the states that a chunk adds, its tokens by each other in each group, and its results
    from these and the state before it: as many FLOPs as `workload.flops.scan_flops`.
    """
    heads, groups = (max(1.0, n / replica.layout.tensor) for n in (shape.heads, shape.groups))
    q, p, n = shape.chunk, shape.head_size, shape.state
    wide = replica.formats.wide
    if shape.delta:
        return (
            Product(wide, q, n, 2 * heads),  # keys and queries by keys
            Product(wide, n, q, heads),  # reduced keys, and below reduced values
            Product(wide, p, q, heads),
            Product(wide, p, n, 2 * heads),  # corrections, and what a chunk adds
            Product(wide, p, q + n, heads),
        )
    return (
        Product(wide, n, p, heads),
        Product(wide, q, n, groups),
        Product(wide, p, q + n, heads),
    )


def scan_seconds(replica: Replica, shape: MambaShape, tokens: Floats) -> Floats:
    """Return the times of a layer to scan some tokens of prompts, in whole chunks [s]."""
    nbytes = scan_bytes(shape) * tokens / replica.layout.tensor
    seconds = replica.kernels.passes(nbytes, _DELTA_PASSES if shape.delta else _PASSES)
    for kernel, n, k, batch in scan_products(replica, shape):
        seconds = seconds + replica.kernels.products(kernel, tokens, n, k, batch)[0]
    return seconds


def scan_bytes(shape: MambaShape) -> float:
    """Return what the passes of a scan move for a token, on all devices of a tensor group [B].

    What is convolved is read and written; steps are read, and written in 32 bits with the sums of
    their decay; states are written in 32 bits and read.  Those of a Gated DeltaNet are in 16 bits.
    It reads another step, norms queries and keys, and inverts keys by keys, which are in 32 bits,
    and the inverse in 16: vLLM, ``model_executor/layers/fla/ops/chunk.py``.
    """
    each = 2 * HALF * shape.convolved + (HALF + 2 * _SINGLE) * shape.heads
    states = 2 * shape.inner * shape.state / shape.chunk
    if not shape.delta:
        return each + _SINGLE * states
    normed, inverted = 4 * shape.groups * shape.state, shape.heads * shape.chunk
    return each + HALF * (states + normed + shape.heads) + (_SINGLE + HALF) * inverted
