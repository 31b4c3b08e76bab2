"""Changes with which a job fits in memory, and the step time of each.

    a job that does not fit --changes--> other jobs --attempt--> those that fit, the fastest first

Only changes that the framework and the checks of a layout allow are tried.  Where no single change
is enough, those that save most are combined.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from clustersim.catalog.changes import setting_text
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.memory.verdict import Remedy, Verdict
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario

MOST_TRIES: Final = 8
"""Single changes that are tried; as many are combined at most."""

MOST_BLOCKS: Final = 100_000
MOST_DEVICES: Final = 1024
"""Blocks and devices of a job that is replayed with each change that fits, in about a second each;
only the memory of larger jobs is estimated."""

Values = Mapping[str, Any]
"""A change: values by dotted key."""


class Attempt(NamedTuple):
    """A job with a change: its memory, and its step time [s] where it fits and was replayed."""

    memory: Verdict
    step_time: float | None = None


def is_small(blocks: int, devices: int) -> bool:
    """Whether a job is replayed with each change that fits."""
    return blocks <= MOST_BLOCKS and devices <= MOST_DEVICES


def advice(loaded: Loaded, attempt: Callable[[Loaded], Attempt]) -> tuple[Remedy, ...]:
    """Return the changes with which a job fits, the fastest first.

    Parameters
    ----------
    loaded : a scenario that does not fit
    attempt : estimates the memory of a scenario, and replays it if it fits
    """
    attempts = _Attempts(loaded, attempt)
    singles = list(changes(loaded.scenario))[:MOST_TRIES]
    remedies = [remedy for change in singles if (remedy := attempts.remedy(change))]
    if not remedies:
        remedies = _combined(attempts, singles)
    return tuple(
        sorted(remedies, key=lambda remedy: (remedy.step_time_s or 0.0, remedy.peak_bytes))
    )


def _combined(attempts: "_Attempts", singles: Sequence[Values]) -> list[Remedy]:
    """Return the first combination of changes that fits, those that save most first."""
    peaks = [(peak, change) for change in singles if (peak := attempts.peak(change)) is not None]
    combination: Values = {}
    for _, change in sorted(peaks, key=lambda item: item[0]):
        if combination.keys() & change.keys():
            continue
        larger = {**combination, **change}
        if attempts.peak(larger) is None:
            continue
        combination = larger
        if remedy := attempts.remedy(combination):
            return [remedy]
    return []


# --- changes and attempts -------------------------------------------------------------------------


def changes(given: Scenario) -> Iterator[Values]:
    """Yield the changes that could help, the cheapest first."""
    plan, batch, offered = given.plan, given.batch, given.framework.zero.value
    if plan.tensor > 1 and not plan.sequence_parallel:
        yield {"plan.sequence_parallel": True}
    yield from ({"plan.zero": zero} for zero in offered if zero > plan.zero and plan.data > 1)
    mode = given.recompute if isinstance(given.recompute, str) else given.recompute.mode
    more = {"none": ("selective", "full"), "selective": ("full",)}
    yield from ({"recompute": stronger} for stronger in more.get(mode, ()))
    if batch.micro > 1 and batch.micro % 2 == 0:
        yield {"batch.micro": batch.micro // 2}
    if plan.data % 2 == 0:
        half = {"plan.data": plan.data // 2}
        yield {"plan.tensor": 2 * plan.tensor, **half}
        yield {"plan.pipeline": 2 * plan.pipeline, **half}
    for place in ("optimiser", "parameters", "activations"):
        if given.cluster.node.host is not None and not getattr(given.offload, place):
            yield {f"offload.{place}": True}


class _Attempts:
    """Jobs with changes, each tried once."""

    def __init__(self, loaded: Loaded, attempt: Callable[[Loaded], Attempt]) -> None:
        self._loaded, self._attempt = loaded, attempt
        self._tried: dict[str, Attempt | None] = {}

    def remedy(self, change: Values) -> Remedy | None:
        """Return a change with the step time and peak of the job; None where it does not fit."""
        tried = self._try(change)
        if tried is None or not tried.memory.fits:
            return None
        return Remedy(_text(change), tried.step_time, tried.memory.fullest.peak)

    def peak(self, change: Values) -> float | None:
        """Return the peak with a change; None where the change is not allowed."""
        tried = self._try(change)
        return None if tried is None else tried.memory.fullest.peak

    def _try(self, change: Values) -> Attempt | None:
        key = _text(change)
        if key not in self._tried:
            try:
                self._tried[key] = self._attempt(self._loaded.changed(change))
            except (PlanError, ScenarioError, CatalogError):  # not allowed here: not advised
                self._tried[key] = None
        return self._tried[key]


def _text(change: Values) -> str:
    """Return a change as settings of ``--set``, with spaces between them."""
    return " ".join(setting_text(key, value) for key, value in change.items())


__all__ = ["Attempt", "advice", "changes", "is_small"]
