"""Files that a user names: regular files of limited size, read whole, with errors in one line.

A device, a pipe or a socket may never end, and so is rejected before it is opened.
"""

import os
import stat
import sys
from pathlib import Path
from typing import Final

from clustersim.catalog.carried_files import carried_files, record
from clustersim.errors import ClustersimError, ScenarioError
from clustersim.escaping import escaped

MAX_BYTES: Final = 64 * 1000**2
"""Maximum size of a file [B]; the largest one that is shipped has half a megabyte."""


def shown(path: Path) -> str:
    """Return `path` relative to the working folder where it lies below it."""
    carried = carried_files()
    try:
        if carried is not None and carried.content(path) is not None:
            return str(Path(carried.name(path)).relative_to(carried.folder))
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):  # elsewhere, or a loop of links
        return str(path)


def is_file(path: Path) -> bool:
    """Whether there is a regular file; False for a path that no file can have."""
    carried = carried_files()
    return (carried is not None and carried.content(path) is not None) or os.path.isfile(path)


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
    file = where + escaped(shown(path))
    carried = carried_files()
    if carried is not None and (content := carried.content(path)) is not None:
        return content
    try:
        check_regular(path, error, where=where)
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except FileNotFoundError:
        raise error(f"{file}: no such file") from None
    except OSError as problem:
        raise error(f"{file}: cannot be read ({problem.strerror})") from None
    except ClustersimError:
        raise
    except ValueError:  # a null character
        raise error(f"{file}: is not a valid file name") from None
    if len(content) > most:
        raise error(f"{file}: is larger than {most / 1000**2:g} MB (the limit for this file)")
    record(path, content)
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
