"""Output folders: each is written completely or not at all, with a list of its files.

Everything is written to a new folder next to the final one, and renamed at the end.  The output of
an earlier run is replaced; a folder with other files is written to only if the caller forces it.
Only files that an earlier run has listed, and files of the same name, are ever deleted: all others
are moved to the new folder.
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


LEFT_BEHIND: Final = frozenset(
    {".DS_Store", ".directory", ".ipynb_checkpoints", "Thumbs.db", "desktop.ini"}
)
"""Names of what file managers and notebooks leave in any folder."""


def check_free(folder: Path, *, force: bool = False) -> None:
    """Check that a folder can be written: that it is free, or the output of an earlier run.

    Raises
    ------
    ScenarioError
        with one line of what exists already, or cannot be created.
    """
    target = _resolved(folder)
    if Path.cwd().is_relative_to(target) or Path.home().is_relative_to(target):
        raise ScenarioError(
            f"{folder}: contains the working or the home folder and cannot be replaced;"
            " choose another --out"
        )
    if target.exists() and not target.is_dir():
        raise ScenarioError(f"{folder}: is a file, not a folder; choose another --out")
    if target.exists() and not force and not is_ours(target):
        raise ScenarioError(
            f"{folder}: already exists and has files that are not the output of an earlier run;"
            " use --force to write there and keep them, or choose another --out"
        )
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "is not writable" if above.is_dir() else "is not a folder"
        raise ScenarioError(f"{folder}: cannot be created: {above} {why}; choose another --out")


def _resolved(folder: Path) -> Path:
    """Return the folder behind symbolic links."""
    try:
        return folder.resolve()
    except RuntimeError:
        problem = f"{folder}: is a loop of symbolic links; choose another --out"
        raise ScenarioError(problem) from None


def is_ours(folder: Path) -> bool:
    """Whether a folder is empty, or has a summary that lists all of its files."""
    return folder.is_dir() and {path.name for path in _others(folder)} <= LEFT_BEHIND


def _others(folder: Path) -> list[Path]:
    """Return what no earlier run has written to a folder: files that it has not listed, folders."""
    listed = {*_listed(folder / SUMMARY)}
    return [
        path
        for path in sorted(folder.iterdir())
        if path.name not in listed or (path.is_dir() and not path.is_symlink())
    ]


def _listed(summary: Path) -> list[str]:
    """Return the files that a summary lists; none if it is not a summary."""
    try:
        return [str(name) for name in json.loads(summary.read_bytes())["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield a new folder that replaces `folder` at the end, unless an error occurs.

    Files that no earlier run has written are kept, unless the new folder has one of the same name.
    """
    target = _resolved(folder)
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    with _errors_of(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
    kept: list[str] = []
    try:
        with _errors_of(folder):
            new.mkdir()
            yield new
            if target.exists():
                names = _kept(target, new)
                target.rename(old)
                for name in names:
                    (old / name).rename(new / name)
                    kept.append(name)
            new.rename(target)
    except BaseException:
        for name in kept:
            (new / name).rename(old / name)
        shutil.rmtree(new, ignore_errors=True)
        if old.exists():
            old.rename(target)
        raise
    if old.exists():
        shutil.rmtree(old)


def _kept(folder: Path, new: Path) -> list[str]:
    """Return the names of what moves from a folder to the new one.

    Raises
    ------
    ScenarioError
        when a folder has the name of a new file: no folder is ever deleted.
    """
    written = {path.name for path in new.iterdir()}
    others = _others(folder)
    for path in others:
        if path.name in written and path.is_dir():
            raise ScenarioError(
                f"{path}: is a folder, and a file of that name is to be written; choose another"
                " --out"
            )
    return [path.name for path in others if path.name not in written]


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
