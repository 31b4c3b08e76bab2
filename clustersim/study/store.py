"""The study store: one SQLite file that keeps every run of every study, as they come.

    runs      what came of a scenario, by the key of its content: never run again
    studies   who asked: a verb and a scenario
    points    which runs a study consists of, in order; those that cannot be have a reason
    claims    runs that a process is at, so that two with one store share the work

Nothing is changed once it is in `runs`.  A process that is killed leaves its claims behind; they
end with the process, or after a while where it ran on another host.
"""

import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from clustersim.errors import ScenarioError
from clustersim.study.variants import Run, Variant

MARK: Final = 0x636C7374  # "clst": what the file says it is
FORM: Final = 1
"""The number of the tables below; another one is of another version of clustersim."""

PATIENCE: Final = 60.0
"""Seconds to wait for another process that writes."""

LEASE: Final = 600.0
"""Seconds after which a claim of a process on another host is taken for abandoned."""

_TABLES: Final = f"""
CREATE TABLE runs (
    key TEXT PRIMARY KEY, verdict TEXT NOT NULL, why TEXT, answer TEXT, finished TEXT NOT NULL);
CREATE TABLE studies (
    study TEXT PRIMARY KEY, verb TEXT NOT NULL, title TEXT NOT NULL, begun TEXT NOT NULL);
CREATE TABLE points (
    study TEXT NOT NULL, position INTEGER NOT NULL, scenario TEXT NOT NULL, settings TEXT NOT NULL,
    point TEXT NOT NULL, key TEXT, why TEXT, PRIMARY KEY (study, position));
CREATE TABLE claims (
    key TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, since REAL NOT NULL);
PRAGMA application_id = {MARK};
PRAGMA user_version = {FORM};
"""


@dataclass(frozen=True)
class Study:
    """Who asked for some runs.

    Attributes
    ----------
    name : of the study in its store: the verb, the scenario and a digest of what was asked
    verb : of the command line
    title : of the scenario
    """

    name: str
    verb: str
    title: str


@dataclass(frozen=True)
class Progress:
    """How far a study is: points in all, and of them those with each verdict."""

    study: Study
    begun: str
    points: int
    ran: int
    does_not_fit: int
    refused: int
    failed: int

    @property
    def left(self) -> int:
        """Points that are still to be run."""
        return self.points - self.ran - self.does_not_fit - self.refused - self.failed


Given = ParamSpec("Given")
Found = TypeVar("Found")


