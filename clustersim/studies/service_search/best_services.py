"""Search the best layout of a service within limits, with proof.

layouts --rules--> valid --memory--> fit --bound within limits--> candidates
candidates, the best bound first --replay--> services within limits, until none can be better
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from clustersim.catalog.changes import Settings
from clustersim.errors import ScenarioError
from clustersim.runs.arguments import parse_settings
from clustersim.runs.cached_runs import CachedRuns
from clustersim.runs.execution import OnProgress, ignore_progress
from clustersim.runs.executors import workers
from clustersim.runs.limits import Limits, missed_limits, read_limits
from clustersim.runs.store import Store
from clustersim.runs.study_files import files_of
from clustersim.runs.variants import Run, Variant
from clustersim.scenario.file_values import file_values
from clustersim.simulation.measures import check_measure
from clustersim.studies.service_search.answer import ServiceLayouts, ServiceSearch
from clustersim.studies.service_search.arguments import request_of
from clustersim.studies.service_search.bounded_layouts import bounded_layouts
from clustersim.studies.service_search.bounded_search import SERVICE, Search, excess_of

TOP: Final = 3
"""Layouts that are proven to be the best, and reported."""

UNBOUNDED: Final = ("output_tokens_per_joule", "output_tokens_per_usd")
"""Measures without a bound, which cannot be searched."""


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
    objective : a measure of services
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
    measure = check_measure("--objective", objective, ("service",), str(scenario))
    if objective in UNBOUNDED:
        raise ScenarioError(
            f"--objective {objective}: has no bound (search tokens_per_s_per_device, or sweep)"
        )
    bounds = read_limits(limits, ("service",), str(scenario))
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
        search = Search(
            request, candidates, CachedRuns(computing, cache), measure, bounds, top, gap,
            seconds, began,
        )  # fmt: skip
        search.run(on_progress)
        plain = search.runs.run(own)
    return _concluded(search, plain)


def _concluded(search: Search, own: Run) -> ServiceSearch:
    """Return the answer of a search that is over."""
    request, found = search.request, tuple(found for found, _ in search.found)
    candidates, plain = search.candidates, request.bases[0]
    best = next(iter(found), None)
    scenario = None
    if best is not None:
        scenario = file_values(request.bases[search.found[0][1].base], {"plan": dict(best.plan)})
    search.missed.sort(key=lambda one: one[:2])
    near = next((words for _, words, _ in search.missed), None)
    if best is None and near is None and search.candidates.fit:
        _, near = min(_nearest_bound(search))
    replayed = search.replayed
    return ServiceSearch(
        name=plain.name,
        title=plain.scenario.title,
        objective=search.measure.name,
        limits=search.limits,
        devices=request.devices,
        best=best,
        ranked=found[: search.top],
        simulated=(*found, *(service for _, _, service in search.missed)),
        own={} if own.answer is None else own.answer.measures(),
        layouts=ServiceLayouts(
            possible=candidates.possible,
            invalid=sum(candidates.excluded.values()),
            memory=candidates.memory,
            limits=search.out_of_limits,
            bounded=len(search.ahead) - replayed,
            replayed=replayed,
        ),
        excluded=dict(Counter(candidates.excluded).most_common()),
        nearest=None if best is not None else near,
        gap=search.remaining_gap,
        tightness=median(search.ratios) if search.ratios else None,
        scenario=scenario,
        wall_s=time.perf_counter() - search.began,
    )


def _nearest_bound(search: Search) -> list[tuple[float, str]]:
    """Return by how much the shortest possible times of layouts miss the limits."""
    found = []
    for one in search.candidates.fit:
        excess = excess_of(one.bound, search.limits)
        missed = missed_limits(one.bound, search.limits, SERVICE)
        found.append((excess, f"{search.words(one.layout)}: at least {missed}"))
    return found
