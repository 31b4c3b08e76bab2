"""Energy of a step: it adds up, no device exceeds its cap, and a cap never makes a step faster."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import training
from clustersim import CatalogError, simulate
from clustersim.cost.power import STATE_OF, STATES, machine_power
from clustersim.metrics.attribution import PARTS
from clustersim.scenario.load import load
from clustersim.topology.accelerator import clock_under_cap

CAP = "cluster.node.accelerator.power_cap"
NAMES = ("megatron21-t1-18b", "frontier-22b", "korthikanti-22b-seqsel", "qlora-70b-2x4090")


@cache
def result(name, *settings):
    """Return a run, the same one for all tests."""
    return simulate(name, settings)


def test_every_component_of_a_step_has_a_state():
    """Power is defined for each component of the step time, and for no other."""
    assert set(STATE_OF) == set(PARTS)
    assert set(STATE_OF.values()) == set(STATES)


@pytest.mark.parametrize("name", NAMES)
def test_energy_is_the_sum_of_its_parts_and_the_integral_of_power(name):
    """Mean power times time, the components and the integral of the trace are one energy."""
    run = result(name)
    energy, trace = run.energy, run.power

    assert energy.joules == pytest.approx(energy.mean.total * run.step_time, rel=1e-12)
    assert sum(energy.by_part.values()) == pytest.approx(
        energy.mean.devices * run.step_time, rel=1e-9
    )
    assert trace.energy == pytest.approx(energy.joules, rel=1e-9)
    assert sum(energy.mean) == energy.mean.total
    assert trace.time[0] == 0.0
    assert trace.time[-1] == pytest.approx(run.step_time)
    assert energy.mean.total <= trace.peak


@pytest.mark.parametrize("name", NAMES)
def test_no_device_exceeds_its_limit_or_idles_below_its_idle_power(name):
    """Mean power of a device lies between idle and cap, and that of all at each moment."""
    run = result(name)
    machine, device = run.energy.machine, run.energy.machine.device
    least = machine.of(machine.in_state("waiting")).total

    assert device.idle <= run.energy.device <= device.cap
    assert np.all(run.power.watts >= least * (1 - 1e-9))
    assert run.power.peak <= machine.of(device.cap).total * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_thinned_trace_has_the_same_energy(name):
    """Means over intervals keep the integral, and exceed no level."""
    trace = result(name).power
    thinned = trace.thinned(50)

    assert len(thinned.watts) <= 50
    assert thinned.energy == pytest.approx(trace.energy, rel=1e-9)
    assert thinned.peak <= trace.peak * (1 + 1e-9)


def test_a_power_cap_slows_products_and_saves_energy():
    """At 250 of 400 W an A100 computes at 0.82 of its clock; memory-bound kernels take as long."""
    free, capped = result("megatron21-t1-18b"), result("megatron21-t1-18b", f"{CAP}=250 W")
    power = capped.energy.machine.device

    assert power.clock == pytest.approx(((250 - 55) / (400 - 55)) ** (1 / 3))
    assert capped.step_time > free.step_time
    assert capped.attribution["memory_bound"] == free.attribution["memory_bound"]
    assert capped.energy.device <= 250
    assert capped.energy.joules < free.energy.joules
    assert capped.mfu == pytest.approx(free.mfu * free.step_time / capped.step_time)


def test_a_cap_at_the_limit_changes_nothing():
    """A cap that no kernel reaches leaves time and energy as they are."""
    free, capped = result("megatron21-t1-18b"), result("megatron21-t1-18b", f"{CAP}=400 W")

    assert capped.step_time == free.step_time
    assert capped.energy.joules == free.energy.joules


@given(cap=st.floats(60, 700), lower=st.floats(0.5, 1.0))
def test_a_lower_cap_is_never_faster(cap, lower):
    """The clock falls with the cap, and dynamic power at this clock stays below it."""
    watts, idle = 700.0, 50.0
    clock, slower = (clock_under_cap(idle + (cap - idle) * k, watts, idle) for k in (1.0, lower))

    assert 0 < slower <= clock <= 1
    assert clock**3 * (watts - idle) <= (cap - idle) * (1 + 1e-9) or clock < 0.6 + 1e-9


def test_a_machine_without_power_facts_has_no_power():
    """Where the catalogue states no power, none is guessed."""
    cluster = load("mixtral-ep-imbalance", {"cluster": "aurora"}).scenario.cluster

    assert machine_power(cluster, 1) is None


def test_a_node_of_adapters_draws_what_was_metered():
    """8 H100 that fine-tune a 70B with adapters draw 6.7 kW, 6.74 on the side of direct current."""
    plan, batch = {"tensor": 4, "data": 2, "sequence_parallel": True}, (8, 1, 8192)
    adapters = {"precision": "fp8", "finetune": {"method": "lora", "rank": 16}}
    job = training("dgx-h100", 1, "llama2-70b", plan, batch, "megatron-core", **adapters)
    mean = simulate(job).energy.mean

    assert mean.devices + mean.hosts == pytest.approx(6741, rel=0.05)


def test_the_scenario_with_a_meter_is_met_to_five_percent():
    """A node that fine-tunes with adapters draws 6.95 kW in front of its supplies."""
    [check] = result("mlperf-llama2-lora-energy").published

    assert check.metric == "power_w"
    assert abs(check.error) < 0.05


def test_published_power_needs_power_of_the_machine():
    """A machine without power facts is one line that names the file."""
    settings = {
        "cluster.node.accelerator.power": None,
        "published": [{"metric": "power_w", "value": 1.0, "source": "x"}],
    }
    run = simulate("megatron21-t1-18b", settings)

    with pytest.raises(CatalogError, match=r"power_w: accelerator a100-80gb has no power"):
        _ = run.published
