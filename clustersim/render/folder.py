"""Folders that a command leaves: each written whole or not at all, with a list of what is in it.

Everything goes into a new folder beside the final one, which then takes its place.  An earlier
output is replaced; a folder that holds anything else is left alone unless the caller insists.
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
"""What a command prints with ``--json``, the version, and the names of all files beside it."""


def check_free(folder: Path, *, force: bool = False) -> None:
    """Refuse to write where something else stands, or where no folder can be made.

    What stands there may only be the output of an earlier run.

    Raises
    ------
    ScenarioError
        one line that says what is in the way.
    """
    target = folder.resolve()
    if Path.cwd().is_relative_to(target) or Path.home().is_relative_to(target):
        raise ScenarioError(
            f"{folder}: is around the working or home folder, and a run replaces its folder whole;"
            " choose another --out"
        )
    if target.exists() and not force and not is_ours(target):
        raise ScenarioError(
            f"{folder}: is in the way and is not the output of an earlier run; choose another --out"
        )
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "cannot be written in" if above.is_dir() else "is no folder"
        raise ScenarioError(f"{folder}: cannot be made, since {above} {why}; choose another --out")


def is_ours(folder: Path) -> bool:
    """Whether a folder is empty, or holds a summary and no file that the summary does not list."""
    if not folder.is_dir():
        return False
    found = {path.name for path in folder.iterdir()}
    return found <= set(_listed(folder / SUMMARY))


def _listed(summary: Path) -> list[str]:
    """Return the files that a summary says were written with it; none if it is no summary."""
    try:
        return [str(name) for name in json.loads(summary.read_bytes())["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a new folder that takes the place of `folder` at the end, unless something fails."""
    target = folder.resolve()
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    with _blaming(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
    try:
        with _blaming(folder):
            yield new
            if target.exists():
                target.rename(old)
            new.rename(target)
    except BaseException:
        shutil.rmtree(new)
        if old.exists():
            old.rename(target)
        raise
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)


@contextmanager
def _blaming(folder: Path) -> Iterator[None]:
    """Turn what the file system objects to into one line about `folder`."""
    try:
        yield
    except OSError as problem:
        raise ScenarioError(
            f"{folder}: cannot be written ({problem.strerror}); choose another --out"
        ) from problem


def write_summary(answer: Mapping[str, Any], files: Sequence[str], place: Path) -> None:
    """Write what ``--json`` prints and the names of all files into a folder.

    Raises
    ------
    ValueError
        when a number of the answer is none, or infinite.
    """
    summary = {**answer, "version": __version__, "files": files}
    content = json.dumps(summary, indent=1, allow_nan=False)
    (place / SUMMARY).write_text(content + "\n", encoding="utf-8")


__all__ = ["SUMMARY", "check_free", "is_ours", "replacing", "write_summary"]
