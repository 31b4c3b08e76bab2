"""Simulate the layouts of a service, the best bound first, until none can be better."""

import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from clustersim.catalog.changes import changes_of
from clustersim.errors import SimulationError
from clustersim.runs.cached_runs import CachedRuns
from clustersim.runs.execution import OnProgress
from clustersim.runs.limits import missed_limits
from clustersim.runs.variants import FAILED, Run, Variant
from clustersim.simulation.measures import Measure, measures_of
from clustersim.studies.service_search.answer import FoundService
from clustersim.studies.service_search.arguments import ServiceRequest
from clustersim.studies.service_search.bounded_layouts import Candidate, Candidates
from clustersim.studies.service_search.service_layouts import ServiceLayout

SERVICE: Final = measures_of(("service",))
"""Measures of services by name."""

POLL: Final = 1.0
"""Time between two looks at the clock while services are simulated [s]."""


@dataclass
class Search:
    """A search of a service: what was found, and the candidates that remain."""

    request: ServiceRequest
    candidates: Candidates
    runs: CachedRuns
    measure: Measure
    limits: Mapping[str, float]
    top: int
    gap: float
    seconds: float | None
    began: float
    found: list[tuple[FoundService, Candidate]] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    missed: list[tuple[float, str, FoundService]] = field(default_factory=list)
    replayed: int = 0
    _next: int = 0
    _running: dict[Future[Run], Candidate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sign = 1 if self.measure.more_is_better else -1
        within = [
            one
            for one in self.candidates.fit
            if missed_limits(one.bound, self.limits, SERVICE) is None
        ]
        self.out_of_limits = len(self.candidates.fit) - len(within)
        self.ahead = sorted(within, key=lambda one: -self.sign * one.bound[self.measure.name])

    def run(self, on_progress: OnProgress) -> None:
        """Simulate candidates until the best are proven, or the time is over."""
        while True:
            while len(self._running) < self.runs.capacity and self._promising and not self._over:
                candidate = self.ahead[self._next]
                self._next += 1
                self._running[self.runs.submit(self._variant(candidate))] = candidate
            if not self._running:
                return
            for future in wait(self._running, POLL, FIRST_COMPLETED).done:
                self._collect(self._running.pop(future), self.runs.result(future))
            on_progress(self.replayed, max(self.replayed, self._better))

    @property
    def _over(self) -> bool:
        elapsed = time.perf_counter() - self.began
        return self.seconds is not None and elapsed >= self.seconds and bool(self.found)

    @property
    def _promising(self) -> bool:
        return self._next < self._better

    @property
    def _better(self) -> int:
        """Candidates whose bound is better than the services that were found [count]."""
        limit = None
        if len(self.found) >= self.top:
            limit = self._value(self.found[self.top - 1][0])
        if self.gap and self.found:
            close = self._value(self.found[0][0])
            close += self.gap * abs(close)
            limit = close if limit is None else max(limit, close)
        if limit is None:
            return len(self.ahead)
        bounds = (self.sign * one.bound[self.measure.name] for one in self.ahead)
        return sum(1 for bound in bounds if bound > limit)

    def _value(self, found: FoundService) -> float:
        return self.sign * found.measures[self.measure.name]

    @property
    def remaining_gap(self) -> float | None:
        """By how much another layout can be better, share of the best."""
        if not self.found:
            return None
        best, left = self.found[0][0].measures[self.measure.name], self.ahead[self._next :]
        if not left:
            return 0.0
        more = max(0.0, self.sign * (left[0].bound[self.measure.name] - best) / best)
        return more if isfinite(more) else None

    def _variant(self, candidate: Candidate) -> Variant:
        base = self.request.bases[candidate.base]
        settings = (*base.changes, *changes_of({"plan": candidate.layout.plan(base.scenario)}))
        return Variant(self.request.scenario, settings)

    def _collect(self, candidate: Candidate, run: Run) -> None:
        """Take a simulated layout: a service within the limits, or what it misses."""
        if run.verdict == FAILED:
            raise SimulationError(f"{self.request.scenario}: {run.why}")
        if run.service is None:
            self.candidates.exclude(run.why or "")
            return
        measures = run.service.measures()
        if not measures:
            self.candidates.memory += 1
            return
        self.replayed += 1
        value, bound = measures[self.measure.name], candidate.bound[self.measure.name]
        if value and isfinite(bound):
            self.ratios.append((value / bound) ** self.sign)
        missed = missed_limits(measures, self.limits, SERVICE)
        point = self.request.points[candidate.base]
        free = {change.text.partition("=")[0]: change.text.partition("=")[2] for change in point}
        plan = candidate.layout.plan(self.request.bases[candidate.base].scenario)
        kept = bound if isfinite(bound) else None
        service = FoundService(plan, free, measures, kept, missed)
        if missed is not None:
            excess = excess_of(measures, self.limits)
            self.missed.append((excess, f"{self.words(candidate.layout)}: {missed}", service))
            return
        self.found.append((service, candidate))
        self.found.sort(key=lambda one: (-self._value(one[0]), one[0].measures["devices"]))

    def words(self, layout: ServiceLayout) -> str:
        """Return the degrees of the pools of a layout."""
        return "; ".join(
            " x ".join(f"{key} {n}" for key, n in pool.items() if n > 1) or "tensor 1"
            for pool in layout.pools
        )


def excess_of(numbers: Mapping[str, float], limits: Mapping[str, float]) -> float:
    """Return the largest ratio by which a limit is missed."""
    ratios = {name: numbers[name] / limit for name, limit in limits.items() if name in numbers}
    return max(
        (1 / r if SERVICE[name].more_is_better else r for name, r in ratios.items()), default=0.0
    )
