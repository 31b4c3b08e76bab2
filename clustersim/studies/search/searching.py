"""Search the best layout of a scenario, with proof.

scenario --free keys--> spaces --bounds--> candidates --best first--> incumbents --> answer
"""

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from pydantic_core import to_jsonable_python

from clustersim.catalog.changes import Settings
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.metrics.difference import difference, format_causes, format_speed
from clustersim.runs.arguments import parse_settings
from clustersim.runs.executors import cores, workers
from clustersim.runs.table import measures
from clustersim.runs.variants import Variant, run_variant
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.answer import RunAnswer
from clustersim.simulation.check import scenario_problems
from clustersim.simulation.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.answer import (
    BestRun,
    FrontOfLayouts,
    LayoutCounts,
    LayoutDifference,
    RankedLayout,
    RuleCount,
    SearchAnswer,
)
from clustersim.studies.search.arguments import (
    Limits,
    check_objective,
    device_changes,
    fixed_keys,
    freed_of,
    limits_of,
)
from clustersim.studies.search.best_first import Incumbent, OnProgress, Progress, Search
from clustersim.studies.search.best_scenario import best_values
from clustersim.studies.search.candidates import Base, candidates_of
from clustersim.studies.search.launch import has_argument, launch_of
from clustersim.studies.search.space import Choices, Space
from clustersim.workload.flops import model_flops
from clustersim.workload.precision import PRECISIONS

TOP = 10
"""Layouts that are proven to be the best."""


def without_progress(progress: Progress) -> None:
    """Do nothing."""


def search(
    scenario: str | Path,
    *,
    devices: int | None = None,
    objective: str = "tokens_per_s",
    free: Sequence[str] = (),
    limits: Sequence[str] = (),
    settings: Settings = (),
    program: str | None = None,
    gap: float = 0.0,
    seconds: float | None = None,
    top: int = TOP,
    jobs: int | None = None,
    on_progress: OnProgress = without_progress,
) -> SearchAnswer:
    """Find the best layout of a scenario that fits in memory, with proof.

    All layouts that divisibility allows are bounded; those whose bound is better than the best
    replays are replayed.

    Parameters
    ----------
    scenario : file or name of a shipped scenario
    devices : number of devices; those of the scenario if None
    objective : measure that is best: ``tokens_per_s``, ``mfu``, ``step_time_s`` and so on
    free : further keys that are searched, with their values (``"precision=bf16,fp8"``), or keys of
        a layout with the only values that they may have (``"plan.tensor=1:8"``)
    limits : ``"memory<=70GiB"``, ``"plan.tensor<=8"``
    settings : changes of the scenario; keys of a layout that are set stay as they are
    program : search only layouts that the framework has launch arguments for, as this program
    gap : stop when no layout can be better by more than this share
    seconds : stop after this time with the best so far [s]
    top : number of layouts that are proven to be the best
    jobs : number of processes; one per core if None
    on_progress : is called with the progress after each replay

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input, where no key is free, and where no layout is valid.

    >>> import clustersim
    >>> fixed = {"batch.global": 16, "batch.micro": 1, "plan.tensor": 8, "recompute": "none"}
    >>> answer = clustersim.search("frontier-22b", settings=fixed, jobs=1)
    >>> answer.gap, answer.best.set_["plan.pipeline"]
    (0.0, 1)
    """
    began = time.perf_counter()
    check_objective(objective)
    bases = _bases(str(scenario), devices, objective, free, limits_of(limits), settings, program)
    processes = jobs or cores()
    with workers(processes) as executor:
        candidates = candidates_of(bases, executor)
        found = Search(candidates, executor, processes, top, gap, seconds, began)
        found.run(on_progress)
    return _answer(bases, found, objective, began)


# --- scenarios ------------------------------------------------------------------------------------


def _bases(
    scenario: str,
    devices: int | None,
    objective: str,
    free: Sequence[str],
    limits: Limits,
    settings: Settings,
    program: str | None,
) -> list[Base]:
    """Return the scenarios that are searched, one for each combination of other free keys."""
    changes = parse_settings(settings)
    given = load(scenario, changes)
    changes += device_changes(given, devices)
    given = load(scenario, changes)
    if given.scenario.disturbances:
        raise ScenarioError(
            f"{given.where('disturbances')}: a search compares undisturbed layouts"
            " (--set disturbances=[])"
        )
    freed, fixed = freed_of(free, given), fixed_keys(changes, free)
    bases, problems = [], list[Exception]()
    for further in freed.combinations():
        try:
            loaded = given.changed(further)
            space = _space(loaded, fixed, freed.values, limits, program)
        except (ScenarioError, CatalogError) as problem:
            problems.append(problem)
            continue
        scale = _scale(objective, loaded)
        capacity = min(limits.memory, _capacity(loaded))
        own = (*changes, *further)
        bases.append(
            Base(scenario, own, loaded, space, scale, capacity, tuple(fixed), len(changes))
        )
    if not bases:
        raise problems[0]
    _check_spaces(bases)
    return bases


