"""The replay of a trace that has a machine to itself.

trace --on devices--> graph of operations --one clock, one network--> begin and end of each
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.catalog.changes import Settings
from clustersim.cost.closed_form import bus_factor
from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.network.network import Network
from clustersim.engine.operation_replay import OperationReplay
from clustersim.errors import ScenarioError, SimulationError
from clustersim.importers.traces.formats import read_trace
from clustersim.importers.traces.trace import Trace
from clustersim.program.collectives.communicator import Prescribed
from clustersim.program.fold import ReplicaTraffic
from clustersim.program.operations import Operations
from clustersim.program.traced import TracedProgram, assumed_format
from clustersim.scenario.load import LoadedTrace, load_traced
from clustersim.scenario.traced import TraceFile
from clustersim.simulation.expectations import compare_with, read_expectations
from clustersim.simulation.garbage import garbage_collection_off
from clustersim.simulation.trace.answer import (
    NotPlacedAnswer,
    RankTime,
    TraceAnswer,
    TracedCommunication,
)
from clustersim.topology.cluster import build_cluster
from clustersim.units import counted

MOST_SLOW: Final = 4
"""Slowest ranks that are named."""


def replay(
    scenario: str | Path | Mapping[str, Any] | LoadedTrace, *, settings: Settings = ()
) -> TraceAnswer:
    """Replay the execution trace of a job on a machine.

    Parameters
    ----------
    scenario : file of a scenario with the key `trace`, its keys and values, or a loaded one
    settings : changes as texts, ``["cluster.nodes=16"]``, or as values

    Raises
    ------
    ScenarioError, CatalogError
        when the scenario or the trace is invalid, one line for each problem.
    """
    with garbage_collection_off():
        if isinstance(scenario, LoadedTrace):
            loaded = scenario.changed(settings) if settings else scenario
        else:
            loaded = load_traced(scenario, settings)
        expected, program = read_expectations(loaded), traced_program(loaded)
        answer = _answer(loaded, program, replayed(program))
        return replace(answer, expectations=compare_with(expected, answer))


def traced_program(loaded: LoadedTrace) -> TracedProgram:
    """Return the trace of a scenario on the first devices of its machine.

    Raises
    ------
    ScenarioError, CatalogError
        when the trace is invalid, or the machine has too few devices.
    """
    scenario, cluster = loaded.scenario, loaded.scenario.cluster
    machine = build_cluster(cluster, cluster.nodes, issuer="training")
    trace = trace_of(scenario.trace, loaded.origin.folder, loaded.where("trace", "files"))
    needed = nodes_of(trace, machine.node.devices)
    if needed > cluster.nodes:
        raise ScenarioError(
            f"{loaded.where('cluster', 'nodes')}: {counted(cluster.nodes, 'node')} of"
            f" '{machine.name}' have {cluster.nodes * machine.node.devices:,} devices, and the"
            f" trace has {counted(len(trace.ranks), 'rank')} (nodes: {needed})"
        )
    fixed = {
        operation: Prescribed(algorithm, loaded.where("collectives", operation))
        for operation, algorithm in scenario.collectives.items()
    }
    return TracedProgram(trace, machine, range(len(trace.ranks)), scenario.trace.compute, fixed)


def trace_of(file: TraceFile, folder: Path | None, where: str) -> Trace:
    """Return the trace that a scenario names; errors begin with its key."""
    place = file.place(folder)
    if not place.exists():
        raise ScenarioError(f"{where}: {place}: no such file or folder")
    return read_trace(place, file.format)


def nodes_of(trace: Trace, devices: int) -> int:
    """Return the nodes that the ranks of a trace need, with some devices each."""
    return -(-len(trace.ranks) // devices)


def replayed(program: TracedProgram) -> OperationReplay:
    """Return one pass through a trace that has its machine to itself."""
    links = program.cluster.links
    (folded,) = ReplicaTraffic([program.traffic], links.capacities, links.names).folded()
    clock = Clock(CONTINUOUS)
    network = Network(clock, folded.links.capacities)
    passed = OperationReplay(program.operations(folded), clock, network)
    passed.start()
    clock.run_all()
    network.check()
    if not passed.finished:
        raise SimulationError(f"operations did not finish: {passed.missing()}")
    return passed


# --- the answer -----------------------------------------------------------------------------------


def _answer(loaded: LoadedTrace, program: TracedProgram, passed: OperationReplay) -> TraceAnswer:
    scenario, cluster = loaded.scenario, program.cluster
    step = float(np.max(passed.end, initial=0.0))
    ranks = _rank_times(program, passed, step)
    slowest = sorted(ranks, key=lambda rank: (-rank.compute_s, rank.rank))[:MOST_SLOW]
    return TraceAnswer(
        name=loaded.name,
        title=scenario.title,
        cluster=cluster.name,
        nodes=cluster.nodes,
        format=program.trace.format,
        operations=program.trace.nodes,
        step_time_s=step,
        compute_s=_mean(rank.compute_s for rank in ranks),
        exposed_s=_mean(rank.exposed_s for rank in ranks),
        waiting_s=_mean(rank.waiting_s for rank in ranks),
        ranks=tuple(ranks),
        slowest=tuple(rank.rank for rank in slowest),
        communications=tuple(communications_of(program, passed)),
        not_placed=tuple(
            NotPlacedAnswer(each.type, count, each.reason)
            for each, count in program.not_placed.items()
        ),
        assumed=_assumed(program),
        notes=program.trace.notes,
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean([*values]))


def _assumed(program: TracedProgram) -> dict[str, str]:
    """Return what the trace does not state."""
    work = {}
    if program.priced:
        work["work"] = (
            f"{counted(program.priced, 'operation')} by FLOPs and bytes: those of one square"
            f" product in {assumed_format}, or of passes over memory"
        )
    return work | {"ranks": "rank r on device r, and all ranks begin at the same time"}


def _rank_times(program: TracedProgram, passed: OperationReplay, step: float) -> list[RankTime]:
    graph, times = passed.graph, []
    computing: list[list[int]] = [[] for _ in range(program.ranks)]
    moving: list[list[int]] = [[] for _ in range(program.ranks)]
    for number, ranks in enumerate(graph.ranks):
        lists = moving if graph.traffic[number] is not None else computing
        if lists is moving or graph.units[number] is not None:
            for rank in ranks:
                lists[rank].append(number)
    for rank in range(program.ranks):
        compute, moved, both = (
            covered(passed.begin[numbers], passed.end[numbers])
            for numbers in (computing[rank], moving[rank], [*computing[rank], *moving[rank]])
        )
        times.append(RankTime(rank, compute, moved, both - compute, step - both))
    return times


def covered(begin: Floats, end: Floats) -> float:
    """Return the time that is covered by at least one of some intervals.

    >>> covered(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0]))
    4.0
    """
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    before = np.maximum.accumulate(end) if len(end) else end
    since = np.maximum(begin[1:], before[:-1])
    return float((end[:1] - begin[:1]).sum() + np.maximum(0.0, end[1:] - since).sum())


def communications_of(
    program: TracedProgram, passed: OperationReplay
) -> Sequence[TracedCommunication]:
    """Return the communications by operation and size of the group, the longest first."""
    graph: Operations = passed.graph
    kinds: dict[tuple[str, int], list[float]] = {}
    for each in program.communications:
        if graph.traffic[each.number] is None:
            continue
        seconds = float(passed.end[each.number] - passed.begin[each.number])
        totals = kinds.setdefault((each.operation, len(each.ranks)), [0.0, 0.0, 0.0])
        for index, amount in enumerate((1.0, each.nbytes, seconds)):
            totals[index] += each.groups * amount
    found = [
        TracedCommunication(*kind, int(calls), nbytes, seconds, _bandwidth(*kind, nbytes, seconds))
        for kind, (calls, nbytes, seconds) in kinds.items()
    ]
    return sorted(found, key=lambda each: -each.seconds)


def _bandwidth(operation: str, ranks: int, nbytes: float, seconds: float) -> float | None:
    if not seconds or operation == "barrier":
        return None
    return nbytes * (1.0 if operation == "send" else bus_factor(operation, ranks)) / seconds
