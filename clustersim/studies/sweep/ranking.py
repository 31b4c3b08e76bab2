"""Run all combinations of some values, and rank those that fit and are within the limits.

axes --grid--> variants --run--> runs --ranked--> best, front, reasons

A message joins all problems of an invalid combination.  Problems that differ only by their numbers
are one reason: tensor 5, 7 and 9 do not divide the attention heads.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Unpack

from clustersim.catalog.changes import Settings, setting_place
from clustersim.errors import CatalogError, ScenarioError
from clustersim.memory.room import EXCEEDING, FITS, FITTING, TIGHT, UNFIT, UNLIKELY
from clustersim.runs.arguments import parse_settings, scenario_value, study_of, without_numbers
from clustersim.runs.execution import Execution, run_study
from clustersim.runs.table import Row, row
from clustersim.runs.variants import FAILED, INVALID, Run, Value, Variant
from clustersim.scenario.costs import rate_text
from clustersim.scenario.load import LoadedScenario, load_any, one_job
from clustersim.scenario.origins import scenario_text
from clustersim.simulation.limits import (
    Limits,
    kinds_of,
    missed_limits,
    percentile_changes,
    read_limits,
)
from clustersim.simulation.measures import (
    ALIASES,
    MONEY,
    Kind,
    Measure,
    ParetoFront,
    check_measure,
    measures_of,
    pareto_front,
)
from clustersim.studies.sweep.answer import (
    MISSES,
    ReasonCount,
    SweepAnswer,
    ValueChange,
    VerdictCounts,
)
from clustersim.studies.sweep.arguments import FILL, Over, SweepAxis, read_axes
from clustersim.studies.sweep.combinations import filled_keys, grid, points_of


def sweep(
    scenario: str | Path | Mapping[str, Any],
    *,
    over: Over = (),
    table: str | Path | None = None,
    by: str | None = None,
    pareto: str | None = None,
    limits: Limits = (),
    settings: Settings = (),
    **execution: Unpack[Execution],
) -> SweepAnswer:
    """Run all combinations of some values; find the best one that fits and is within the limits.

    Layouts of training that do not fit in memory are not replayed.

    Parameters
    ----------
    scenario : file or name of a shipped scenario, or its keys and values as a dict
    over : axes, ``{"plan.tensor": [1, 2, 4]}`` or ``["plan.tensor=1:4", "plan.data=fill"]``
    table : CSV file of combinations, a column for each key
    by : measure that decides which combination is best, a key of ``answer.points``; tokens/s of
        training, tokens/s per device of services if None
    pareto : measure of the front next to `by`: ``"memory"``, ``"devices"``, ...; if None devices
        where they vary, else memory; of services tokens/s per user
    limits : worst values that are allowed, ``["tpot=50 ms"]`` or ``{"tpot": 0.05}``
    settings : changes of all runs, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : is called with the number of completed runs and of all runs

    Raises
    ------
    ScenarioError, CatalogError
        when the scenario or a value is invalid, before any is run; combinations of valid values
        that are not allowed are part of the answer.

    >>> import clustersim
    >>> axes = {"batch.micro": [1, 3], "recompute": ["none", "full"]}
    >>> answer = clustersim.sweep("frontier-22b", over=axes, settings={"batch.global": 16}, jobs=1)
    >>> answer.counts.within, answer.counts.invalid
    (2, 2)
    >>> answer.fitting[0]["recompute"]
    'none'
    """
    axes, text = read_axes(over, table), scenario_text(scenario)
    base = _base(text, parse_settings(settings), axes)
    kinds = kinds_of(base)
    if by is not None:
        by = check_measure("--by", by, kinds, base.name).name
    if pareto is not None:
        check_measure("--pareto", pareto, kinds, base.name)
    bounds = read_limits(limits, kinds, base.name)
    named = [name for name in (by, pareto, *bounds) if name is not None]
    base = base.changed(percentile_changes(base, named))
    variants = grid(text, base, axes)
    study = study_of("sweep", base.name, base.scenario.title, variants)
    runs = run_study(study, variants, **execution)
    filled = filled_keys(axes)
    return rank(base, variants, runs, filled=filled, by=by, pareto=pareto, limits=bounds)


def _base(scenario: str, settings: Sequence[Any], axes: Sequence[SweepAxis]) -> LoadedScenario:
    """Return the scenario, with the first value of each axis where it is incomplete without."""
    try:
        return load_any(scenario, settings)
    except (ScenarioError, CatalogError):
        first = [change for axis in axes for change in axis.choices[0].changes.values()]
        if any(change.value == FILL for change in first):
            raise
        try:
            return load_any(scenario, (*settings, *first))
        except (ScenarioError, CatalogError):
            pass
        raise


USUAL: Final[Mapping[Kind, tuple[str, str | None]]] = {
    "step": ("tokens_per_s", None),
    "service": ("tokens_per_s_per_device", "tokens_per_s_per_user"),
    "shared machine": ("slowdown", "fairness"),
    "trace": ("step_time_s", "exposed_fraction"),
}
"""Measures by which answers are ranked if none is requested, and of the front; devices or memory if
None."""


def rank(
    base: LoadedScenario,
    variants: Sequence[Variant],
    runs: Sequence[Run],
    *,
    filled: tuple[str, ...] = (),
    by: str | None = None,
    pareto: str | None = None,
    limits: Limits = (),
) -> SweepAnswer:
    """Return the answer of the runs of some variants; parameters as in `sweep`."""
    kinds = kinds_of(base)
    table, (ranking, other) = measures_of(kinds), USUAL[kinds[-1]]
    by = by or ranking
    bounds = read_limits(limits, kinds, base.name)
    both = [*zip(variants, runs, strict=True)]
    rows = tuple(
        {"position": i, **_judged(*pair, by, bounds, table)} for i, pair in enumerate(both)
    )
    fitting = _ranking(rows, table[by])
    best = variants[fitting[0]["position"]].point if fitting else {}
    sizes = {each["devices"] for each in rows if "devices" in each}
    usual = "devices" if len(sizes) > 1 else "memory"
    cost = pareto or other or usual
    front = pareto_front(fitting, table[by], table[ALIASES.get(cost, cost)])
    axes = points_of(variants)
    return SweepAnswer(
        name=base.name,
        title=base.scenario.title,
        axes={key: tuple(v for v in values if v != FILL) for key, values in axes.items()},
        kinds=kinds,
        filled=filled,
        by=by,
        limits=bounds,
        counts=_counts(rows),
        fresh=sum(run.fresh for run in {run.key: run for run in runs}.values()),
        best=fitting[0]["position"] if fitting else None,
        ranked=tuple(each["position"] for each in fitting),
        changed={
            key: ValueChange(old, value)
            for key, value in best.items()
            if (old := scenario_value(base, key)) != value
        },
        pareto=ParetoFront(cost, tuple(fitting[i]["position"] for i in front)),
        invalid=reasons_of(both, INVALID),
        failed=reasons_of(both, FAILED),
        points=rows,
        unranked=_grouped(variants, [(i, rows[i]["why"]) for i in _unranked(rows, by)]),
        rate=_rate(base, [variants[r["position"]].point for r in fitting]) if by in MONEY else None,
    )


def _rate(base: LoadedScenario, found: Iterable[Mapping[str, Value]]) -> str | None:
    """Return the rate of a device of combinations, which their machines and `costs` decide.

    Rates of several kinds are named by accelerator and condition, the best combination's first.
    """
    texts: dict[str, str] = {}
    seen: list[dict[str, Value]] = []
    for point in found:
        own = {key: point[key] for key in point if key.startswith(("cluster.", "costs."))}
        if own in seen:
            continue
        seen.append(own)
        scenario = one_job(base.changed(own)).scenario
        accelerator = scenario.cluster.node.accelerator.name
        text = rate_text(scenario.costs, accelerator)
        if text is not None:
            texts.setdefault(text, accelerator)
    if len(texts) < 2:
        return next(iter(texts), None)
    return "; ".join(f"{name} {text}" for text, name in texts.items())


def _unranked(rows: Sequence[Row], by: str) -> Iterator[int]:
    """Yield the positions of combinations that fit, but whose measure is not known."""
    for position, each in enumerate(rows):
        if each["verdict"] in FITTING and by not in each:
            yield position


def _judged(
    variant: Variant, run: Run, by: str, limits: dict[str, float], table: dict[str, Measure]
) -> Row:
    """Return the row of a run, with the limits that it misses, or why it is not ranked."""
    line = row(variant, run)
    if line["verdict"] in EXCEEDING and run.answer is not None:
        line["why"] = run.answer.memory.verdict
    if line["verdict"] not in FITTING or run.answer is None:
        return line
    missed = missed_limits(line, limits, table)
    unknown = next((name for name in limits if name not in line), None)
    if missed is not None or unknown is not None:
        why = missed or run.answer.why_missing(unknown or "")
        return line | {"verdict": MISSES, "why": why}
    return line if by in line else line | {"why": run.answer.why_missing(by)}


def _counts(rows: Sequence[Row]) -> VerdictCounts:
    count = Counter(each["verdict"] for each in rows)
    verdicts = (FITS, TIGHT, MISSES, UNFIT, INVALID, FAILED, UNLIKELY)
    return VerdictCounts(*(count[verdict] for verdict in verdicts))


def _ranking(rows: Sequence[Row], by: Measure) -> list[Row]:
    """Return the rows that fit, the best first; of equal ones the one with less memory."""
    fitting = [each for each in rows if each["verdict"] in FITTING and by.name in each]
    return sorted(
        fitting, key=lambda each: (by.order(each[by.name]), each.get("memory_peak_bytes", 0.0))
    )


_START: Final = "\0"
"""Mark of the beginning of a problem."""

_PLACE: Final = re.compile(r"(^|; )(?:--set [^:;]+|[^:;]*\.ya?ml(?::\d+)?): ")
"""File and line, or setting, with which a problem begins."""


def reasons_of(both: Sequence[tuple[Variant, Run]], verdict: str) -> tuple[ReasonCount, ...]:
    """Return the reasons of combinations with a verdict, the most frequent first."""
    problems = (
        (position, problem)
        for position, (variant, run) in enumerate(both)
        if run.verdict == verdict
        for problem in _problems(run.why or "", variant)
    )
    return _grouped([variant for variant, _ in both], problems)


def _grouped(
    variants: Sequence[Variant], problems: Iterable[tuple[int, str]]
) -> tuple[ReasonCount, ...]:
    """Return problems of variants by their positions; those that differ in numbers are one."""
    messages: dict[str, str] = {}
    groups: dict[str, dict[int, None]] = {}
    for position, problem in problems:
        pattern = without_numbers(problem)
        messages.setdefault(pattern, problem)
        groups.setdefault(pattern, {})[position] = None
    points = [variant.point for variant in variants]
    axes = points_of(variants)
    return tuple(
        ReasonCount(
            why=messages[pattern],
            count=len(found),
            example=dict(points[next(iter(found))]),
            values=_always(found, points, axes),
        )
        for pattern, found in sorted(groups.items(), key=lambda group: -len(group[1]))
    )


def _problems(why: str, variant: Variant) -> Iterator[str]:
    """Yield the problems of a message, without the files and settings that they begin with."""
    for setting in variant.settings:
        why = why.replace(f"{setting_place(str(setting))}: ", _START)
    marked = _PLACE.sub(rf"\1{_START}", why)
    for problem in re.split(rf"(?:^|; ){_START}+", marked):
        if problem:
            yield problem.replace(_START, "")


def _always(
    found: Mapping[int, None],
    points: Sequence[Mapping[str, Value]],
    axes: Mapping[str, Sequence[Value]],
) -> dict[str, tuple[Value, ...]]:
    """Return values of axes with which every combination is among those found, if any."""
    if len(found) == len(points):
        return {}
    always: dict[str, tuple[Value, ...]] = {}
    remaining = set(found)
    for key, values in axes.items():
        others = {FILL, *(point.get(key) for i, point in enumerate(points) if i not in found)}
        full = tuple(value for value in values if value not in others)
        covered = {i for i in remaining if points[i].get(key) in full}
        if covered:
            always[key] = full
            remaining -= covered
    return always
