"""Layers issued as CUDA graphs: what is captured, what it gains, and what no graph can hold."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.errors import PlanError
from clustersim.memory.states import steady_parts
from clustersim.program.blocks.blocks import Blocks
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.timeline import BACKWARD, FORWARD
from wrong_values import wrong_values

MODEST = settings(max_examples=12, deadline=None)
DENSE = ("gpt3-2.7b", {"tensor": 4, "data": 2}, (4, 1, 2048))
EXPERTS = ("mixtral-8x7b", {"tensor": 1, "data": 8, "expert": 8}, (8, 1, 2048))


def case(*changes, experts=False):
    """Return the scenario of this file with some changes."""
    shape = EXPERTS if experts else DENSE
    return training("dgx-h100", 1, *shape, "megatron-core-graphs", *changes)


@cache
def blocks(*changes, experts=False):
    """Return the blocks of the one stage, forward and backward, and the job."""
    made = Blocks(build_job(case(*changes, experts=experts)))
    pattern, job = made.communicators.pattern(0, 0), made.job
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
    selective, job = blocks("framework.kernels.attention=unfused", "recompute=selective")

    assert selective[1].busy > plain[1].busy
    assert [one.launches for one in selective] == [one.launches for one in plain]
    assert [one.replays for one in selective] == [job.model.layers] * 2


def test_experts_are_issued_one_by_one():
    """Shapes of experts change, so that from the permutation to the sum nothing is captured."""
    graphs, job = blocks(experts=True)
    layer = job.model.layer(0)
    captured = job.layers.captured(layer)
    names = [op.name for op in job.layers.ops(layer) if op.forward]
    alone = ["permute", "dispatch", "expert up", "expert activation", "expert down"]

    assert [name for name in names if name not in captured] == [
        *alone, "combine", "unpermute", "mlp residual"
    ]  # fmt: skip
    assert graphs[0].replays == job.model.layers
    assert graphs[0].launches > 7 * job.model.layers


def test_only_named_parts_are_captured():
    """With attention alone in graphs, the MLP is issued one by one."""
    both, job = blocks("framework.graphs.parts=[attention]")
    whole, _ = blocks()
    captured = job.layers.captured(job.model.layer(0))

    assert {"attention norm", "qkv", "attention residual"} <= captured
    assert not captured & {"mlp norm", "up", "down", "mlp residual"}
    assert both[0].launches > whole[0].launches
    assert both[0].replays == whole[0].replays


def test_buffers_of_graphs_are_held():
    """A stage with graphs holds their buffers in addition."""
    graphs = steady_memory("megatron-core-graphs")
    alone = steady_memory("megatron-core")

    assert graphs["runtime"] - alone["runtime"] == pytest.approx(3e9)


def steady_memory(framework):
    """Return what a stage holds all the time under a framework."""
    return steady_parts(build_job(case(f"framework={framework}")), 0)


@pytest.mark.parametrize(("setting", "problem"), wrong_values("layers in graphs"))
def test_what_no_graph_can_hold_is_refused(setting, problem):
    """Layers recomputed as a whole and copies to the host are invalid, with what to do."""
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
