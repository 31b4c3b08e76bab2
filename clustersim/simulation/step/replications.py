"""Replications of a disturbed step: how its time varies, and what each disturbance costs.

    steps 0, 1, 2, ... with all disturbances         mean, deviation, quantiles
    the same steps without one of them, and without all      time recovered

The random numbers of one disturbance do not depend on the others, so that a step without it differs
by it alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np

from clustersim.catalog.changes import Settings
from clustersim.disturbance import Draw
from clustersim.errors import ScenarioError
from clustersim.program.job import Job
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.answer import Blame, Replications, StepQuantiles
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.disturbed import causes_of, faults_of
from clustersim.simulation.step.simulate import loaded_from, step_time_of
from clustersim.topology.faults import Fault

Removed = frozenset[str]
"""Names of the disturbances that are removed."""

NONE_REMOVED: Removed = frozenset()

Times = dict[tuple[int, Removed], float]
"""Step times by replication and removed disturbances [s]."""

TOGETHER: Final = 4
"""Replications that are one task."""


def replicate(
    scenario: str | Path | Mapping[str, Any] | Loaded,
    count: int,
    settings: Settings = (),
    *,
    executor: Executor | None = None,
) -> Replications:
    """Return the step time of a disturbed scenario over replications, and what each cause costs.

    Parameters
    ----------
    scenario, settings : as in `simulate`
    count : replications, at least 1
    executor : computes the replications, some at a time; in this process if it is missing

    Raises
    ------
    ScenarioError
        where the scenario has no disturbances; and what `simulate` raises.

    Examples
    --------
    >>> slow = {"type": "slow-device", "devices": [3], "factor": 1.2}
    >>> settings = {"batch.global": 32, "disturbances": [slow]}
    >>> replications = replicate("frontier-22b", 1, settings)
    >>> replications.blame[0].name, replications.blame[0].share
    ('slow-device', 1.0)
    """
    loaded = loaded_from(scenario, settings)
    names = [disturbance.title for disturbance in loaded.scenario.disturbances]
    if not names:
        raise ScenarioError(
            f"{loaded.place()}: disturbances: missing, so that all replications are equal (state"
            " some, or leave out the replications)"
        )
    sets = list(dict.fromkeys([NONE_REMOVED, *(frozenset([n]) for n in names), frozenset(names)]))
    tasks = [
        partial(_step_times, loaded, range(first, min(first + TOGETHER, count)), sets)
        for first in range(0, count, TOGETHER)
    ]
    results: list[Future[Times] | Times] = [
        task() if executor is None else executor.submit(task) for task in tasks
    ]
    times: Times = {}
    for result in results:
        times |= result.result() if isinstance(result, Future) else result
    steps = {
        removed: [times.get((number, removed), times[0, removed]) for number in range(count)]
        for removed in sets
    }
    return _answer(names, steps)


def _step_times(loaded: Loaded, numbers: Iterable[int], sets: Iterable[Removed]) -> Times:
    """Return the time of steps, each for several sets of removed disturbances [s].

    Steps without random numbers are equal: only the first one is computed. Steps on the same
    machine share the routes of its messages.
    """
    times: Times = {}
    jobs: dict[tuple[Fault, ...], Job] = {}
    for number, removed in product(numbers, sets):
        draw = Draw(number, removed)
        faults = tuple(faults_of(loaded, draw))
        if faults not in jobs:
            jobs[faults] = build_job(loaded, draw)
        causes = causes_of(loaded, jobs[faults].placement, draw)
        if number == 0 or any(cause.random for cause in causes):
            job = replace(jobs[faults], causes=causes, replication=number)
            times[number, removed] = step_time_of(job, loaded.scenario)
    return times


def _answer(names: Sequence[str], steps: Mapping[Removed, Sequence[float]]) -> Replications:
    every = np.array(steps[NONE_REMOVED])
    mean, undisturbed = float(every.mean()), float(np.mean(steps[frozenset(names)]))
    deviation = float(every.std(ddof=1)) if len(every) > 1 else None
    blame = []
    for name in names:
        without = float(np.mean(steps[frozenset([name])]))
        share = (mean - without) / (mean - undisturbed) if mean != undisturbed else None
        blame.append(Blame(name, without, mean - without, share))
    return Replications(
        count=len(every),
        mean_s=mean,
        deviation_s=deviation,
        error_s=None if deviation is None else deviation / sqrt(len(every)),
        quantiles=StepQuantiles(*np.quantile(every, [0.1, 0.5, 0.9, 0.99]).tolist()),
        steps_s=tuple(every.tolist()),
        undisturbed_s=undisturbed,
        recovered_s=mean - undisturbed,
        blame=tuple(sorted(blame, key=lambda cause: -cause.recovered_s)),
    )
