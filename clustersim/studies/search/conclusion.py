"""What a search has found, as its answer: the best layouts, their proof, and why the first wins."""

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import inf
from statistics import median
from typing import Any

from pydantic_core import to_jsonable_python

from clustersim.render.tables import percent
from clustersim.reports.measures import format_causes, format_speed
from clustersim.runs.cached_runs import CachedRuns
from clustersim.runs.variants import Variant
from clustersim.scenario.file_values import file_values
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.step.answer import RunAnswer
from clustersim.simulation.step.job_price import usd_per_hour
from clustersim.studies.search.answer import (
    BestRun,
    FrontOfLayouts,
    LayoutCounts,
    LayoutDifference,
    RankedLayout,
    RuleCount,
    SearchAnswer,
)
from clustersim.studies.search.best_first import Incumbent, Search
from clustersim.studies.search.candidates import Base, excluded_by_rule


def conclude(bases: Sequence[Base], found: Search, by: str, began: float) -> SearchAnswer:
    """Return the answer of a search; `began` is when it began [s]."""
    first, incumbents = bases[0].loaded, found.incumbents
    gap = found.gap
    proven = len(incumbents) if not found.open and not found.accepted else 0
    return SearchAnswer(
        name=first.name,
        title=_title(bases),
        by=by,
        devices=tuple(dict.fromkeys(base.loaded.scenario.devices for base in bases)),
        best=_best(incumbents[0]) if incumbents else None,
        ranked=tuple(_ranked(one, incumbents[0], by) for one in incumbents),
        proven=min(proven, found.top),
        layouts=_counts(bases, found),
        rules=_rules(bases, found),
        gap=gap,
        tightness=median(one.bound / one.cost for one in incumbents) if incumbents else None,
        differences=_differences(incumbents, found.runs),
        pareto=_fronts(incumbents),
        scenario=_scenario(incumbents[0]) if incumbents else None,
        fresh=found.runs.computed,
        wall_s=time.perf_counter() - began,
    )


def _title(bases: Sequence[Base]) -> str:
    """Return what is searched: model, devices and cluster, also where settings changed them."""
    given = [base.loaded.scenario for base in bases]
    models = dict.fromkeys(one.model.name for one in given)
    clusters = dict.fromkeys(one.cluster.name for one in given)
    devices = dict.fromkeys(f"{one.devices:,}" for one in given)
    return (
        f"Best layout of {' or '.join(models)} on {' or '.join(devices)} devices of"
        f" {' or '.join(clusters)}"
    )


def _answer_of(one: Incumbent) -> RunAnswer:
    assert one.run.step is not None, "an incumbent was replayed"
    return one.run.step


def _set(one: Incumbent) -> dict[str, Any]:
    """Return the values of an incumbent, with those of other keys that are free."""
    other = {".".join(map(str, c.path)): c.value for c in one.base.changes[one.base.common :]}
    return other | one.base.settings(one.layout)


def _scenario(one: Incumbent) -> dict[str, Any]:
    """Return the scenario of an incumbent as plain values of a file."""
    values = file_values(load(one.base.scenario, one.base.changes), one.base.settings(one.layout))
    return dict(to_jsonable_python(values))


def _best(one: Incumbent) -> BestRun:
    answer = _answer_of(one)
    values = {field.name: getattr(answer, field.name) for field in fields(RunAnswer)}
    return BestRun(**values, set_=_set(one))


def _ranked(one: Incumbent, best: Incumbent, by: str) -> RankedLayout:
    answer, numbers = _answer_of(one), _answer_of(one).measures()
    high = _answer_of(best).interval.high_s
    longest = inf if high is None else high
    return RankedLayout(
        set_=_set(one),
        value=numbers.get(by, 1 / one.cost),
        step_time_s=answer.step_time_s,
        energy_per_step_j=answer.energy_per_step_j,
        bound_s=one.bound_s,
        tokens_per_s=answer.tokens_per_s,
        tokens_per_s_per_device=answer.tokens_per_s_per_device,
        mfu=answer.mfu,
        memory_peak_bytes=answer.memory.peak_bytes,
        devices=answer.counts.devices,
        usd_per_hour=usd_per_hour(one.base.loaded.scenario),
        tie=high is not None and one.cost / best.cost <= longest / _answer_of(best).step_time_s,
    )


