"""The surface of each kind of measured kernel."""

from collections.abc import Mapping
from typing import Final

from clustersim.cost.surfaces.decode import DECODE
from clustersim.cost.surfaces.exchange import EXCHANGE, ONCE, TWICE
from clustersim.cost.surfaces.grouped import EXPERTS, GROUPED
from clustersim.cost.surfaces.prefill import PREFILL
from clustersim.cost.surfaces.products import PRODUCTS
from clustersim.cost.surfaces.surface import Surface

SURFACES: Final[Mapping[str, Surface]] = {
    "gemm": PRODUCTS,
    "training-gemm": PRODUCTS,
    "attention-prefill": PREFILL,
    "attention-decode": DECODE,
    "latent-prefill": PREFILL,
    "latent-decode": DECODE,
    "experts": EXPERTS,
    "grouped-gemm": GROUPED,
    "all-reduce": TWICE,
    "all-gather": ONCE,
    "reduce-scatter": ONCE,
    "all-to-all": ONCE,
    "prepare": EXCHANGE,
    "dispatch": EXCHANGE,
    "combine": EXCHANGE,
}
"""Surfaces by kind.  `training-gemm` are products with both orders of operands, and results that
are accumulated in 32 bits; `latent` is attention of narrow vectors; `experts` are both layers;
`prepare` is the exchange of counts before a dispatch."""

CONDITIONS: Final = frozenset({"rotated", "repeats", "repeated", "issued", "prepared"})
"""Columns of surfaces that describe a benchmark, not the shape of the kernel."""
