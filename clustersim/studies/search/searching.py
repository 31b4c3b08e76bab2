"""Search the best layout of a scenario, with proof.

scenario --free keys--> spaces --bounds--> candidates --best first--> incumbents --> answer
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from clustersim.answers import from_json, to_json
from clustersim.catalog.changes import Change, Settings
from clustersim.cost.power import machine_power, missing_power
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.runs.arguments import parse_settings
from clustersim.runs.cache_key import key_of, key_of_answer
from clustersim.runs.cached_runs import CachedRuns
from clustersim.runs.executors import workers
from clustersim.runs.store import Store
from clustersim.runs.study_files import files_of
from clustersim.runs.variants import Variant
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.step.check import scenario_problems
from clustersim.simulation.step.job_price import usd_per_hour
from clustersim.studies.search.answer import SearchAnswer
from clustersim.studies.search.arguments import (
    ENERGY,
    OBJECTIVES,
    Freed,
    Limits,
    check_objective,
    device_changes,
    fixed_keys,
    freed_of,
    limits_of,
)
from clustersim.studies.search.best_first import OnProgress, Progress, Search
from clustersim.studies.search.candidates import (
    Base,
    OnBounds,
    StepLimits,
    candidates_of,
    excluded_by_rule,
)
from clustersim.studies.search.conclusion import conclude
from clustersim.studies.search.launch import has_argument, launch_of
from clustersim.studies.search.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.space import Choices, Space
from clustersim.workload.flops import model_flops
from clustersim.workload.slice import PRECISIONS

HOUR: Final = 3600.0

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
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = without_progress,
) -> SearchAnswer:
    """Find the best layout of a scenario that fits in memory, with proof.

    All layouts that divisibility allows are bounded; those whose bound is better than the best
    replays are replayed.

    Parameters
    ----------
    scenario : file or name of a shipped scenario
    devices : number of devices; those of the scenario if None
    objective : measure that is best: ``tokens_per_s``, ``tokens_per_joule``, ``step_time_s`` and so
        on
    free : further keys that are searched, with their values (``"precision=bf16,fp8"``), or keys of
        a layout with the only values that they may have (``"plan.tensor=1:8"``)
    limits : ``"memory<=70GiB"``, ``"plan.tensor<=8"``, ``"tokens_per_joule>=0.02"``
    settings : changes of the scenario; keys of a layout that are set stay as they are
    program : search only layouts that the framework has launch arguments for, as this program
    gap : stop when no layout can be better by more than this share
    seconds : stop after this time with the best so far [s]
    top : number of layouts that are proven to be the best
    store : run cache (SQLite) of replays and answers, which is created if it does not exist; None
        for one in memory
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster that computes bounds and replays instead:
        ``dask://HOST:PORT``
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
    given = _given(str(scenario), devices, free, settings)
    arguments = {
        **{"scenario": str(scenario), "by": objective, "free": [*free], "limits": [*limits]},
        **{"fixed": given.fixed, "program": program, "gap": gap, "top": top},
    }
    key = key_of_answer("search", [base for _, base in given.scenarios], arguments)
    path = None if store is None else Path(store)
    if (known := _known(path, key)) is not None:
        return replace(known, fresh=0, wall_s=time.perf_counter() - began)
    bases = _bases(given, objective, limits_of(limits), program)
    with workers(jobs, executor=executor) as computing, Store(path) as cache:
        if computing.elsewhere:
            computing.carry(files_of(Variant(base.scenario, base.changes) for base in bases))
        candidates = candidates_of(bases, computing, _on_bounds(on_progress))
        found = Search(candidates, CachedRuns(computing, cache), top, gap, seconds, began)
        found.run(on_progress)
        answer = conclude(bases, found, objective, began)
        if not found.open:
            cache.put_answer(key, "search", to_json(answer))
    return answer


def _known(store: Path | None, key: str) -> SearchAnswer | None:
    """Return the answer of a search that was completed before; None where there is none."""
    if store is None or not store.exists():
        return None
    with Store(store) as cache:
        found = cache.answer(key)
    return None if found is None else from_json(SearchAnswer, found)


def _on_bounds(on_progress: OnProgress) -> OnBounds:
    return lambda bounded, valid: on_progress(Progress(bounded, valid, bounded=False))


