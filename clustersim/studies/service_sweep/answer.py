"""The combinations of values of a serving scenario, ranked by a measure within limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.changes import Settings
from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.arguments import parse_settings, study_of
from clustersim.runs.execution import OnProgress, ignore_progress, run_study
from clustersim.runs.service_arguments import Limits, check_measure, missed_limits, read_limits
from clustersim.runs.variants import FAILED, Run, Value, Variant
from clustersim.scenario.load import load_service
from clustersim.simulation.service.measures import SERVICE_MEASURES, service_measures
from clustersim.studies.sweep import read_axes, value_of

MEETS: Final = "meets the limits"
MISSES: Final = "misses a limit"
NO_ROOM: Final = "does not fit"
WRONG: Final = "invalid"


@dataclass(frozen=True)
class ServedPoint:
    """A combination of values; measures are null where the service does not run.

    Attributes
    ----------
    point : values by key
    verdict : `meets the limits`, `misses a limit`, `does not fit`, `invalid` or `failed`
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

    @property
    def keys(self) -> list[str]:
        """Keys of the combinations."""
        return [*dict.fromkeys(key for point in self.points for key in point.point)]


def sweep_services(
    scenario: str,
    over: Sequence[str] | Mapping[str, Sequence[Any]] = (),
    *,
    table: str | Path | None = None,
    by: str = "tokens_per_s_per_device",
    limits: Limits = (),
    settings: Settings = (),
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ServiceSweep:
    """Simulate all combinations of some values of a serving scenario.

    Parameters
    ----------
    scenario : scenario file, or the name of a shipped one
    over : values by key, or texts as ``--over`` takes them
    table : CSV of combinations, a column for each key
    by : measure that decides which combination is best, one of `SERVICE_MEASURES`
    limits : of mean times, ``["tpot=50 ms"]`` or ``{"tpot": 0.05}``
    settings : changes of all combinations
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead
    on_progress : is called with the number of completed services and of all of them

    Raises
    ------
    ScenarioError, CatalogError
        for an invalid scenario, axis, measure or limit.
    """
    check_measure("--by", by)
    bounds = read_limits(limits)
    axes = read_axes(over, table)
    combinations = [
        {key: change for choice in choices for key, change in choice.changes.items()}
        for choices in product(*(axis.choices for axis in axes))
    ]
    fixed = parse_settings(settings)
    variants = [
        Variant(
            str(scenario), (*fixed, *changes.values()),
            {key: value_of(change) for key, change in changes.items()},
        )
        for changes in combinations
    ]  # fmt: skip
    name, title = _title(variants, Variant(str(scenario), fixed))
    study = study_of("sweep", name, title, variants)
    runs = run_study(
        study, variants, store=store, jobs=jobs, executor=executor, on_progress=on_progress
    )
    both = zip(variants, runs, strict=True)
    points = tuple(_point(variant, run, by, bounds) for variant, run in both)
    ranked = rank_services(points, by)
    return ServiceSweep(name, title, by, bounds, next(iter(ranked), None), ranked, points)


def rank_services(points: Sequence[ServedPoint], by: str) -> tuple[int, ...]:
    """Return the positions of the combinations that meet the limits, the best first."""
    sign = -1 if SERVICE_MEASURES[by] else 1
    within = [i for i, point in enumerate(points) if point.verdict == MEETS]
    return tuple(sorted(within, key=lambda i: (sign * points[i].measures[by], i)))


def _title(variants: Sequence[Variant], plain: Variant) -> tuple[str, str]:
    """Return name and title of the scenario; the file may be valid with some combinations only."""
    for variant in variants:
        try:
            loaded = variant.load_service()
        except (ScenarioError, CatalogError):
            continue
        return loaded.name, loaded.scenario.title
    loaded = load_service(plain.scenario, plain.settings)
    return loaded.name, loaded.scenario.title


def _point(variant: Variant, run: Run, by: str, limits: Mapping[str, float]) -> ServedPoint:
    """Return what came of a combination."""
    if run.service is None:
        return ServedPoint(variant.point, FAILED if run.verdict == FAILED else WRONG, run.why, {})
    found = service_measures(run.service)
    if not found:
        return ServedPoint(variant.point, NO_ROOM, run.service.memory.verdict, {})
    if by not in found:
        why = f"{by} is not known: {'; '.join(run.service.unavailable.values())}"
        return ServedPoint(variant.point, WRONG, why, {})
    missed = missed_limits(found, limits)
    return ServedPoint(variant.point, MISSES if missed else MEETS, missed, found)
