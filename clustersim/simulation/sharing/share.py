"""Several jobs on one machine: the answer of all draws of their nodes and phases.

scenario --nodes, phases--> jobs on their nodes --replays--> slowdown of each, blame, links
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.catalog.changes import Settings
from clustersim.errors import ScenarioError
from clustersim.scenario.load import LoadedSharing, load_sharing
from clustersim.simulation.expectations import compare_with, read_expectations
from clustersim.simulation.garbage import garbage_collection_off
from clustersim.simulation.sharing.answer import PlaceChoice, ShareAnswer
from clustersim.simulation.sharing.best import best_places
from clustersim.simulation.sharing.machine import SharedMachine
from clustersim.simulation.sharing.replays import Replays


def share(
    scenario: str | Path | Mapping[str, Any] | LoadedSharing, *, settings: Settings = ()
) -> ShareAnswer:
    """Simulate several jobs on one machine: each alone, and all together.

    Parameters
    ----------
    scenario : file or name of a scenario with the key `jobs`, its keys and values, or a loaded one
    settings : changes as texts, ``["cluster.nodes=16", "steps=50"]``, or as values

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        when a value is invalid, one line for each problem.

    >>> import clustersim
    >>> job = {"traffic": {"collective": "all-reduce", "bytes": "1 GiB", "nodes": 2}}
    >>> answer = clustersim.share(
    ...     {"cluster": {"name": "dgx-h100", "nodes": 4}, "jobs": [{**job, "copies": 2}]}
    ... )
    >>> [job.slowdown for job in answer.jobs]  # on nodes of their own, and a network without limit
    [1.0, 1.0]
    """
    with garbage_collection_off():
        if isinstance(scenario, LoadedSharing):
            loaded = scenario.changed(settings) if settings else scenario
        else:
            loaded = load_sharing(scenario, settings)
        _check_draws(loaded)
        expected, given = read_expectations(loaded), loaded.scenario
        placed = [_placed(loaded, draw) for draw in range(given.replications)]
        draws = [replays for replays, _ in placed]
        answer = _answer(loaded, draws, placed[0][1])
    answer = replace(answer, expectations=compare_with(expected, answer))
    return answer.with_recording(draws[0].recording())


def _placed(loaded: LoadedSharing, draw: int) -> tuple[Replays, PlaceChoice | None]:
    """Return the replays of a draw, and the choice of its nodes, where some are to be the best."""
    machine = SharedMachine(loaded, draw)
    if machine.choosers:
        return best_places(machine, loaded.scenario)
    return Replays(machine.placed(), loaded.scenario.steps), None


def _check_draws(loaded: LoadedSharing) -> None:
    """Reject replications that are all equal."""
    count = loaded.scenario.replications
    if count > 1 and not loaded.scenario.drawn:
        raise ScenarioError(
            f"{loaded.where('replications')}: {count} equal ones, as nothing is drawn by the seed"
            " (nodes: scattered, or phase: random)"
        )


def _answer(
    loaded: LoadedSharing, draws: Sequence[Replays], choice: PlaceChoice | None
) -> ShareAnswer:
    """Return the answer of the first draw, and the slowdowns of all."""
    first, cluster = draws[0], draws[0].machine.cluster
    slowdowns = np.array([draw.slowdowns() for draw in draws])
    jobs = tuple(first.job_answer(n, slowdowns[:, n]) for n in range(len(first.jobs)))
    speeds = 1 / slowdowns
    fairness = speeds.mean(axis=1) ** 2 / (speeds**2).mean(axis=1)
    return ShareAnswer(
        name=loaded.name,
        title=loaded.scenario.title,
        cluster=cluster.name,
        nodes=cluster.nodes,
        jobs=jobs,
        links=tuple(first.shared_links()),
        fairness=float(fairness.mean()),
        steady=first.steady(),
        settled=all(draw.settled() for draw in draws),
        slowdowns=tuple(slowdowns.max(axis=1).tolist()),
        choice=choice,
        assumed=dict(first.machine.assumed),
    )
