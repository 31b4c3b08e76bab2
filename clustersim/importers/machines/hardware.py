"""Chips and network adapters by their names in files.

A topology file counts links but does not give their rate.  As in NCCL, the rate follows from the
compute capability: links counted in the file times the raw rate of one, per direction.  NCCL's own
table (``src/graph/topo.h``, 2.30.7: sm 70 and 80: 20 GB/s, 86: 12, 90: 20.6, 100: 40.1) has the
rates that it expects to achieve; raw rates are those of the vendors' specifications: NVLink 2, 3
and 4 25 GB/s, NVLink 5 50 GB/s, the NVLink 3 of GA102 14.0625 GB/s, xGMI 50 GB/s (CDNA 2) and
64 GB/s (CDNA 3).

A collective library is tuned for its network: an H100 on Amazon's EFA takes other values than one
on InfiniBand.  The name of an adapter is that of its driver, and states the kind.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from clustersim.importers.machines.sketch import Clues, Sketch
from clustersim.records import dataclass


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
    matches = [chip for chip in of_maker if all(word in text for word in chip.words)]
    return sorted(matches, key=lambda chip: -sum(map(len, chip.words)))


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


# --- network adapters -----------------------------------------------------------------------------

INFINIBAND: Final = "infiniband"
ROCE: Final = "roce"
ETHERNET: Final = "ethernet"
OMNI_PATH: Final = "omni-path"
SLINGSHOT: Final = "slingshot"
EFA: Final = "efa"

NEUTRAL: Final = (INFINIBAND, ROCE, ETHERNET, OMNI_PATH, SLINGSHOT)
"""Kinds that a file without names of adapters may have: no torus, and no network of one vendor's
cloud."""

_NAMES: Final = (
    (re.compile(r"efa|rdmap[0-9]"), (EFA,)),
    (re.compile(r"cxi|hsn|hsi"), (SLINGSHOT,)),
    (re.compile(r"hfi[0-9]"), (OMNI_PATH,)),
    (re.compile(r"mlx[0-9]"), (INFINIBAND, ROCE)),
    (re.compile(r"ib[a-z]*[0-9]"), (INFINIBAND,)),
    (re.compile(r"roce|bnxt|ionic|irdma|hns"), (ROCE,)),
)
"""Beginnings of the names of adapters in Linux, with the kinds that they may have."""


def adapter_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds that adapters of some names may have.

    >>> adapter_kinds(["eth0", "mlx5_0", "mlx5_1"])
    ('infiniband', 'roce')
    >>> adapter_kinds(["rdmap79s0"])
    ('efa',)
    """
    adapters = [name.lower() for name in names]
    for pattern, kinds in _NAMES:
        if any(pattern.match(name) for name in adapters):
            return kinds
    return NEUTRAL


def adapter_distance(network: str, kinds: Collection[str]) -> int:
    """Return how far the network of a catalogue node is from the kinds of a file.

    Returns 0 for one of these kinds, 1 for another one that many machines have, 2 otherwise.
    """
    return 0 if network in kinds else 1 if network in NEUTRAL else 2
