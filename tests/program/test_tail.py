"""The exposed gather of new weights, chunk by chunk or layer by layer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import training
from clustersim.program.tail import exposed_gather
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.traffic import Traffic
from enumerated import joint_traffic

PARTS = st.integers(1, 16)
SECONDS = st.floats(1e-6, 10)
PLAN = {"data": 4, "pipeline": 4, "chunks": 4, "zero": 1, "schedule": "interleaved-1f1b"}


def taking(seconds):
    """Return traffic of this uncontended time."""
    return Traffic("parameters", (0,), (1.0,), seconds * 1e9, 1e-5, 1e9)


def seconds(traffic):
    """Return the uncontended time of traffic, without its latency."""
    return traffic.nbytes / traffic.cap


@given(SECONDS, PARTS, SECONDS)
def test_one_part_is_seen_and_of_each_other_what_is_longer_than_its_window(whole, parts, window):
    """Not less than one part, not more than all, and g + (v - 1) max(0, g - w) in between."""
    left = seconds(exposed_gather(taking(whole), parts, window))
    one = whole / parts

    assert one * (1 - 1e-9) <= left <= whole * (1 + 1e-9)
    if parts > 1:
        assert left == pytest.approx(one + (parts - 1) * max(0, one - window))


@given(SECONDS, PARTS)
def test_without_anything_beside_it_everything_is_seen(whole, parts):
    """No window, no hiding; and a window longer than a part leaves that part alone."""
    assert seconds(exposed_gather(taking(whole), parts, 0)) == pytest.approx(whole)
    if parts > 1:
        assert seconds(exposed_gather(taking(whole), parts, whole)) == pytest.approx(whole / parts)


def scenario(*changes):
    """Return Llama 2 7B in four chunks on each of four stages."""
    return training("dgx-h100", 2, "llama2-7b", PLAN, (64, 1, 2048), "megatron-core", *changes)


def traffic(*changes):
    """Return the gathers of new weights of the scenario above by name."""
    found = joint_traffic(build_job(scenario(*changes)))
    return {name: moved for name, moved in found.items() if "parameters" in str(name)}


def step(*changes):
    """Return the time of a step [s]."""
    return simulate(scenario(*changes)).step_time


def test_gathering_new_weights_beside_the_forward_shortens_a_step_and_no_other_does():
    """It is worth less than the gather, and nothing where replicas share no optimiser."""
    overlap = "framework.gradients.gather_overlap=true"
    gathers = traffic().values()

    assert gathers
    assert 0 < step() - step(overlap) < max(map(seconds, gathers))
    assert step("plan.zero=0") == step("plan.zero=0", overlap)


def test_width_of_gathered_weights_is_their_own():
    """8-bit weights halve what 16-bit ones move, and a missing width is that of activations."""
    whole, half = (
        {name: t.nbytes for name, t in traffic(*changes).items()}
        for changes in ((), ("framework.gradients.gathered=1",))
    )

    assert whole
    assert half == {name: pytest.approx(nbytes / 2) for name, nbytes in whole.items()}


def test_links_busy_with_other_collectives_hide_no_gather():
    """Tensor groups over two nodes keep their adapters busy while a forward runs."""
    plan = {
        "tensor": 2, "pipeline": 2, "data": 2, "zero": 1,
        "placement": {"order": ["pipeline", "data", "tensor", "context"]}
    }  # fmt: skip
    result = simulate(
        training("desktop-2x3090", 4, "mpt-760m", plan, (2, 1, 4096), "megatron-bridge")
    )

    busiest = result.links[0]
    assert ".nic" in busiest.name
    assert busiest.nbytes / busiest.capacity <= result.step_time
