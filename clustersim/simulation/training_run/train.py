"""A scenario in, the answer of its whole training run out.

Days, accounts, curves, spread, and published numbers compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from clustersim.answers import answer_from
from clustersim.arrays import Floats
from clustersim.catalog.changes import Settings
from clustersim.cost.prices import Price
from clustersim.failures.causes import best_interval, flat_range
from clustersim.failures.renewal import ACCOUNTS
from clustersim.memory.verdict import MemoryRoom
from clustersim.metrics.bill import bill
from clustersim.metrics.energy import StepEnergy
from clustersim.scenario.costs import rate_of, site_of
from clustersim.scenario.load import Loaded
from clustersim.simulation.published import PublishedCheck, compared
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import loaded_from
from clustersim.simulation.training_run.answer import (
    DAY,
    Accounting,
    CauseAnswer,
    CheckpointAnswer,
    ClosedForm,
    CurvePoint,
    DaysByStep,
    MeanAndPeak,
    PowerLevels,
    RunMeasures,
    RunSpread,
    StageAnswer,
    TrainAnswer,
)
from clustersim.simulation.training_run.whole_run import WholeRun, predict_run, warnings_of


def train(
    scenario: str | Path | Mapping[str, Any] | Loaded, settings: Settings = ()
) -> TrainAnswer:
    """Predict a whole training run: days, failures and checkpoints.

    Parameters
    ----------
    scenario : path of a scenario file with a section `training`, name of a shipped scenario, the
        keys and values of a scenario as a dict, or a loaded scenario
    settings : changes as texts, ``["training.checkpoint.every=30 min"]``, or as values

    Returns
    -------
    TrainAnswer
        The keys of ``train --json``; times in seconds unless their names state days or hours.

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        for invalid input, one line for each problem.

    Examples
    --------
    >>> answer = train("gpt3-300b-tokens")
    >>> 30 < answer.days < 40
    True
    """
    return _answer_of(predict_run(loaded_from(scenario, settings)))


def _answer_of(whole: WholeRun) -> TrainAnswer:
    """Return the answer of a run, with all expectations of its scenario."""
    answer, step = train_answer(whole), whole.stages[-1].result
    if not step.expected:
        return answer
    of_both = replace(step, training=_measures(answer)).answer
    return replace(answer, expectations=of_both.expectations)


def run_measures(step: Result) -> RunMeasures:
    """Return the numbers of the whole run of a scenario with a section `training`.

    Parameters
    ----------
    step : its result

    Raises
    ------
    PlanError
        when the run does not end.
    """
    return _measures(_answer_of(predict_run(step.loaded, step)))


def _measures(answer: TrainAnswer) -> RunMeasures:
    """Return the numbers of a whole run that those of its step have."""
    return answer_from(RunMeasures, answer, rate=(answer.bill and answer.bill.rate) or None)


POINTS: Final = 41
"""Points of the curve of goodput over checkpoint intervals."""

MAX_DAYS: Final = 1_000
"""Days of the calendar."""

FACTORS: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Numbers of nodes of the curve over job sizes, relative to those of the scenario."""


def train_answer(whole: WholeRun) -> TrainAnswer:
    """Return the answer of a run."""
    scenario, result = whole.loaded.scenario, whole.stages[-1].result
    accounting = _accounting(whole)
    elapsed, mean = accounting.elapsed, whole.mean_time_between_failures
    interruptions = _interruptions(whole)
    return TrainAnswer(
        name=whole.loaded.name,
        title=scenario.title,
        days=elapsed / DAY,
        goodput=accounting.useful / elapsed,
        interruptions=interruptions,
        accounting=accounting,
        checkpoint=_checkpoint(whole),
        **_bill(whole, accounting),
        devices=scenario.devices,
        nodes=scenario.cluster.nodes,
        cluster=scenario.cluster.name,
        accelerator=scenario.cluster.node.accelerator.name,
        tokens=sum(stage.tokens for stage in whole.stages),
        mean_time_between_failures_s=mean if isfinite(mean) else None,
        restart_s=whole.restart,
        stages=tuple(_stages(whole)),
        causes=tuple(_causes(whole, elapsed)),
        closed_form=_closed_form(whole),
        replications=_spread(whole, elapsed),
        by_step=_by_step(whole, elapsed),
        intervals=tuple(_interval_curve(whole)),
        sizes=tuple(_size_curve(whole)),
        calendar=_calendar(whole),
        warnings=tuple(warnings_of(whole)),
        published=tuple(_published(whole, accounting, interruptions)),
        assumed={**result.assumed, **whole.times.assumed, **_recovery(whole)},
        memory=result.memory.reason,
        fits=result.memory.fits,
        room=answer_from(MemoryRoom, result.memory.answer),
        wall_s=whole.wall,
    )