def _counts(bases: Sequence[Base], found: Search) -> LayoutCounts:
    possible = sum(base.space.possible for base in bases)
    excluded = excluded_by_rule(bases).total() + sum(found.invalid.values())
    memory = found.candidates.memory + found.memory
    limited = found.candidates.limited
    bounded = possible - excluded - memory - limited - found.replayed - found.open
    return LayoutCounts(possible, excluded, bounded, memory, found.replayed, found.open, limited)


def _rules(bases: Sequence[Base], found: Search) -> tuple[RuleCount, ...]:
    """Return the rules with their counts; those that differ in numbers only are one."""
    counts, first = Counter[str](), dict[str, str]()
    for why, count in (*excluded_by_rule(bases).items(), *found.invalid.items()):
        pattern = re.sub(r"\d[\d,.]*", "#", re.sub(r"\([^()]*\)", "", why))
        counts[pattern] += count
        first.setdefault(pattern, why)
    return tuple(RuleCount(first[pattern], count) for pattern, count in counts.most_common())


def _fronts(incumbents: Sequence[Incumbent]) -> tuple[FrontOfLayouts, ...]:
    """Return the fronts over memory, over devices where their number varies, and over price.

    With one accelerator the price is proportional to the devices, and has no front of its own.
    """
    costs = {"memory": [one.memory for one in incumbents]}
    devices = [float(_answer_of(one).counts.devices) for one in incumbents]
    if len(set(devices)) > 1:
        costs["devices"] = devices
    known = [usd_per_hour(one.base.loaded.scenario) for one in incumbents]
    prices = [price for price in known if price is not None]
    rates = {price / number for price, number in zip(prices, devices, strict=False)}
    if len(prices) == len(incumbents) and len(rates) > 1:
        costs["price"] = prices
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


def _differences(incumbents: Sequence[Incumbent], runs: CachedRuns) -> tuple[LayoutDifference, ...]:
    """Return the best layout compared with the next slower one and with that of the scenario."""
    if not incumbents:
        return ()
    best = incumbents[0]
    compared = [_own_layout(best, runs)]
    second = next((one for one in incumbents if one.cost > best.cost), None)
    if second is not None:
        compared.insert(0, _compared("second", best, _set(second), _answer_of(second)))
    return tuple(compared)


def _own_layout(best: Incumbent, runs: CachedRuns) -> LayoutDifference:
    """Return the best layout compared with that of its scenario, where that can run."""
    base = best.base
    values = {key: _value(base.loaded, key) for key in _set(best)}
    own, devices = base.loaded.scenario.plan, base.loaded.scenario.devices
    if (ranks := own.tensor * own.context * own.data * own.pipeline) != devices:
        why = f"the scenario's own layout is for {ranks:,} devices, not {devices:,}"
        return LayoutDifference("scenario", _other(best, values), None, None, {}, "", why)
    run = runs.run(Variant(base.scenario, base.changes, memory_first=True))
    if run.step is None:
        problem = re.sub(r"^\S+\.ya?ml(?::\d+)?: (?:plan: )?", "", (run.why or "").split("; ")[0])
        why = f"the scenario's own layout is not possible: {problem}"
        return LayoutDifference("scenario", _other(best, values), None, None, {}, "", why)
    return _compared("scenario", best, values, run.step)


def _compared(
    against: str, best: Incumbent, values: Mapping[str, Any], other: RunAnswer
) -> LayoutDifference:
    own = _answer_of(best)
    parts = {part: s - other.attribution[part] for part, s in own.attribution.items()}
    sentence = format_speed("The best layout", own.tokens_per_s / other.tokens_per_s)
    if best.base.energy:
        sentence = f"{_energy(own, other)} and {sentence.removeprefix('The best layout ')}"
    return LayoutDifference(
        against,
        _other(best, values),
        other.step_time_s,
        other.step_time_s - own.step_time_s,
        parts,
        f"{sentence} as {NAMES[against]}{format_causes(parts)}",
    )


def _energy(own: RunAnswer, other: RunAnswer) -> str:
    """Return by how much less energy the best layout takes for a token."""
    assert own.energy_per_step_j is not None, "the objective is one of energy"
    assert other.energy_per_step_j is not None, "and this is the same machine"
    tokens = own.tokens_per_s * own.step_time_s, other.tokens_per_s * other.step_time_s
    ratio = own.energy_per_step_j / tokens[0] / (other.energy_per_step_j / tokens[1])
    return f"The best layout takes {percent(1 - ratio)} less energy"


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