# --- scenarios ------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """What is searched.

    Attributes
    ----------
    scenario, changes : file or name, and the changes of all scenarios
    scenarios : further changes, one for each combination of other free keys, with the scenario
    freed : free keys with values of their own
    fixed : keys of a layout that are not free
    problems : of combinations that are invalid
    """

    scenario: str
    changes: tuple[Change, ...]
    scenarios: list[tuple[tuple[Change, ...], Loaded]]
    freed: Freed
    fixed: list[str]
    problems: list[ScenarioError | CatalogError]


def _given(scenario: str, devices: int | None, free: Sequence[str], settings: Settings) -> _Given:
    """Return the scenarios that are searched."""
    changes = parse_settings(settings)
    changes += device_changes(load(scenario, changes), devices)
    loaded = load(scenario, changes)
    if loaded.scenario.disturbances:
        raise ScenarioError(
            f"{loaded.where('disturbances')}: a search compares undisturbed layouts"
            " (--set disturbances=[])"
        )
    given = _Given(scenario, changes, [], freed_of(free, loaded), fixed_keys(changes, free), [])
    for further in given.freed.combinations():
        try:
            given.scenarios.append((further, loaded.changed(further)))
        except (ScenarioError, CatalogError) as problem:
            given.problems.append(problem)
    return given


def _bases(given: _Given, objective: str, limits: Limits, program: str | None) -> list[Base]:
    """Return the scenarios with their spaces; those without any layout are left out."""
    bases = []
    for further, loaded in given.scenarios:
        try:
            space = _space(loaded, given.fixed, given.freed.values, limits, program)
        except (ScenarioError, CatalogError) as problem:
            given.problems.append(problem)
            continue
        bases.append(
            Base(
                scenario=given.scenario,
                changes=(*given.changes, *further),
                loaded=loaded,
                key=key_of(loaded),
                space=space,
                scale=_scale(objective, loaded, f"--objective {objective}"),
                capacity=min(limits.memory, _capacity(loaded)),
                fixed=tuple(given.fixed),
                common=len(given.changes),
                energy=objective == ENERGY,
                most=_most(limits, loaded),
            )
        )
    if not bases:
        raise given.problems[0]
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
    rules = excluded_by_rule(bases)
    why = f", most of {possible:,} by: {rules.most_common(1)[0][0]}" if rules else ""
    raise ScenarioError(
        f"{first.name}: no layout is possible on {first.scenario.devices:,} devices{why}"
    )


def _most(limits: Limits, loaded: Loaded) -> StepLimits:
    """Return the longest step, and that of the most energy, within limits of objectives."""
    seconds, joules = [inf], [inf]
    for name, worst in limits.measures.items():
        scale = _scale(name, loaded, f"--limit {name}")
        most = scale / worst if OBJECTIVES[name] else worst
        (joules if name == ENERGY else seconds).append(most)
    return StepLimits(min(seconds), min(joules))


def _scale(objective: str, loaded: Loaded, option: str) -> float:
    """Return the objective of a step of one second; 1 where the objective is a time.

    Of an objective of energy, return that of a step of one joule.
    """
    given = loaded.scenario
    batch, devices = given.batch, given.devices
    if objective == "step_time_s":
        return 1.0
    if objective == "samples_per_s":
        return float(batch.global_)
    if objective == ENERGY:
        if machine_power(given.cluster, given.cluster.nodes) is None:
            raise ScenarioError(f"{option}: {missing_power(given.cluster)}")
        return float(batch.global_ * batch.sequence)
    if objective in ("tokens_per_s", "tokens_per_s_per_device"):
        tokens = float(batch.global_ * batch.sequence)
        return tokens / devices if objective.endswith("device") else tokens
    if objective == "tokens_per_dollar":
        if (price := usd_per_hour(given)) is None:
            name = given.cluster.node.accelerator.name
            raise ScenarioError(f"{option}: no price of '{name}' is known")
        return float(batch.global_ * batch.sequence) * HOUR / price
    jobs = LayoutJobs(loaded)
    flops = model_flops(jobs.model(1), batch.global_) / devices
    peak = jobs.cluster.accelerator.peak_rate(PRECISIONS[given.precision].peak)
    return flops / peak if objective == "mfu" else flops / 1e12


def _capacity(loaded: Loaded) -> float:
    return float(LayoutJobs(loaded).cluster.accelerator.memory_capacity)
