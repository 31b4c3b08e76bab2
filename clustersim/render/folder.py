"""Output folders: each is written completely or not at all, with a list of its files.

Everything is written to a new folder next to the final one, and renamed at the end.  The output of
an earlier run is replaced; a folder with anything else in it only if the caller forces it.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from clustersim import __version__
from clustersim.errors import ScenarioError

SUMMARY: Final = "summary.json"
"""The object of ``--json``, with the version and the names of all files in the folder."""


def check_free(folder: Path, *, force: bool = False) -> None:
    """Check that a folder can be written: that it is free, or the output of an earlier run.

    Raises
    ------
    ScenarioError
        with one line of what exists already, or cannot be created.
    """
    target = folder.resolve()
    if Path.cwd().is_relative_to(target) or Path.home().is_relative_to(target):
        raise ScenarioError(
            f"{folder}: contains the working or the home folder and cannot be replaced;"
            " choose another --out"
        )
    if target.exists() and not force and not is_ours(target):
        raise ScenarioError(
            f"{folder}: already exists and is not the output of an earlier run;"
            " use --force to replace it, or choose another --out"
        )
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "is not writable" if above.is_dir() else "is not a folder"
        raise ScenarioError(f"{folder}: cannot be created: {above} {why}; choose another --out")


def is_ours(folder: Path) -> bool:
    """Whether a folder is empty, or has a summary that lists all of its files."""
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    return names <= set(_listed(folder / SUMMARY))


def _listed(summary: Path) -> list[str]:
    """Return the files that a summary lists; none if it is not a summary."""
    try:
        return [str(name) for name in json.loads(summary.read_bytes())["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield a new folder that replaces `folder` at the end, unless an error occurs."""
    target = folder.resolve()
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    with _errors_of(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _errors_of(folder):
            new.mkdir()
            yield new
            if target.exists():
                target.rename(old)
            new.rename(target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        if old.exists():
            old.rename(target)
        raise
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)


@contextmanager
def _errors_of(folder: Path) -> Iterator[None]:
    """Raise errors of the file system as one line with `folder`."""
    try:
        yield
    except OSError as problem:
        raise ScenarioError(
            f"{folder}: cannot be written ({problem.strerror}); choose another --out"
        ) from problem


def write_summary(answer: Mapping[str, Any], files: Sequence[str], place: Path) -> None:
    """Write the object of ``--json``, with the names of all files, into a folder.

    Raises
    ------
    ValueError
        when a number of the answer is infinite or not a number.
    """
    summary = {**answer, "version": __version__, "files": files}
    content = json.dumps(summary, indent=1, allow_nan=False)
    (place / SUMMARY).write_text(content + "\n", encoding="utf-8")


__all__ = ["SUMMARY", "check_free", "is_ours", "replacing", "write_summary"]