DELAYS: Final = {"detection", "scheduling", "initialisation"}
"""Parts of a restart that take no time where none is stated."""


def _recovery(whole: WholeRun) -> dict[str, str]:
    """Return what is assumed of restarts and spares after failures, where it is not stated."""
    training, found = whole.training, {}
    if whole.causes and not DELAYS & training.restart.model_fields_set:
        found["training.restart"] = "detection, scheduling and initialisation take no time"
    if training.spares is None and any(cause.replaces for cause in whole.causes):
        found["training.spares"] = "without limit: each failed node is replaced at once"
    return found


LEVELS: Final = 400
"""Levels of power over a step."""


def _bill(whole: WholeRun, accounting: Accounting) -> dict[str, Any]:
    """Return energy, power, emissions and price, by key of the answer; or why they are not known.

    Raises
    ------
    CatalogError
        as `billed`.
    """
    energies = [(s.seconds / whole.run.work, s.result.energy) for s in whole.stages]
    traces = [trace for s in whole.stages if (trace := s.result.power) is not None]
    tokens = sum(stage.tokens for stage in whole.stages)
    found = billed(whole.loaded, energies, vars(accounting), tokens)
    if found["bill"] is None:
        return {**found, "power_w": None}
    levels = traces[-1].thinned(LEVELS)
    return {
        **found,
        "power_w": MeanAndPeak(found["bill"].mean_w, max(trace.peak for trace in traces)),
        "power_levels": PowerLevels(tuple(levels.time.tolist()), tuple(levels.watts.tolist())),
    }


def billed(
    loaded: Loaded,
    energies: Sequence[tuple[float, StepEnergy | None]],
    accounting: Mapping[str, float],
    tokens: float,
) -> dict[str, Any]:
    """Return energy, emissions, price and bill of a run by key; or why they are not known.

    Parameters
    ----------
    loaded : its scenario, whose section `costs` states the site and how devices are paid for
    energies, accounting, tokens : as in `bill`; no energy where the power is not known

    Raises
    ------
    CatalogError
        when there is no site of the name that `costs` has.
    """
    scenario = loaded.scenario
    site = site_of(scenario.costs, f"{loaded.where('costs', 'site')}: ")
    price = rate_of(scenario.costs, scenario.cluster.node.accelerator.name)
    steps = [(share, energy) for share, energy in energies if energy is not None]
    if len(steps) < len(energies):
        hours = scenario.devices * sum(accounting.values()) / 3600
        return _without_energy(scenario.cluster.name, hours, price)
    whole = bill(steps, accounting, tokens, site, price)
    keys = ("energy_kwh", "cost", "co2e_kg", "unavailable")
    return {**{key: getattr(whole, key) for key in keys}, "bill": whole}


def _without_energy(cluster: str, device_hours: float, price: Price | str) -> dict[str, Any]:
    """Return the price of rented devices, and why the rest is not known."""
    keys = ("energy_kwh", "power_w", "co2e_kg", "cost")
    why = dict.fromkeys(keys, f"no source states the power of the nodes of {cluster}")
    cost = None
    if isinstance(price, str):
        why["cost"] = price
    elif price.includes_electricity:
        cost = device_hours * price.usd_per_device_hour
        del why["cost"]
    return {**dict.fromkeys(("energy_kwh", "co2e_kg", "bill")), "cost": cost, "unavailable": why}


# --- time -----------------------------------------------------------------------------------------


