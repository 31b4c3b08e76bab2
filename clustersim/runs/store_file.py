"""The file of a study store: made where there is none, refused where it is something else.

runs      what came of a scenario, by the key of its content
studies   who asked: a verb and a scenario
points    which runs a study consists of, in order; those that cannot be have a reason
claims    runs that a process is at
"""

import sqlite3
from pathlib import Path
from typing import Final

from clustersim.errors import ScenarioError

MARK: Final = 0x636C7374  # "clst": what the file says it is
FORM: Final = 1
"""The number of the tables below; another one is of another version of clustersim."""

PATIENCE: Final = 60.0
"""Seconds to wait for another process that writes."""

_HEAD: Final = 100
"""Bytes at the front of an SQLite file that say what it is: https://sqlite.org/fileformat.html."""

_TABLES: Final = f"""
CREATE TABLE runs (
    key TEXT PRIMARY KEY, verdict TEXT NOT NULL, why TEXT, answer TEXT, finished TEXT NOT NULL);
CREATE TABLE studies (
    study TEXT PRIMARY KEY, verb TEXT NOT NULL, title TEXT NOT NULL, begun TEXT NOT NULL);
CREATE TABLE points (
    study TEXT NOT NULL, position INTEGER NOT NULL, scenario TEXT NOT NULL, settings TEXT NOT NULL,
    point TEXT NOT NULL, key TEXT, why TEXT, PRIMARY KEY (study, position));
CREATE TABLE claims (
    key TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, born TEXT NOT NULL,
    since REAL NOT NULL);
PRAGMA application_id = {MARK};
PRAGMA user_version = {FORM};
"""


def opened(path: Path | None) -> sqlite3.Connection:
    """Return a connection to a store, which is made if it is not there; None is one in memory.

    Raises
    ------
    ScenarioError
        when the file is something else, or its folder cannot be made.
    sqlite3.Error
        when SQLite cannot open it.
    """
    if path is not None:
        check_store(path)
        _make_folder(path.parent)
    base = sqlite3.connect(path or ":memory:", timeout=PATIENCE, isolation_level=None)
    base.execute("BEGIN IMMEDIATE")  # of two that make it at once, one waits and finds it made
    if not base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in filter(str.strip, _TABLES.split(";")):
            base.execute(statement)
    base.execute("COMMIT")
    return base


def check_store(path: Path, *, there: bool = False) -> None:
    """Refuse a file that is no study store, without touching it.

    Parameters
    ----------
    there : whether the store must exist

    Raises
    ------
    ScenarioError
        in one line.
    """
    if path.is_dir():
        raise ScenarioError(f"{path}: is a folder, not a study store; choose another --store")
    if not path.exists():
        if there:
            raise ScenarioError(f"{path}: no such file (a study makes one: clustersim sweep)")
        return
    head = _head(path)
    if not head and not there:
        return
    mark, form = int.from_bytes(head[68:72], "big"), int.from_bytes(head[60:64], "big")
    if not head.startswith(b"SQLite format 3\0") or mark != MARK:
        raise ScenarioError(f"{path}: is not a study store; choose another --store")
    if form != FORM:
        raise ScenarioError(
            f"{path}: is a study store of another version of clustersim (form {form}, not {FORM});"
            " choose another --store"
        )


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as problem:
        raise ScenarioError(f"{path}: cannot be read ({problem.strerror})") from None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ScenarioError(f"{folder}: cannot be made ({problem.strerror})") from None


__all__ = ["check_store", "opened"]
