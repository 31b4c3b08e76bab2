"""Time of collectives in a node, by the measured tables of its devices.

                  alone, in a benchmark    in training           in an engine
    price         closed form              table, else closed form
    bandwidth                              rate of the library   rate of the engine
    start         + call_overhead          + skew of the library + skew of the engine

Tables are of CUDA graphs in nodes whose devices are all neighbours; on other links the rate is in
proportion to theirs.  Benchmarks have the closed form (`cost.closed_form`), fitted to their curves.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from clustersim.cost.surfaces.exchange import LIBRARY, TWICE, transfer_parts
from clustersim.cost.surfaces.kernel_kinds import SURFACES
from clustersim.cost.surfaces.surface import Surface
from clustersim.topology.accelerator import Accelerator, KernelFits

MOST_DEVICES: Final = 8
"""Devices of the largest groups in tables.  Their hops are those of a ring; in larger groups of a
switched node the library has other algorithms, which the machine models."""


def transfer_times(
    device: Accelerator, operation: str, devices: int, nbytes: float, links: float
) -> tuple[float, float] | None:
    """Return the start of a collective in a node, and the time of its bytes after it [s].

    None where no table has it.

    Parameters
    ----------
    links : bus bandwidth of a ring of the devices, of payload [B/s]
    """
    kind = operation, LIBRARY
    if devices > MOST_DEVICES or not any(kind in fits.terms for fits in device.fits):
        return None
    surface = SURFACES[operation]
    terms = terms_on_links(device.fits, operation, LIBRARY, surface, rate=links)
    passes = 2 if surface is TWICE else 1
    start, moving = transfer_parts(devices, nbytes, LIBRARY, terms, passes=passes)
    return float(start), float(moving)


def terms_on_links(
    fits: Sequence[KernelFits],
    kind: str,
    library: str,
    surface: Surface,
    *,
    rate: float | None = None,
    network_rate: float | None = None,
) -> Mapping[str, float]:
    """Return the terms of a communication, its rates in proportion to those of the links.

    Parameters
    ----------
    rate, network_rate : payload of the links between devices, and of their NICs [B/s]
    """
    terms = {term.name: term.prior for term in surface.terms(library)}
    measured = next((each for each in fits if (kind, library) in each.terms), None)
    if measured is None:
        return terms
    terms |= measured.terms[kind, library]
    for name, own, other in (
        ("rate", rate, measured.links),
        ("network_rate", network_rate, measured.network),
    ):
        if name in terms and own is not None and other is not None:
            terms[name] *= own / other
    return terms
