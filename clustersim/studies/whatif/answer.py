"""What if: each change of a scenario alone, and all together, by the time that they save.

    base ---- change 1 ---- change 2 ---- ... ---- all valid changes together

What is saved is the time of a step; where a change trains on another number of tokens in a step,
the time for the tokens of the base's step.  Of a whole run (section `training`) it is days, energy,
price or goodput.  Savings do not add up: two changes may shorten the same wait, or one may enable
the other, so their sum is reported next to what they save together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from clustersim.catalog.changes import Settings
from clustersim.metrics.difference import largest_changes
from clustersim.runs.arguments import study_of, variant_of
from clustersim.runs.execution import OnProgress, ignore_progress, run_study
from clustersim.runs.run_arguments import check_run_measure
from clustersim.runs.table import RUN_MEASURES, run_measures
from clustersim.runs.variants import RAN, SERVED, Run
from clustersim.simulation.step.answer import ExposedCommunication, RunAnswer
from clustersim.studies.compare import BeforeAfter, compare_runs, required, tokens_of
from clustersim.studies.whatif.arguments import Change, WhatIfVariants, change_groups, variants_of


@dataclass(frozen=True)
class ChangeResult:
    """What a change saves.

    Attributes
    ----------
    settings : settings of the change
    verdict : `ran`; `invalid` where the layout is not allowed, or `failed`
    why : the reason in one line, unless it ran; all keys below are null then
    step_time_s : step time with the change [s]
    same_tokens : whether the step trains on the same number of tokens as that of the base
    saved_s : step time of the base less that with the change; negative where it is slower [s]
    saved_fraction : the same over the step time of the base
    saved_days : days of the whole run of the base less those with the change; null without a
        section `training`
    saved_run : what is saved of the whole run by measure: `days`, `energy` [kWh] and `cost` [USD]
        of the base less those with the change, `goodput` with the change less that of the base;
        null without a section `training`
    run_parts : change of each part of `accounting` of `train --json`, after less before [days];
        null without a section `training`
    part : the part of the step time that changed most, the three bubbles as one
    parts : change of each part of `attribution`, after less before [s]
    bottleneck : `before` and `after`: the longest exposed communication with the link that limits
        it, as in `exposed` of `run --json`
    fits : whether it fits in memory
    memory : the same in words
    """

    settings: tuple[str, ...]
    verdict: Literal["ran"]
    why: None
    step_time_s: float
    same_tokens: bool
    saved_s: float
    saved_fraction: float
    saved_days: float | None
    saved_run: Mapping[str, float] | None
    run_parts: Mapping[str, float] | None
    part: str | None
    parts: Mapping[str, float]
    bottleneck: BeforeAfter[ExposedCommunication | None]
    fits: bool
    memory: str


@dataclass(frozen=True)
class ChangeFailure:
    """A change without a result: its layout is invalid, or its run failed."""

    settings: tuple[str, ...]
    verdict: Literal["memory_only", "invalid", "failed"]
    why: str | None
    step_time_s: None = None
    same_tokens: None = None
    saved_s: None = None
    saved_fraction: None = None
    saved_days: None = None
    saved_run: None = None
    run_parts: None = None
    part: None = None
    parts: None = None
    bottleneck: None = None
    fits: None = None
    memory: None = None


@dataclass(frozen=True)
class CombinationResult(ChangeResult):
    """What all valid changes save together.

    Attributes
    ----------
    sum_s : what these changes save one by one, added up; null where one of them is invalid alone
        [s]
    sum_run : the same of the measure of whole runs that ranks the changes; null without one
    of_sum : what they save together over that sum, of whole runs over `sum_run`; null where the
        sum saves nothing
    """

    sum_s: float | None
    sum_run: float | None
    of_sum: float | None


@dataclass(frozen=True)
class CombinationFailure(ChangeFailure):
    """Changes whose run together has no result."""

    sum_s: float | None = None
    sum_run: float | None = None
    of_sum: None = None


@dataclass(frozen=True)
class WhatIfAnswer:
    """The changes of a scenario and what each of them saves.

    Attributes
    ----------
    base : what `run --json` prints of the scenario without changes
    changes : the one that saves most first; those without a result last
    together : all valid changes together; null where there are fewer than two. Next to the keys of
        a change it has `sum_s`, what these changes save one by one, added up (null where one of
        them is invalid alone), and `of_sum`, what they save together over that sum (null where
        the sum saves no time)
    apart : the reason why two or more changes are not together; null where they are
    by : measure of whole runs that ranks the changes: `days`, `goodput`, `energy` or `cost`; null
        without a section `training`
    """

    base: RunAnswer
    changes: tuple[ChangeResult | ChangeFailure, ...]
    together: CombinationResult | CombinationFailure | None = None
    apart: str | None = None
    by: str | None = None


def whatif(
    scenario: str,
    *,
    settings: Settings = (),
    changes: Sequence[Settings] = (),
    by: str | None = None,
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> WhatIfAnswer:
    """Run each change of a scenario alone, and all together; rank them by the time they save.

    Parameters
    ----------
    scenario : file or name of a shipped scenario; ``"A plan.zero=1"`` is A with a change
    settings : changes of one value each, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    changes : changes of several values each, ``["plan.pipeline=4 plan.data=16"]`` or
        ``[{"plan.pipeline": 4, "plan.data": 16}]``
    by : measure of whole runs that ranks the changes: ``"days"``, ``"goodput"``, ``"energy"`` or
        ``"cost"``; days if None and the scenario has a section `training`
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : called with the number of runs that are done, and of all

    Raises
    ------
    ScenarioError, CatalogError
        when the scenario or a setting is invalid, before any is run.
    SimulationError
        when the run of the scenario itself failed.

    >>> import clustersim
    >>> pair = ["recompute=none", "cluster.nic.bandwidth=x2"]
    >>> answer = clustersim.whatif("frontier-22b batch.global=16", settings=pair, jobs=1)
    >>> answer.changes[0].settings
    ('recompute=none',)
    """
    requested = variants_of(variant_of(scenario), change_groups(scenario, settings, changes))
    base = requested.base.load()
    if by is not None:
        check_run_measure(by, [base])
    study = study_of("whatif", base.name, base.scenario.title, requested.all)
    runs = run_study(
        study, requested.all, store=store, jobs=jobs, executor=executor, on_progress=on_progress
    )
    return rank_changes(requested, runs, by)


def rank_changes(
    requested: WhatIfVariants, runs: Sequence[Run], by: str | None = None
) -> WhatIfAnswer:
    """Return the answer of the runs of `requested.all`; `by` as in `whatif`.

    Raises
    ------
    ScenarioError, SimulationError
        when the base has no result.
    """
    base = required(requested.base.scenario, runs[0].answer, runs[0])
    if by is None and base.training is not None:
        by = "days"
    changes = [
        _outcome(change, base, run, by)
        for change, run in zip(requested.changes, runs[1:], strict=False)
    ]
    together = None
    if requested.together is not None:
        together = _together([changes[place] for place in requested.joined], base, runs[-1], by)
    order = sorted(changes, key=lambda change: saved_by(change, by), reverse=True)
    return WhatIfAnswer(base, tuple(order), together, requested.apart, by)


def _outcome(
    change: Change, base: RunAnswer, run: Run, by: str | None
) -> ChangeResult | ChangeFailure:
    """Return what came of a change."""
    if run.verdict != RAN:
        assert run.verdict != SERVED, "the scenario of a training step"
        return ChangeFailure(change, run.verdict, run.why)
    after = required(" ".join(change), run.answer, run)
    comparison = compare_runs((base.name, " ".join(change)), base, after, by=by)
    most = largest_changes(
        comparison.parts if comparison.same_tokens else comparison.parts_per_token, 1
    )
    saved = base.step_time_s - tokens_of(base) / tokens_of(after) * after.step_time_s
    return ChangeResult(
        settings=change,
        verdict="ran",
        why=None,
        step_time_s=after.step_time_s,
        same_tokens=comparison.same_tokens,
        saved_s=saved,
        saved_fraction=saved / base.step_time_s,
        saved_days=_saved_days(base, after),
        saved_run=_saved_run(base, after),
        run_parts=None if comparison.training is None else comparison.training.parts,
        part=most[0][0] if most else None,
        parts=comparison.parts,
        bottleneck=comparison.bottleneck,
        fits=after.memory.fits,
        memory=after.memory.verdict,
    )


def _saved_days(base: RunAnswer, after: RunAnswer) -> float | None:
    """Return the days of a whole run that a change saves; None for a step alone."""
    if base.training is None or after.training is None:
        return None
    return base.training.days - after.training.days


def _saved_run(base: RunAnswer, after: RunAnswer) -> dict[str, float] | None:
    """Return what a change saves of each measure of a whole run; None for a step alone."""
    if base.training is None or after.training is None:
        return None
    old, new = run_measures(base), run_measures(after)
    signs = dict.fromkeys(RUN_MEASURES, 1) | {"goodput": -1}
    return {name: signs[name] * (old[name] - new[name]) for name in old if name in new}


def saved_by(change: ChangeResult | ChangeFailure, by: str | None) -> float:
    """Return what changes are ranked by: a measure of a whole run, else time of a step [s]."""
    if change.saved_s is None:
        return float("-inf")
    return change.saved_s if by is None or change.saved_run is None else change.saved_run[by]


def _together(
    joined: Sequence[ChangeResult | ChangeFailure], base: RunAnswer, run: Run, by: str | None
) -> CombinationResult | CombinationFailure:
    """Return what came of changes that were run together."""
    whole = all(change.saved_s is not None for change in joined)
    total = sum(saved_by(change, None) for change in joined) if whole else None
    total_run = sum(saved_by(change, by) for change in joined) if whole and by else None
    outcome = _outcome(tuple(chain.from_iterable(c.settings for c in joined)), base, run, by)
    if isinstance(outcome, ChangeFailure):
        return CombinationFailure(**vars(outcome), sum_s=total, sum_run=total_run)
    share, ranked = None, total if by is None else total_run
    size = base.step_time_s if by is None else run_measures(base)[by]
    if ranked is not None and ranked >= 1e-9 * size:
        share = saved_by(outcome, by) / ranked
    return CombinationResult(**vars(outcome), sum_s=total, sum_run=total_run, of_sum=share)
