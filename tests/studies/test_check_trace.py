"""A trace next to its prediction: of a trace that is the prediction itself, nothing differs."""

import json
from pathlib import Path

import pytest

import clustersim
from clustersim.errors import ScenarioError
from clustersim.exporters.traces import trace_of
from clustersim.program.traced import TracedProgram
from clustersim.scenario.load import load
from clustersim.simulation.step.build import cluster_of
from clustersim.simulation.trace.replay import replayed
from clustersim.studies.check_trace.text import communication_table, finding, part_table, rows
from commands import output
from tests.chakra_files import node, write_traces

GLOO = Path("tests/data/traces/gloo")
SETTINGS = [
    "cluster.nodes=1", "plan.pipeline=1", "plan.tensor=2", "plan.data=4", "batch.global=8",
    "model.layers=4",
]  # fmt: skip


def recorded(folder, slower=1.0):
    """Write the replay of a step as PyTorch would record it; collectives may take longer."""
    loaded = load("frontier-22b", SETTINGS)
    trace, *_ = trace_of(loaded)
    program = TracedProgram(trace, cluster_of(loaded), range(len(trace.ranks)))
    passed = replayed(program)
    events = [[] for _ in trace.ranks]
    for number, ranks in enumerate(passed.graph.ranks):
        if passed.graph.units[number] is not None:
            for rank in ranks:
                events[rank].append(event("gemm", 7, passed.begin[number], passed.end[number], {}))
    for meeting, each in zip(trace.meetings(), program.communications, strict=True):
        begin, end = passed.begin[each.number], passed.end[each.number]
        for rank, one in meeting.members:
            args = {
                "Collective name": one.operation, "dtype": "Byte", "Group size": len(one.ranks),
                "In msg nelems": round(one.nbytes), "Process Group Ranks": str([*one.ranks]),
            }  # fmt: skip
            if one.operation == "all-gather":
                args["In msg nelems"] = round(one.nbytes / len(one.ranks))
            events[rank].append(
                event("nccl", 20 + each.number, begin, begin + slower * (end - begin), args)
            )
    for rank, own in enumerate(events):
        info = {"rank": rank, "world_size": len(events)}
        file = {"distributedInfo": info, "traceEvents": own}
        (folder / f"rank{rank}.json").write_text(json.dumps(file))
    return folder


def event(name, stream, begin, end, args):
    """Return a kernel of Kineto."""
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": 1e6 * begin,
        "dur": 1e6 * (end - begin), "args": {"stream": stream, **args},
    }  # fmt: skip


def test_a_trace_that_is_the_prediction_differs_in_nothing(tmp_path):
    """Step, exposed communication, idle time, and calls, bytes and time of each collective."""
    answer = clustersim.check_trace(recorded(tmp_path), scenario="frontier-22b", settings=SETTINGS)
    parts = {each.part: each for each in answer.parts}

    assert answer.measured_s == pytest.approx(answer.predicted_s, rel=1e-6)
    assert sum(each.measured_s for each in answer.parts) == pytest.approx(answer.measured_s)
    assert sum(each.predicted_s for each in answer.parts) == pytest.approx(answer.predicted_s)
    exposed = parts["exposed communication"]
    assert exposed.measured_s == pytest.approx(exposed.predicted_s, rel=1e-6)
    assert not answer.missing
    for each in answer.communications:
        assert each.measured_calls == each.predicted_calls
        assert each.measured_s == pytest.approx(each.predicted_s, rel=1e-6)
        assert each.measured_bytes == pytest.approx(each.predicted_bytes, rel=1e-6)
        assert each.waited_s == pytest.approx(0.0, abs=1e-9)


def test_slower_collectives_are_stated(tmp_path):
    """Each takes three times as long as the same one of the prediction."""
    answer = clustersim.check_trace(
        recorded(tmp_path, slower=3.0), scenario="frontier-22b", settings=SETTINGS
    )

    assert "on the predicted" in finding(answer)
    for each in answer.communications:
        assert each.measured_s == pytest.approx(3 * each.predicted_s, rel=1e-6)
    assert len(part_table(answer)) == 2 + len(answer.parts)
    assert len(communication_table(answer)) == 1 + len(answer.communications)


def test_one_rank_of_two_is_enough(tmp_path):
    """The ranks of groups are stated; what the scenario has more is listed."""
    answer = clustersim.check_trace(
        GLOO / "rank0.json", scenario="frontier-22b", settings=["batch.global=32"]
    )
    known = {(each.operation, each.ranks): each for each in answer.communications}

    assert answer.ranks == 1
    assert known["all-reduce", 2].measured_calls == 2
    assert known["send", 2].measured_bytes == 4096
    assert "reduce-scatter of 2 ranks" in answer.missing
    assert [row.label for row in rows(answer)][:1] == ["not in trace"]


def test_check_takes_a_trace_and_writes_its_files(tmp_path, capsys):
    """In place of a log; Chakra has no times of a run, and a trace no anchor."""
    folder = tmp_path / "out"
    text = output(
        capsys, "check", GLOO, "--scenario", "frontier-22b", "--set", "batch.global=32",
        "--out", folder,
    )  # fmt: skip

    assert "matrix products" in text
    assert {"summary.json", "report.html", "parts.csv", "communication.csv"} <= {
        path.name for path in folder.iterdir()
    }
    place = write_traces(tmp_path / "t", [node(1, "COMP", micros=1)])
    with pytest.raises(ScenarioError, match="Chakra records no times"):
        clustersim.check_trace(place, scenario="frontier-22b")
