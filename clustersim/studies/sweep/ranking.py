"""Run all combinations of some values, and rank those that fit.

axes --grid--> variants --run--> runs --ranked--> best, front, reasons
"""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from clustersim.catalog.changes import Settings
from clustersim.catalog.tree import is_fact, nearest
from clustersim.errors import ScenarioError
from clustersim.runs.arguments import parse_settings, study_of
from clustersim.runs.execution import OnProgress, ignore_progress, run_study
from clustersim.runs.run_arguments import check_run_measure
from clustersim.runs.table import DOES_NOT_FIT, FITS, RUN_MEASURES, Row, row, verdict_text
from clustersim.runs.variants import FAILED, INVALID, Run, Variant
from clustersim.scenario.load import Loaded, load
from clustersim.studies.sweep.answer import (
    COSTS,
    MEASURES,
    ParetoFront,
    SweepAnswer,
    ValueChange,
    VerdictCounts,
)
from clustersim.studies.sweep.arguments import FILL, Over, read_axes
from clustersim.studies.sweep.combinations import filled_keys, grid, points_of
from clustersim.studies.sweep.shared_reasons import reasons_of


def sweep(
    scenario: str | Path,
    *,
    over: Over = (),
    table: str | Path | None = None,
    by: str = "tokens_per_s",
    pareto: str | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> SweepAnswer:
    """Run all combinations of some values; find the best layout that fits.

    Layouts that do not fit in memory are not replayed.

    Parameters
    ----------
    scenario : file or name of a shipped scenario
    over : axes, ``{"plan.tensor": [1, 2, 4]}`` or ``["plan.tensor=1:4", "plan.data=fill"]``
    table : CSV file of combinations, a column for each key
    by : measure that decides which layout is best, a key of ``answer.points``
    pareto : cost of the front, ``"memory"`` or ``"devices"``; devices if None and they vary
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
    >>> answer.counts.fits, answer.counts.invalid
    (2, 2)
    >>> answer.fitting[0]["recompute"]
    'none'
    """
    _check_word("--by", by, MEASURES)
    if pareto is not None:
        _check_word("--pareto", pareto, COSTS)
    axes = read_axes(over, table)
    base = load(scenario, parse_settings(settings))
    if by in RUN_MEASURES:
        check_run_measure(by, [base])
    variants = grid(str(scenario), base, axes)
    study = study_of("sweep", base.name, base.scenario.title, variants)
    runs = run_study(
        study, variants, store=store, jobs=jobs, executor=executor, on_progress=on_progress
    )
    return rank_layouts(base, variants, runs, filled=filled_keys(axes), by=by, pareto=pareto)


def _check_word(option: str, word: str, allowed: Collection[str]) -> None:
    if word not in allowed:
        hint = nearest(word, allowed)
        raise ScenarioError(f"{option} {word}: unknown{hint} (allowed: {', '.join(allowed)})")


def rank_layouts(
    base: Loaded,
    variants: Sequence[Variant],
    runs: Sequence[Run],
    *,
    filled: tuple[str, ...] = (),
    by: str = "tokens_per_s",
    pareto: str | None = None,
) -> SweepAnswer:
    """Return the answer of the runs of some variants; parameters as in `sweep`."""
    both = [*zip(variants, runs, strict=True)]
    rows = tuple({"position": i, **row(*pair)} for i, pair in enumerate(both))
    fitting = _ranking(rows, by)
    best = variants[fitting[0]["position"]].point if fitting else {}
    sizes = {one["devices"] for one in rows if "devices" in one}
    cost = pareto or ("devices" if len(sizes) > 1 else "memory")
    axes = points_of(variants)
    return SweepAnswer(
        name=base.name,
        title=base.scenario.title,
        axes={key: tuple(v for v in values if v != FILL) for key, values in axes.items()},
        filled=filled,
        by=by,
        counts=_counts(runs),
        fresh=sum(run.fresh for run in {run.key: run for run in runs}.values()),
        best=fitting[0]["position"] if fitting else None,
        ranked=tuple(one["position"] for one in fitting),
        changed={
            key: ValueChange(old, value)
            for key, value in best.items()
            if (old := _value(base, key)) != value
        },
        pareto=ParetoFront(cost, _front(fitting, by, COSTS[cost])),
        invalid=reasons_of(both, INVALID),
        failed=reasons_of(both, FAILED),
        points=rows,
    )


def _counts(runs: Sequence[Run]) -> VerdictCounts:
    count = Counter(map(verdict_text, runs))
    return VerdictCounts(count[FITS], count[DOES_NOT_FIT], count[INVALID], count[FAILED])


def _ranking(rows: Sequence[Row], by: str) -> list[Row]:
    """Return the rows that fit, the best first; of equal ones the one with less memory."""
    sign = -1 if MEASURES[by] else 1
    fitting = [one for one in rows if one["verdict"] == FITS and by in one]
    return sorted(fitting, key=lambda one: (sign * one[by], one["memory_peak_bytes"]))


def _front(fitting: Sequence[Row], by: str, cost: str) -> tuple[int, ...]:
    """Return the positions of rows that no other beats in both, the cheapest first."""
    sign = -1 if MEASURES[by] else 1
    rank = {one["position"]: i for i, one in enumerate(fitting)}
    positions: list[int] = []
    best = float("inf")
    for one in sorted(fitting, key=lambda one: (one[cost], rank[one["position"]])):
        if sign * one[by] < best:
            positions.append(one["position"])
            best = sign * one[by]
    return tuple(positions)


def _value(base: Loaded, key: str) -> Any:
    """Return the value of a key in a scenario, defaults included; None if it has none."""
    value: Any = base.scenario.model_dump(mode="json", by_alias=True)
    for word in key.replace("[", ".").replace("]", "").split("."):
        if isinstance(value, list) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        elif isinstance(value, dict):
            value = value.get(word)
        else:
            return None
    value = value["value"] if is_fact(value) else value
    return value.get("name", value) if isinstance(value, dict) else value
