"""The run cache of a study that keeps no file: runs in this process alone.

It needs neither SQLite nor processes, so that studies run where Python has none, as in a browser.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Self

from clustersim.records import dataclass
from clustersim.runs.variants import MEMORY_ONLY, Run


@dataclass(frozen=True)
class RunsInMemory:
    """Runs by key, with the methods of `Store` that studies use."""

    _runs: dict[str, Run] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: there is no file to close."""

    def get(self, key: str, *, memory_only: bool = False) -> Run | None:
        """Return the run of a key, as `Store.get`."""
        run = self._runs.get(key)
        if run is None or (run.verdict == MEMORY_ONLY and not memory_only):
            return None
        return replace(run, fresh=False)

    def put(self, run: Run) -> None:
        """Keep a run unless there is one; a replay replaces an estimate of memory alone."""
        assert run.key is not None, "a run that was computed has a key"
        if self.get(run.key) is None:
            self._runs[run.key] = run

    def claim(self, key: str, *, memory_only: bool = False) -> bool:
        """Return whether the run of a key is to be computed."""
        return self.get(key, memory_only=memory_only) is None

    def release(self) -> None:
        """Do nothing: no other process has these runs."""

    def begin(self, study: object, points: Sequence[object]) -> None:
        """Do nothing: studies of this process are not listed."""

    def put_answer(self, key: str, verb: str, answer: Any) -> None:
        """Do nothing: a second search starts from the beginning."""
