"""The combinations of values of a serving scenario, ranked by a measure within limits."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from clustersim.catalog.changes import Change, Settings, changes_of
from clustersim.catalog.tree import nearest
from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.executors import workers
from clustersim.runs.variants import Value, in_a_line
from clustersim.scenario.load import load_service
from clustersim.simulation.serve import serve
from clustersim.simulation.serving.serve_result import ServeResult
from clustersim.studies.sweep import read_axes, value_of
from clustersim.units import format_seconds, parse

MEETS: Final = "meets the limits"
MISSES: Final = "misses a limit"
NO_ROOM: Final = "does not fit"
WRONG: Final = "invalid"

LIMITED: Final = ("ttft", "tpot", "latency")
"""Times that may have a limit."""

MEASURES: Final = {
    "tokens_per_s_per_device": True,
    "tokens_per_s": True,
    "total_tokens_per_s": True,
    "tokens_per_s_per_user": True,
    "requests_per_s": True,
    "goodput": True,
    "ttft": False,
    "tpot": False,
    "latency": False,
    "devices": False,
}
"""Measures that services can be ranked by, and whether more is better; times are means [s]."""


@dataclass(frozen=True)
class ServedPoint:
    """A combination of values; measures are null where the service does not run.

    Attributes
    ----------
    point : values by key
    verdict : `meets the limits`, `misses a limit`, `does not fit` or `invalid`
    why : reason in one line, unless it meets the limits
    measures : by name: times are means [s], rates in a second
    """

    point: Mapping[str, Value]
    verdict: str
    why: str | None
    measures: Mapping[str, float]


@dataclass(frozen=True)
class ServiceSweep:
    """All combinations of some values of a service, and the best one within the limits.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    by : measure that decides which combination is best
    limits : limits of mean times by name [s]
    best : position of the best combination in `points`; null where none meets the limits
    ranked : positions of the combinations that meet the limits, the best first
    points : all combinations
    """

    name: str
    title: str
    by: str
    limits: Mapping[str, float]
    best: int | None
    ranked: tuple[int, ...]
    points: tuple[ServedPoint, ...]


def sweep_services(
    scenario: str,
    over: Sequence[str] | Mapping[str, Sequence[Any]],
    *,
    by: str = "tokens_per_s_per_device",
    limits: Mapping[str, float] | Sequence[str] = (),
    settings: Settings = (),
    jobs: int | None = None,
    on_progress: Callable[[int, int], None] = lambda _completed, _total: None,
) -> ServiceSweep:
    """Simulate all combinations of some values of a serving scenario.

    Parameters
    ----------
    scenario : scenario file, or the name of a shipped one
    over : values by key, or texts as ``--over`` takes them
    by : measure that decides which combination is best, one of `MEASURES`
    limits : of mean times, ``["tpot=50 ms"]`` or ``{"tpot": 0.05}``
    settings : changes of all combinations
    jobs : number of processes; one per core if None
    on_progress : is called with the number of completed services and of all of them

    Raises
    ------
    ScenarioError, CatalogError
        for an invalid scenario, axis, measure or limit.
    """
    if by not in MEASURES:
        known = ", ".join(MEASURES)
        raise ScenarioError(f"--by {by}: unknown measure{nearest(by, MEASURES)} (known: {known})")
    bounds = limits if isinstance(limits, Mapping) else dict(map(_limit, limits))
    axes = read_axes(over)
    combinations = [
        {key: change for choice in choices for key, change in choice.changes.items()}
        for choices in product(*(axis.choices for axis in axes))
    ]
    fixed = changes_of(settings)
    title = _title(scenario, fixed, combinations)
    tasks = [partial(_served, scenario, fixed, changes, bounds) for changes in combinations]
    points = _computed(tasks, jobs, on_progress)
    sign = -1 if MEASURES[by] else 1
    within = [i for i, point in enumerate(points) if point.verdict == MEETS]
    ranked = sorted(within, key=lambda i: (sign * points[i].measures[by], i))
    name, text = title
    return ServiceSweep(name, text, by, bounds, next(iter(ranked), None), tuple(ranked), points)


def _computed(
    tasks: Sequence[Callable[[], ServedPoint]],
    jobs: int | None,
    on_progress: Callable[[int, int], None],
) -> tuple[ServedPoint, ...]:
    """Return the points of all tasks, which the workers compute."""
    with workers(jobs, tasks=len(tasks)) as executor:
        futures: list[Future[ServedPoint]] = [executor.submit(task) for task in tasks]
        points = []
        for future in futures:
            points.append(future.result())
            on_progress(len(points), len(tasks))
    return tuple(points)


def _limit(text: str) -> tuple[str, float]:
    """Return a limit of a time: ``tpot=50 ms``."""
    name, _, value = text.partition("=")
    if name not in LIMITED:
        raise ScenarioError(
            f"--limit {text}: unknown time{nearest(name, LIMITED)} (known: {', '.join(LIMITED)})"
        )
    try:
        seconds = parse(value, "seconds")
    except ValueError as problem:
        raise ScenarioError(f"--limit {text}: {problem}") from None
    if seconds <= 0:
        raise ScenarioError(f"--limit {text}: must be greater than 0")
    return name, seconds


def _title(
    scenario: str, fixed: tuple[Change, ...], combinations: Sequence[Mapping[str, Change]]
) -> tuple[str, str]:
    """Return name and title of the scenario; the file may be valid with some combinations only."""
    for changes in combinations:
        try:
            loaded = load_service(scenario, [*fixed, *changes.values()])
        except (ScenarioError, CatalogError):
            continue
        return loaded.name, loaded.scenario.title
    loaded = load_service(scenario, fixed)
    return loaded.name, loaded.scenario.title


def _served(
    scenario: str,
    fixed: tuple[Change, ...],
    changes: Mapping[str, Change],
    limits: Mapping[str, float],
) -> ServedPoint:
    """Simulate a combination; an error becomes its verdict."""
    point = {key: value_of(change) for key, change in changes.items()}
    try:
        result = serve(load_service(scenario, [*fixed, *changes.values()]))
    except (ScenarioError, CatalogError) as problem:
        return ServedPoint(point, WRONG, in_a_line(problem), {})
    if result.replayed is None:
        return ServedPoint(point, NO_ROOM, result.memory.verdict, {})
    found = _measures(result)
    missed = [
        f"{name} {format_seconds(found[name], 3)} ({found[name] / limit:.3g} times the limit)"
        for name, limit in limits.items()
        if found.get(name, 0.0) > limit
    ]
    return ServedPoint(point, MISSES if missed else MEETS, "; ".join(missed) or None, found)


def _measures(result: ServeResult) -> dict[str, float]:
    assert result.ttft is not None
    assert result.latency is not None
    each = 0.0 if result.tpot is None else result.tpot.mean
    goodput = result.goodput
    return {
        "tokens_per_s_per_device": result.output_rate / result.devices,
        "tokens_per_s": result.output_rate,
        "total_tokens_per_s": result.output_rate + result.input_rate,
        "tokens_per_s_per_user": 1 / each if each else 0.0,
        "requests_per_s": result.request_rate,
        "goodput": result.request_rate if goodput is None else goodput.requests_per_s,
        "ttft": result.ttft.mean,
        "tpot": each,
        "latency": result.latency.mean,
        "devices": float(result.devices),
    }


__all__ = ["LIMITED", "MEASURES", "MEETS", "ServedPoint", "ServiceSweep", "sweep_services"]