def _accounting(whole: WholeRun) -> Accounting:
    """Return the mean accounts of the replications, or the expected ones without them."""
    runs, expected = whole.replicated, whole.expectation
    if runs is None:
        return Accounting(**expected.accounts)
    return Accounting(**{name: float(runs.accounts[name].mean()) for name in ACCOUNTS})


def _interruptions(whole: WholeRun) -> float:
    """Return the mean number of failures and planned stops."""
    runs = whole.replicated
    if runs is None:
        return whole.expectation.failures + whole.expectation.stops
    return float(runs.failures.sum(axis=1).mean() + runs.stops.mean())


def _causes(whole: WholeRun, elapsed: float) -> list[CauseAnswer]:
    """Return the causes of failures, the most frequent first."""
    runs = whole.replicated
    counts = [cause.rate * elapsed for cause in whole.causes]
    if runs is not None:
        counts = runs.failures.mean(axis=0).tolist()
    causes = [
        CauseAnswer(cause.name, float(count), cause.restart)
        for cause, count in zip(whole.causes, counts, strict=True)
    ]
    return sorted(causes, key=lambda cause: -cause.count)


FEW_SAVES: Final = 50.0
"""Saves below which a run ends within them too often for the mean of a long one: a choice."""


def _closed_form(whole: WholeRun) -> ClosedForm:
    """Return the expected run, and why it is not exact."""
    run, expected = whole.run, whole.expected
    why = None
    if any(cause.shape != 1 for cause in whole.causes):
        why = "failures are not exponential"
    elif any(cause.by_step for cause in whole.causes):
        why = "other replicas have the state of the last step"
    elif run.stop is not None:
        why = "planned stops are not part of it"
    elif whole.training.spares is not None and whole.causes:
        why = "waiting for nodes is not part of it"
    elif run.block and run.work < FEW_SAVES * run.interval:
        why = "the saves of a short run are whole, and the last one is at its end"
    days = (run.work / expected + run.start) / DAY if expected else None
    return ClosedForm(expected, days, why is None, why)


def _spread(whole: WholeRun, elapsed: float) -> RunSpread:
    """Return days and goodput over the replications."""
    runs, seed = whole.replicated, whole.training.seed
    if runs is None:
        days, goodput = elapsed / DAY, whole.expectation.goodput
        return RunSpread(0, seed, None, None, days, days, days, days, goodput, goodput, ())
    days_of: Floats = runs.elapsed / DAY
    count = len(days_of)
    deviation = float(days_of.std(ddof=1)) if count > 1 else None
    p10, p50, p90, p99 = np.quantile(days_of, (0.1, 0.5, 0.9, 0.99)).tolist()
    low, high = np.quantile(runs.goodput, (0.1, 0.9)).tolist()
    return RunSpread(
        count=count,
        seed=seed,
        error_days=None if deviation is None else deviation / count**0.5,
        deviation_days=deviation,
        p10_days=p10,
        p50_days=p50,
        p90_days=p90,
        p99_days=p99,
        p10_goodput=low,
        p90_goodput=high,
        quantiles_days=tuple(np.quantile(days_of, np.linspace(0, 1, 101)).tolist()),
    )


def _by_step(whole: WholeRun, elapsed: float) -> DaysByStep:
    """Return the days in proportion to the work at the ends of the intervals of all steps."""
    last, ends = whole.stages[-1].result.interval, []
    for name in ("low_s", "high_s"):
        times = [getattr(stage.result.interval, name) for stage in whole.stages]
        work = sum(
            stage.steps * (time or 0.0) for stage, time in zip(whole.stages, times, strict=True)
        )
        ends.append(None if None in times else elapsed / DAY * work / whole.run.work)
    return DaysByStep(ends[0], ends[1], last.level, last.why)