def _space(
    loaded: Loaded,
    fixed: Sequence[str],
    values: Mapping[str, Sequence[Any]],
    limits: Limits,
    program: str | None,
) -> Space:
    """Return the space of a scenario."""
    jobs = LayoutJobs(loaded)
    if problems := scenario_problems(loaded, jobs.model(1)):
        raise PlanError("\n".join(problems))
    launch = None if program is None else launch_of(loaded, program)

    def allows(key: str, value: Any) -> bool:
        launched = launch is None or has_argument(launch, key, value)
        return launched and limits.allows(key, value)

    return Space(jobs, Choices(loaded, fixed, values, allows))


def _check_spaces(bases: Sequence[Base]) -> None:
    """Check that several layouts are possible, and that rules leave some of them.

    Raises
    ------
    ScenarioError
        in one line, with the rule that excludes most layouts.
    """
    possible = sum(base.space.possible for base in bases)
    first = bases[0].loaded
    if possible == 1:
        raise ScenarioError(
            f"{first.name}: no key is free, all of the layout is set (leave a key of plan out of"
            " --set, or --free KEY)"
        )
    if any(base.space.valid for base in bases):
        return
    excluded = _excluded(bases)
    why = f", most of {possible:,} by: {excluded.most_common(1)[0][0]}" if excluded else ""
    raise ScenarioError(
        f"{first.name}: no layout is possible on {first.scenario.devices:,} devices{why}"
    )


def _scale(objective: str, loaded: Loaded) -> float:
    """Return the objective of a step of one second; 1 where the objective is a time."""
    given = loaded.scenario
    batch, devices = given.batch, given.devices
    if objective == "step_time_s":
        return 1.0
    if objective == "samples_per_s":
        return float(batch.global_)
    if objective in ("tokens_per_s", "tokens_per_s_per_device"):
        tokens = float(batch.global_ * batch.sequence)
        return tokens / devices if objective.endswith("device") else tokens
    jobs = LayoutJobs(loaded)
    flops = model_flops(jobs.model(1), batch.global_) / devices
    peak = jobs.cluster.accelerator.peak_rate(PRECISIONS[given.precision].peak)
    return flops / peak if objective == "mfu" else flops


def _capacity(loaded: Loaded) -> float:
    return float(LayoutJobs(loaded).cluster.accelerator.memory_capacity)


# --- answer ---------------------------------------------------------------------------------------


def _answer(bases: Sequence[Base], found: Search, by: str, began: float) -> SearchAnswer:
    first, incumbents = bases[0].loaded, found.incumbents
    gap = found.gap
    proven = len(incumbents) if not found.open and not found.accepted else 0
    return SearchAnswer(
        name=first.name,
        title=first.scenario.title,
        by=by,
        devices=tuple(dict.fromkeys(base.loaded.scenario.devices for base in bases)),
        best=_best(incumbents[0]) if incumbents else None,
        ranked=tuple(_ranked(one, incumbents[0], by) for one in incumbents),
        proven=min(proven, found.top),
        layouts=_counts(bases, found),
        rules=_rules(bases, found),
        gap=gap,
        tightness=median(one.bound / one.cost for one in incumbents) if incumbents else None,
        differences=_differences(incumbents),
        pareto=_fronts(incumbents),
        scenario=_scenario(incumbents[0]) if incumbents else None,
        wall_s=time.perf_counter() - began,
    )


def _answer_of(one: Incumbent) -> RunAnswer:
    assert one.run.answer is not None, "an incumbent was replayed"
    return one.run.answer


def _set(one: Incumbent) -> dict[str, Any]:
    """Return the values of an incumbent, with those of other keys that are free."""
    other = {".".join(map(str, c.path)): c.value for c in one.base.changes[one.base.common :]}
    return other | one.base.settings(one.layout)


def _scenario(one: Incumbent) -> dict[str, Any]:
    """Return the scenario of an incumbent as plain values of a file."""
    values = best_values(load(one.base.scenario, one.base.changes), one.base.settings(one.layout))
    return dict(to_jsonable_python(values))


def _best(one: Incumbent) -> BestRun:
    answer = _answer_of(one)
    values = {field.name: getattr(answer, field.name) for field in fields(RunAnswer)}
    return BestRun(**values, set_=_set(one))