def _blaming(
    method: Callable[Concatenate["Store", Given], Found],
) -> Callable[Concatenate["Store", Given], Found]:
    """Turn what SQLite objects to into one line about the file."""

    @wraps(method)
    def told(store: "Store", /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return method(store, *args, **kwargs)
        except sqlite3.Error as problem:
            raise ScenarioError(
                f"{store.path}: cannot be used as a study store ({problem}); choose another --store"
            ) from problem

    return told


class Store:
    """A study store; a context, which closes it.

    Parameters
    ----------
    path : of the file, which is made if it is not there; None for one in memory

    Raises
    ------
    ScenarioError
        when the file is something else, or cannot be opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._host, self._process = socket.gethostname(), os.getpid()
        self._base = self._opened(path)

    @_blaming
    def _opened(self, path: Path | None) -> sqlite3.Connection:
        if path is not None:
            check_store(path)
            _make_folder(path.parent)
        base = sqlite3.connect(path or ":memory:", timeout=PATIENCE, isolation_level=None)
        base.execute("BEGIN IMMEDIATE")
        if not base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in filter(str.strip, _TABLES.split(";")):
                base.execute(statement)
        base.execute("COMMIT")
        return base

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._base.close()

    # --- runs -------------------------------------------------------------------------------------

    @_blaming
    def get(self, key: str) -> Run | None:
        """Return the run of that key; None where there is none yet."""
        row = self._base.execute(
            "SELECT verdict, why, answer FROM runs WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else _run(key, *row)

    @_blaming
    def keep(self, run: Run) -> None:
        """Keep a run, unless it is there already."""
        answer = None if run.answer is None else json.dumps(run.answer, allow_nan=False)
        with self._whole():
            self._base.execute(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)",
                (run.key, run.verdict, run.why, answer, _now()),
            )
            self._base.execute("DELETE FROM claims WHERE key = ?", (run.key,))

    @_blaming
    def claim(self, key: str) -> bool:
        """Take a run on; return False where another process is at it, or has done it."""
        with self._whole():
            if self._base.execute("SELECT 1 FROM runs WHERE key = ?", (key,)).fetchone():
                return False
            row = self._base.execute(
                "SELECT host, process, since FROM claims WHERE key = ?", (key,)
            ).fetchone()
            if row is not None and not self._abandoned(*row):
                return False
            self._base.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)",
                (key, self._host, self._process, time.time()),
            )
        return True

    @_blaming
    def release(self) -> None:
        """Give up all claims of this process."""
        self._base.execute(
            "DELETE FROM claims WHERE host = ? AND process = ?", (self._host, self._process)
        )

    def _abandoned(self, host: str, process: int, since: float) -> bool:
        if (host, process) == (self._host, self._process):
            return True
        if host == self._host:
            return not _alive(process)
        return time.time() - since > LEASE

    # --- studies ----------------------------------------------------------------------------------

    @_blaming
    def begin(self, study: Study, points: Sequence[tuple[Variant, str | None, str | None]]) -> None:
        """Note what a study consists of: variants with their keys, or why they have none."""
        with self._whole():
            self._base.execute(
                "INSERT OR IGNORE INTO studies VALUES (?, ?, ?, ?)",
                (study.name, study.verb, study.title, _now()),
            )
            self._base.execute("DELETE FROM points WHERE study = ?", (study.name,))
            self._base.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        study.name,
                        position,
                        variant.scenario,
                        json.dumps(variant.settings),
                        json.dumps(dict(variant.point)),
                        key,
                        why,
                    )
                    for position, (variant, key, why) in enumerate(points)
                ],
            )

    @_blaming
    def studies(self) -> list[Progress]:
        """Return the studies that the store knows, the oldest first."""
        rows = self._base.execute(
            "SELECT study, verb, title, begun FROM studies ORDER BY begun, study"
        )
        return [self._progress(Study(*named), begun) for *named, begun in rows.fetchall()]

    def _progress(self, study: Study, begun: str) -> Progress:
        found = [run for _, run in self.points(study.name)]
        ran = [run for run in found if run is not None and run.verdict == "ran"]
        return Progress(
            study,
            begun,
            points=len(found),
            ran=sum(run.fits for run in ran),
            does_not_fit=sum(not run.fits for run in ran),
            refused=sum(run is not None and run.verdict == "refused" for run in found),
            failed=sum(run is not None and run.verdict == "failed" for run in found),
        )

    @_blaming
    def points(self, study: str) -> list[tuple[Variant, Run | None]]:
        """Return the variants of a study with their runs; None for a run that is still to come."""
        rows = self._base.execute(
            "SELECT scenario, settings, point, points.key, points.why, verdict, runs.why, answer"
            " FROM points LEFT JOIN runs ON runs.key = points.key WHERE study = ?"
            " ORDER BY position",
            (study,),
        )
        return [
            (
                Variant(scenario, tuple(json.loads(settings)), json.loads(point)),
                Run(None, "refused", trouble)
                if key is None
                else None
                if verdict is None
                else _run(key, verdict, why, answer),
            )
            for scenario, settings, point, key, trouble, verdict, why, answer in rows
        ]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Do several things as one, or none of them."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")


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
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as problem:
        raise ScenarioError(f"{path}: cannot be read ({problem.strerror})") from None
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


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ScenarioError(f"{folder}: cannot be made ({problem.strerror})") from None


def _run(key: str, verdict: Any, why: str | None, answer: str | None) -> Run:
    return Run(key, verdict, why, None if answer is None else json.loads(answer))


def _alive(process: int) -> bool:
    """Whether there is a process of that number on this host."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


__all__ = ["Progress", "Store", "Study", "check_store"]
