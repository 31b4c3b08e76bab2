"""Files that are read on one computer and used on another, under the same names.

    recorded() as files:  load a scenario       the files that it is made of
    with carried(files):  load it elsewhere     as in the folder where they were recorded

The catalogue's own files are everywhere and are not recorded.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_OWN: Final = tuple(
    f"{folder}{os.sep}"
    for folder in (
        _PACKAGE,
        *(_PACKAGE.parent / name for name in ("topologies", "workloads", "scenarios")),
    )
)


@dataclass(frozen=True)
class CarriedFiles:
    """Files by their absolute names, and the folder from which relative names count."""

    folder: str
    files: dict[str, bytes] = field(default_factory=dict)

    def name(self, path: Path) -> str:
        """Return the absolute name of a path."""
        return os.path.normpath(os.path.join(self.folder, path))

    def content(self, path: Path) -> bytes | None:
        """Return a file; None where it is not carried."""
        return self.files.get(self.name(path))


_carried: ContextVar[CarriedFiles | None] = ContextVar("carried", default=None)
_recording: ContextVar[CarriedFiles | None] = ContextVar("recording", default=None)


def carried_files() -> CarriedFiles | None:
    """Return the files that are carried here; None where this computer has them."""
    return _carried.get()


@contextmanager
def carried(files: CarriedFiles) -> Iterator[None]:
    """Use files of another computer."""
    token = _carried.set(files)
    try:
        yield
    finally:
        _carried.reset(token)


@contextmanager
def recorded() -> Iterator[CarriedFiles]:
    """Record each file that is read, the catalogue's own excepted."""
    files = CarriedFiles(os.getcwd())
    token = _recording.set(files)
    try:
        yield files
    finally:
        _recording.reset(token)


def record(path: Path, content: bytes) -> None:
    """Record a file that has been read, where a recording is active."""
    files = _recording.get()
    if files is not None and not (name := files.name(path)).startswith(_OWN):
        files.files[name] = content
