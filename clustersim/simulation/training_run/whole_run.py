"""A whole training run: replayed steps, saves as flows, failures as renewal processes.

scenario --stages--> steps and seconds --+
         --states--> block, durable -----+--> interval --> closed form --> replications
         --rates---> causes -------------+
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, isfinite
from typing import Final

from clustersim.catalog.tree import dotted
from clustersim.errors import PlanError, ScenarioError
from clustersim.failures.causes import (
    FailureCause,
    best_interval,
    goodput_of_causes,
    mean_time_between,
)
from clustersim.failures.progress import ExpectedRun
from clustersim.failures.renewal import LongRun, Replicated, replicate_run
from clustersim.records import dataclass
from clustersim.scenario.load import DESCRIPTIVE, Loaded
from clustersim.scenario.training import AUTO, BatchStage, Training, steps_of_interval
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate
from clustersim.simulation.training_run.checkpoint_flows import (
    CheckpointTimes,
    nic_rate,
    predict_checkpoint,
    share_for_steps,
    with_steps,
)
from clustersim.simulation.training_run.failure_causes import failure_causes, restart_seconds
from clustersim.simulation.training_run.progress import (
    check_before_steps,
    check_progress,
    no_progress,
    node_replacement,
    planned_stop,
)
from clustersim.units import format_duration, format_seconds, parse

MAX_EXPECTED: Final = 10_000
"""Expected failures and planned stops of a run above which it is not replicated."""

LOW: Final = 0.5
"""Goodput below which the answer has a warning with the reason."""


@dataclass(frozen=True)
class RunStage:
    """A part of the run, with one batch.

    Attributes
    ----------
    tokens : of this part
    steps : number of its steps
    result : one of its steps
    """

    tokens: float
    steps: int
    result: Result

    @property
    def seconds(self) -> float:
        """Time of its steps without interruptions [s]."""
        return self.steps * self.result.step_time


@dataclass(frozen=True)
class WholeRun:
    """A whole training run, with everything that explains it.

    Attributes
    ----------
    loaded : the scenario
    training : its section
    stages : parts of the run
    times : of a checkpoint
    causes : of failures
    run : the run as replications have it
    expectation : the run in closed form, with planned stops and waiting for nodes
    replicated : replications; None where failures or stops are too frequent
    wall : time that the simulation took [s]
    """

    loaded: Loaded
    training: Training
    stages: tuple[RunStage, ...]
    times: CheckpointTimes
    causes: tuple[FailureCause, ...]
    run: LongRun
    expectation: ExpectedRun
    replicated: Replicated | None = None
    wall: float = 0.0

    @property
    def mean_time_between_failures(self) -> float:
        """Of the job; infinite without failures [s]."""
        return mean_time_between(self.causes)

    @property
    def restart(self) -> float:
        """Time from a failure until work resumes, without waiting for a node [s]."""
        return restart_seconds(self.training.restart, self.times.load)

    @property
    def expected(self) -> float:
        """Goodput in closed form, without planned stops and waiting for nodes [unitless]."""
        return self.goodput_at(self.run.interval)

    def goodput_at(self, interval: float, scale: float = 1.0) -> float:
        """Return the goodput in closed form at an interval, with failures times `scale`."""
        causes = [FailureCause(c.name, scale * c.rate, c.restart, lag=c.lag) for c in self.causes]
        block = self.times.block + self.slowing(interval)
        return goodput_of_causes(interval, block, causes, self.run.more)

    def slowing(self, interval: float) -> float:
        """Return the time by which a drain slows the steps of an interval down [s]."""
        return (self.times.contention.step - 1) * min(self.times.drain, interval)

    @property
    def departures(self) -> tuple[str, ...]:
        """Changed keys with which this is another run than the published one."""
        keys = DESCRIPTIVE - {"training"}
        paths = [change.path for change in self.loaded.changes if change.path[0] not in keys]
        return tuple(dict.fromkeys(map(dotted, paths)))


def predict_run(loaded: Loaded, step: Result | None = None) -> WholeRun:
    """Return the whole run of a scenario; errors as in `train`.

    Parameters
    ----------
    step : result of the scenario, where it is known
    """
    began = time.perf_counter()
    training = loaded.scenario.training
    if training is None:
        raise ScenarioError(
            f"{loaded.place()}: has no section training (training: {{tokens: 300e9}}; 'clustersim"
            " run' simulates one step)"
        )
    times = predict_checkpoint(loaded, training.checkpoint)
    check_before_steps(loaded, training, times)
    stages = tuple(_run_stages(loaded, training, step))
    times = _with_steps(loaded, times, stages)
    causes = failure_causes(loaded, training, times)
    run = _long_run(loaded, training, stages, times, causes)
    expectation = check_progress(loaded, run)
    whole = WholeRun(loaded, training, stages, times, causes, run, expectation)
    return replace(whole, replicated=_replicated(whole), wall=time.perf_counter() - began)


def _replicated(whole: WholeRun) -> Replicated | None:
    """Return the replications of a run, unless failures or stops are too frequent."""
    if whole.expectation.failures + whole.expectation.stops > MAX_EXPECTED:
        return None
    random = bool(whole.causes)
    count = whole.training.replications if random else 1
    replicated = replicate_run(whole.run, count, whole.training.seed)
    if replicated is None:
        raise PlanError(no_progress(whole.loaded, whole.run))
    return replicated


# --- parts ----------------------------------------------------------------------------------------


def _run_stages(loaded: Loaded, training: Training, step: Result | None) -> list[RunStage]:
    """Return the parts of a run, each with its replayed step; `step` is that without changes.

    Raises
    ------
    PlanError
        when the parts of the schedule have more tokens than the run.
    """
    parts = training.batch_schedule or [BatchStage()]
    replayed: dict[tuple[tuple[str, object], ...], Result] = {} if step is None else {(): step}
    stages, remaining = [], None
    for number, part in enumerate(parts):
        changes, last = _changes(part), number == len(parts) - 1
        key = tuple(sorted(changes.items(), key=str))
        if key not in replayed:
            replayed[key] = simulate(loaded, changes) if changes else simulate(loaded)
        result = replayed[key]
        batch = result.scenario.batch
        if remaining is None:
            remaining = tokens_of_run(training, batch.tokens, batch.sequence)
        tokens = remaining if last and part.tokens is None else (part.tokens or remaining)
        if tokens > remaining * (1 + 1e-9) or (tokens <= 0 and not last):
            raise PlanError(
                f"{loaded.where('training', 'batch_schedule')}: part {number} needs {tokens:,.0f}"
                f" tokens, and {remaining:,.0f} of the run remain"
            )
        remaining -= tokens
        if tokens > 0:
            steps = max(1, ceil(tokens / batch.tokens - 1e-9))
            stages.append(RunStage(tokens, steps, result))
    if remaining is not None and remaining > 0.5:
        raise PlanError(
            f"{loaded.where('training', 'batch_schedule')}: {remaining:,.0f} tokens of the run are"
            " in no part (leave out the tokens of the last part)"
        )
    return stages


def _changes(part: BatchStage) -> dict[str, object]:
    """Return the settings of a part, by key."""
    changes: dict[str, object] = {}
    if part.global_ is not None:
        changes["batch.global"] = part.global_
    if part.sequence is not None:
        changes["batch.sequence"] = part.sequence
    return changes | dict(part.set)


def tokens_of_run(training: Training, of_step: float, of_sequence: int) -> float:
    """Return the tokens of the run; steps and samples are those of its first part."""
    if training.tokens is not None:
        return training.tokens
    if training.steps is not None:
        return float(training.steps * of_step)
    if training.samples is not None:
        return training.samples * of_sequence
    assert training.epochs is not None, "a run has a length"
    assert training.dataset is not None, "epochs are of a dataset"
    return training.epochs * training.dataset


# --- checkpoints ----------------------------------------------------------------------------------


def _with_steps(
    loaded: Loaded, times: CheckpointTimes, stages: Sequence[RunStage]
) -> CheckpointTimes:
    """Return the times of a checkpoint, with the steps of the last part while it is drained."""
    if not times.node_rate or not times.drain:
        return times
    result, cluster = stages[-1].result, loaded.scenario.cluster
    nics = nic_rate(loaded.scenario)
    bandwidth = share_for_steps(times.node_rate, nics) * float(cluster.nic.bandwidth)
    changed = result.loaded.changed({"cluster.nic.bandwidth": f"{bandwidth} B/s"})
    slower = simulate(changed).step_time / result.step_time
    busy = max((link.utilisation for link in result.links if ".nic" in link.name), default=0.0)
    return with_steps(times, nics, busy, max(1.0, slower))


# --- the run --------------------------------------------------------------------------------------


def _long_run(
    loaded: Loaded,
    training: Training,
    stages: Sequence[RunStage],
    times: CheckpointTimes,
    causes: tuple[FailureCause, ...],
) -> LongRun:
    """Return the run as replications have it."""
    work, steps = sum(stage.seconds for stage in stages), sum(stage.steps for stage in stages)
    step = work / steps
    interval = _interval(loaded, training, times, causes, step, work)
    evaluation, drained = training.evaluation, min(times.drain, interval)
    return LongRun(
        work=work,
        interval=interval,
        block=times.block + (times.contention.step - 1) * drained,
        causes=causes,
        more=0.0 if evaluation is None else evaluation.length / (evaluation.every * step),
        start=training.warmup,
        step=step,
        lag=times.drain,
        stop=planned_stop(training),
        replacement=node_replacement(loaded, training),
    )


def _interval(
    loaded: Loaded,
    training: Training,
    times: CheckpointTimes,
    causes: Sequence[FailureCause],
    step: float,
    work: float,
) -> float:
    """Return the interval of useful work between two saves, in whole steps [s]."""
    every = training.checkpoint.every
    if every == AUTO:
        best = best_interval(times.block, mean_time_between(causes))
        nearest = min(max(best, times.drain, step), work)
        return min(work, max(1, round(nearest / step)) * step)
    number = steps_of_interval(every)
    interval = number * step if number is not None else parse(every, "seconds")
    if interval < times.drain:
        raise PlanError(
            f"{loaded.where('training', 'checkpoint', 'every')}: {every} is shorter than the"
            f" {format_seconds(times.drain)} until a save is durable, so that saves would pile up"
            " (give a longer interval, or auto)"
        )
    return min(work, max(1, ceil(interval / step - 1e-9)) * step)


# --- reasons --------------------------------------------------------------------------------------


def warnings_of(whole: WholeRun) -> list[str]:
    """Return why the goodput of a run is low, or tends to zero."""
    mean, restart, times = whole.mean_time_between_failures, whole.restart, whole.times
    warnings = []
    if restart >= mean:
        warnings.append(
            f"a restart takes {format_duration(restart)}, the mean time between failures is"
            f" {format_duration(mean)}: goodput is below exp(-{restart / mean:.3g}) ="
            f" {exp(-restart / mean):.2g} and tends to zero with more nodes"
        )
    if whole.run.interval < times.block:
        warnings.append(
            f"the interval of {format_duration(whole.run.interval)} is shorter than the save, which"
            f" blocks the work for {format_duration(times.block)}: more than half of the time is"
            " spent on saves"
        )
    if whole.run.interval > 2 * mean:
        warnings.append(
            f"the interval of {format_duration(whole.run.interval)} is longer than twice the mean"
            f" time between failures, {format_duration(mean)}: most work is lost"
        )
    if not warnings and whole.expected < LOW:
        often = f"failures every {format_duration(mean)}" if isfinite(mean) else "planned stops"
        warnings.append(f"{often} leave little time for work")
    return warnings
