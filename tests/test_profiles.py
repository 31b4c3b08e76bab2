"""Framework profiles: files that extend others, and layers issued as graphs."""

from copy import deepcopy
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.building import build_job
from clustersim.catalog import finding
from clustersim.errors import ClustersimError, PlanError
from clustersim.program.blocks import Blocks
from clustersim.program.ops import BACKWARD, FORWARD
from clustersim.program.states import steady_parts
from clustersim.scenario.entries import entry, entry_of_file
from clustersim.scenario.load import from_mapping, load
from clustersim.simulate import simulate

MODEST = settings(max_examples=20, deadline=None)
DATA = {
    "title": "a test",
    "cluster": {"name": "dgx-h100", "nodes": 1},
    "model": "gpt3-2.7b",
    "plan": {"tensor": 4, "data": 2},
    "batch": {"global": 4, "micro": 1, "sequence": 2048},
    "precision": "bf16",
    "framework": "megatron-core-graphs",
}
EXPERTS = {
    "model": "mixtral-8x7b",
    "plan": {"tensor": 1, "data": 8, "expert": 8},
    "batch": {"global": 8, "micro": 1, "sequence": 2048},
}

# --- files that extend others ---------------------------------------------------------------------

OURS = """\
kind: framework
name: ours
extends: megatron-core
dispatch: {value: 10 us, source: profile}
kernels:
  attention: {value: unfused, assumed: a test}
sources:
  profile: {title: our profile}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a framework of one's own, and a scenario that runs it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours.yaml").write_text(OURS, encoding="utf-8")
    return tmp_path


def complaint(file):
    """Return what is said of a file that is wrong."""
    with pytest.raises(ClustersimError) as caught:
        entry_of_file(file)
    return str(caught.value)


def test_a_file_that_extends_another_differs_in_what_it_says(folder):
    """Its own values win, one by one; all others and their sources are those of the other."""
    ours, base = entry_of_file(folder / "ours.yaml").record, entry("framework", "megatron-core")

    assert (ours.name, ours.title, ours.extends) == ("ours", None, "megatron-core")
    assert (ours.dispatch.value, ours.dispatch.source) == (pytest.approx(10e-6), "profile")
    assert ours.kernels.attention.value == "unfused"
    changed = {"attention": ours.kernels.attention}
    assert ours.kernels == base.record.kernels.model_copy(update=changed)
    assert ours.state == base.record.state
    assert {*ours.sources} == {*base.record.sources, "profile"}


def test_a_scenario_runs_a_file_that_extends_another(folder):
    """A scenario finds the file beside it, and what it extends among the shipped ones."""
    given = {**DATA, "framework": "ours"}
    lines = [f"{key}: {value}".replace("'", "") for key, value in given.items()]
    (folder / "case.yaml").write_text("\n".join(lines), encoding="utf-8")
    loaded = load("case.yaml", ["framework.dispatch=x2"])

    assert loaded.scenario.framework.dispatch.value == pytest.approx(20e-6)
    assert str(loaded.place("framework", "kernels", "attention")) == "ours.yaml:6"
    assert "megatron-core.yaml" in str(loaded.place("framework", "optimiser", "held"))


def test_files_extend_files_that_extend(folder):
    """What is extended may extend another one in turn."""
    text = OURS.replace("name: ours", "name: mine").replace(
        "extends: megatron-core", "extends: ours"
    )
    (folder / "mine.yaml").write_text(text.replace("10 us", "5 us"), encoding="utf-8")
    mine = entry_of_file(folder / "mine.yaml").record

    assert (mine.name, mine.extends, mine.dispatch.value) == ("mine", "ours", pytest.approx(5e-6))
    assert mine.kernels.attention.value == "unfused"
    assert mine.runtime_memory == entry("framework", "megatron-core").record.runtime_memory


def test_a_file_may_extend_the_shipped_one_of_its_name(folder):
    """A file beside the scenario that extends its own name changes the shipped one."""
    text = OURS.replace("name: ours", "name: megatron-core")
    (folder / "megatron-core.yaml").write_text(text, encoding="utf-8")
    changed = entry_of_file(folder / "megatron-core.yaml").record

    assert changed.dispatch.value == pytest.approx(10e-6)
    assert changed.optimiser == entry("framework", "megatron-core").record.optimiser


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "extends: megatron-core", "extends: megatron-cor",
            "ours.yaml:3: extends: no framework named 'megatron-cor'"
            " (did you mean 'megatron-core'?)",
        ),
        (
            "extends: megatron-core", "extends: [megatron-core]",
            "ours.yaml:3: extends: needs the name of a framework (known:"
            f" {', '.join(finding.names('framework'))})",
        ),
        ("name: ours\n", "", "ours.yaml:1: name: missing (it must be given)"),
        (
            "attention: {value: unfused", "attenton: {value: unfused",
            "ours.yaml:6: kernels.attenton: unknown key (did you mean 'attention'?)",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_extension_is_named(folder, old, new, problem):
    """Each complaint names the file and the line of the extension, not those of the other."""
    assert old in OURS
    (folder / "ours.yaml").write_text(OURS.replace(old, new), encoding="utf-8")

    assert complaint(folder / "ours.yaml") == problem


def test_files_cannot_extend_each_other(folder):
    """A chain that leads back to a file of its own is refused, and told."""
    (folder / "ours.yaml").write_text(OURS.replace("megatron-core", "mine"), encoding="utf-8")
    text = OURS.replace("name: ours", "name: mine").replace("megatron-core", "ours")
    (folder / "mine.yaml").write_text(text, encoding="utf-8")

    assert complaint(folder / "ours.yaml") == (
        "mine.yaml:3: extends: leads back to its own file"
        " (ours.yaml extends mine.yaml extends ours.yaml)"
    )


def test_other_kinds_of_files_extend_nothing(folder):
    """What is no framework knows no `extends`."""
    text = (finding.shipped("model") / "gpt-22b.yaml").read_text(encoding="utf-8")
    (folder / "model.yaml").write_text(text + "extends: gpt-175b\n", encoding="utf-8")

    assert "extends: unknown key" in complaint(folder / "model.yaml")


@pytest.mark.parametrize(
    ("framework", "settings_", "where"),
    [
        ({"name": "megatron-core", "extends": "nanotron"}, [], "test: framework.extends"),
        ({"kind": "framework", "extends": "nanotron"}, [], "test: framework.extends"),
        (
            "megatron-core-graphs",
            ["framework.extends=nanotron"],
            "--set framework.extends=nanotron: framework.extends",
        ),
    ],
)
def test_a_scenario_extends_nothing_itself(framework, settings_, where):
    """What a scenario says of a framework changes its values; `extends` there is refused."""
    with pytest.raises(ClustersimError) as caught:
        from_mapping("test", {**deepcopy(DATA), "framework": framework}, settings_)
    assert str(caught.value) == (
        f"{where}: only a file of its own extends another"
        " (name that one, and say beside the name what differs)"
    )


# --- graphs ---------------------------------------------------------------------------------------


def case(*changes, experts=False):
    """Return the scenario of this file with some changes."""
    return from_mapping("test", deepcopy({**DATA, **(EXPERTS if experts else {})}), changes)


@cache
def blocks(*changes, experts=False):
    """Return the blocks of the one stage, forward and backward, and the job."""
    made = Blocks(build_job(case(*changes, experts=experts)))
    pattern, job = made.pattern(0, 0), made.job
    both = [made.block(0, 0, kind, pattern)[0] for kind in (FORWARD, BACKWARD)]
    return both, job


def with_host(dispatch, replay, *more):
    """Return a step's time with graphs and without them, on a host of some speed."""
    host = [f"framework.dispatch={dispatch} us", *more]
    both, _ = blocks(*host, f"framework.graphs.replay={replay} us")
    alone, _ = blocks("framework=megatron-core", *host)
    return both, alone


