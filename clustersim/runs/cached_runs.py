"""Runs that are chosen one after another, from the run cache where it has them.

    variant --load--> key --in the cache?--> run
                        `--executor--> completed --> cache --> run

The next variant of a search depends on completed runs.
"""

from concurrent.futures import BrokenExecutor, Future
from functools import partial

from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.runs.executors import run_alone
from clustersim.runs.scenario_files import ScenarioFiles
from clustersim.runs.store import Store
from clustersim.runs.variants import FAILED, INVALID, Run, Variant, in_a_line, renamed, run_variant
from clustersim.runs.workers import Workers


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

    def __init__(self, executor: Workers, store: Store) -> None:
        self.computed = 0
        self._executor, self._store = executor, store
        self._files = ScenarioFiles()
        self._variants: dict[Future[Run], tuple[Variant, str]] = {}

    @property
    def capacity(self) -> int:
        """Runs to have in flight, so that no worker is idle."""
        return self._executor.capacity

    def submit(self, variant: Variant) -> Future[Run]:
        """Return the run of a variant as a future, which `result` takes."""
        try:
            key = key_of(variant.load_any(self._files), self._files.texts)
        except (ScenarioError, CatalogError) as problem:
            return _done(Run(None, INVALID, in_a_line(problem)))
        cached = self._store.get(key, memory_only=variant.memory_first)
        if cached is not None:
            return _done(renamed(cached, variant))
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
            run = future.result()
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
