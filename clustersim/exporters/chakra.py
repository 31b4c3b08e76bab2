"""A training step as Chakra traces, which ASTRA-sim and other simulators replay.

    NAME.0.et NAME.1.et ...   the operations of each rank
    comm_group.json           the ranks of each group, by its number

The step is compiled with the collectives of its blocks as operations, so that another simulator
prices them; its time then differs from that of `run` where these share links with other traffic.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from clustersim.answers import record
from clustersim.catalog.changes import Settings
from clustersim.catalog.writing import write_folder
from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.network.network import Network
from clustersim.engine.operation_replay import OperationReplay
from clustersim.escaping import file_name
from clustersim.exporters.traces import trace_of
from clustersim.importers.traces.chakra import ENDING, to_chakra
from clustersim.importers.traces.files import GROUPS
from clustersim.importers.traces.trace import COLLECTIVE, Trace
from clustersim.program.operations import Operations
from clustersim.program.program import Program
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.origins import scenario_text

CHAKRA: Final = "chakra"
"""The program of this export, as `clustersim export --as` names it."""


@record
class TraceExport:
    """A training step as traces.

    Attributes
    ----------
    as_ : format of the files
    folder : folder that was written
    files : names of its files: one for each rank, and the groups
    ranks : number of ranks
    operations : of all ranks
    groups : groups of ranks
    step_time_s : of the step as it is written out [s]
    command : command that writes a scenario of the traces
    notes : how the step was written out
    """

    as_: Annotated[str, Field(alias="as")]
    folder: str
    files: tuple[str, ...]
    ranks: int
    operations: int
    groups: int
    step_time_s: float
    command: str
    notes: tuple[str, ...]


def export_traces(
    scenario: str | Path | Mapping[str, Any] | Loaded,
    folder: str | Path,
    settings: Settings = (),
    *,
    force: bool = False,
) -> TraceExport:
    """Write the step of a scenario as Chakra traces into a folder, whole or not at all.

    Parameters
    ----------
    force : write into a folder with other files, which are kept

    Raises
    ------
    ScenarioError, CatalogError
        in one line, when the scenario is invalid, has too many operations, or the folder has files.
    """
    if isinstance(scenario, Loaded):
        loaded = scenario.changed(settings) if settings else scenario
    else:
        loaded = load(scenario_text(scenario), settings)
    trace, graph, program = trace_of(loaded)
    groups = _group_names(trace)
    name = file_name(loaded.name)
    contents = {
        f"{name}.{rank}{ENDING}": to_chakra(nodes, groups) for rank, nodes in enumerate(trace.ranks)
    }
    listed = {number: list(ranks) for ranks, number in groups.items()}
    contents[GROUPS] = (json.dumps(listed) + "\n").encode()
    write_folder(Path(folder), contents, replaced=f"{name}.*{ENDING}", force=force)
    cluster = loaded.scenario.cluster
    return TraceExport(
        as_=CHAKRA,
        folder=str(folder),
        files=tuple(contents),
        ranks=len(trace.ranks),
        operations=trace.nodes,
        groups=len(groups),
        step_time_s=_step_time(graph, program),
        command=f"clustersim import {folder} --cluster {cluster.name} --nodes {cluster.nodes}",
        notes=trace.notes,
    )


def _group_names(trace: Trace) -> dict[tuple[int, ...], str]:
    """Return a number for each group of ranks, from 1: 0 is that of all ranks in ASTRA-sim."""
    found = (node.ranks for nodes in trace.ranks for node in nodes if node.kind == COLLECTIVE)
    return {ranks: str(number) for number, ranks in enumerate(dict.fromkeys(found), 1)}


def _step_time(graph: Operations, program: Program) -> float:
    """Return the time of a step that is written out [s]."""
    clock = Clock(CONTINUOUS)
    passed = OperationReplay(graph, clock, Network(clock, program.capacities))
    passed.start()
    clock.run_all()
    return float(np.max(passed.end))
