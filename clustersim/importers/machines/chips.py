"""Chips by code, product name and number of links.

A topology file counts links but does not give their rate.  As in NCCL, the rate follows from the
compute capability: links counted in the file times the raw rate of one, per direction.  NCCL's own
table (``src/graph/topo.h``, 2.30.7: sm 70 and 80: 20 GB/s, 86: 12, 90: 20.6, 100: 40.1) has the
rates that it expects to achieve; raw rates are those of the vendors' specifications: NVLink 2, 3
and 4 25 GB/s, NVLink 5 50 GB/s, the NVLink 3 of GA102 14.0625 GB/s, xGMI 50 GB/s (CDNA 2) and
64 GB/s (CDNA 3).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clustersim.importers.machines.sketch import Clues, Sketch


@dataclass(frozen=True)
class Chip:
    """An accelerator of the catalogue and its names in files.

    Attributes
    ----------
    accelerator : its name in the catalogue
    maker : nvidia or amd
    codes : compute capabilities or instruction sets
    words : all of these are in its product name
    links : number of links to other devices
    rate : raw rate of one link per direction [B/s]
    units : compute units, if chips of the same code differ in them
    """

    accelerator: str
    maker: str
    codes: tuple[str, ...]
    words: tuple[str, ...]
    links: int
    rate: float
    units: int | None = None


CHIPS: Final = (
    Chip("v100-sxm2-32gb", "nvidia", ("70",), ("v100",), 6, 25e9),
    Chip("a100-80gb", "nvidia", ("80",), ("a100", "80gb"), 12, 25e9),
    Chip("a100-40gb", "nvidia", ("80",), ("a100",), 12, 25e9),
    Chip("rtx-3090", "nvidia", ("86",), ("rtx", "3090"), 4, 14.0625e9),
    Chip("rtx-a6000", "nvidia", ("86",), ("a6000",), 4, 14.0625e9),
    Chip("rtx-a5000", "nvidia", ("86",), ("a5000",), 4, 14.0625e9),
    Chip("l40s", "nvidia", ("89",), ("l40s",), 0, 0.0),
    Chip("rtx-4090", "nvidia", ("89",), ("rtx", "4090"), 0, 0.0),
    Chip("h100-sxm", "nvidia", ("90",), ("h100",), 18, 25e9),
    Chip("h200-sxm", "nvidia", ("90",), ("h200",), 18, 25e9),
    Chip("h200-nvl", "nvidia", ("90",), ("h200", "nvl"), 18, 25e9),
    Chip("h100-pcie", "nvidia", ("90",), ("h100", "pcie"), 12, 25e9),
    Chip("b200", "nvidia", ("100", "103"), ("b200",), 18, 50e9),
    Chip("gb200", "nvidia", ("100", "103"), ("gb200",), 18, 50e9),
    Chip("rtx-5090", "nvidia", ("120",), ("rtx", "5090"), 0, 0.0),
    Chip("mi250x-gcd", "amd", ("910", "gfx90a"), ("mi250",), 8, 50e9),
    Chip("mi300a", "amd", ("gfx940", "gfx942"), ("mi300a",), 6, 64e9, units=228),
    Chip("mi300x", "amd", ("gfx940", "gfx941", "gfx942"), ("mi300",), 7, 64e9, units=304),
)
"""Of two equal matches, the nearer node of the catalogue decides, then this order."""

MOST_LINKS: Final = max(chip.links for chip in CHIPS)


def chip_of(accelerator: str) -> Chip | None:
    """Return the chip of that name in the catalogue."""
    return next((chip for chip in CHIPS if chip.accelerator == accelerator), None)


def chip_distance(accelerator: str, candidates: Sequence[str], maker: str) -> int:
    """Return how far an accelerator of the catalogue is from those of a file.

    From 0 for one of them over the same generation, the same product line and the same maker to 4.
    """
    if accelerator in candidates:
        return 0
    chip = chip_of(accelerator)
    known = [other for name in candidates if (other := chip_of(name)) is not None]
    if chip is None:
        return 4
    if any(set(chip.codes) & set(other.codes) for other in known):
        return 1
    if any(set(chip.words) & set(other.words) for other in known):
        return 2
    return 3 if chip.maker == maker else 4


def candidates(sketch: Sketch) -> list[Chip]:
    """Return the chips that match a file, best first; empty if it gives no clue.

    The product name comes first, then the code with the number of compute units, then the number of
    links of a device: the chips with the fewest links that suffice.
    """
    known = [chip for chip in CHIPS if chip.maker == sketch.clues.maker]
    if by_name := by_product(sketch.clues):
        return by_name[:1]
    if sketch.clues.code:
        return _by_code(known, sketch.clues)
    used = links_used(sketch)
    enough = [chip for chip in known if used and chip.links >= used]
    fewest = min((chip.links for chip in enough), default=0)
    return (
        [chip for chip in enough if chip.links == fewest] if sketch.clues.maker == "nvidia" else []
    )


def by_product(clues: Clues) -> list[Chip]:
    """Return the chips whose names are in the product name, the longest name first."""
    text = re.sub(r"[^a-z0-9]", "", clues.product.lower())
    of_maker = [chip for chip in CHIPS if chip.maker == clues.maker]
    found = [chip for chip in of_maker if all(word in text for word in chip.words)]
    return sorted(found, key=lambda chip: -sum(map(len, chip.words)))


def _by_code(known: Sequence[Chip], clues: Clues) -> list[Chip]:
    of_code = [chip for chip in known if clues.code in chip.codes]
    with_units = [chip for chip in of_code if chip.units == clues.units]
    return with_units or of_code


def links_used(sketch: Sketch) -> int:
    """Return the largest number of links of a device to others or to switches."""
    if sketch.crossbar is not None:
        return max(sketch.crossbar)
    ends = [(end, max(wire.count, 1)) for wire in sketch.direct for end in (wire.a, wire.b)]
    totals = [sum(n for end, n in ends if end == device) for device in range(sketch.devices)]
    return max(totals, default=0)
