"""Whether a run progresses: by its failures, stops and saves, before and after steps are replayed.

Steps of a large job are replayed for minutes, and most runs without progress need none of them:
their restarts are longer than the time between failures, whatever a step takes.
"""

from dataclasses import replace
from math import inf
from typing import Final

from clustersim.errors import PlanError
from clustersim.failures.causes import best_interval, mean_time_between
from clustersim.failures.progress import ExpectedRun, expected_run, node_wait
from clustersim.failures.renewal import LongRun, NodeReplacement, PlannedStop
from clustersim.scenario.load import Loaded
from clustersim.scenario.training import Training
from clustersim.simulation.training_run.checkpoint_flows import CheckpointTimes
from clustersim.simulation.training_run.failure_causes import failure_causes
from clustersim.units import format_duration

LEAST_GOODPUT: Final = 1e-6
"""Expected goodput below which a run does not progress."""

MAX_SECONDS: Final = 1e12
"""Longest elapsed time of a run, about 32,000 years [s]."""

SHORTEST_STEP: Final = 1e-6
"""Below the time of any step [s]."""


def check_before_steps(loaded: Loaded, training: Training, times: CheckpointTimes) -> None:
    """Check that a run can progress, whatever its steps take.

    No run has a higher goodput than one with the best interval between saves, next to no loss for
    causes that lose only a step, and steps that a save does not slow down.

    Raises
    ------
    PlanError
        when it cannot progress.
    """
    causes = failure_causes(loaded, training, times)
    interval = best_interval(times.block, mean_time_between(causes))
    fastest = LongRun(
        work=SHORTEST_STEP,
        interval=max(SHORTEST_STEP, min(MAX_SECONDS, interval)),
        block=times.block,
        causes=causes,
        step=SHORTEST_STEP,
        lag=times.drain,
        stop=planned_stop(training),
        replacement=node_replacement(loaded, training),
    )
    if expected_run(fastest).goodput < LEAST_GOODPUT:
        raise PlanError(no_progress(loaded, replace(fastest, interval=0.0)))


def check_progress(loaded: Loaded, run: LongRun) -> ExpectedRun:
    """Return the expected run.

    Raises
    ------
    PlanError
        when it is too long, or does not progress.
    """
    if run.work + run.start > MAX_SECONDS:
        raise PlanError(
            f"{loaded.where('training')}: the run takes {format_duration(run.work + run.start)}"
            f" without interruptions, more than {MAX_SECONDS:g} s"
            " (shorten it: tokens, steps, samples or epochs; warmup)"
        )
    expectation = expected_run(run)
    goodput = expectation.goodput
    if goodput < LEAST_GOODPUT or run.work / goodput > MAX_SECONDS:
        raise PlanError(no_progress(loaded, run))
    return expectation


def no_progress(loaded: Loaded, run: LongRun) -> str:
    """Return why a run does not progress: what happens between two of its failures."""
    stop = run.stop
    spans = {
        "wait for a node": max((node_wait(run, cause) for cause in run.causes), default=0.0),
        "restart": max((cause.restart for cause in run.causes), default=0.0),
        "work until a save": run.interval * (1 + run.more),
        "save": run.block + run.lag,
    }
    needed = ", ".join(f"{format_duration(s)} to {name}" for name, s in spans.items() if s)
    often = []
    if run.causes:
        often.append(f"a failure every {format_duration(mean_time_between(run.causes))}")
    if stop is not None:
        length = format_duration(stop.length)
        often.append(f"a planned stop of {length} every {format_duration(stop.every)}")
    where, reasons = loaded.where("training"), " and ".join(often) or "no failures"
    return (
        f"{where}: the run does not progress: {reasons}, and it needs {needed} (use fewer nodes,"
        " spares, or a shorter restart, interval or save)"
    )


def planned_stop(training: Training) -> PlannedStop | None:
    """Return the planned stops of a run, if it has any."""
    stop = training.planned
    return None if stop is None else PlannedStop(stop.every, stop.length)


def node_replacement(loaded: Loaded, training: Training) -> NodeReplacement:
    """Return how a failed node of a run is replaced."""
    spares, replicas = training.spares, loaded.scenario.plan.data
    if spares is None:
        return NodeReplacement()
    return NodeReplacement(
        spares=spares.hot,
        repair=spares.repair,
        provision=inf if spares.provision is None else spares.provision,
        idle=1 / replicas if spares.without == "shrink" and replicas > 1 else 1.0,
    )
