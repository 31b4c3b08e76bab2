"""Steps written out as traces: read again and replayed they take the same time."""

import json
import random

import pytest

import clustersim
from clustersim.errors import ScenarioError
from clustersim.exporters import chakra as exporter
from clustersim.exporters.chakra import export_traces
from clustersim.exporters.traces import trace_of
from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.load import load_any
from clustersim.scenario.origins import scenario_text
from tests.chakra_files import TYPES, read_chakra
from tests.random_steps import random_cases, random_steps

SMALL = ["batch.global=32", "recompute=none"]
PIPELINE = [
    "cluster.nodes=1", "plan.pipeline=2", "plan.tensor=2", "plan.data=2", "batch.global=8",
    "model.layers=8",
]  # fmt: skip


def exported(scenario, settings, folder):
    """Return the answer of an export, and that of a replay of its files."""
    export = export_traces(scenario, folder / "traces", settings)
    loaded = scenario if not isinstance(scenario, str) else load_any(scenario, settings)
    cluster = {"cluster": loaded.tree.data["cluster"]}
    collectives = {"collectives": loaded.tree.data.get("collectives", {})}
    trace = {"trace": {"files": str(folder / "traces")}}
    return export, clustersim.replay({**cluster, **collectives, **trace})


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_step_exported_imported_and_replayed_takes_the_same_time(schedule, tmp_path):
    """For every schedule, its tensor groups' collectives being operations of their own."""
    chunks = SCHEDULES[schedule].chunks[0]
    several = [f"plan.chunks={chunks}"] if chunks > 1 else []
    offered = [f"framework.schedules=[{schedule}]", f"plan.schedule={schedule}"]
    settings = [*PIPELINE, *offered, *several]
    export, replayed = exported("frontier-22b", settings, tmp_path)
    ran = clustersim.simulate("frontier-22b", settings)

    assert replayed.step_time_s == pytest.approx(export.step_time_s, rel=1e-9)
    assert replayed.step_time_s == pytest.approx(ran.step_time, rel=1e-9)
    assert not replayed.not_placed


def test_algorithms_that_a_framework_turns_off_are_not_in_its_trace(tmp_path):
    """Reductions in NVSwitch made a replay of gpt-oss 20B 5 % faster than its step."""
    settings = [*PIPELINE, "cluster=dgx-h100", "framework=megatron-bridge"]
    export, _ = exported("frontier-22b", settings, tmp_path)

    assert export.notes[-1] == (
        "a trace does not state that megatron-bridge turns off nvls, nvls-tree: a replay may choose"
        " them (name others in collectives)"
    )


def check_random_steps(seed, count, most_nodes, folder):
    """Check the law on random steps, half of them with experts, that turn off no algorithms."""
    steps = random_steps(random.Random(seed), most_nodes)
    for number, (scenario, _) in zip(range(count), steps, strict=False):
        loaded = load_any(scenario_text(scenario))
        if loaded.scenario.framework.algorithms_off:
            continue
        place = folder / str(number)
        place.mkdir()
        export, replayed = exported(loaded, (), place)

        assert replayed.step_time_s == pytest.approx(export.step_time_s, rel=1e-9), scenario


@pytest.mark.large
def test_random_steps_exported_and_replayed_take_the_same_time(tmp_path):
    """Of all machines, models, layouts and frameworks."""
    check_random_steps(7, 1, 1, tmp_path)


@pytest.mark.large
@pytest.mark.parametrize("seed", random_cases(1, 30))
def test_further_random_steps_exported_and_replayed_take_the_same_time(seed, tmp_path):
    """The same of more, on two nodes."""
    check_random_steps(200 + seed, 2, 2, tmp_path)


def test_an_independent_reader_finds_what_astra_sim_needs(tmp_path):
    """By the field numbers of the schema: types, dependencies, sizes, peers, groups by number."""
    export, _ = exported("frontier-22b", SMALL, tmp_path)
    folder = tmp_path / "traces"
    groups = json.loads((folder / "comm_group.json").read_text())
    nodes = {}
    for rank in range(export.ranks):
        version, nodes[rank] = read_chakra((folder / f"frontier-22b.{rank}.et").read_bytes())
        assert version == "1.0"

    assert sum(map(len, nodes.values())) == export.operations
    sent, received = [], []
    for rank, own in nodes.items():
        known = set()
        for node in own:
            assert {*node["after"]} <= known
            known.add(node["id"])
            assert "is_cpu_op" in node
            if node["type"] == TYPES["COMP"]:
                assert node["micros"] == max(1, round(1e6 * node["clustersim_seconds"]))
            elif node["type"] == TYPES["COMM_COLL"]:
                assert rank in groups[node["pg_name"]]
                assert node["comm_size"] > 0
            else:
                ends = node["comm_src"], node["comm_dst"], node["comm_tag"], node["comm_size"]
                is_send = node["type"] == TYPES["COMM_SEND"]
                (sent if is_send else received).append(ends)
                assert node["comm_src" if is_send else "comm_dst"] == rank
    assert sorted(sent) == sorted(received)
    assert "0" not in groups  # which is that of all ranks


def test_traces_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """A folder with files is kept; of an earlier export no rank is left."""
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ScenarioError, match="already exists and has files"):
        export_traces("frontier-22b", folder, SMALL)
    (folder / "frontier-22b.99.et").write_text("old")
    export = export_traces("frontier-22b", folder, SMALL, force=True)

    assert {path.name for path in folder.iterdir()} == {*export.files, "notes.txt"}
    monkeypatch.setattr(exporter, "to_chakra", lambda nodes, groups: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_traces("frontier-22b", tmp_path / "other", SMALL)
    assert not (tmp_path / "other").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["traces"]


def test_a_step_with_too_many_operations_is_rejected():
    """With the number of its ranks and steps."""
    with pytest.raises(ScenarioError, match="16 ranks have 512 steps, and at most 100"):
        trace_of(load_any("frontier-22b", SMALL), 100)


def test_equal_messages_that_run_at_the_same_time_share_their_links(tmp_path):
    """Two chunks of dualpipe-v send forwards and backwards of equal bytes over one NIC."""
    plan = {"tensor": 4, "pipeline": 2, "data": 4, "zero": 1, "sequence_parallel": False}
    scenario = {
        "title": "two chunks over one NIC",
        "cluster": {"name": "dgx-2", "nodes": 2},
        "model": "megatron-7.5b",
        "plan": {**plan, "schedule": "dualpipe-v", "chunks": 2, "layers": "by-work"},
        "batch": {"global": 16, "micro": 1, "sequence": 128},
        "precision": "fp16",
        "fold": True,
        "recompute": "selective",
        "framework": {
            "name": "megatron-bridge",
            "schedules": {"value": ["dualpipe-v"], "assumed": "may be simulated"},
        },
    }
    export, replayed = exported(load_any(scenario_text(scenario)), (), tmp_path)

    assert replayed.step_time_s == pytest.approx(export.step_time_s, rel=1e-9)