@MODEST
@given(
    dispatch=st.sampled_from([0.5, 4, 20, 50, 200]),
    share=st.floats(0, 2),
    micro=st.sampled_from([1, 2, 16]),
)
def test_graphs_are_never_slower(dispatch, share, micro):
    """Where a graph costs the host at most two kernels, a block takes no longer with graphs."""
    batch = (f"batch.micro={micro}", f"batch.global={2 * micro}")
    graphs, alone = with_host(dispatch, share * dispatch, *batch)

    for one, other in zip(graphs, alone, strict=True):
        assert one.busy == pytest.approx(other.busy)
        assert one.total <= other.total * (1 + 1e-12)


def test_graphs_gain_nothing_where_the_device_is_slower():
    """A block whose device takes longer than its host is the same with graphs, to the digit."""
    graphs, alone = with_host(4, 100, "batch.micro=16", "batch.global=32")

    assert [one.dispatch for one in alone] == [0, 0]
    assert [one.total for one in graphs] == [one.total for one in alone]


def test_a_layer_is_one_graph_forward_and_one_backward():
    """In a dense model all that is issued one by one stands outside the layers."""
    graphs, job = blocks("framework.dispatch=50 us")
    alone, _ = blocks("framework.dispatch=50 us", "framework=megatron-core")
    layers = job.model.layers

    assert [one.replays for one in graphs] == [layers, layers]
    assert [one.replays for one in alone] == [0, 0]
    for one, other in zip(graphs, alone, strict=True):
        outside = other.launches - one.launches
        assert outside % layers == 0
        assert one.launches < 25 < 10 * layers < other.launches


