"""Optimisers: the states of a parameter and the work of its update, relative to AdamW.

Framework profiles state AdamW, whose two moments are of 32 bits unless all states are less:

    optimiser' = optimiser - 2 w + n w'        w, w' bytes of a moment of AdamW and of another one
    updated'   = updated - 2 (2 w - n w')      each moment is read and written once
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from clustersim.catalog.records.frameworks import FrameworkRecord, StateBytes
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.parameters import Parameters

WIDEST: Final = 4.0
"""Bytes of a moment of AdamW in 32 bits."""


class Optimiser(NamedTuple):
    """One optimiser.

    Attributes
    ----------
    moments : states with as many numbers as a weight
    width : of such a number, with the constants of its block; as in AdamW of the profile if 0 [B]
    passes : further bytes that an update moves for each parameter [B]
    ends : moments of embedding and logits beyond those of the layers
    iterations : of Newton and Schulz on each matrix of a layer
    source : where this is stated
    """

    moments: int
    source: str
    width: float = 0.0
    passes: float = 0.0
    ends: int = 0
    iterations: int = 0


ADAMW: Final = Optimiser(2, "arXiv:1711.05101")
_NARROW: Final = "arXiv:2110.02861; bitsandbytes, optim/optimizer.py: 256 numbers a block"
_ADAMW_8BIT: Final = Optimiser(2, _NARROW, width=1 + 4 / 256)

OPTIMISERS: Final[Mapping[str, Optimiser]] = MappingProxyType(
    {
        "adafactor": Optimiser(
            0, "arXiv:1804.04235, algorithm 4: sums of rows and columns; gradients are read two"
            " times more, for these and for the norm of the update", passes=8.0,
        ),
        "adamw": ADAMW,
        "adamw-4bit": Optimiser(
            2, "arXiv:2309.01507; torchao, torchao/optim: 128 numbers a block", width=0.5 + 4 / 128
        ),
        "adamw-8bit": _ADAMW_8BIT,
        "lion": Optimiser(1, "arXiv:2302.06675, algorithm 2"),
        "lion-8bit": Optimiser(1, _NARROW, width=1 + 4 / 256),
        "muon": Optimiser(
            1, "arXiv:2502.16982, section 2: embedding and logits by AdamW", ends=1, iterations=5
        ),
        "paged-adamw-8bit": Optimiser(2, _NARROW, width=1 + 4 / 256),
        "sgd": Optimiser(1, "doi:10.1016/0041-5553(64)90137-5: with momentum"),
    }
)  # fmt: skip
"""All optimisers by name. Pages leave the device only where it is full, and count as held there."""


def with_optimiser(
    framework: FrameworkRecord, precision: str, optimiser: Optimiser
) -> FrameworkRecord:
    """Return a framework whose states and updates are those of an optimiser instead of AdamW."""
    if optimiser is ADAMW:
        return framework
    states, passes = framework.state[precision], framework.optimiser
    width = min(WIDEST, states.optimiser / ADAMW.moments)
    less = ADAMW.moments * width - optimiser.moments * (optimiser.width or width)
    moved = {
        name: max(0.0, value - 2 * less + optimiser.passes)
        for name, value in (("updated", passes.updated), ("host_updated", passes.host_updated))
        if value is not None
    }
    changed = _changed(states, less, optimiser.ends * width)
    return framework.model_copy(
        update={
            "state": {**framework.state, precision: changed},
            "optimiser": passes.model_copy(update={**moved, "iterations": optimiser.iterations}),
        }
    )


def _changed(states: StateBytes, less: float, ends: float) -> StateBytes:
    """Return states with fewer bytes of the optimiser, in a checkpoint as well."""
    saved = None if states.saved is None else max(0.0, states.saved - less)
    return states.model_copy(
        update={"optimiser": states.optimiser - less, "saved": saved, "ends": ends}
    )


# --- Muon -----------------------------------------------------------------------------------------


class Matrices(NamedTuple):
    """Matrices of a layer with the same shape.

    Attributes
    ----------
    number : of them, by how ranks share their work
    """

    rows: int
    columns: int
    number: Parameters

    def products(self) -> tuple[tuple[int, int, int], ...]:
        r"""Return the products of an iteration, each (m, k) by (k, n), as (m, n, k).

        .. math:: A = X X^T, \quad B = b A + c A^2, \quad X \leftarrow a X + B X

        4 m^2 n + 2 m^3 FLOPs for the shorter side m. Jordan et al. 2024, Muon,
        ``zeropower_via_newtonschulz5``.
        """
        m, n = sorted((self.rows, self.columns))
        return (m, m, n), (m, m, m), (m, n, m)


def matrices(model: Transformer, layer: Layer) -> Iterator[Matrices]:
    """Yield the matrices of a layer; queries, keys and values are apart.

    Of Mamba-2 the projection of the result only: Megatron-Core, ``ssm/mamba_mixer.py``, sets
    ``use_muon`` of the other one to false.
    """
    dense, hidden = Parameters(split=1), model.hidden
    if layer.mixer == "attention":
        for rows, columns in _attention(model):
            yield Matrices(rows, columns, dense)
    elif layer.mixer == "mamba" and model.mamba is not None:
        yield Matrices(hidden, model.mamba.inner, dense)
    if not layer.mlp:
        return
    number = 3 if model.gated else 2
    shape = model.experts
    if not layer.experts or shape is None:
        yield Matrices(hidden, model.ffn, dense.scaled(number))
        return
    yield Matrices(hidden, shape.count, dense)
    yield Matrices(hidden, shape.ffn, Parameters(experts=number * shape.count))
    if shape.shared:
        yield Matrices(hidden, shape.shared * shape.ffn, dense.scaled(number))


def _attention(model: Transformer) -> Iterator[tuple[int, int]]:
    hidden, queries = model.hidden, model.query_heads * model.head_size
    yield hidden, model.heads * model.value_size  # the projection of the result
    if model.latent is None:
        yield from ((hidden, queries), *[(hidden, model.kv_heads * model.head_size)] * 2)
        return
    shape = model.latent
    yield hidden, shape.keys_values + shape.rope
    yield shape.keys_values, model.heads * (shape.nope + shape.value)
    yield from [(hidden, queries)] if shape.query is None else (
        (hidden, shape.query), (shape.query, queries)
    )  # fmt: skip
    if (indexer := shape.indexer) is not None:
        yield shape.query or hidden, indexer.heads * indexer.head_size
        yield from ((hidden, indexer.head_size), (hidden, indexer.heads))
