"""The formats of execution traces: the reader of each, and how its files show it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from clustersim.catalog.files import read_bytes, shown
from clustersim.errors import CatalogError
from clustersim.importers.traces import chakra, kineto
from clustersim.importers.traces.files import MOST_PACKED
from clustersim.importers.traces.trace import Trace

READERS: Final[Mapping[str, Callable[[Path], Trace]]] = {
    "chakra": chakra.read_chakra,
    "kineto": kineto.read_kineto,
}
"""The reader of each format."""


def read_trace(place: Path, format: str | None = None) -> Trace:
    """Return the trace of a folder, or of the file of one of its ranks.

    Raises
    ------
    CatalogError
        when it is missing or damaged, or of no known format.
    """
    if not place.exists():
        raise CatalogError(f"{shown(place)}: no such file or folder")
    name = format or trace_format(place)
    if name is None:
        raise CatalogError(
            f"{shown(place)}: is no trace (Chakra: NAME.0.et, NAME.1.et, ...; PyTorch: a .json file"
            " for each rank)"
        )
    return READERS[name](place)


def trace_format(place: Path) -> str | None:
    """Return the format of a trace; None of what is none."""
    if place.is_dir():
        inside = sorted(path for path in place.iterdir() if path.is_file())
        found = (_of_file(path) for path in inside)
        return next((name for name in found if name is not None), None)
    return _of_file(place) if place.is_file() else None


def contents_of(place: Path) -> Iterator[bytes]:
    """Yield the names and the contents of the files of a trace, as they lie on disk."""
    folder = place if place.is_dir() else place.parent
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = path.name.removesuffix(".gz")
        if name.endswith((chakra.ENDING, kineto.ENDING)) and path.is_file():
            yield path.name.encode()
            yield read_bytes(path, CatalogError, most=MOST_PACKED)


def _of_file(path: Path) -> str | None:
    name = path.name.removesuffix(".gz")
    if name.endswith(chakra.ENDING):
        return "chakra"
    if name.endswith(kineto.ENDING) and kineto.is_kineto(path):
        return "kineto"
    return None
