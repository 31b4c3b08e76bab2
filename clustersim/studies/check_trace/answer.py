"""A recorded trace next to the prediction of its scenario, part by part.

    trace    --recorded begins and ends--> products, attention, ..., exposed communication, idle
    scenario --run--> components           --written out and replayed--> each collective

Both are means over the ranks, for one step.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from clustersim.answers import Presentable, record
from clustersim.catalog.changes import Settings
from clustersim.errors import ScenarioError
from clustersim.exporters.traces import trace_of
from clustersim.importers.traces.formats import trace_format
from clustersim.importers.traces.kineto import read_kineto
from clustersim.importers.traces.trace import COMPUTE, Meeting, Node, Trace
from clustersim.program.traced import TracedProgram
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.origins import scenario_text
from clustersim.simulation.step.build import cluster_of
from clustersim.simulation.step.simulate import simulate
from clustersim.simulation.trace.answer import TracedCommunication
from clustersim.simulation.trace.replay import communications_of, covered, replayed

EXPOSED: Final = "exposed communication"
IDLE: Final = "idle"

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "matrix products": ("matmul",),
    "attention": ("attention",),
    "elementwise": ("memory_bound", "optimiser", "overlap_slowdown"),
    EXPOSED: (
        "tensor_communication", "context_communication", "expert_communication",
        "sharding_communication", "pipeline_communication", "data_communication",
        "embedding_communication", "synchronisation",
    ),
    IDLE: (
        "dispatch", "host_transfer", "imbalance", "disturbance", "waiting_for_slowest",
        "bubble_fill", "bubble_steady", "bubble_drain",
    ),
}  # fmt: skip
"""Parts of a trace, each with the components of a prediction that belong to it."""

_OF_KERNELS: Final = {"gemm": "matrix products", "attention": "attention"}
"""Parts by what kernels are; others are elementwise."""

MOST_STEPS: Final = 50_000
"""Steps of all ranks up to which a scenario is written out, for its collectives."""


@record
class PartCheck:
    """A part of the step, measured and predicted.

    Attributes
    ----------
    part : its name
    measured_s : of the trace, mean of its ranks and steps [s]
    predicted_s : of the scenario, mean of its ranks [s]
    """

    part: str
    measured_s: float
    predicted_s: float


@record
class CommunicationCheck:
    """Communications of an operation in groups of a size, measured and predicted.

    Attributes
    ----------
    operation : of the library, or `send`
    ranks : of a group
    measured_calls : calls of a rank in a step
    measured_bytes : buffer of a call, in the mean [B]
    measured_s : time of a call, without the wait for the last rank where the trace has all [s]
    waited_s : mean time by which a rank waits for the last one, of a call [s]
    predicted_calls, predicted_bytes, predicted_s : the same of the scenario; null where it has none
    """

    operation: str
    ranks: int
    measured_calls: float
    measured_bytes: float
    measured_s: float
    waited_s: float
    predicted_calls: float | None
    predicted_bytes: float | None
    predicted_s: float | None


@record
class TraceCheckAnswer(Presentable):
    """A trace next to the prediction of its scenario.

    Attributes
    ----------
    name : of the scenario
    title : of the scenario
    file : of the trace
    ranks : of the trace
    steps : that the trace covers
    measured_s : time of a step, mean of the ranks [s]
    predicted_s : of the scenario [s]
    parts : parts of the step
    communications : by operation and size of the group, the longest first
    missing : communications of the scenario that the trace does not have, in words
    notes : how the trace was read, and what is not compared
    """

    name: str
    title: str
    file: str
    ranks: int
    steps: int
    measured_s: float
    predicted_s: float
    parts: tuple[PartCheck, ...]
    communications: tuple[CommunicationCheck, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def check_trace(
    trace: str | Path, *, scenario: str | Path | Mapping[str, Any], settings: Settings = ()
) -> TraceCheckAnswer:
    """Compare a trace of PyTorch's profiler with the prediction of its scenario, part by part.

    Parameters
    ----------
    trace : file of a rank, or folder of several
    scenario : file or name of a shipped scenario, a launch file, or its keys and values
    settings : changes of the scenario

    Raises
    ------
    ScenarioError, CatalogError
        when the trace or the scenario is invalid.
    """
    place = Path(trace)
    if trace_format(place) == "chakra":
        raise ScenarioError(
            f"{place}: Chakra records no times to compare (PyTorch's profiler does)"
        )
    read, loaded = read_kineto(place, whole=False), load(scenario_text(scenario), settings)
    result = simulate(loaded)
    predicted = result.answer.attribution
    measured = _measured_parts(read)
    communications, notes = _predicted_communications(loaded)
    found = _communications(read, communications, loaded.scenario.devices)
    known = {(each.operation, each.ranks) for each in found}
    return TraceCheckAnswer(
        name=loaded.name,
        title=loaded.scenario.title,
        file=read.file,
        ranks=len(read.ranks),
        steps=read.steps,
        measured_s=sum(measured.values()),
        predicted_s=result.step_time,
        parts=tuple(
            PartCheck(part, measured[part], sum(predicted[each] for each in components))
            for part, components in PARTS.items()
        ),
        communications=tuple(found),
        missing=tuple(
            f"{each.operation} of {each.ranks} ranks"
            for each in communications
            if (each.operation, each.ranks) not in known
        ),
        notes=(*read.notes, *notes),
    )


# --- measured -------------------------------------------------------------------------------------


def _measured_parts(trace: Trace) -> dict[str, float]:
    """Return the time of each part of a step, mean of the ranks [s]; they add up to the step."""
    totals = dict.fromkeys(PARTS, 0.0)
    for nodes in trace.ranks:
        for part, seconds in _parts_of_rank(nodes).items():
            totals[part] += seconds / len(trace.ranks) / trace.steps
    return totals


def _parts_of_rank(nodes: Sequence[Node]) -> dict[str, float]:
    """Return the time of each part of a rank; kernels that run at the same time share it [s]."""
    timed = [node for node in nodes if node.recorded is not None]
    begin, end = _spans(timed)
    computing = [node for node in timed if node.kind == COMPUTE]
    busy, both = covered(*_spans(computing)), covered(begin, end)
    alone = sum(map(_seconds, computing))
    parts = dict.fromkeys(PARTS, 0.0)
    for node in computing:
        parts[_OF_KERNELS.get(node.part, "elementwise")] += _seconds(node) * busy / alone
    parts[EXPOSED] = both - busy
    parts[IDLE] = float(end.max() - begin.min()) - both
    return parts


def _spans(nodes: Sequence[Node]) -> tuple[Any, Any]:
    spans = np.array([node.recorded for node in nodes], dtype=np.float64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


def _seconds(node: Node) -> float:
    assert node.recorded is not None
    return node.recorded[1] - node.recorded[0]


# --- communication --------------------------------------------------------------------------------


def _communications(
    trace: Trace, predicted: Iterable[TracedCommunication], devices: int
) -> list[CommunicationCheck]:
    """Return the communications of a trace by kind, the longest first."""
    kinds: dict[tuple[str, int], list[Meeting]] = {}
    for meeting in trace.meetings():
        node = meeting.first
        kinds.setdefault((node.operation or "send", len(node.ranks)), []).append(meeting)
    alike = {(each.operation, each.ranks): each for each in predicted}
    rows = [
        _check(kind, meetings, alike.get(kind), len(trace.ranks) * trace.steps, devices)
        for kind, meetings in kinds.items()
    ]
    return sorted(rows, key=lambda row: -row.measured_calls * (row.measured_s + row.waited_s))


def _check(
    kind: tuple[str, int],
    meetings: Sequence[Meeting],
    predicted: TracedCommunication | None,
    rank_steps: int,
    devices: int,
) -> CommunicationCheck:
    times = [[_seconds(node) for _, node in meeting.members] for meeting in meetings]
    quickest = [min(each) for each in times]
    waited = [sum(each) / len(each) - least for each, least in zip(times, quickest, strict=True)]
    calls = None if predicted is None else predicted.calls * kind[1] / devices
    return CommunicationCheck(
        operation=kind[0],
        ranks=kind[1],
        measured_calls=sum(map(len, times)) / rank_steps,
        measured_bytes=_mean([meeting.nbytes for meeting in meetings]),
        measured_s=_mean(quickest),
        waited_s=_mean(waited),
        predicted_calls=calls,
        predicted_bytes=None if predicted is None else predicted.nbytes / predicted.calls,
        predicted_s=None if predicted is None else predicted.seconds / predicted.calls,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _predicted_communications(
    loaded: Loaded,
) -> tuple[Sequence[TracedCommunication], tuple[str, ...]]:
    """Return the communications of a scenario, and why there are none."""
    try:
        trace, *_ = trace_of(loaded, MOST_STEPS)
    except ScenarioError as problem:
        return (), (f"collectives are not predicted one by one: {problem}",)
    program = TracedProgram(trace, cluster_of(loaded), range(len(trace.ranks)))
    return communications_of(program, replayed(program)), ()
