"""The run cache: one SQLite file with the runs of all studies.

    run      outcome of a scenario, by its cache key
    study    command and scenario, and the runs that it consists of
    claim    a run that a process is computing, so that processes share the work
    answer   of a command that chooses its runs itself

A stored run never changes, except that a replay replaces an estimate of memory alone.  The claims
of a process end with it, or expire if it ran on another host.
"""

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Final,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
)

from pydantic import Field, ValidationError

from clustersim.answers import from_json, to_json
from clustersim.errors import ScenarioError
from clustersim.memory.room import EXCEEDING, FITTING
from clustersim.records import dataclass
from clustersim.runs.runs_in_memory import RunsInMemory
from clustersim.runs.store_file import connect
from clustersim.runs.table import verdict_text
from clustersim.runs.variants import (
    FAILED,
    INVALID,
    MEMORY_ONLY,
    MemoryEstimate,
    Run,
    Variant,
    Verdict,
)
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.step.answer import RunAnswer
from clustersim.simulation.trace.answer import TraceAnswer

if TYPE_CHECKING:
    import sqlite3

Point = tuple[Variant, Run | None]
"""A variant of a study and its run; None until it is completed."""


@dataclass(frozen=True)
class Study:
    """The purpose of some runs.

    Attributes
    ----------
    name : the verb, the scenario and a digest of the variants
    verb : of the command line
    title : of the scenario
    """

    name: str
    verb: str
    title: str