def _calendar(whole: WholeRun) -> tuple[tuple[float, ...], ...]:
    """Return the hours of each account in each day of the first replication.

    Between two interruptions a run waits, restarts, works and saves, and loses what comes last.
    """
    runs = whole.replicated
    if runs is None or not len(runs.history):
        return ()
    days = min(MAX_DAYS, int(np.ceil((whole.run.start + runs.history.sum()) / DAY)))
    hours = np.zeros((days, len(ACCOUNTS)))
    now = 0.0
    first = np.zeros(len(ACCOUNTS))
    first[ACCOUNTS.index("planned")] = whole.run.start
    for row in [first, *runs.history]:
        for group in (("waiting",), ("restarting",), ("useful", "saving", "planned"), ("lost",)):
            columns = [ACCOUNTS.index(name) for name in group]
            now = _spread_over_days(hours, now, row[columns], columns)
    return tuple(tuple(map(float, day)) for day in hours / 3600)


def _spread_over_days(hours: Floats, now: float, seconds: Floats, columns: list[int]) -> float:
    """Add some seconds from an instant on to their days; return the instant after them."""
    total = float(seconds.sum())
    end = now + total
    day = int(now // DAY)
    while total > 0 and day * DAY < end and day < len(hours):
        share = (min(end, (day + 1) * DAY) - max(now, day * DAY)) / total
        hours[day, columns] += share * seconds
        day += 1
    return end


def _stages(whole: WholeRun) -> Iterator[StageAnswer]:
    for stage in whole.stages:
        result, batch = stage.result, stage.result.scenario.batch
        yield StageAnswer(
            tokens=stage.tokens,
            steps=stage.steps,
            step_time_s=result.step_time,
            batch=batch.global_,
            sequence=batch.sequence,
            tokens_per_s=result.tokens_per_s,
            mfu=result.mfu,
        )


# --- checkpoints ----------------------------------------------------------------------------------


def _checkpoint(whole: WholeRun) -> CheckpointAnswer:
    times, mean, run = whole.times, whole.mean_time_between_failures, whole.run
    written = times.drain or times.durable
    fails = isfinite(mean)
    return CheckpointAnswer(
        bytes=times.nbytes,
        mode=whole.training.checkpoint.mode,
        block_s=times.block,
        durable_s=times.durable,
        load_s=times.load,
        every_s=run.interval,
        every_steps=round(run.interval / run.step),
        best_s=max(best_interval(times.block, mean), times.drain, run.step) if fails else None,
        flat_s=flat_range(times.block, mean, max(times.drain, run.step)) if fails else None,
        storage=times.storage,
        limit=times.limit,
        bandwidth=times.nbytes / written if written else None,
        step_slowdown=times.contention.step,
        drain_slowdown=times.contention.drain,
    )


def _interval_curve(whole: WholeRun) -> Iterator[CurvePoint]:
    """Yield the goodput over intervals around the one of the run and the best one."""
    mean, run = whole.mean_time_between_failures, whole.run
    if not isfinite(mean):
        return
    centre = max(best_interval(whole.times.block, mean), run.step)
    low = max(min(centre, run.interval) / 20, whole.times.drain, run.step / 10)
    high = max(max(centre, run.interval) * 20, 2 * low)
    for interval in np.geomspace(low, high, POINTS).tolist():
        yield CurvePoint(interval, whole.goodput_at(interval))


def _size_curve(whole: WholeRun) -> Iterator[CurvePoint]:
    """Yield the goodput over numbers of nodes, each with its best interval."""
    mean, nodes = whole.mean_time_between_failures, whole.loaded.scenario.cluster.nodes
    if not isfinite(mean):
        return
    for factor in FACTORS:
        if nodes * factor >= 1:
            interval = best_interval(whole.times.block, mean / factor)
            interval = max(interval, whole.times.drain, whole.run.step)
            yield CurvePoint(nodes * factor, whole.goodput_at(interval, factor))


# --- published numbers ----------------------------------------------------------------------------


def _published(
    whole: WholeRun, accounting: Accounting, interruptions: float
) -> Iterator[PublishedCheck]:
    predicted = {
        "days": accounting.elapsed / DAY,
        "useful_days": accounting.useful / DAY,
        "goodput": accounting.useful / accounting.elapsed,
        "interruptions": interruptions,
        "checkpoint_bytes": whole.times.nbytes,
        "save_s": whole.times.durable,
    }
    for number in whole.training.published:
        yield compared(number, predicted[number.metric], whole.departures)
