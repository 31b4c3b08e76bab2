"""The study store: one SQLite file that keeps every run of every study, as they come.

    run      what came of a scenario, by the key of its content: never run again
    study    who asked, and for which points
    claim    what a process is at, so that two with one store share the work

No run is changed once it is there; one that was only weighed is completed by its replay.  A
process that is killed leaves its claims behind; they end with the process, or after a while where
it ran on another host.
"""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from clustersim.errors import ScenarioError
from clustersim.runs.lease import Owner, abandoned, this_process
from clustersim.runs.store_file import check_store, opened
from clustersim.runs.table import VERDICTS, verdict_of
from clustersim.runs.variants import REFUSED, WEIGHED, Run, Variant


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
    """How far a study is: points in all, and how many have each verdict."""

    study: Study
    begun: str
    points: int
    verdicts: Mapping[str, int]

    @property
    def left(self) -> int:
        """Points that are still to be run."""
        return self.points - sum(self.verdicts.values())

    def to_json(self, position: int) -> dict[str, Any]:
        """Return plain values, with its position among the studies of its store."""
        return {
            "position": position,
            "name": self.study.name,
            "verb": self.study.verb,
            "title": self.study.title,
            "begun": self.begun,
            "runs": self.points,
            **{each.replace(" ", "_"): self.verdicts.get(each, 0) for each in VERDICTS},
            "left": self.left,
        }


Given = ParamSpec("Given")
Found = TypeVar("Found")


def _blaming(
    method: Callable[Concatenate["Store", Given], Found],
) -> Callable[Concatenate["Store", Given], Found]:
    """Turn what SQLite objects to, and what is no JSON in it, into one line about the file."""

    @wraps(method)
    def told(store: "Store", /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return method(store, *args, **kwargs)
        except (sqlite3.Error, json.JSONDecodeError) as problem:
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
        self._me = this_process()
        self._base = self._opened()

    @_blaming
    def _opened(self) -> sqlite3.Connection:
        return opened(self.path)

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
    def get(self, key: str, *, weighed: bool = False) -> Run | None:
        """Return the run of that key; None where there is none yet.

        Parameters
        ----------
        weighed : whether one will do that was only weighed, since it does not fit
        """
        row = self._base.execute(
            "SELECT verdict, why, answer FROM runs WHERE key = ?", (key,)
        ).fetchone()
        if row is None or (row[0] == WEIGHED and not weighed):
            return None
        return _run(key, *row)

    @_blaming
    def keep(self, run: Run) -> None:
        """Keep a run, unless it is there already; a replay completes what was only weighed."""
        answer = None if run.answer is None else json.dumps(run.answer, allow_nan=False)
        row = (run.key, run.verdict, run.why, answer, _now())
        with self._whole():
            if run.verdict != WEIGHED:
                self._base.execute(
                    "DELETE FROM runs WHERE key = ? AND verdict = ?", (run.key, WEIGHED)
                )
            self._base.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", row)
            self._base.execute("DELETE FROM claims WHERE key = ?", (run.key,))

    @_blaming
    def claim(self, key: str, *, weighed: bool = False) -> bool:
        """Take a run on; return False where another process is at it, or has done it."""
        with self._whole():
            if self.get(key, weighed=weighed) is not None:
                return False
            row = self._base.execute(
                "SELECT host, process, born, since FROM claims WHERE key = ?", (key,)
            ).fetchone()
            if row is not None:
                owner, since = Owner(*row[:3]), row[3]
                if owner != self._me and not abandoned(owner, since):
                    return False
            self._base.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                (key, *self._me, time.time()),
            )
        return True

    @_blaming
    def release(self) -> None:
        """Give up all claims of this process."""
        self._base.execute(
            "DELETE FROM claims WHERE host = ? AND process = ? AND born = ?", self._me
        )

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
        rows = self._base.execute("SELECT study, verb, title, begun FROM studies ORDER BY rowid")
        return [self._progress(Study(*named), begun) for *named, begun in rows.fetchall()]

    def _progress(self, study: Study, begun: str) -> Progress:
        runs = [run for _, run in self.points(study.name)]
        found = Counter(verdict_of(run) for run in runs if run is not None)
        return Progress(study, begun, points=len(runs), verdicts=found)

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
                Run(None, REFUSED, trouble)
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


def _run(key: str, verdict: Any, why: str | None, answer: str | None) -> Run:
    return Run(key, verdict, why, None if answer is None else json.loads(answer))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


__all__ = ["Progress", "Store", "Study", "check_store"]
