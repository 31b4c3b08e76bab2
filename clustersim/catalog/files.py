"""Files that a user names: regular files of limited size, read whole, with errors in one line.

A device, a pipe or a socket may never end, and so is rejected before it is opened.

Files that are read on one computer can be used on another, under the same names:

    recorded() as files:  load a scenario       the files that it is made of
    with carried(files):  load it elsewhere     as in the folder where they were recorded

The catalogue's own files are everywhere and are not recorded.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import Final

from clustersim.errors import ClustersimError, ScenarioError
from clustersim.escaping import escaped
from clustersim.records import dataclass

MAX_BYTES: Final = 64 * 1000**2
"""Maximum size of a file [B]; the largest one that is shipped has half a megabyte."""


def shown(path: Path) -> str:
    """Return `path` relative to the working folder where it lies below it."""
    files = _carried.get()
    try:
        if files is not None and files.content(path) is not None:
            return str(Path(files.name(path)).relative_to(files.folder))
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):  # elsewhere, or a loop of links
        return str(path)


def is_file(path: Path) -> bool:
    """Whether there is a regular file; False for a path that no file can have."""
    carried_files = _carried.get()
    return (
        carried_files is not None and carried_files.content(path) is not None
    ) or os.path.isfile(path)


def named_file(name: str, folder: Path | None) -> Path:
    """Return the path of a file that a scenario names: in its folder, if it is there."""
    path = Path(name).expanduser()
    return folder / path if folder is not None and is_file(folder / path) else path


def file_hint(name: str) -> str:
    """Return ``" (did you mean the file 'lab.yaml'?)"`` for the name of a file without its ending.

    An empty text where there is no such file.
    """
    endings = (ending for ending in (".yaml", ".yml", ".txt") if is_file(Path(f"{name}{ending}")))
    return next((f" (did you mean the file '{name}{ending}'?)" for ending in endings), "")


def read_text(
    path: Path,
    error: type[ClustersimError] = ScenarioError,
    *,
    encoding: str = "utf-8",
    where: str = "",
) -> str:
    """Return the text of a file; `where` is put before the message of an error.

    Raises
    ------
    `error`
        when the file does not exist, is not a regular file, is too large, or is not UTF-8 text.
    """
    try:
        return read_bytes(path, error, where=where).decode(encoding)
    except UnicodeDecodeError:
        raise error(f"{where}{escaped(shown(path))}: cannot be read (is not UTF-8 text)") from None


def standard_input(error: type[ClustersimError] = ScenarioError) -> str:
    """Return the text on standard input; errors as of a file."""
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise error(f"(standard input): is larger than {MAX_BYTES // 1000**2} MB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise error("(standard input): cannot be read (is not UTF-8 text)") from None


def read_bytes(
    path: Path,
    error: type[ClustersimError] = ScenarioError,
    *,
    most: int = MAX_BYTES,
    where: str = "",
) -> bytes:
    """Return the bytes of a file of at most `most` bytes; errors as in `read_text`."""

    def file() -> str:
        return where + escaped(shown(path))

    files = _carried.get()
    if files is not None and (content := files.content(path)) is not None:
        return content
    try:
        check_regular(path, error, where=where)
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except FileNotFoundError:
        raise error(f"{file()}: no such file") from None
    except OSError as problem:
        raise error(f"{file()}: cannot be read ({problem.strerror})") from None
    except ClustersimError:
        raise
    except ValueError:  # a null character
        raise error(f"{file()}: is not a valid file name") from None
    if len(content) > most:
        raise error(f"{file()}: is larger than {most / 1000**2:g} MB (the limit for this file)")
    _record(path, content)
    return content


def check_regular(
    path: Path, error: type[ClustersimError] = ScenarioError, *, where: str = ""
) -> None:
    """Check that a path is a regular file, without opening it; errors as in `read_text`."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise error(f"{where}{escaped(shown(path))}: is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise error(f"{where}{escaped(shown(path))}: is a device, pipe or socket, not a file")


# --- files of another computer -------------------------------------------------------------------

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


def _record(path: Path, content: bytes) -> None:
    """Record a file that has been read, where a recording is active."""
    files = _recording.get()
    if files is not None and not (name := files.name(path)).startswith(_OWN):
        files.files[name] = content
