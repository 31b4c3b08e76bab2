"""The price list of a device: times of the kernels that an engine issues.

A kernel without a fit on the device, or on the one that it is like, has the terms of the nearest
number format that has one, and else the median terms of all measured accelerators; either is named
in `substitutes`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Booleans, Floats
from clustersim.cost.kernels.collectives import terms_on_links
from clustersim.cost.kernels.products import (
    Issue,
    assumed_repeats,
    product_shapes,
    served_seconds,
    stated_terms,
    training_terms,
)
from clustersim.cost.kernels.terms import NEAREST, measured_terms
from clustersim.cost.surfaces.decode import DECODE
from clustersim.cost.surfaces.exchange import EXCHANGE
from clustersim.cost.surfaces.formats import FORMATS, OUTPUT
from clustersim.cost.surfaces.grouped import EXPERTS, filled_tiles
from clustersim.cost.surfaces.kernel_kinds import SURFACES
from clustersim.cost.surfaces.prefill import PREFILL
from clustersim.cost.surfaces.prefill import TERMS as PREFILL_TERMS
from clustersim.cost.surfaces.products import TERMS, product_terms
from clustersim.cost.surfaces.surface import Surface, predict
from clustersim.topology.accelerator import (
    Accelerator,
    KernelFits,
    engine_fits,
    kernel_fits,
)
from clustersim.workload.kernels import Head, Routed

_LAUNCH: Final = next(term.prior for term in TERMS if term.name == "launch")
"""Launch of a product of 16 bits on accelerators without a fit [s]."""

_PREFILL_LAUNCH: Final = next(term.prior for term in PREFILL_TERMS if term.name == "launch")
"""The same of attention of prompts [s]."""


class LinkRates(NamedTuple):
    """Payload bandwidth of a device to others of its node and of its NIC [B/s]; None without."""

    inside: float | None = None
    network: float | None = None


class KernelPrices:
    """Times of the kernels of a device.

    Parameters
    ----------
    cast_fused : whether the kernel before a product in a narrow format converts its input: the
        product then starts as one in 16 bits does, and moves no bytes to convert
    experts_alone : whether each expert of a device has a time of its own
    prepared : whether attention of prompts includes rotation and the write into the cache
    cast_apart : formats for which a kernel of its own converts in any case
    engine : whose measured kernels win over the others; None without any of its own
    experts_engine : the same of routed experts; `engine` if None
    filled : rows that the tokens of an expert are filled to, by number format
    """

    def __init__(
        self,
        device: Accelerator,
        *,
        cast_fused: bool = False,
        experts_alone: bool = True,
        prepared: bool = False,
        cast_apart: Sequence[str] = (),
        engine: str | None = None,
        experts_engine: str | None = None,
        filled: Mapping[str, int] | None = None,
    ) -> None:
        self.device, self._cast_fused, self._alone = device, cast_fused, experts_alone
        self._prepared, self._apart = prepared, cast_apart
        own = kernel_fits(device.name)
        shared = device.fits or (() if own is None else (own,))
        self._fits = (*_of_engine(engine, device, shared), *shared)
        self._expert_fits = (*_of_engine(experts_engine or engine, device, shared), *shared)
        self._filled = filled or {}
        self.substitutes: dict[str, str] = {}

    def products(
        self,
        kernel: str,
        m: Floats,
        n: Floats | float,
        k: float,
        batch: float = 1,
        repeats: float = assumed_repeats,
    ) -> tuple[Floats, Booleans]:
        """Return the times of products (m, k) and (k, n) [s], and whether memory limits each.

        Parameters
        ----------
        kernel : number format of `cost.surfaces.formats`
        repeats : products of a step in a row, which heat the device
        """
        sizes = (np.asarray(size, dtype=float) for size in (batch, m, n, k))
        form = FORMATS[kernel]
        terms = self._stated(kernel)
        fused = form.quantised and self._cast_fused and kernel not in self._apart
        issue = self._issue(terms) if fused else Issue()
        seconds = served_seconds(
            self.device, kernel, product_shapes(*sizes, repeats=repeats), terms, issue
        )
        moved = batch * (form.weight * n * k + form.activation * m * k + OUTPUT * m * n)
        work = 2 * batch * m * n * k / self.device.peak_rate(form.peak)
        return seconds, moved / self.device.memory_bandwidth >= work

    def _stated(self, kernel: str) -> Mapping[str, float]:
        """Return the terms of products, with what the device's file states of its best one.

        That is of long products, so that their heat is in it.
        """
        narrow = FORMATS[kernel].activation <= 1
        stated = self.device.narrow_products if narrow else self.device.products
        terms = self._found("gemm", kernel)
        if stated.best is None:
            return terms
        values = {term.name: terms.get(term.name, term.prior) for term in product_terms(kernel)}
        usual = training_terms(self._fits, "fp8" if narrow else "")
        return {**stated_terms(values, stated, usual), "heat": 0.0}

    def _issue(self, terms: Mapping[str, float]) -> Issue:
        """Return that the kernel ahead of a product has converted its input."""
        wide = self._found("gemm", "bf16").get("launch", _LAUNCH)
        return Issue(launch=min(wide, terms.get("launch", wide)), converted=True)

    def decode(self, kernel: str, head: Head, batch: Floats, keys: Floats, packed: int) -> Floats:
        """Return the times of attention of one query of each sequence over `keys` tokens [s].

        Parameters
        ----------
        packed : most query heads that share keys in a tile; all of latent attention do
        """
        if head.latent:
            packed = head.heads
        shapes = _columns(
            batch, batch=batch, heads=head.heads, kv_heads=head.kv_heads, key=head.key,
            value=head.value, read=head.read, packed=packed, keys=keys, repeated=0.0, issued=0.0,
        )  # fmt: skip
        kind = "latent-decode" if head.latent else "attention-decode"
        return self._predict(kind, DECODE, kernel, shapes)

    def prefill(
        self, kernel: str, head: Head, queries: Floats, keys: Floats, prompts: Floats | float = 1
    ) -> Floats:
        """Return the times of causal attention of the last `queries` of `keys` tokens [s].

        Parameters
        ----------
        prompts : of these lengths, in the same kernel
        """
        shapes = _columns(
            queries, batch=prompts, heads=head.heads, kv_heads=head.kv_heads, key=head.key,
            value=head.value, queries=queries, keys=keys, prepared=self._prepared, issued=0.0,
        )  # fmt: skip
        return self._predict(_prefill_kind(head), PREFILL, kernel, shapes)

    def prefill_launch(self, kernel: str, head: Head) -> float:
        """Return the part of `prefill` that all prompts of a step share [s]."""
        return self._found(_prefill_kind(head), kernel).get("launch", _PREFILL_LAUNCH)

    def experts(
        self, kernel: str, tiles: Mapping[str, Floats], tokens: Floats, layer: Routed
    ) -> Floats:
        """Return the times of both layers of the experts of a device [s].

        Parameters
        ----------
        tiles : as of `cost.surfaces.grouped.tile_counts`
        tokens : of all devices that share the experts
        """
        if kernel in self._filled:
            tiles = filled_tiles(tiles, self._filled[kernel])
        shapes = _columns(
            tokens, **tiles, tokens=tokens, entries=layer.chosen * tokens, experts=layer.experts,
            hidden=layer.hidden, inner=layer.inner, gated=layer.gated,
        )  # fmt: skip
        terms = self._found("experts", kernel)
        if not self._alone:
            terms = {**terms, "expert": 0.0}
        return predict(EXPERTS, self.device, shapes, kernel, terms)

    def has(self, kind: str, library: str) -> bool:
        """Whether a library's kernels of a kind are measured on the device."""
        return any((kind, library) in fits.terms for fits in self._fits)

    def collective(
        self, operation: str, library: str, devices: int, nbytes: Floats, rate: float | None
    ) -> Floats:
        """Return the times of collectives of a library in a node [s].

        Parameters
        ----------
        rate : payload of the links between its devices [B/s]
        """
        shapes = _columns(nbytes, devices=devices, bytes=nbytes)
        surface = SURFACES[operation]
        terms = terms_on_links(self._fits, operation, library, surface, rate=rate)
        return predict(surface, self.device, shapes, library, terms)

    def exchange(
        self, kind: str, library: str, tokens: Floats, rates: LinkRates, **shape: float
    ) -> Floats:
        """Return the times of a dispatch or a combination of tokens [s]."""
        shapes = _columns(tokens, tokens=tokens, units=0.0, **shape)
        near, far = rates
        terms = terms_on_links(self._fits, kind, library, EXCHANGE, rate=near, network_rate=far)
        return predict(EXCHANGE, self.device, shapes, library, terms)

    def passes(self, nbytes: Floats, launches: float) -> Floats:
        """Return the time of elementwise kernels that move `nbytes` in all [s]."""
        device = self.device
        rate = device.memory_bandwidth * device.memory_achieved
        seconds: Floats = nbytes / rate + launches * device.launch_overhead
        return seconds

    def _predict(
        self, kind: str, surface: Surface, variant: str, shapes: Mapping[str, Floats]
    ) -> Floats:
        return predict(surface, self.device, shapes, variant, self._found(kind, variant))

    def _found(self, kind: str, variant: str) -> Mapping[str, float]:
        """Return the measured terms of a kernel, of itself or of its nearest format."""
        fits = self._expert_fits if kind == "experts" else self._fits
        found = measured_terms(fits, (kind,), (variant, *NEAREST.get(variant, ())))
        if found is None:
            self.substitutes[f"{kind} {variant}"] = "median of measured accelerators"
            return {}
        if (found.variant, found.accelerator) != (variant, self.device.name):
            self.substitutes[f"{kind} {variant}"] = f"{found.variant} of {found.accelerator}"
        return found.terms


def _of_engine(
    engine: str | None, device: Accelerator, shared: Sequence[KernelFits]
) -> Iterator[KernelFits]:
    """Yield the fits of an engine's own kernels on a device, then on those that it is like."""
    if engine is None:
        return
    for name in dict.fromkeys((device.name, *(fit.name for fit in shared))):
        if (fits := engine_fits(name, engine)) is not None:
            yield fits


def _prefill_kind(head: Head) -> str:
    """Return the name of the kernels of attention of prompts."""
    return "latent-prefill" if head.latent else "attention-prefill"


def _columns(like: Floats, **columns: Floats | float) -> dict[str, Floats]:
    """Return columns of the same length."""
    return {
        name: np.broadcast_to(np.asarray(value, dtype=float), like.shape)
        for name, value in columns.items()
    }
