"""Many scenarios, run once each: what a store has is taken from it, the rest goes to an executor.

    variants --load--> keys --store?--> runs
                          `--claim--> executor --as they come--> store --> runs

Several processes with one store share the work: each takes on what no other is at, and waits in
the end for what the others still compute.  Whatever interrupts a study, the store has all runs
that were finished, and the same study goes on from there.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.runs.executors import Here, alone, cores, workers
from clustersim.runs.store import Store, Study
from clustersim.runs.variants import FAILED, REFUSED, Run, Variant, answered, in_a_line
from clustersim.scenario.load import name_of

PAUSE: Final = 0.2
"""Seconds between two looks at what other processes have done."""

HEAP: Final = 32
"""Variants that are loaded together for their keys, in about half a second."""

Key = tuple[str | None, str | None]
"""The key of a variant; or None and what stands against it."""

OnProgress = Callable[[int, int], None]
"""Called with the number of runs that are done, and of all."""


def ignore_progress(done: int, total: int) -> None:
    """Do nothing with the number of runs that are done."""


def run_study(
    study: Study,
    variants: Sequence[Variant],
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    on_progress: OnProgress = ignore_progress,
) -> list[Run]:
    """Return the run of each variant, in their order.

    Parameters
    ----------
    store : run cache (SQLite), which is made if it does not exist; None for one in memory
    jobs : number of processes; one per core if None
    on_progress : called with the number of runs that are done, and of all
    """
    count = min(jobs or cores(), max(len(variants), 1))  # a pool starts all its processes
    with Store(None if store is None else Path(store)) as cache, workers(count) as executor:
        return run_all(study, variants, cache, executor, at_once=count, on_progress=on_progress)


def run_all(
    study: Study,
    variants: Sequence[Variant],
    store: Store,
    executor: Executor | None = None,
    *,
    at_once: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> list[Run]:
    """Return the run of each variant, in their order; two of the same content share one.

    Parameters
    ----------
    executor : where scenarios run; without one they run here, one after another
    at_once : runs that it does side by side
    """
    executor = executor or Here()
    on_progress(0, len(variants))
    keys = _keys(variants, executor)
    store.begin(study, [(variant, *key) for variant, key in zip(variants, keys, strict=True)])
    first: dict[str, Variant] = {}
    for variant, (key, _) in zip(variants, keys, strict=True):
        if key is not None and (key not in first or first[key].weigh_first):
            first[key] = variant  # one of them may want the replay of what does not fit
    work = _Work(first, store, executor, at_once, on_progress)
    try:
        work.finish()
    finally:
        store.release()
    return [
        Run(None, REFUSED, why) if key is None else _named(work.found[key], variant)
        for variant, (key, why) in zip(variants, keys, strict=True)
    ]


def _named(run: Run, variant: Variant) -> Run:
    """Return a run with the name of its own scenario: another file may have had it run."""
    name = name_of(variant.scenario)
    if run.answer is None or run.answer.get("name", name) == name:
        return run
    return replace(run, answer={**run.answer, "name": name})


def _keys(variants: Sequence[Variant], executor: Executor) -> list[Key]:
    """Return the key of each variant, by loading it; that is shared out like the runs."""
    heaps = [variants[i : i + HEAP] for i in range(0, len(variants), HEAP)]
    if len(heaps) == 1:
        return _keys_of(variants)
    try:
        waiting = [executor.submit(_keys_of, heap) for heap in heaps]
        return [key for heap in waiting for key in heap.result()]
    except BrokenExecutor:  # the runs will be done all the same, each in a process of its own
        return _keys_of(variants)


def _keys_of(variants: Sequence[Variant]) -> list[Key]:
    return [_keyed(variant) for variant in variants]


def _keyed(variant: Variant) -> Key:
    """Return the key of a variant; or None and what stands against it."""
    try:
        return key_of(variant.load()), None
    except (ScenarioError, CatalogError) as problem:
        return None, in_a_line(problem)


class _Work:
    """Variants by key, on their way to runs."""

    def __init__(
        self,
        variants: dict[str, Variant],
        store: Store,
        executor: Executor,
        at_once: int,
        on_progress: OnProgress,
    ) -> None:
        self.found: dict[str, Run] = {}
        self._variants, self._store, self._on_progress = variants, store, on_progress
        self._executor, self._room = executor, at_once + 1  # one more, so that none waits for us
        self._ahead = deque(variants)
        self._flying: dict[Future[Run], str] = {}

    def finish(self) -> None:
        """Run what is not there yet, until all is."""
        while len(self.found) < len(self._variants):
            self._on_progress(len(self.found), len(self._variants))
            while len(self._flying) < self._room and (key := self._claimed()) is not None:
                self._start(key)
            if self._flying:
                pause = PAUSE if self._ahead and len(self._flying) < self._room else None
                self._land(wait(self._flying, pause, FIRST_COMPLETED).done)
            elif self._ahead:
                time.sleep(PAUSE)  # all that is left is with other processes
        self._on_progress(len(self.found), len(self._variants))

    def _claimed(self) -> str | None:
        """Return a run that is ours to do; those of others go to the end of the line."""
        for _ in range(len(self._ahead)):
            key = self._ahead.popleft()
            weighed = self._variants[key].weigh_first
            kept = self._store.get(key, weighed=weighed)
            if kept is not None:
                self.found[key] = kept
            elif self._store.claim(key, weighed=weighed):
                return key
            else:
                self._ahead.append(key)
        return None

    def _start(self, key: str) -> None:
        task = partial(answered, self._variants[key], key)
        try:
            self._flying[self._executor.submit(task)] = key
        except BrokenExecutor:
            self._done(self._retried(key))

    def _land(self, done: Iterable[Future[Run]]) -> None:
        """Keep the runs that have come back."""
        for future in done:
            key = self._flying.pop(future)
            try:
                run = future.result()
            except BrokenExecutor:
                run = self._retried(key)
            self._done(run)

    def _done(self, run: Run) -> None:
        assert run.key is not None, "what has run has a key"
        self.found[run.key] = run
        if run.verdict != FAILED:  # a fault of ours or of the machine is worth another try
            self._store.keep(run)

    def _retried(self, key: str) -> Run:
        """Return a run that a dying worker took along, done in a process of its own."""
        try:
            return alone(partial(answered, key=key), self._variants[key])
        except BrokenExecutor as error:
            return Run(key, FAILED, f"its worker process died ({error})")


__all__ = ["OnProgress", "ignore_progress", "run_all", "run_study"]
