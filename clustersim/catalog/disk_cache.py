"""Values that earlier processes have read and checked, in the folder of caches of the user.

A process that reads files which one has read before needs neither the parser nor the validators:

    content of a file, and code that checks it --> name of an entry --> checked values

Another content or another code has another entry, so that no entry is out of date, and the folder
may be deleted at any time.  An entry that cannot be used, or a folder, is as none.
"""

import os
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

from clustersim.catalog.facts import SourcedValue

T = TypeVar("T")

MOST_ENTRIES: Final = 512
"""Entries of the folder, of some 10 kB, above which the older half is deleted."""

MOST_WRITTEN: Final = 32
"""Entries that a process writes: one that reads hundreds of files writes those of the first."""

_DIGEST: Final = 16


def kept(compute: Callable[[], T], *content: object) -> T:
    """Return the value of a content, computed unless an earlier process has done so.

    Parameters
    ----------
    content : plain values that determine the value
    """
    value: T | None = find(*content)
    if value is None:
        value = compute()
        keep(value, *content)
    return value


def find(*content: object) -> Any:
    """Return the value of a content; None without one."""
    try:
        data = (_folder() / _name(content)).read_bytes()
        if data[:_DIGEST] == _digest(data[_DIGEST:]):
            return _Reader(BytesIO(data[_DIGEST:])).load()
    except Exception:  # no problem of an entry is one of the file
        pass
    return None


def keep(value: object, *content: object) -> None:
    """Write the value of a content, whole or not at all."""
    if len(_WRITTEN) >= MOST_WRITTEN:
        return
    name, text = _name(content), BytesIO()
    try:
        _Writer(text, pickle.HIGHEST_PROTOCOL).dump(value)
        own = _folder() / f"{name}.{os.getpid()}"
        own.write_bytes(_digest(text.getvalue()) + text.getvalue())
        own.replace(_folder() / name)
        _delete_old(_folder())
    except (OSError, RuntimeError, pickle.PicklingError):
        return
    _WRITTEN.add(name)


_WRITTEN: Final[set[str]] = set()


def _delete_old(folder: Path) -> None:
    entries = [*os.scandir(folder)]
    if len(entries) > MOST_ENTRIES:
        entries.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in entries[: len(entries) // 2]:
            Path(entry).unlink(missing_ok=True)


@cache
def _folder() -> Path:
    """Return the folder of entries.

    Raises
    ------
    OSError, RuntimeError
        when there is none, or another user may write to it: entries are pickled.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "clustersim"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o022):
        raise PermissionError(str(folder))
    return folder


def _name(content: tuple[object, ...]) -> str:
    return _digest(_code() + repr(content).encode(errors="surrogatepass")).hex()


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()


@cache
def _code() -> bytes:
    """Return what identifies the modules that are imported when the first value is checked."""
    files = {
        name: os.stat(str(module.__file__))
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ("clustersim", "pydantic", "pydantic_core", "ruamel")
        and getattr(module, "__file__", None)
    }
    about = sorted((name, file.st_mtime_ns, file.st_size) for name, file in files.items())
    return repr((sys.version, about)).encode()


class _Writer(pickle.Pickler):
    """Writes records, whose kinds of facts are no names of a module."""

    def persistent_id(self, value: Any) -> str | None:
        """Return what identifies a kind of fact."""
        is_kind = isinstance(value, type) and issubclass(value, SourcedValue)
        identity = _identity(value) if is_kind else ""
        return identity if is_kind and _kinds().get(identity) is value else None


class _Reader(pickle.Unpickler):
    """Reads what `_Writer` writes."""

    def persistent_load(self, identity: str) -> Any:
        """Return a kind of fact."""
        return _kinds()[identity]


def _identity(kind: type[SourcedValue[Any]]) -> str:
    """Return the name of a kind of fact and its constraints, of whose functions the names."""
    return re.sub(" at 0x[0-9a-f]+", "", repr((kind.__name__, kind.model_fields["value"])))


@cache
def _kinds() -> dict[str, Any]:
    return {_identity(kind): kind for kind in SourcedValue.__subclasses__()}
