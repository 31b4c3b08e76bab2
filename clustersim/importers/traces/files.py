"""The files of an execution trace: one for each rank, compressed or not, of limited size.

NAME.0.et  NAME.1.et  ...        Chakra, with comm_group.json for its groups
NAME.0.json  rank1.json.gz  ...  PyTorch
"""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clustersim.catalog.files import read_bytes, shown
from clustersim.errors import CatalogError
from clustersim.units import counted

MOST_PACKED: Final = 256 * 1000**2
"""Size limit of a file as it lies on disk [B]."""

MOST_BYTES: Final = 1_000 * 1000**2
"""Size limit of a file after it is decompressed [B]."""

MOST_RANKS: Final = 16_384

GROUPS: Final = "comm_group.json"
"""Name of the file with the groups of a Chakra trace, as ASTRA-sim reads it."""

_GZIP: Final = b"\x1f\x8b"
_OF_RANK: Final = re.compile(r"(?P<name>.*?)(?P<rank>\d+)\.(?:et|json|pt\.trace\.json)(?:\.gz)?$")


def unpacked(path: Path) -> bytes:
    """Return the content of a file, decompressed where it is gzip.

    Raises
    ------
    CatalogError
        when it does not exist, is too large before or after, or is cut off.
    """
    content = read_bytes(path, CatalogError, most=MOST_PACKED)
    if not content.startswith(_GZIP):
        return content
    opened = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        data = opened.decompress(content, MOST_BYTES + 1)
    except zlib.error as problem:
        raise CatalogError(f"{shown(path)}: is not valid gzip ({problem})") from None
    if len(data) > MOST_BYTES:
        raise CatalogError(
            f"{shown(path)}: decompresses to more than {MOST_BYTES // 1000**2:,} MB (the limit for"
            " a trace of a rank)"
        )
    if not opened.eof:
        raise CatalogError(f"{shown(path)}: ends inside its gzip data")
    return data


def files_of_ranks(place: Path, ending: str) -> list[Path]:
    """Return the files of the ranks of a trace: a folder, or the file of one of them.

    Parameters
    ----------
    ending : of their names, without ``.gz``

    Raises
    ------
    CatalogError
        when there is none, or the file of a rank is missing.
    """
    if not place.exists():
        raise CatalogError(f"{shown(place)}: no such file or folder")
    inside = sorted((place if place.is_dir() else place.parent).iterdir())
    found: dict[str, dict[int, Path]] = {}
    for path in inside:
        match = _OF_RANK.fullmatch(path.name)
        if match and path.name.removesuffix(".gz").endswith(ending) and path.is_file():
            found.setdefault(match["name"], {})[int(match["rank"])] = path
    if place.is_file():
        found = {name: ranks for name, ranks in found.items() if place in ranks.values()}
        if not found:
            return [place]
    if not found:
        raise CatalogError(f"{shown(place)}: has no files NAME.0{ending}, NAME.1{ending}, ...")
    if len(found) > 1:
        names = ", ".join(f"{name}0{ending}" for name in [*found][:3])
        raise CatalogError(
            f"{shown(place)}: has {counted(len(found), 'trace')} ({names}; name the file of one)"
        )
    return _in_order(place, *found.values())


def _in_order(place: Path, ranks: dict[int, Path]) -> list[Path]:
    if len(ranks) > MOST_RANKS:
        raise CatalogError(
            f"{shown(place)}: has files of {len(ranks):,} ranks (at most {MOST_RANKS:,})"
        )
    missing = next((rank for rank in range(max(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise CatalogError(
            f"{shown(place)}: has no file of rank {missing} (it has {_ranges([*ranks])})"
        )
    return [ranks[rank] for rank in range(len(ranks))]


def _ranges(ranks: Sequence[int]) -> str:
    return f"{counted(len(ranks), 'rank')} up to {max(ranks)}"