@dataclass(frozen=True)
class StoredStudy:
    """A study in a run cache and its progress.

    Attributes
    ----------
    position : number of the study in the file, for `--name`
    name : name of the study: verb, scenario and a digest of the variants
    verb : command that runs it
    title : title of the scenario
    begun : when it was last started [UTC]
    runs : number of runs
    fits : runs that fit in memory
    does_not_fit : runs that do not fit in memory
    invalid : combinations that are not allowed
    failed : runs that ended in a fault of clustersim
    remaining : runs that are not completed
    """

    position: int
    name: str
    verb: str
    title: str
    begun: str
    runs: int
    fits: int
    does_not_fit: int
    invalid: Annotated[int, Field(alias="refused")]
    failed: int
    remaining: Annotated[int, Field(alias="left")]


Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def _reporting_file(
    method: Callable[Concatenate["Store", Arguments], Returned],
) -> Callable[Concatenate["Store", Arguments], Returned]:
    """Turn errors of SQLite and of JSON in the file into one line with the name of the file."""

    @wraps(method)
    def wrapped(store: "Store", /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        import sqlite3  # here, so that what keeps no file runs without it

        try:
            return method(store, *args, **kwargs)
        except (sqlite3.Error, json.JSONDecodeError) as problem:
            raise ScenarioError(
                f"{store.path}: cannot be used as a run cache ({problem}); choose another --store"
            ) from problem

    return wrapped


class Store:
    """A run cache; as a context manager it closes the file.

    Parameters
    ----------
    path : file, which is created if it does not exist

    Raises
    ------
    ScenarioError
        when the file is not a run cache, or cannot be opened, or this Python lacks a module.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_modules(path)
        self._owner = this_process()
        self._connection = self._connected()

    @_reporting_file
    def _connected(self) -> "sqlite3.Connection":
        return connect(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    # --- runs -------------------------------------------------------------------------------------

    @_reporting_file
    def get(self, key: str, *, memory_only: bool = False) -> Run | None:
        """Return the run of a key; None if there is none.

        Parameters
        ----------
        memory_only : whether an estimate of memory alone is accepted
        """
        row = self._connection.execute(
            "SELECT verdict, why, answer FROM runs WHERE key = ?", (key,)
        ).fetchone()
        if row is None or (row[0] == MEMORY_ONLY and not memory_only):
            return None
        return _run(key, *row)

    @_reporting_file
    def put(self, run: Run) -> None:
        """Store a run unless there is one; a replay replaces an estimate of memory alone."""
        content = run.answer or run.estimate
        answer = None if content is None else json.dumps(to_json(content), allow_nan=False)
        row = (run.key, run.verdict, run.why, answer, _now())
        with self._transaction():
            if run.verdict != MEMORY_ONLY:
                self._connection.execute(
                    "DELETE FROM runs WHERE key = ? AND verdict = ?", (run.key, MEMORY_ONLY)
                )
            self._connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", row)
            self._connection.execute("DELETE FROM claims WHERE key = ?", (run.key,))

    @_reporting_file
    def claim(self, key: str, *, memory_only: bool = False) -> bool:
        """Claim a run; return False if another process has claimed or completed it."""
        with self._transaction():
            if self.get(key, memory_only=memory_only) is not None:
                return False
            row = self._connection.execute(
                "SELECT host, process, started, since FROM claims WHERE key = ?", (key,)
            ).fetchone()
            if row is not None:
                owner, since = Owner(*row[:3]), row[3]
                if owner != self._owner and not is_abandoned(owner, since):
                    return False
            self._connection.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                (key, *self._owner, time.time()),
            )
        return True

    @_reporting_file
    def release(self) -> None:
        """Release all claims of this process."""
        self._connection.execute(
            "DELETE FROM claims WHERE host = ? AND process = ? AND started = ?", self._owner
        )

    # --- answers ----------------------------------------------------------------------------------

    @_reporting_file
    def answer(self, key: str) -> Any:
        """Return the answer of a command as plain values; None if there is none."""
        row = self._connection.execute(
            "SELECT answer FROM answers WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else json.loads(row[0])

    @_reporting_file
    def put_answer(self, key: str, verb: str, answer: Any) -> None:
        """Store the answer of a command, given as plain values."""
        text = json.dumps(answer, allow_nan=False)
        self._connection.execute(
            "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", (key, verb, text, _now())
        )

    # --- studies ----------------------------------------------------------------------------------

    @_reporting_file
    def begin(self, study: Study, points: Sequence[tuple[Variant, str | None, str | None]]) -> None:
        """Store the variants of a study with their keys, or why they have none."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO studies VALUES (?, ?, ?, ?)",
                (study.name, study.verb, study.title, _now()),
            )
            self._connection.execute("DELETE FROM points WHERE study = ?", (study.name,))
            self._connection.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        study.name,
                        position,
                        variant.scenario,
                        json.dumps([*map(str, variant.settings)]),
                        json.dumps(dict(variant.point)),
                        key,
                        why,
                    )
                    for position, (variant, key, why) in enumerate(points)
                ],
            )

    @_reporting_file
    def studies(self) -> list[StoredStudy]:
        """Return the studies of the file, the oldest first."""
        rows = self._connection.execute(
            "SELECT study, verb, title, begun FROM studies ORDER BY rowid"
        ).fetchall()
        return [self._stored(position, *row) for position, row in enumerate(rows, 1)]

    def _stored(self, position: int, name: str, verb: str, title: str, begun: str) -> StoredStudy:
        runs = [run for _, run in self.points(name)]
        verdicts = Counter(verdict_text(run) for run in runs if run is not None)
        return StoredStudy(
            position=position,
            name=name,
            verb=verb,
            title=title,
            begun=begun,
            runs=len(runs),
            fits=sum(verdicts[verdict] for verdict in FITTING),
            does_not_fit=sum(verdicts[verdict] for verdict in EXCEEDING),
            invalid=verdicts[INVALID],
            failed=verdicts[FAILED],
            remaining=len(runs) - verdicts.total(),
        )

    @_reporting_file
    def points(self, study: str) -> list[Point]:
        """Return the variants of a study with their runs."""
        rows = self._connection.execute(
            "SELECT scenario, settings, point, points.key, points.why, verdict, runs.why, answer"
            " FROM points LEFT JOIN runs ON runs.key = points.key WHERE study = ?"
            " ORDER BY position",
            (study,),
        )
        return [
            (
                Variant(scenario, tuple(json.loads(settings)), json.loads(point)),
                Run(None, INVALID, problem)
                if key is None
                else None
                if verdict is None
                else _readable((key, verdict, why, text)),
            )
            for scenario, settings, point, key, problem, verdict, why, text in rows
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Apply several changes together, or none of them."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


RunCache = Store | RunsInMemory
"""What keeps the runs of a study."""


def run_cache(path: Path | None) -> RunCache:
    """Return the run cache of a file, or of this process alone if there is none.

    Raises
    ------
    ScenarioError
        as `Store`.
    """
    return RunsInMemory() if path is None else Store(path)


def _check_modules(path: Path) -> None:
    """Check that this Python can keep a file: one in a browser cannot."""
    for name in ("sqlite3", "psutil"):
        try:
            import_module(name)
        except ImportError:
            raise ScenarioError(
                f"{path}: a run cache needs the module {name}, which this Python does not have;"
                " leave out the store"
            ) from None


def _run(key: str, verdict: Verdict, why: str | None, text: str | None) -> Run:
    data = None if text is None else json.loads(text)
    if verdict == MEMORY_ONLY:
        return Run(key, verdict, why, estimate=from_json(MemoryEstimate, data))
    if data is None:
        return Run(key, verdict, why)
    return Run(key, verdict, why, from_json(_answer_of(data), data))


def _answer_of(data: Mapping[str, Any]) -> Any:
    """Return the type of an answer by its keys."""
    if "ttft_s" in data:
        return ServeAnswer
    if "communications" in data:
        return TraceAnswer
    return ShareAnswer if "fairness" in data else RunAnswer


def _readable(row: tuple[str, Verdict, str | None, str | None]) -> Run | None:
    """Return a run; None if another version of clustersim wrote it with other keys."""
    try:
        return _run(*row)
    except ValidationError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


LEASE: Final = 600.0
"""Time after which the claim of a process on another host has expired [s]."""

_TOLERANCE: Final = 1.0
"""Largest difference between two readings of the start time of one process [s].

It is counted from the start of the host, which moves when the clock is adjusted.
"""


class Owner(NamedTuple):
    """A process that has claimed a run.

    Attributes
    ----------
    host : name of the host
    process : process number on the host
    started : start time of the process [s since 1970]
    """

    host: str
    process: int
    started: float


def this_process() -> Owner:
    """Return the owner of the claims of this process."""
    return owner_of(os.getpid())


def owner_of(process: int) -> Owner:
    """Return a process of this host."""
    import psutil  # for claims on runs of a file only

    return Owner(socket.gethostname(), process, psutil.Process(process).create_time())


def is_abandoned(owner: Owner, since: float) -> bool:
    """Return whether the owner of a claim has ended; the claim was made at `since` [s]."""
    if owner.host != socket.gethostname():
        return time.time() - since > LEASE
    import psutil

    try:
        started = psutil.Process(owner.process).create_time()
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return abs(started - owner.started) > _TOLERANCE
