"""The file of a run cache: its tables, and what is checked before it is opened.

runs      outcome of a scenario, by its cache key
studies   command and scenario
points    runs of a study, in order; an invalid combination has a reason and no key
claims    runs that a process is computing
answers   answers of commands that choose their runs themselves, by a key of all of their input
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.catalog.files import check_regular
from clustersim.errors import ScenarioError

if TYPE_CHECKING:
    import sqlite3

APPLICATION: Final = 0x636C7374  # "clst", the application id in the header of the file
VERSION: Final = 4
"""Version of the tables below; files of other versions are rejected."""

TIMEOUT: Final = 60.0
"""Time to wait for another process that writes [s]."""

_HEADER: Final = 100
"""Size of the header of an SQLite file [B]: https://sqlite.org/fileformat.html."""

_CLAIMS: Final = """
CREATE TABLE claims (
    key TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, started REAL NOT NULL,
    since REAL NOT NULL);
"""

_ANSWERS: Final = """
CREATE TABLE answers (
    key TEXT PRIMARY KEY, verb TEXT NOT NULL, answer TEXT NOT NULL, finished TEXT NOT NULL);
"""

_TABLES: Final = f"""
CREATE TABLE runs (
    key TEXT PRIMARY KEY, verdict TEXT NOT NULL, why TEXT, answer TEXT, finished TEXT NOT NULL);
CREATE TABLE studies (
    study TEXT PRIMARY KEY, verb TEXT NOT NULL, title TEXT NOT NULL, begun TEXT NOT NULL);
CREATE TABLE points (
    study TEXT NOT NULL, position INTEGER NOT NULL, scenario TEXT NOT NULL, settings TEXT NOT NULL,
    point TEXT NOT NULL, key TEXT, why TEXT, PRIMARY KEY (study, position));
{_CLAIMS}
{_ANSWERS}
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""


def connect(path: Path) -> "sqlite3.Connection":
    """Return a connection to a run cache, which is created if needed.

    Raises
    ------
    ScenarioError
        when the file is not a run cache, or its folder cannot be created.
    sqlite3.Error
        when SQLite cannot open it.
    """
    import sqlite3

    check_store(path)
    _make_folder(path.parent)
    connection = sqlite3.connect(path, timeout=TIMEOUT, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")  # one of several processes creates it
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        _execute(connection, _TABLES)
    connection.execute("COMMIT")
    return connection


def _execute(connection: "sqlite3.Connection", statements: str) -> None:
    for statement in filter(str.strip, statements.split(";")):
        connection.execute(statement)


def check_store(path: Path, *, must_exist: bool = False) -> None:
    """Check that a file is a run cache, without changing it.

    Raises
    ------
    ScenarioError
        in one line, when it is not, or does not exist where it must.
    """
    if path.is_dir():
        raise ScenarioError(f"{path}: is a folder, not a run cache; choose another --store")
    if not path.exists():
        if must_exist:
            raise ScenarioError(f"{path}: no such file (clustersim sweep writes one)")
        return
    header = _header(path)
    if not header and not must_exist:
        return
    application = int.from_bytes(header[68:72], "big")
    version = int.from_bytes(header[60:64], "big")
    if not header.startswith(b"SQLite format 3\0") or application != APPLICATION:
        raise ScenarioError(f"{path}: is not a run cache of clustersim; choose another --store")
    if version != VERSION:
        raise ScenarioError(
            f"{path}: is a run cache of another version of clustersim (format {version}, this"
            f" version reads {VERSION}); choose another --store"
        )


def _header(path: Path) -> bytes:
    try:
        check_regular(path)
        with path.open("rb") as file:
            return file.read(_HEADER)
    except OSError as problem:
        raise ScenarioError(f"{path}: cannot be read ({problem.strerror})") from None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ScenarioError(f"{folder}: cannot be created ({problem.strerror})") from None
