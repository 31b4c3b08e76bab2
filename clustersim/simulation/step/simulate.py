"""A scenario in, a result out: the whole pipeline on one page.

load -> check -> build -> estimate memory -> compile -> replay -> measure -> advise
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.arrays import ranked
from clustersim.catalog.changes import Settings
from clustersim.engine.replay import Replayed, replay, replay_sharing, result
from clustersim.memory.peak import estimate_memory
from clustersim.memory.verdict import Verdict
from clustersim.metrics.attribution import average, recomputed
from clustersim.metrics.bounds import check_step
from clustersim.metrics.communication import hottest, links_of_groups
from clustersim.program.compile import Compilation, compile_program
from clustersim.program.job import Job
from clustersim.program.links.together import UnevenLinksError
from clustersim.program.program import Program
from clustersim.program.schedules.check import check_program
from clustersim.scenario.load import Loaded, from_mapping, load
from clustersim.scenario.origins import INLINE
from clustersim.scenario.schema import Scenario
from clustersim.simulation.expectations import read_expectations
from clustersim.simulation.garbage import garbage_collection_off
from clustersim.simulation.step.advice import Tools, advice
from clustersim.simulation.step.anchored import step_interval
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.disturbed import disturbance_answers
from clustersim.simulation.step.result import Result
from clustersim.workload.finetune import tuned_flops
from clustersim.workload.flops import hardware_flops, masked_flops, model_flops, rescanned_flops


def simulate(
    scenario: str | Path | Mapping[str, Any] | Loaded,
    settings: Settings = (),
    *,
    advise: bool = False,
) -> Result:
    """Simulate one training step of a scenario.

    Parameters
    ----------
    scenario : path of a scenario file, name of a shipped scenario, the keys and values of a
        scenario as a dict, or a loaded scenario
    settings : changes as texts, ``["plan.zero=1", "cluster.nic.bandwidth=x2"]``, or as values,
        ``{"plan.zero": 1}``
    advise : whether to look for changes with which a job fits that does not;
        ``result.memory.advice`` has them, the fastest first

    Returns
    -------
    Result
        Times in seconds, amounts of memory in bytes, rates per second.  ``result.answer`` has the
        keys of ``run --json``.

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        for invalid input, one line for each problem.
    ProgramError, SimulationError
        when clustersim itself is at fault.

    Examples
    --------
    >>> result = simulate("frontier-22b", {"batch.global": 32})
    >>> result.memory.fits
    True
    >>> round(sum(result.attribution.values()) / result.step_time, 6)
    1.0
    """
    began = time.perf_counter()
    with garbage_collection_off():
        loaded = loaded_from(scenario, settings)
        job = build_job(loaded)
        result = _replayed(loaded, job, estimate_memory(job), began)
        return _advised(result, loaded) if advise and not result.memory.fits else result


def simulate_if_it_fits(loaded: Loaded) -> Result | Verdict:
    """Return the result of a scenario that fits in memory, only the memory of another one.

    The memory takes some 2 ms, a replay 20 ms or more.

    Raises
    ------
    PlanError, ProgramError, SimulationError
        as `simulate` does.
    """
    began = time.perf_counter()
    with garbage_collection_off():
        job = build_job(loaded)
        memory = estimate_memory(job)
        return _replayed(loaded, job, memory, began) if memory.fits else memory


def loaded_from(
    scenario: str | Path | Mapping[str, Any] | Loaded, settings: Settings = ()
) -> Loaded:
    """Return the loaded scenario of an argument of `simulate`."""
    if isinstance(scenario, Mapping):
        return from_mapping(INLINE, scenario, settings)
    if not isinstance(scenario, Loaded):
        return load(scenario, settings)
    return scenario.changed(settings) if settings else scenario


def step_time_of(job: Job, scenario: Scenario) -> float:
    """Return the time of a step of the job of a scenario, without its components [s]."""
    with garbage_collection_off():
        _, replayed = _compiled_and_replayed(job, scenario)
        return replayed.timeline.duration


def _compiled_and_replayed(job: Job, scenario: Scenario) -> tuple[Program, Replayed]:
    return replay_step(
        job, fold_replicas=scenario.fold, fusion_bound=scenario.fusion_bound, exact=scenario.exact
    )


def _replayed(loaded: Loaded, job: Job, memory: Verdict, began: float) -> Result:
    """Compile, replay and measure a job; `began` is the time at which the work on it did."""
    expected = read_expectations(loaded)
    program, replayed = _compiled_and_replayed(job, loaded.scenario)
    result = _measured(loaded, job, memory, program, replayed)
    check_step(program, result.timeline, result.links, result.attribution)
    return replace(result, expected=expected, wall=time.perf_counter() - began)


def _measured(
    loaded: Loaded, job: Job, memory: Verdict, program: Program, replayed: Replayed
) -> Result:
    timeline, scenario = replayed.timeline, loaded.scenario
    duration, sequences = timeline.duration, scenario.batch.global_
    adapters = tuned_flops(job.model, job.finetune, sequences, job.frozen_ends)
    hardware = hardware_flops(job.model, sequences, job.layers.recomputed) + adapters
    fused = job.shard.attention == "flash"
    masked = masked_flops(job.model, sequences, job.layers.recomputed) if fused else 0.0
    attribution = average(timeline, program.actors)
    return Result(
        name=loaded.name,
        loaded=loaded,
        program=program,
        timeline=timeline,
        memory=memory,
        step_time=duration,
        interval=step_interval(duration, scenario, attribution),
        model_flops=model_flops(job.model, sequences) + adapters,
        hardware_flops=hardware,
        executed_flops=hardware + rescanned_flops(job.model, sequences) - masked,
        masked_flops=masked,
        attribution=attribution,
        recomputed=recomputed(program),
        links=tuple(hottest(program.carried, duration)),
        groups=tuple(links_of_groups(job.cluster, job.placement, embedding=job.reduces_embedding)),
        routing=job.routing if job.model.experts else None,
        activities=replayed.activities,
        wall=0.0,
        peak=job.peak,
        departures=loaded.departures,
        disturbances=disturbance_answers(loaded, job.placement),
    )


def _advised(result: Result, loaded: Loaded) -> Result:
    """Return a result with the changes after which its job fits."""
    tools = Tools(memory=_memory_of, step_time=_folded_step_time)
    remedies = advice(loaded, result, tools)
    return replace(result, memory=replace(result.memory, advice=remedies))


def _folded_step_time(loaded: Loaded) -> float:
    """Return the step time of a scenario, replayed with its replicas folded [s]."""
    return simulate(loaded, {"fold": True}).step_time


def _memory_of(loaded: Loaded) -> Verdict:
    """Return the memory of a scenario; raise what a replay of it would raise for its values."""
    job, scenario = build_job(loaded), loaded.scenario
    if scenario.collectives:  # prescribed algorithms are checked when groups form
        compile_program(job, fold_replicas=scenario.fold, fusion_bound=scenario.fusion_bound)
    return estimate_memory(job)


ATTEMPTS = 8
"""Times that replicas are folded by overloaded links before they are by all links."""


def replay_step(
    job: Job, *, fold_replicas: bool, fusion_bound: float, exact: bool = False
) -> tuple[Program, Replayed]:
    """Return the program of a job, and the record of its replay, with the fewest exact classes.

    Replicas are folded as if no link were ever overloaded, and the step is replayed. If links were
    overloaded, transfers share these links, replicas are folded by them as well, and the step is
    replayed again. Most steps end with the first: of 2,048 replicas on a fat tree, 514 share links
    in different ways.

    Where cells have all devices of their nodes, loads are by bundles of links that carry the same.

    Parameters
    ----------
    fold_replicas, fusion_bound : as in `compile_program`
    exact : as in `replay`

    Raises
    ------
    ProgramError, SimulationError
        as `replay` does.
    """
    bundled = job.cluster.by_bundles() if job.fills_nodes else None
    if bundled is not None:
        with suppress(UnevenLinksError):
            compilation = Compilation(replace(job, cluster=bundled), fusion_bound=fusion_bound)
            return _replay_compiled(compilation, fold_replicas=fold_replicas, exact=exact)
    compilation = Compilation(job, fusion_bound=fusion_bound)
    return _replay_compiled(compilation, fold_replicas=fold_replicas, exact=exact)


def _replay_compiled(
    compilation: Compilation, *, fold_replicas: bool, exact: bool
) -> tuple[Program, Replayed]:
    if fold_replicas:
        replayed = _folded_by_overloaded_links(compilation, exact=exact)
        if replayed is not None:
            return replayed
    replicas = compilation.replicas
    (folded,) = replicas.folded() if fold_replicas else replicas.unfolded()
    program = compilation.program(folded)
    check_program(program)
    return program, replay(program, exact=exact)


def _folded_by_overloaded_links(
    compilation: Compilation, *, exact: bool
) -> tuple[Program, Replayed] | None:
    """Return the program and its replay; None where further links are overloaded each time."""
    replicas, shared = compilation.replicas, np.zeros(0, dtype=np.int64)
    (folded,) = replicas.folded(shared)
    for attempt_number in range(ATTEMPTS):
        program = compilation.program(folded)
        if not attempt_number:  # all have the same steps
            check_program(program)
        links = folded.links
        attempt = replay_sharing(program, links.colours_of(shared), exact=exact)
        crowded = folded.crowded()
        apart = replicas.differ([folded], crowded)
        contended = links.of_colours(attempt.contended)
        if not (attempt.overloaded or apart or replicas.differ([folded], contended)):
            return program, result(attempt.method)
        more = links.of_colours(attempt.overloaded | attempt.contended)
        shared, _ = ranked(np.concatenate([shared, more, *([crowded] if apart else [])]))
        (folded,) = replicas.folded(shared)
    return None
