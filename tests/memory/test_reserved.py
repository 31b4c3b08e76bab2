"""The allocator of a sharded model of eager modules, replayed: set-up, tensors of a step, peak."""

from functools import cache

import pytest

from clustersim.memory.peak import estimate_memory
from clustersim.memory.reserved import replayed
from clustersim.memory.states import boundary, steady_parts
from clustersim.memory.verdict import STATES
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from measured_runs import validated

WHOLE = ["model=llama2-7b", "finetune.method=lora", "offload.parameters=false"]
SHORT = [*WHOLE, "model.longest=512", "batch.micro=1", "batch.global=2"]


@cache
def built(*changed):
    return build_job(load("qlora-70b-2x3090", [*changed]))


LONG = [*WHOLE, "batch.sequence=2048", "batch.micro=4", "batch.global=8"]


def reserved(*changed):
    return replayed(built(*changed), 0)


def test_what_is_reserved_holds_what_is_held_all_the_time_and_the_loss():
    """Shards, gathers, and four tensors of 32 bits for each logit in the backward of the loss."""
    job = built(*WHOLE)
    held = steady_parts(job, 0)
    logits = job.shard.tokens * job.model.vocab
    steady = sum(held[part] for part in ("parameters", "gathered_layers", "optimiser"))

    assert replayed(job, 0) > steady + 16 * logits


def test_short_sequences_reserve_what_the_set_up_left():
    """Their tensors fit into its free blocks, so that half of the tokens reserve no less."""
    assert reserved(*SHORT, "batch.sequence=64") == reserved(*SHORT, "batch.sequence=128")


def test_a_larger_batch_reserves_what_its_loss_holds_at_least():
    """Beyond what the set-up left, the blocks of the loss are those of no other tensor."""
    peaks = [reserved(*WHOLE, f"batch.micro={b}", f"batch.global={2 * b}") for b in (1, 2, 4)]
    job = built(*WHOLE, "batch.micro=1", "batch.global=2")
    logits = 16 * job.shard.tokens * job.model.vocab

    assert peaks[1] > peaks[0]
    assert peaks[2] - peaks[1] > 2 * logits


def test_every_sequence_has_a_mask_of_all_positions():
    """For each 2 bytes more for every pair of positions of the model, but what free blocks hold."""
    without = reserved(*LONG, "framework.memory.replay.mask=false", "model.longest=8192")
    with_mask = reserved(*LONG, "model.longest=8192")

    assert with_mask - without == pytest.approx(4 * 2 * 8192**2, rel=0.05)


def test_activations_on_the_host_leave_their_blocks():
    """The inputs of all layers but two are on the host, and the gaps between them are gone."""
    job = built(*LONG)
    inputs = boundary(job.shard)
    saved = reserved(*LONG) - reserved(*LONG, "offload.activations=true")

    assert 1 < saved / ((job.model.layers - 2) * inputs) < 1.5


def test_shards_on_the_host_leave_the_blocks_that_they_were_cut_from():
    """With offload a device reserves less, but by less than all states that it no longer holds."""
    there, away = reserved(*WHOLE), reserved(*WHOLE, "offload.parameters=true")
    held = steady_parts(built(*WHOLE), 0)
    states = sum(nbytes for part, nbytes in held.items() if part in STATES)

    assert 0 < there - away < states


def test_blocks_are_replayed_where_software_states_its_tensors():
    """Without that a share of what comes and goes is unused, as before."""
    job = build_job(load("frontier-22b"))

    assert replayed(job, 0) is None
    assert estimate_memory(job).fullest.parts["fragmentation"] > 0


@pytest.mark.parametrize("split", ["plan.pipeline=2", "plan.tensor=2"])
def test_a_part_of_a_model_has_no_replay(split):
    """The blocks are those of a whole model; a stage and a part of a layer have a share unused."""
    part = ["plan.data=1", "plan.zero=0", "framework.axes=[tensor, pipeline]", split]
    parts = estimate_memory(built(*part)).fullest.parts

    assert reserved(*part) is None
    assert parts["fragmentation"] == pytest.approx(
        0.2 * (parts["activations"] + parts["workspace"]), rel=0.02
    )


def test_unused_blocks_never_exceed_the_device():
    """Free segments are returned before room is short."""
    job = built(*WHOLE, "batch.micro=8", "batch.global=16")

    assert estimate_memory(job).fits
    assert replayed(job, 0) <= job.cluster.accelerator.memory_capacity


@pytest.mark.large
@pytest.mark.parametrize("cards", ["3090", "4090"])
def test_peaks_of_fine_tuning_are_those_that_were_measured(cards):
    """Nothing is fitted to these rows: the mean error is below 5 %."""
    cases = validated(f"fsdpqlora-{cards}").cases
    errors = [abs(case.memory_error) for case in cases if case.memory_error is not None]

    assert len(errors) == {"3090": 13, "4090": 3}[cards]
    assert all(case.fits for case in cases)
    assert sum(errors) / len(errors) < 0.05
