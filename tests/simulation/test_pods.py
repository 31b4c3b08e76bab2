"""Jobs in the pods of an oversubscribed fat tree, filled whole or unevenly."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clustersim.simulation.step.simulate import simulate


@st.composite
def uneven_jobs(draw):
    """Settings of a job whose replicas share the links of pods with others, each differently.

    With a small bound of fusion the collectives of blocks are transfers of their own, and in groups
    of 16 ranks they cross leaves.
    """
    stages, replicas = draw(st.integers(2, 4)), draw(st.integers(2, 9))
    nodes_per_leaf, leaves = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    order = draw(st.sampled_from([["tensor", "data", "pipeline"], ["tensor", "pipeline", "data"]]))
    tensor_nodes = draw(st.integers(1, 2))
    return {
        "cluster.nodes": stages * replicas * tensor_nodes,
        "cluster.fabric.nodes_per_leaf": nodes_per_leaf,
        "cluster.fabric.leaves_per_pod": leaves,
        "cluster.fabric.leaf_uplinks": 8 * nodes_per_leaf,
        "cluster.fabric.pod_uplinks": draw(st.integers(1, 8 * nodes_per_leaf * leaves)),
        "plan": {
            "tensor": 8 * tensor_nodes, "pipeline": stages, "data": replicas, "schedule": "1f1b",
            "zero": 1, "layers": "filled", "placement": {"order": order},
        },
        "batch": {"global": replicas * draw(st.integers(2, 6)), "micro": 1, "sequence": 1024},
        "fusion_bound": draw(st.sampled_from([0.01, 1e-9])),
    }  # fmt: skip


def check_folded(job):
    """Check that the step of a job takes the same time with each replica replayed."""
    folded, whole = (simulate("llama3-405b-16k", job | {"fold": fold}) for fold in (True, False))

    assert folded.step_time == pytest.approx(whole.step_time, rel=1e-12)
    assert [*folded.program.carried] == [*whole.program.carried]
    assert folded.attribution == pytest.approx(
        whole.attribution, rel=1e-9, abs=1e-9 * whole.step_time
    )


ACROSS_PODS = {
    "cluster.nodes": 16,
    "cluster.fabric.nodes_per_leaf": 2,
    "cluster.fabric.leaves_per_pod": 3,
    "cluster.fabric.leaf_uplinks": 16,
    "cluster.fabric.pod_uplinks": 24,
    "plan": {
        "tensor": 8, "pipeline": 2, "data": 8, "schedule": "1f1b", "zero": 1, "layers": "filled",
        "placement": {"order": ["tensor", "data", "pipeline"]},
    },
    "batch": {"global": 16, "micro": 1, "sequence": 1024},
}  # fmt: skip
"""Six of eight replicas fill the uplinks of their pod alone, which slowed the other two as well."""


@settings(max_examples=3, deadline=None)
@given(uneven_jobs())
@example(ACROSS_PODS)
def test_a_job_that_fills_pods_unevenly_is_the_same_folded_or_not(job):
    """Replicas that are replayed as one end when each of them does."""
    check_folded(job)


@pytest.mark.large
@pytest.mark.exhaustive
@settings(max_examples=150, deadline=None)
@given(uneven_jobs())
def test_many_jobs_that_fill_pods_unevenly_are_the_same_folded_or_not(job):
    """The same for further random jobs."""
    check_folded(job)


OF_POD = 384
"""Nodes of a pod of Meta's cluster, and replicas whose stage fills one."""


def step_in_pods(pods):
    """Return the step of a job of 16 stages, each of which fills some pods."""
    data = pods * OF_POD
    nodes = 16 * data
    return simulate(
        "llama3-405b-16k",
        {
            "cluster.size": nodes, "cluster.nodes": nodes, "plan.data": data,
            "batch.global": nodes,
        },
    )  # fmt: skip


@pytest.mark.large
def test_a_step_on_a_million_devices_takes_the_time_that_smaller_ones_suggest():
    """In whole pods each replica has the same links as in one pod: only its rings are longer."""
    one, some, many = (step_in_pods(pods) for pods in (1, 8, 22))

    assert many.devices == 1_081_344
    assert [step.program.classes for step in (one, some, many)] == [1, 1, 1]
    assert many.step_time == pytest.approx(some.step_time, rel=0.01)
    assert many.step_time == pytest.approx(one.step_time, rel=0.05)
