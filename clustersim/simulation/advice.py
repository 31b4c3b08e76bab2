"""What would make a job fit, and what it costs: other layouts tried one by one.

    a job that does not fit --changes--> other jobs --replayed--> those that fit, the fastest first

Only what the framework and the checks of a layout allow is tried.  Where no change is enough by
itself, those that save most are taken together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.memory.peak import weigh
from clustersim.memory.verdict import Remedy, Verdict
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.simulation.build import build_job
from clustersim.simulation.simulate import Result, simulate

MOST_TRIES: Final = 8
"""Single changes that are tried; as many are taken together at most."""

MOST_BLOCKS: Final = 100_000
MOST_DEVICES: Final = 1024
"""Blocks and devices of a job that is replayed again with each change that helps, in about a
second; larger ones are weighed."""

Reload = Callable[[Sequence[str]], Loaded]
"""Loads the scenario again with more settings."""


def advise(result: Result, reload: Reload) -> Result:
    """Return a result whose verdict says what would make it fit; as it is where it fits."""
    if result.memory.fits:
        return result
    small = result.timeline.blocks <= MOST_BLOCKS and result.devices <= MOST_DEVICES
    tried = _Tries(reload, replayed=small)
    singles = list(changes(result.scenario))[:MOST_TRIES]
    found = [remedy for change in singles if (remedy := tried.remedy(change))]
    if not found:
        found = _together(tried, singles)
    order = sorted(found, key=lambda remedy: (remedy.step_time_s or 0.0, remedy.peak_bytes))
    return replace(result, memory=replace(result.memory, advice=tuple(order)))


def _together(tried: "_Tries", singles: Sequence[Sequence[str]]) -> list[Remedy]:
    """Return the first heap of changes that fits, those that save most taken first."""
    peaks = {tuple(change): tried.peak(change) for change in singles}
    useful = [change for change, peak in peaks.items() if peak is not None]
    heap: tuple[str, ...] = ()
    for change in sorted(useful, key=lambda change: peaks[change] or 0.0):
        touched = {setting.partition("=")[0] for setting in heap}
        if touched & {setting.partition("=")[0] for setting in change}:
            continue
        if tried.peak((*heap, *change)) is None:
            continue
        heap = (*heap, *change)
        if remedy := tried.remedy(heap):
            return [remedy]
    return []


# --- what is tried --------------------------------------------------------------------------------


def changes(given: Scenario) -> Iterator[tuple[str, ...]]:
    """Yield the changes that could help, each as settings, those that cost least first."""
    plan, batch, offered = given.plan, given.batch, given.framework.zero.value
    if plan.tensor > 1 and not plan.sequence_parallel:
        yield ("plan.sequence_parallel=true",)
    yield from ((f"plan.zero={zero}",) for zero in offered if zero > plan.zero and plan.data > 1)
    mode = given.recompute if isinstance(given.recompute, str) else given.recompute.mode
    later = {"none": ("selective", "full"), "selective": ("full",)}
    yield from ((f"recompute={each}",) for each in later.get(mode, ()))
    if batch.micro > 1 and batch.micro % 2 == 0:
        yield (f"batch.micro={batch.micro // 2}",)
    if plan.data % 2 == 0:
        half = f"plan.data={plan.data // 2}"
        yield (f"plan.tensor={2 * plan.tensor}", half)
        yield (f"plan.pipeline={2 * plan.pipeline}", half)
    for where in ("optimiser", "parameters", "activations"):
        if given.cluster.node.host is not None and not getattr(given.offload, where):
            yield (f"offload.{where}=true",)


class _Tries:
    """Jobs with changes, each built once."""

    def __init__(self, reload: Reload, *, replayed: bool) -> None:
        self._reload, self._replayed = reload, replayed
        self._found: dict[tuple[str, ...], tuple[Verdict, float | None] | None] = {}

    def remedy(self, change: Sequence[str]) -> Remedy | None:
        """Return what a change costs if the job fits with it."""
        found = self._tried(change)
        if found is None or not found[0].fits:
            return None
        verdict, seconds = found
        return Remedy(" ".join(change), seconds, verdict.fullest.peak)

    def peak(self, change: Sequence[str]) -> float | None:
        """Return the peak with a change; None where the change is not allowed."""
        found = self._tried(change)
        return None if found is None else found[0].fullest.peak

    def _tried(self, change: Sequence[str]) -> tuple[Verdict, float | None] | None:
        key = tuple(change)
        if key not in self._found:
            try:
                self._found[key] = self._weighed(self._reload(key))
            except (PlanError, ScenarioError, CatalogError):  # not allowed here: not advised
                self._found[key] = None
        return self._found[key]

    def _weighed(self, loaded: Loaded) -> tuple[Verdict, float | None]:
        """Return the verdict on a job, and its step time if it fits and may be replayed."""
        verdict = weigh(build_job(loaded))
        if not (verdict.fits and self._replayed):
            return verdict, None
        return verdict, simulate(loaded).step_time


__all__ = ["advise", "changes"]