def test_what_is_run_again_of_a_layer_is_in_its_graph():
    """Selective recomputation adds no launch that the host issues one by one."""
    plain, _ = blocks("framework.kernels.attention=unfused")
    again, job = blocks("framework.kernels.attention=unfused", "recompute=selective")

    assert again[1].busy > plain[1].busy
    assert [one.launches for one in again] == [one.launches for one in plain]
    assert [one.replays for one in again] == [job.model.layers] * 2


def test_experts_are_issued_one_by_one():
    """Shapes of experts change, so that from the permutation to the sum nothing is captured."""
    graphs, job = blocks(experts=True)
    layer = job.model.layer(0)
    captured = job.captured(layer)
    names = [op.name for op in job.ops(layer) if op.forward]
    alone = ["permute", "dispatch", "expert up", "expert activation", "expert down"]

    assert [name for name in names if name not in captured] == [
        *alone, "combine", "unpermute", "mlp residual",
    ]  # fmt: skip
    assert graphs[0].replays == job.model.layers
    assert graphs[0].launches > 7 * job.model.layers


def test_only_named_parts_are_captured():
    """With attention alone in graphs, the MLP is issued one by one."""
    both, job = blocks("framework.graphs.parts=[attention]")
    whole, _ = blocks()
    captured = job.captured(job.model.layer(0))

    assert {"attention norm", "qkv", "attention residual"} <= captured
    assert not captured & {"mlp norm", "up", "down", "mlp residual"}
    assert both[0].launches > whole[0].launches
    assert both[0].replays == whole[0].replays


def test_buffers_of_graphs_are_held():
    """A stage with graphs holds their buffers besides what it holds without."""
    graphs = steady_memory("megatron-core-graphs")
    alone = steady_memory("megatron-core")

    assert graphs["runtime"] - alone["runtime"] == pytest.approx(3e9)


def steady_memory(framework):
    """Return what a stage holds all the time under a framework."""
    return steady_parts(build_job(case(f"framework={framework}")), 0)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (
            "recompute=full",
            "--set recompute=full: recompute: 'megatron-core-graphs' captures layers in graphs,"
            " which cannot be run again as a whole (take selective, ops or none, or a framework"
            " without graphs)",
        ),
        (
            "offload.activations=true",
            "--set offload.activations=true: offload: 'megatron-core-graphs' captures layers in"
            " graphs, which cannot copy to the host (leave it out, or take a framework without"
            " graphs)",
        ),
    ],
)
def test_what_no_graph_can_hold_is_refused(setting, problem):
    """Layers run again as a whole and copies to the host are refused, with what to do."""
    with pytest.raises(PlanError) as caught:
        build_job(case(setting))
    assert str(caught.value) == problem


def test_graphs_speed_a_small_model_up_to_the_device():
    """A step at the speed of the host loses its `dispatch` by graphs.

    Collectives of its shorter last backward share links with the reduction of gradients for longer
    of it, which is all that it loses again.
    """
    alone = simulate(case("framework=megatron-core"))
    graphs = simulate(case())

    assert alone.attribution["dispatch"] > 0.2 * alone.step_time
    assert graphs.attribution["dispatch"] < 0.2 * alone.attribution["dispatch"]
    gained = alone.step_time - graphs.step_time
    lost = alone.attribution["dispatch"] - graphs.attribution["dispatch"]
    slower = sum(
        graphs.attribution[name] - alone.attribution[name]
        for name in ("tensor_communication", "data_communication")
    )
    assert 0 <= slower < 0.01 * lost
    assert gained == pytest.approx(lost - slower)
