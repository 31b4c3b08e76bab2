"""Best first: replay layouts in the order of their bounds until no other can be better.

candidates, the best bound first --memory, replay--> runs that fit --> incumbents
          `--bound beyond the incumbents--> proven: all others are at most as good
"""

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from clustersim.catalog.changes import changes_of
from clustersim.errors import SimulationError
from clustersim.runs.cached_runs import CachedRuns
from clustersim.runs.variants import FAILED, INVALID, RAN, Run, Variant
from clustersim.studies.search.candidates import Base, Candidates
from clustersim.studies.search.lower_bound.layout_values import Layout
from clustersim.units import format_seconds

POLL: Final = 1.0
"""Time between two looks at the clock while runs are computed [s]."""


class Incumbent(NamedTuple):
    """A layout that was replayed and fits.

    Attributes
    ----------
    cost : step time over `Base.scale`, or energy
    memory : peak of its fullest stage [B]
    place : among the candidates
    bound : of its cost
    bound_s : of its step time [s]
    """

    cost: float
    memory: float
    place: int
    bound: float
    bound_s: float
    base: Base
    layout: Layout
    run: Run


@dataclass
class Progress:
    """How far a search is.

    Attributes
    ----------
    examined : layouts that were replayed or exceed the memory [count]
    ahead : layouts whose bound is better than the incumbents [count]
    computed : runs that the run cache did not have [count]
    best : the best run so far
    gap : by how much another layout can be better than the best, share of it
    bounded : whether the bounds of all layouts are known; before, the counts above are of bounds
    """

    examined: int
    ahead: int
    computed: int = 0
    best: Run | None = None
    gap: float | None = None
    bounded: bool = True


OnProgress = Callable[[Progress], None]


def progress_note(progress: Progress) -> str:
    """Return the best so far as the end of a line; empty before there is one."""
    if progress.best is None or progress.best.step is None or progress.gap is None:
        return ""
    step = format_seconds(progress.best.step.step_time_s)
    return f", best {step}, gap {100 * progress.gap:.1f} %"


@dataclass
class Search:
    """State of a search.

    Attributes
    ----------
    top : incumbents that are proven
    accepted : by how much another layout may be better, share of the best
    seconds : time after which the best so far is returned [s]
    """

    candidates: Candidates
    runs: CachedRuns
    top: int
    accepted: float = 0.0
    seconds: float | None = None
    began: float = field(default_factory=time.perf_counter)
    incumbents: list[Incumbent] = field(default_factory=list)
    replayed: int = 0
    memory: int = 0
    invalid: dict[str, int] = field(default_factory=dict)
    _next: int = 0
    _running: dict[Future[Run], int] = field(default_factory=dict)

    def run(self, on_progress: OnProgress) -> None:
        """Replay candidates until the incumbents are proven, or the time is over."""
        while True:
            capacity = self.runs.capacity
            while len(self._running) < capacity and self._promising and not self._over:
                self._start()
            if not self._running:
                break
            for future in wait(self._running, POLL, FIRST_COMPLETED).done:
                self._collect(future)
            on_progress(self.progress)

    @property
    def _over(self) -> bool:
        """Whether the time is over; not before there is an incumbent to return."""
        elapsed = time.perf_counter() - self.began
        return self.seconds is not None and elapsed >= self.seconds and bool(self.incumbents)

    @property
    def _promising(self) -> bool:
        """Whether the next candidate can be better than the incumbents."""
        return self._next < self._ahead

    @property
    def _ahead(self) -> int:
        """Candidates whose bound is better than the incumbents [count]."""
        limit = float("inf")
        if len(self.incumbents) >= self.top:
            limit = self.incumbents[self.top - 1].cost
        if self.accepted and self.incumbents:
            limit = min(limit, self.incumbents[0].cost * (1 - self.accepted))
        return int(self.candidates.cost.searchsorted(limit))

    @property
    def progress(self) -> Progress:
        """How far the search is."""
        best = self.incumbents[0].run if self.incumbents else None
        examined = self._next - len(self._running)
        ahead = max(self._ahead, self._next)
        return Progress(examined, ahead, self.runs.computed, best, self.gap)

    @property
    def open(self) -> int:
        """Layouts that could be better, but were not examined because the time was over."""
        return max(0, self._ahead - self._next)

    @property
    def gap(self) -> float | None:
        """By how much another layout can be better, share of the best; None without a best."""
        if not self.incumbents:
            return None
        places = [*self._running.values(), self._next]
        costs = self.candidates.cost
        least = min((float(costs[at]) for at in places if at < len(costs)), default=float("inf"))
        best = self.incumbents[0].cost
        return max(0.0, 1 - least / best)

    def _start(self) -> None:
        """Submit the next candidate."""
        self._running[self.runs.submit(self._variant(self._next))] = self._next
        self._next += 1

    def _variant(self, at: int) -> Variant:
        base, layout = self.candidates.layout(at)
        settings = (*base.changes, *changes_of(base.settings(layout)))
        return Variant(base.scenario, settings, memory_first=True)

    def _collect(self, future: Future[Run]) -> None:
        at = self._running.pop(future)
        base, layout = self.candidates.layout(at)
        run = self.runs.result(future)
        if run.verdict == FAILED:
            raise SimulationError(f"{base.scenario}: {run.why}")
        if run.verdict == INVALID:
            self.invalid[run.why or ""] = self.invalid.get(run.why or "", 0) + 1
            return
        self.replayed += run.verdict == RAN
        peak = run.step.memory.peak_bytes if run.step is not None else float("inf")
        if run.step is None or not run.fits or peak > base.capacity:
            self.memory += run.verdict != RAN
            return
        if not base.most.allow(run.step):
            return
        bound, bound_s = float(self.candidates.cost[at]), self.candidates.least_seconds(at)
        cost = base.cost(run.step)
        self.incumbents.append(Incumbent(cost, peak, at, bound, bound_s, base, layout, run))
        self.incumbents.sort(key=lambda one: one[:3])