def _ranked(one: Incumbent, best: Incumbent, by: str) -> RankedLayout:
    answer, numbers = _answer_of(one), measures(_answer_of(one))
    high = _answer_of(best).interval.high_s
    longest = inf if high is None else high
    same = one.base.scale * (_answer_of(best).step_time_s / best.base.scale)
    return RankedLayout(
        set_=_set(one),
        value=numbers[by],
        step_time_s=answer.step_time_s,
        bound_s=one.bound * one.base.scale,
        tokens_per_s=answer.tokens_per_s,
        tokens_per_s_per_device=answer.tokens_per_s_per_device,
        mfu=answer.mfu,
        memory_peak_bytes=answer.memory.peak_bytes,
        devices=answer.counts.devices,
        tie=high is not None
        and answer.step_time_s / same <= longest / _answer_of(best).step_time_s,
    )


def _counts(bases: Sequence[Base], found: Search) -> LayoutCounts:
    possible = sum(base.space.possible for base in bases)
    excluded = _excluded(bases).total() + sum(found.invalid.values())
    memory = found.candidates.memory + found.memory
    rest = possible - excluded - memory - found.replayed
    return LayoutCounts(possible, excluded, rest - found.open, memory, found.replayed, found.open)


def _excluded(bases: Sequence[Base]) -> Counter[str]:
    total: Counter[str] = Counter()
    for base in bases:
        total.update(base.space.excluded)
    return total


def _rules(bases: Sequence[Base], found: Search) -> tuple[RuleCount, ...]:
    """Return the rules with their counts; those that differ in numbers only are one."""
    counts, first = Counter[str](), dict[str, str]()
    for why, count in (*_excluded(bases).items(), *found.invalid.items()):
        pattern = re.sub(r"\d[\d,.]*", "#", re.sub(r"\([^()]*\)", "", why))
        counts[pattern] += count
        first.setdefault(pattern, why)
    return tuple(RuleCount(first[pattern], count) for pattern, count in counts.most_common())


def _fronts(incumbents: Sequence[Incumbent]) -> tuple[FrontOfLayouts, ...]:
    """Return the fronts over memory, and over devices where their number varies."""
    costs = {"memory": [one.memory for one in incumbents]}
    devices = [float(_answer_of(one).counts.devices) for one in incumbents]
    if len(set(devices)) > 1:
        costs["devices"] = devices
    fronts = []
    for name, of in costs.items():
        positions, best = [], inf
        for at in sorted(range(len(of)), key=lambda at: (of[at], at)):
            if incumbents[at].cost < best:
                positions.append(at)
                best = incumbents[at].cost
        fronts.append(FrontOfLayouts(name, tuple(positions)))
    return tuple(fronts)


# --- differences ----------------------------------------------------------------------------------


def _differences(incumbents: Sequence[Incumbent]) -> tuple[LayoutDifference, ...]:
    """Return the best layout compared with the second and with that of the scenario."""
    if not incumbents:
        return ()
    best = incumbents[0]
    compared = [_own_layout(best)]
    if len(incumbents) > 1:
        second = incumbents[1]
        compared.insert(0, _compared("second", best, _set(second), _answer_of(second)))
    return tuple(compared)


def _own_layout(best: Incumbent) -> LayoutDifference:
    """Return the best layout compared with that of its scenario, where that can run."""
    base = best.base
    run = run_variant(Variant(base.scenario, base.changes, memory_first=True), None)
    values = {key: _value(base.loaded, key) for key in _set(best)}
    if run.answer is None:
        why = (run.why or "").split("; ")[0]
        return LayoutDifference("scenario", _other(best, values), None, None, {}, "", why)
    return _compared("scenario", best, values, run.answer)


def _compared(
    against: str, best: Incumbent, values: Mapping[str, Any], other: RunAnswer
) -> LayoutDifference:
    own = _answer_of(best)
    parts = difference(other.attribution, own.attribution)
    sentence = format_speed("The best layout", own.tokens_per_s / other.tokens_per_s)
    return LayoutDifference(
        against,
        _other(best, values),
        other.step_time_s,
        other.step_time_s - own.step_time_s,
        parts,
        f"{sentence} as {NAMES[against]}{format_causes(parts)}",
    )


NAMES = {"second": "the second", "scenario": "that of the scenario"}


def _other(best: Incumbent, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from those of the best layout."""
    own = _set(best)
    return {key: value for key, value in values.items() if own.get(key) != value}


def _value(loaded: Loaded, key: str) -> Any:
    """Return a value of a scenario in the form that settings have."""
    value: Any = loaded.scenario.model_dump(mode="json", by_alias=True)
    for word in key.split("."):
        value = value.get(word) if isinstance(value, dict) else None
    return value.get("name", value) if isinstance(value, dict) else value


__all__ = ["TOP", "without_progress", "search"]
