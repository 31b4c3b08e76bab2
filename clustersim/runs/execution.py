"""Runs of many scenarios: from the run cache where it has them, computed by an executor otherwise.

    variants --load--> keys --in the cache?--> runs
                          `--claim--> executor --completed--> cache --> runs

Processes that share a cache share the work: each claims runs that no other process has claimed,
and waits at the end for the runs of the others.  An interrupted study resumes: the cache has all
completed runs.  `CachedRuns` has runs that are chosen one after another, as those of a search.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypedDict

from clustersim.catalog.changes import Change, changes_of
from clustersim.catalog.files import CarriedFiles, recorded
from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.runs.executors import run_alone, workers
from clustersim.runs.progress import ignore_progress, usual_progress
from clustersim.runs.scenario_files import ScenarioFiles
from clustersim.runs.store import RunCache, Study, run_cache
from clustersim.runs.variants import FAILED, INVALID, Run, Variant, in_a_line, renamed, run_variant
from clustersim.runs.workers import InProcess, Workers
from clustersim.scenario.references import may_name_files


def files_of(variants: Iterable[Variant]) -> CarriedFiles:
    """Return the files of variants, those of the catalogue excepted.

    Of variants that name the same files one is loaded.
    """
    with recorded() as files:
        loader, seen = ScenarioFiles(), set[Hashable]()
        for variant in variants:
            naming = [change.text for change in changes_of(variant.settings) if _names_file(change)]
            if (key := (variant.scenario, *naming)) in seen:
                continue
            seen.add(key)
            with suppress(ScenarioError, CatalogError):  # the run will state why
                key_of(variant.load_any(loader))
    return files


def _names_file(change: Change) -> bool:
    """Return whether a change may name another file."""
    return may_name_files(change) or str(change.value).endswith(".txt")


class CachedRuns:
    """The runs of variants that are submitted one by one.

    Parameters
    ----------
    executor : computes what the run cache does not have
    store : run cache

    Attributes
    ----------
    computed : runs that the cache did not have [count]
    """

    def __init__(self, executor: Workers, store: RunCache) -> None:
        self.computed = 0
        self._executor, self._store = executor, store
        self._files = ScenarioFiles()
        self._variants: dict[Future[Run], tuple[Variant, str]] = {}

    @property
    def capacity(self) -> int:
        """Runs to have in flight, so that no worker is idle."""
        return self._executor.capacity

    def adopt(self, variant: Variant, future: Future[Run]) -> None:
        """Take a run that began before there was a run cache; `submit` returns it."""
        self._variants[future] = variant, _key(variant, self._files)

    def submit(self, variant: Variant) -> Future[Run]:
        """Return the run of a variant as a future, which `result` takes."""
        try:
            key = _key(variant, self._files)
        except (ScenarioError, CatalogError) as problem:
            return _done(Run(None, INVALID, in_a_line(problem)))
        cached = self._store.get(key, memory_only=variant.memory_first)
        if cached is not None:
            return _done(renamed(cached, variant))
        running = next((each for each, known in self._variants.items() if known[1] == key), None)
        if running is not None:
            return running
        try:
            future = self._executor.submit(partial(run_variant, variant, key, self._files))
        except BrokenExecutor:
            future = _done(run_lost(variant, key, self._files))
        self._variants[future] = variant, key
        return future

    def result(self, future: Future[Run]) -> Run:
        """Return the run of a future that is done; what was computed is stored."""
        if future not in self._variants:
            return future.result()
        variant, key = self._variants.pop(future)
        try:
            run = replace(future.result(), key=key)
        except BrokenExecutor:
            run = run_lost(variant, key, self._files)
        self.computed += 1
        if run.verdict != FAILED:  # a failure is not cached, so that it is repeated next time
            self._store.put(run)
        return run

    def run(self, variant: Variant) -> Run:
        """Return the run of a variant as soon as it is completed."""
        return self.result(self.submit(variant))


def run_lost(variant: Variant, key: str, files: ScenarioFiles) -> Run:
    """Return the run of a variant whose worker died, computed in a process of its own."""
    try:
        return run_alone(partial(run_variant, key=key, files=files), variant)
    except BrokenExecutor as error:
        return Run(key, FAILED, f"its worker process died ({error})")


def _done(run: Run) -> Future[Run]:
    future: Future[Run] = Future()
    future.set_result(run)
    return future


POLL: Final = 0.2
"""Time between two checks for runs of other processes [s]."""

CHUNK: Final = 32
"""Variants that one task loads to compute their keys, in about half a second, or runs at most."""

KeyOrProblem = tuple[str | None, str | None]
"""Key of a variant and None; or None and why the variant is invalid."""

OnProgress = Callable[[int, int], None]
"""Is called with the number of completed runs and of all runs."""


class Execution(TypedDict, total=False):
    """Where the runs of a study are computed and kept: further arguments of every study.

    Attributes
    ----------
    store, jobs, executor, on_progress : as of `run_study`
    """

    store: str | Path | None
    jobs: int | None
    executor: str | None
    on_progress: OnProgress | None


def run_study(
    study: Study,
    variants: Sequence[Variant],
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress | None = None,
) -> list[Run]:
    """Return the run of each variant, in order.

    Parameters
    ----------
    store : run cache (SQLite), which is created if it does not exist; None for one in memory
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster that runs them instead, as `workers` takes it
    on_progress : is called with the number of completed runs and of all runs; None shows a bar in
        a notebook
    """
    on_progress = on_progress or usual_progress(study.verb)
    path = None if store is None else Path(store)
    with (
        workers(jobs, tasks=len(variants), executor=executor) as computing,
        run_cache(path) as cache,
    ):
        return run_all(study, variants, cache, computing, on_progress=on_progress)


def run_all(
    study: Study,
    variants: Sequence[Variant],
    store: RunCache,
    executor: Workers | None = None,
    *,
    on_progress: OnProgress = ignore_progress,
) -> list[Run]:
    """Return the run of each variant, in order; variants of equal content share one run.

    Parameters
    ----------
    executor : computes runs; None computes them one after another in this process
    """
    executor = executor or InProcess()
    on_progress(0, len(variants))
    files = ScenarioFiles()
    if executor.elsewhere:
        executor.carry(files_of(variants))
    keys = _keys(variants, files, executor)
    store.begin(study, [(variant, *key) for variant, key in zip(variants, keys, strict=True)])
    distinct: dict[str, Variant] = {}
    for variant, (key, _) in zip(variants, keys, strict=True):
        if key is not None and (key not in distinct or distinct[key].memory_first):
            distinct[key] = variant  # of equal variants, one that needs the replay
    work = _Work(distinct, files, store, executor, on_progress)
    try:
        work.finish()
    finally:
        store.release()
    return [
        Run(None, INVALID, why) if key is None else renamed(work.runs[key], variant)
        for variant, (key, why) in zip(variants, keys, strict=True)
    ]


def _keys(
    variants: Sequence[Variant], files: ScenarioFiles, executor: Workers
) -> list[KeyOrProblem]:
    """Return the key of each variant; the executor loads them in chunks."""
    chunks = [variants[i : i + CHUNK] for i in range(0, len(variants), CHUNK)]
    if len(chunks) == 1:
        return _keys_of(variants, files)
    try:
        futures = [executor.submit(_keys_of, chunk, files) for chunk in chunks]
        return [key for future in futures for key in future.result()]
    except BrokenExecutor:  # each run will get a process of its own
        return _keys_of(variants, files)


def _keys_of(variants: Sequence[Variant], files: ScenarioFiles) -> list[KeyOrProblem]:
    return [_key_of(variant, files) for variant in variants]


def _key(variant: Variant, files: ScenarioFiles) -> str:
    return key_of(variant.load_any(files), variant.within, variant.replications)


def _key_of(variant: Variant, files: ScenarioFiles) -> KeyOrProblem:
    try:
        return _key(variant, files), None
    except (ScenarioError, CatalogError) as problem:
        return None, in_a_line(problem)
    except Exception:  # one fault must not end the others; the run of this key will fail with it
        return hashlib.sha256(repr(variant).encode()).hexdigest()[:32], None


_Task = tuple[list[Run], float]
"""Runs that were computed together, and the time that they took [s]."""


def _run_several(variants: Sequence[tuple[Variant, str]], files: ScenarioFiles) -> _Task:
    began = time.perf_counter()
    runs = [run_variant(variant, key, files) for variant, key in variants]
    return runs, time.perf_counter() - began


class _Work:
    """Variants by key, and the runs that are completed."""

    def __init__(
        self,
        variants: dict[str, Variant],
        files: ScenarioFiles,
        store: RunCache,
        executor: Workers,
        on_progress: OnProgress,
    ) -> None:
        self.runs: dict[str, Run] = {}
        self._variants, self._files = variants, files
        self._store, self._on_progress = store, on_progress
        self._executor = executor
        self._pending = deque(variants)
        self._running: dict[Future[_Task], list[str]] = {}
        self._computed, self._seconds = 0, 0.0

    def finish(self) -> None:
        """Compute all runs that the cache does not have."""
        while len(self.runs) < len(self._variants):
            self._on_progress(len(self.runs), len(self._variants))
            capacity = self._executor.capacity
            while len(self._running) < capacity and (keys := self._several()):
                self._start(keys)
            if self._running:
                free = self._pending and len(self._running) < capacity
                timeout = POLL if free else None
                self._collect(wait(self._running, timeout, FIRST_COMPLETED).done)
            elif self._pending:
                time.sleep(POLL)  # other processes compute all remaining runs
        self._on_progress(len(self.runs), len(self._variants))

    def _several(self) -> list[str]:
        """Claim the runs of a task and return their keys; none where there is no run to claim."""
        keys: list[str] = []
        most = self._runs_of_task
        while len(keys) < most and (key := self._next()) is not None:
            keys.append(key)
        return keys

    @property
    def _runs_of_task(self) -> int:
        """Runs of the next task: of about its time, and the last ones for all workers alike."""
        if not self._seconds:
            return 1
        several = round(self._executor.task_seconds * self._computed / self._seconds)
        share = -(-len(self._pending) // self._executor.capacity)
        return max(1, min(several, share, CHUNK))

    def _next(self) -> str | None:
        """Claim a run and return its key; runs of other processes move to the end."""
        for _ in range(len(self._pending)):
            key = self._pending.popleft()
            memory_only = self._variants[key].memory_first
            cached = self._store.get(key, memory_only=memory_only)
            if cached is not None:
                self.runs[key] = cached
            elif self._store.claim(key, memory_only=memory_only):
                return key
            else:
                self._pending.append(key)
        return None

    def _start(self, keys: list[str]) -> None:
        task = partial(_run_several, [(self._variants[key], key) for key in keys], self._files)
        try:
            self._running[self._executor.submit(task)] = keys
        except BrokenExecutor:
            for key in keys:
                self._complete(self._lost(key))

    def _collect(self, done: Iterable[Future[_Task]]) -> None:
        """Store the runs of futures that are done."""
        for future in done:
            keys = self._running.pop(future)
            try:
                runs, seconds = future.result()
                self._computed, self._seconds = self._computed + len(runs), self._seconds + seconds
            except BrokenExecutor:
                runs = [self._lost(key) for key in keys]
            for run in runs:
                self._complete(run)

    def _complete(self, run: Run) -> None:
        assert run.key is not None, "a run that was computed has a key"
        self.runs[run.key] = run
        if run.verdict != FAILED:  # a failure is not cached, so that it is repeated next time
            self._store.put(run)

    def _lost(self, key: str) -> Run:
        return run_lost(self._variants[key], key, self._files)
