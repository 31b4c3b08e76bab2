"""Search the best layout of a service within limits, with proof.

layouts --rules--> valid --memory--> fit --bound within limits--> candidates
candidates, the best bound first --replay--> services within limits, until none can be better
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, Final

from clustersim.catalog.changes import Settings, changes_of
from clustersim.errors import ScenarioError, SimulationError
from clustersim.runs.arguments import parse_settings
from clustersim.runs.cached_runs import CachedRuns
from clustersim.runs.execution import OnProgress, ignore_progress
from clustersim.runs.executors import workers
from clustersim.runs.service_arguments import Limits, check_measure, missed_limits, read_limits
from clustersim.runs.store import Store
from clustersim.runs.study_files import files_of
from clustersim.runs.variants import FAILED, Run, Value, Variant
from clustersim.simulation.serving.service_measures import SERVICE_MEASURES, service_measures
from clustersim.studies.service_search.arguments import (
    ServiceRequest,
    request_of,
    served_scenario,
)
from clustersim.studies.service_search.bounded_layouts import Candidate, Candidates, bounded_layouts
from clustersim.studies.service_search.service_layouts import ServiceLayout

TOP: Final = 3
"""Layouts that are proven to be the best, and reported."""

UNBOUNDED: Final = ("output_tokens_per_joule", "output_tokens_per_usd")
"""Measures without a bound, which cannot be searched."""

POLL: Final = 1.0
"""Time between two looks at the clock while services are simulated [s]."""


@dataclass(frozen=True)
class FoundService:
    """A layout that was simulated and meets the limits.

    Attributes
    ----------
    plan : the key `plan` of its scenario
    set : values of further keys that were free
    measures : by name: times are means [s], rates in a second
    bound : of the objective: no replay of this layout is better; null where so few requests are
        measured that there is none
    """

    plan: Mapping[str, Any]
    set: Mapping[str, Value]
    measures: Mapping[str, float]
    bound: float | None


@dataclass(frozen=True)
class ServiceLayouts:
    """What became of the layouts.

    Attributes
    ----------
    possible : layouts of at most the given devices
    invalid : layouts that the model, machine or engine does not allow
    memory : layouts in which the longest request does not fit
    limits : layouts whose shortest possible times miss a limit
    bounded : layouts that cannot be better than the best
    replayed : layouts that were simulated
    """

    possible: int
    invalid: int
    memory: int
    limits: int
    bounded: int
    replayed: int


@dataclass(frozen=True)
class ServiceSearch:
    """The best layout of a service, with proof.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    objective : measure that is best
    limits : limits of mean times by name [s]
    devices : most devices of a layout
    best : the best layout; null where none meets the limits
    ranked : the best layouts, the best first
    own : measures of the layout of the scenario; empty where it does not run
    layouts : what became of all layouts
    excluded : reasons of invalid layouts, with their number
    nearest : why the layout that comes nearest misses a limit; null where one meets them
    gap : by how much another layout can be better, share of the best; null without a best, and
        where it has no bound
    tightness : measure over its bound, median of the replays; times the other way round
    scenario : the scenario of the best layout, as in a file
    wall_s : time that the search took [s]
    """

    name: str
    title: str
    objective: str
    limits: Mapping[str, float]
    devices: int
    best: FoundService | None
    ranked: tuple[FoundService, ...]
    own: Mapping[str, float]
    layouts: ServiceLayouts
    excluded: Mapping[str, int]
    nearest: str | None
    gap: float | None
    tightness: float | None
    scenario: Mapping[str, Any] | None
    wall_s: float


def search_services(
    scenario: str,
    *,
    devices: int | None = None,
    objective: str = "tokens_per_s_per_device",
    limits: Limits = (),
    free: Sequence[str] = (),
    settings: Settings = (),
    gap: float = 0.0,
    seconds: float | None = None,
    top: int = TOP,
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ServiceSearch:
    """Find the best layout of a service within limits of mean times, with proof.

    Free are the tensor, pipeline, expert and attention-data degrees, the number of replicas, and
    whether prompts have replicas of their own; all layouts of at most the given devices are
    bounded, and those that could be the best are simulated.

    Parameters
    ----------
    scenario : file or name of a shipped serving scenario
    devices : most devices; those of the scenario if None
    objective : one of `SERVICE_MEASURES`
    limits : of mean times, ``["tpot=50 ms"]`` or ``{"tpot": 0.05}``
    free : further keys with their values, ``"precision=fp8,int4"``, or keys of a layout with the
        only values that they may have, ``"plan.tensor=4,8"``
    settings : changes of the scenario; keys of a layout that are set stay as they are, and so does
        ``pools=false``
    gap : stop when no layout can be better by more than this share
    seconds : stop after this time with the best so far [s]
    top : layouts that are proven to be the best
    store, jobs, executor : as of `clustersim.search`
    on_progress : is called with the layouts that were simulated, and those that may be better

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input, and where no layout is valid.
    """
    began = time.perf_counter()
    check_measure("--objective", objective)
    if objective in UNBOUNDED:
        raise ScenarioError(
            f"--objective {objective}: has no bound (search tokens_per_s_per_device, or sweep)"
        )
    bounds = read_limits(limits)
    request = request_of(str(scenario), devices, free, settings)
    candidates = bounded_layouts(request.bases, request.devices, request.allowed, request.pools)
    if not candidates.fit and not candidates.memory:
        first = next(iter(candidates.excluded), "all layouts have more devices")
        raise ScenarioError(f"{request.bases[0].name}: no layout is valid ({first})")
    path = None if store is None else Path(store)
    with workers(jobs, executor=executor) as computing, Store(path) as cache:
        own = Variant(str(scenario), parse_settings(settings))
        if computing.elsewhere:
            computing.carry(files_of([own]))
        search = _Search(
            request, candidates, CachedRuns(computing, cache), objective, bounds, top, gap,
            seconds, began,
        )  # fmt: skip
        search.run(on_progress)
        plain = search.runs.run(own)
    return _concluded(search, plain)


# --- best first -----------------------------------------------------------------------------------


@dataclass
class _Search:
    """State of a search."""

    request: ServiceRequest
    candidates: Candidates
    runs: CachedRuns
    objective: str
    limits: Mapping[str, float]
    top: int
    gap: float
    seconds: float | None
    began: float
    found: list[tuple[FoundService, Candidate]] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    missed: list[tuple[float, str]] = field(default_factory=list)
    replayed: int = 0
    _next: int = 0
    _running: dict[Future[Run], Candidate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sign = 1 if SERVICE_MEASURES[self.objective] else -1
        within = [
            one for one in self.candidates.fit if missed_limits(one.bound, self.limits) is None
        ]
        self.out_of_limits = len(self.candidates.fit) - len(within)
        self.ahead = sorted(within, key=lambda one: -self.sign * one.bound[self.objective])

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
        bounds = (self.sign * one.bound[self.objective] for one in self.ahead)
        return sum(1 for bound in bounds if bound > limit)

    def _value(self, found: FoundService) -> float:
        return self.sign * found.measures[self.objective]

    @property
    def remaining_gap(self) -> float | None:
        """By how much another layout can be better, share of the best."""
        if not self.found:
            return None
        best, left = self.found[0][0].measures[self.objective], self.ahead[self._next :]
        if not left:
            return 0.0
        more = max(0.0, self.sign * (left[0].bound[self.objective] - best) / best)
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
        measures = service_measures(run.service)
        if not measures:
            self.candidates.memory += 1
            return
        self.replayed += 1
        value, bound = measures[self.objective], candidate.bound[self.objective]
        if value and isfinite(bound):
            self.ratios.append((value / bound) ** self.sign)
        missed = missed_limits(measures, self.limits)
        if missed is not None:
            excess = max(measures[name] / limit for name, limit in self.limits.items())
            self.missed.append((excess, f"{self._words(candidate.layout)}: {missed}"))
            return
        point = self.request.points[candidate.base]
        free = {change.text.partition("=")[0]: change.text.partition("=")[2] for change in point}
        plan = candidate.layout.plan(self.request.bases[candidate.base].scenario)
        self.found.append(
            (FoundService(plan, free, measures, bound if isfinite(bound) else None), candidate)
        )
        self.found.sort(key=lambda one: (-self._value(one[0]), one[0].measures["devices"]))

    def _words(self, layout: ServiceLayout) -> str:
        return "; ".join(
            " x ".join(f"{key} {n}" for key, n in pool.items() if n > 1) or "tensor 1"
            for pool in layout.pools
        )


def _concluded(search: _Search, own: Run) -> ServiceSearch:
    """Return the answer of a search that is over."""
    request, ranked = search.request, tuple(found for found, _ in search.found[: search.top])
    candidates, plain = search.candidates, request.bases[0]
    best = next(iter(ranked), None)
    scenario = (
        None if best is None else served_scenario(request.bases[search.found[0][1].base], best.plan)
    )
    near = min(search.missed, default=None)
    if best is None and near is None and search.candidates.fit:
        near = min(_nearest_bound(search))
    replayed = search.replayed
    return ServiceSearch(
        name=plain.name,
        title=plain.scenario.title,
        objective=search.objective,
        limits=search.limits,
        devices=request.devices,
        best=best,
        ranked=ranked,
        own={} if own.service is None else service_measures(own.service),
        layouts=ServiceLayouts(
            possible=candidates.possible,
            invalid=sum(candidates.excluded.values()),
            memory=candidates.memory,
            limits=search.out_of_limits,
            bounded=len(search.ahead) - replayed,
            replayed=replayed,
        ),
        excluded=dict(Counter(candidates.excluded).most_common()),
        nearest=None if best is not None or near is None else near[1],
        gap=search.remaining_gap,
        tightness=median(search.ratios) if search.ratios else None,
        scenario=scenario,
        wall_s=time.perf_counter() - search.began,
    )


def _nearest_bound(search: _Search) -> list[tuple[float, str]]:
    """Return by how much the shortest possible times of layouts miss the limits."""
    found = []
    for one in search.candidates.fit:
        excess = max(one.bound[name] / limit for name, limit in search.limits.items())
        missed = missed_limits(one.bound, search.limits)
        found.append((excess, f"{search._words(one.layout)}: at least {missed}"))
    return found


__all__ = ["FoundService", "ServiceLayouts", "ServiceSearch", "search_services"]
