"""Optimisers: bytes of their states, bytes and products of their updates, relative to AdamW."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.catalog import finding
from clustersim.errors import PlanError, ScenarioError
from clustersim.memory.states import state_parts
from clustersim.program.tail import orthogonal_seconds
from clustersim.scenario.entries import entry
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.workload.model import build_model
from clustersim.workload.optimisers import OPTIMISERS, Matrices, matrices, with_optimiser
from clustersim.workload.parameters import Parameters, layer_parameters

LLAMA = "llama3-8b"
NORMS = 2 * 4096
"""Weights of a layer of it that are in no matrix."""


def step(*changes, model=LLAMA, data=8, zero=1):
    """A step of a model on eight devices, 2 microbatches each."""
    batch = data * 2, 1, 2048
    return training("dgx-h100", 1, model, {"data": data, "zero": zero}, batch, "megatron-core",
                    *changes)  # fmt: skip


def optimiser(name, **layout):
    return step(f"optimiser={name}", **layout)


@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_states_are_bytes_times_parameters(name, zero):
    """Of a profile with two moments of 32 bits; those that are sharded over eight ranks."""
    job, one = build_job(optimiser(name, zero=zero)), OPTIMISERS[name]
    parameters, table = job.weights.trained(0).all, job.model.vocab * job.model.hidden
    width, share = one.width or 4, 8 if zero else 1

    expected = one.moments * width * parameters + one.ends * width * (2 * table + 4096)
    assert state_parts(job, 0)["optimiser"] == pytest.approx(expected / share)
    assert state_parts(job, 0)["master_weights"] == state_parts(
        build_job(step(zero=zero)), 0
    )["master_weights"]  # fmt: skip


def test_adamw_is_that_of_the_profile():
    """A scenario without the key and one with its default are the same run, to the bit."""
    assert simulate(step()).step_time == simulate(optimiser("adamw")).step_time
    for name in finding.entry_names("framework"):
        record = entry("framework", name).record
        for precision in record.state:
            assert with_optimiser(record, precision, OPTIMISERS["adamw"]) is record


def test_moments_as_narrow_as_weights_stay_so():
    """A profile whose two moments are of 16 bits has one of 16 bits under Lion."""
    changes = "framework.state.bf16.optimiser=4", "optimiser=lion"

    assert build_job(step(*changes)).framework.state["bf16"].optimiser == 2


@pytest.mark.parametrize(("name", "saved"), [("lion", 8), ("sgd", 8), ("adamw-8bit", 11.9375)])
def test_an_update_reads_and_writes_each_moment_once(name, saved):
    """Without one of two moments of 32 bits 8 bytes less; 16 less 2 x 2.03125 with 8 bits."""
    updated = [build_job(each).framework.optimiser.updated for each in (step(), optimiser(name))]

    assert updated[0] - updated[1] == saved
    assert simulate(optimiser(name)).step_time < simulate(step()).step_time


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4096), st.integers(1, 4096))
def test_an_iteration_has_the_flops_of_its_formula(rows, columns):
    """4 m^2 n + 2 m^3 for the shorter side m, whichever it is."""
    m, n = sorted((rows, columns))
    flops = sum(2 * np.prod(sizes) for sizes in Matrices(rows, columns, Parameters()).products())

    assert flops == 4 * m**2 * n + 2 * m**3


@pytest.mark.parametrize(
    "name", [LLAMA, "mixtral-8x7b", "llama4-maverick", "deepseek-v3", "deepseek-v3.2", "gpt-22b"]
)
def test_matrices_have_all_weights_of_a_layer(name):
    """All but norms and biases, those of all experts, and latent projections."""
    model = build_model(entry("model", name).record, 2048, 1, 1)
    for layer in dict.fromkeys(model.stack):
        inside = sum(one.rows * one.columns * one.number.all for one in matrices(model, layer))
        missing = layer_parameters(model, layer).all - inside
        assert 0 <= missing <= 16 * model.ffn


def orthogonal(job):
    return orthogonal_seconds(job, Counter(job.model.stack))


def test_muon_takes_its_products():
    """Ranks share them evenly where states are sharded, and repeat them where they are not."""
    alone, shared = (build_job(optimiser("muon", zero=zero)) for zero in (0, 1))
    job, lion = simulate(optimiser("muon")), simulate(optimiser("lion"))
    seconds = orthogonal(shared)
    least = 5 * sum(
        (4 * min(one.rows, one.columns) ** 2 * max(one.rows, one.columns)
         + 2 * min(one.rows, one.columns) ** 3) * one.number.all
        for layer in shared.model.stack for one in matrices(shared.model, layer)
    ) / 8 / shared.cluster.accelerator.peak_rate("bf16")  # fmt: skip

    assert orthogonal(alone) == pytest.approx(8 * seconds)
    assert orthogonal(build_job(step())) == 0
    assert least < seconds < 3 * least
    assert job.step_time - lion.step_time >= seconds


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["finetune={method: lora}"], "optimiser: 'muon' is not modelled for adapters"),
        (["offload={optimiser: true}"], "optimiser: 'muon' is not modelled on the host"),
    ],
)
def test_muon_needs_whole_matrices_on_the_devices(changes, message):
    """Adapters and states on the host are rejected, with what to do."""
    with pytest.raises(PlanError, match=message):
        build_job(step("optimiser=muon", *changes))


def test_an_unknown_optimiser_lists_the_known_ones():
    """All names are in the message."""
    with pytest.raises(ScenarioError) as problem:
        optimiser("adamax")

    assert all(f"'{name}'" in str(problem.value) for name in OPTIMISERS)
