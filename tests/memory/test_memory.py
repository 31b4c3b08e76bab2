"""Memory: what is held by part, when, and what would make it fit."""

from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.errors import PlanError
from clustersim.memory.levels import (
    at_peak,
    batches,
    changes_by_step,
    fullest_moment,
    levels,
    memory_curves,
)
from clustersim.memory.peak import chunk_memory, estimate_memory, kept_output
from clustersim.memory.states import state_parts, step_buffers
from clustersim.memory.verdict import PARTS, STATES, ChunkMemory, StageMemory, Verdict
from clustersim.program.compile import compile_program
from clustersim.reports.step.charts import MOST_LAYERS, MOST_LEVELS, memory_over_time
from clustersim.reports.step.text import remedies
from clustersim.scenario.entries import entry
from clustersim.scenario.load import load
from clustersim.simulation.step.advice import changes
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate, simulate_if_it_fits
from measured_runs import validated

MODEST = settings(max_examples=20, deadline=None)
SMALL = "frontier-22b"
TOO_LARGE = ["plan.zero=0", "plan.pipeline=4", "plan.data=4"]


@cache
def ran(*changed):
    return simulate(SMALL, [*changed])


@cache
def built(*changed):
    """Return a job and its program, compiled once."""
    job = build_job(load(SMALL, [*changed]))
    return job, compile_program(job, fold_replicas=True, fusion_bound=0.01)


def assumed(key, value):
    """Return the setting of a fact."""
    return f"framework.{key}={{value: {value}, assumed: test}}".lower()


def parts(*changed, stage=0):
    return ran(*changed).memory.stages[stage].parts


# --- releases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sequences", "held"), [(4, (16, 13)), (8, (19, 13))])
def test_megatron_core_0_9_holds_a_batch_of_as_many_microbatches_as_stages(sequences, held):
    """With 4 stages of 4 chunks Megatron-Core 0.9 holds all 16 chunks of 4 microbatches.

    Stage s holds (v - 1) p + 2 (p - s - 1) + 1 chunks otherwise, 19 and 13, and at most all.
    """
    plan = {"tensor": 1, "pipeline": 4, "data": 2, "schedule": "interleaved-1f1b", "chunks": 4}
    shape = "dgx-h100", 1, "gpt3-6.7b", plan, (2 * sequences, 1, 2048)
    both = [
        [stage.in_flight for stage in estimate_memory(build_job(training(*shape, name))).stages]
        for name in ("megatron-core-0.9", "megatron-core")
    ]
    earlier, now = ((flights[0], flights[-1]) for flights in both)

    assert now == held
    assert earlier == ((16, 16) if sequences == 4 else held)


@pytest.mark.parametrize("deferred", [1, 3, 100])
def test_deferred_weight_gradients_keep_logits_and_shorten_the_step(deferred):
    """The output head's products move into the bubble at the end: no work more or less.

    The last stage keeps the gradient of the logits, in 16 bits, and their input of each of these
    microbatches, at most of all eight.
    """
    plan = {"tensor": 1, "pipeline": 4, "data": 2, "schedule": "interleaved-1f1b", "chunks": 2}
    plan = plan | {"zero": 1}
    fact = f"framework.pipeline.head_deferred={{value: {deferred}, assumed: test}}"
    shape = "dgx-h100", 1, "llama3-8b", plan, (16, 1, 4096), "megatron-core"
    plain, late = simulate(training(*shape)), simulate(training(*shape, fact))
    of_each = 2 * 4096 * (build_job(training(*shape)).model.vocab + 4096)
    work = ("matmul", "attention", "memory_bound")

    assert late.step_time < plain.step_time
    assert late.memory.stages[:-1] == plain.memory.stages[:-1]
    assert late.memory.stages[-1].peak <= plain.memory.stages[-1].peak + 8 * of_each
    assert late.memory.stages[-1].peak > plain.memory.stages[-1].peak
    assert [late.answer.attribution[part] for part in work] == pytest.approx(
        [plain.answer.attribution[part] for part in work]
    )


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zero", "shared"),
    [
        (0, ()),
        (1, ("optimiser", "master_weights")),
        (2, ("optimiser", "master_weights", "gradients")),
        (3, ("optimiser", "master_weights", "gradients", "parameters")),
    ],
)
def test_each_stage_of_zero_shares_out_one_more_part(zero, shared):
    """ZeRO 1, 2 and 3 divide optimiser, gradients and weights by the copies, and nothing else."""
    job, _ = built()
    whole = state_parts(replace(job, plan=replace(job.plan, zero=0)), 0)
    found = state_parts(replace(job, plan=replace(job.plan, zero=zero)), 0)

    for part in ("parameters", "master_weights", "gradients", "optimiser"):
        share = job.plan.copies if part in shared else 1
        assert found[part] == pytest.approx(whole[part] / share)


def test_all_ranks_together_hold_the_recipe_for_every_parameter():
    """One replica holds 16 bytes a parameter; every further one its weights and gradients again."""
    result = ran()
    job, _ = built()
    held = sum(
        job.plan.cell * job.weights.of_stage(stage).dense(job.plan.tensor)
        for stage in range(job.plan.pipeline)
    )

    expected = held * (12 + 4 * job.plan.data)
    assert result.memory.state_bytes == pytest.approx(expected)


def test_whole_weights_come_back_layer_by_layer_under_zero_3():
    """A rank has its share of the weights, and the running layers in addition, whole."""
    job, _ = built()
    sharded = replace(job, plan=replace(job.plan, zero=3))
    before, after = (estimate_memory(j).stages[3].parts for j in (job, sharded))
    layers = len(job.layers.stacked(3, 0))

    assert after["parameters"] == pytest.approx(before["parameters"] / job.plan.copies)
    assert after["gathered_layers"] == pytest.approx(before["parameters"] / layers)


# --- what comes and goes --------------------------------------------------------------------------


@st.composite
def stages(draw):
    """The chunks of a stage, and its steps: each microbatch forward, later backward, maybe split.

    A step is its kind, by its place in `KINDS`, and its chunk.
    """
    amounts = st.floats(0.0, 100.0)
    made = st.dictionaries(st.sampled_from(["activations", "logits", "workspace"]), amounts)
    chunks = draw(st.lists(st.builds(ChunkMemory, made, made, made, made), min_size=1, max_size=3))
    steps, waiting = [], []
    for _ in range(draw(st.integers(1, 12))):
        chunk = draw(st.integers(0, len(chunks) - 1))
        steps.append((0, chunk))
        waiting.append([(2, chunk), (3, chunk)] if draw(st.booleans()) else [(1, chunk)])
        while waiting and draw(st.booleans()):
            _next(draw, steps, waiting)
    while waiting:
        _next(draw, steps, waiting)
    return chunks, steps


def _next(draw, steps, waiting):
    """Take a step backward of some microbatch that waits for it."""
    place = draw(st.integers(0, len(waiting) - 1))
    steps.append(waiting[place].pop(0))
    if not waiting[place]:
        waiting.pop(place)


@MODEST
@given(stages())
def test_the_peak_is_the_fullest_moment_of_the_steps(stage):
    """Step by step, the peak is the most that open microbatches and the running block hold."""
    chunks, steps = stage
    held, most = 0.0, 0.0
    for kind, c in steps:
        kept, ahead, back, left = (sum(which.values()) for which in chunks[c])
        before, after = held, held + (kept, -kept, left - kept, -left)[kind]
        most = max(most, (after + ahead, before + back, before + back, before)[kind])
        held = after
    kinds, places = (np.array(column, dtype=np.int64) for column in zip(*steps, strict=True))
    found = levels(chunks, kinds, places)
    codes = [(kind, place) for kind in range(4) for place in range(len(chunks))]
    numbers = np.array([codes.index((int(k), int(c))) for k, c in zip(kinds, places, strict=True)])
    of_code = (np.array(column, dtype=np.int64) for column in zip(*codes, strict=True))
    peak, in_flight = at_peak(fullest_moment(changes_by_step(chunks, *of_code), numbers), {})

    assert found.during.sum(axis=1).max() == pytest.approx(most, abs=1e-9)
    assert sum(peak.values()) == pytest.approx(most, abs=1e-9)
    assert 1 <= in_flight <= len(steps)
    assert found.after[-1] == pytest.approx(0.0, abs=1e-9) if len(found.parts) else True


def test_the_curve_of_a_stage_reaches_its_peak_and_ends_where_it_began():
    """Over the replay a stage climbs to its peak without the cache, and empties again."""
    result = ran()

    for curve, stage in zip(
        memory_curves(result.memory, result.timeline), result.memory.stages, strict=True
    ):
        assert curve.total.max() == pytest.approx(stage.peak - stage.parts["fragmentation"])
        assert curve.total[-1] == pytest.approx(sum(stage.steady.values()))
        assert (np.diff(curve.time) >= 0).all()


@pytest.mark.parametrize("rows", [1, 1_000_000])
def test_the_table_of_memory_adds_up(rows):
    """In the table of a run, steady and moving parts make the total of every row."""
    result = ran()
    parts = [*batches(memory_curves(result.memory, result.timeline), rows)]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    steady = np.array([sum(stage.steady.values()) for stage in result.memory.stages])
    moving = sum(values for part, values in table.items() if part in PARTS)

    assert table["total"] == pytest.approx(steady[table["stage"]] + moving)


def test_recomputing_more_holds_less():
    """Activations shrink from none over selective to full; full adds the layer that runs again."""
    none, selective, full = (parts(f"recompute={mode}") for mode in ("none", "selective", "full"))

    assert none["activations"] >= selective["activations"] > full["activations"]
    assert full["workspace"] > none["workspace"]


def test_the_loss_is_where_the_last_stage_holds_logits():
    """Only the last stage keeps logits: b s V of them, in 16 bits and in 32."""
    job, _ = built()
    logits = job.plan.micro * job.model.sequence * job.model.vocab
    stages = range(job.plan.pipeline)
    kept = [chunk_memory(job, stage, 0).kept["logits"] for stage in stages]

    assert kept == [*(0.0 for _ in stages[1:]), pytest.approx((2 + 4) * logits)]


# --- the verdict ----------------------------------------------------------------------------------


def test_no_job_fails_for_blocks_that_nothing_uses():
    """The allocator's cache fills what room there is and never more."""
    alive = ran().memory.fullest.peak - parts()["fragmentation"]
    tight, small = (
        ran(f"cluster.node.accelerator.memory.capacity.value={nbytes:.0f} B")
        for nbytes in (alive + 1e6, alive - 1e6)
    )

    assert tight.memory.fits
    assert tight.memory.fullest.parts["fragmentation"] <= 1e6
    assert not small.memory.fits


FLAT = "framework.memory.step=10"


@pytest.mark.parametrize("joined", [False, True])
def test_flat_buffers_fit_where_activations_were_only_in_joined_blocks(joined):
    """Separate blocks hold buffers of the step and activations, joined ones the larger of both."""
    none = "framework.fragmentation=0"
    apart = parts(none, FLAT, assumed("memory.joined", joined))
    plain = parts(none, "framework.memory.step=0", "framework.memory.norm=0")
    moving, moving_step = (
        sum(found[part] for part in ("activations", "logits", "workspace"))
        for found in (plain, apart)
    )

    assert moving_step > moving, "the optimiser step is the peak"
    assert apart["fragmentation"] == pytest.approx(0.0 if joined else moving)


def test_the_norm_is_known_before_gradients_are_flattened():
    """The step holds the buffer of the norm or the flat ones, whichever is more, never both."""

    def buffers(step, norm):
        job, _ = built(f"framework.memory.step={step}", f"framework.memory.norm={norm}")
        return step_buffers(job, 0)

    assert buffers(6, 8) == max(buffers(6, 0), buffers(0, 8))
    assert 0 < buffers(6, 0) != buffers(0, 8) > 0


def test_gradients_renewed_by_each_backward_have_blocks_of_their_own():
    """Freed before a backward, they are split by what it recomputes: bytes of a parameter more."""
    more = parts(assumed("state.fp16.renewed", 2))["fragmentation"] - parts()["fragmentation"]

    assert more == pytest.approx(parts()["parameters"])


def test_buffers_of_a_precision_replace_those_of_its_framework():
    """A precision that states its buffers of the step has neither the framework's nor a norm."""
    job, _ = built(assumed("state.fp16.step", 3))
    owned = job.weights.on_rank(job.weights.trained(0), sharded=True)

    assert step_buffers(job, 0) == pytest.approx(3 * owned)


@pytest.mark.parametrize("name", ["fsdp-qlora", "pytorch-fsdp"])
def test_updating_many_tensors_at_once_allocates_a_root_for_each_number(name):
    """The buffers of such a step are as wide as the second moments, half of the states."""
    framework = entry("framework", name).record

    assert framework.memory.step == framework.state["bf16"].optimiser / 2


@pytest.mark.parametrize(("kv_heads", "more"), [(48, 2), (8, 0)])
def test_queries_that_are_a_view_keep_the_stack_that_they_are_from(kv_heads, more):
    """Keys and values of each query stay in its stack; queries that share them are apart."""
    flash = "framework.kernels.attention=flash"
    changed = [f"model.kv_heads={kv_heads}", flash, "recompute=none"]
    viewed, _ = built(*changed, assumed("kernels.query_kept", 3))
    plain, _ = built(*changed)
    layers, part = viewed.model.layers // viewed.plan.pipeline, viewed.shard
    queries = part.width * part.tokens * part.heads * viewed.model.head_size
    kept = [chunk_memory(job, 1, 0).kept["activations"] for job in (viewed, plain)]

    assert kept[0] - kept[1] == pytest.approx(more * layers * queries)


def test_logits_that_are_wide_become_the_softmax_in_place():
    """With numbers of 32 bits no copy of the logits is made: 4 bytes each, not 8."""
    job, _ = built("precision=fp32", "framework=megatron-deepspeed-fugaku", "plan.zero=0")
    stage = job.plan.pipeline - 1
    logits = job.plan.micro * job.model.sequence * job.model.vocab / job.plan.tensor

    assert chunk_memory(job, stage, 0).kept["logits"] == pytest.approx(4 * logits)


def test_outputs_that_were_sent_are_kept_whole_or_in_shares():
    """Until its backward a microbatch keeps its output, or a rank's share over the tensor group."""
    given_ = ["plan.tensor=2", "plan.data=1", "framework.memory.outputs_shared"]
    job, _ = built(*given_[:2], f"{given_[2]}=false")
    whole = kept_output(job)
    shares = kept_output(built(*given_[:2], f"{given_[2]}=true")[0])

    assert whole == job.shard.width * job.shard.tokens * job.model.hidden
    assert shares == pytest.approx(whole / 2)


SHARED = ["plan.tensor=2", "plan.data=1", "plan.sequence_parallel=true"]
WHOLE = [*SHARED, assumed("memory.held_results", 2), assumed("memory.gather_buffers", 3)]


@pytest.mark.parametrize("lead", [2, 1000])
def test_results_that_a_reduction_still_reads_are_not_reusable(lead):
    """Two whole results of each layer that the host is ahead, of one microbatch, are held."""
    ahead = [*WHOLE, assumed("memory.lead", lead)]
    job, _ = built(*ahead)
    whole = job.shard.width * job.shard.tokens * job.model.hidden
    layers = job.model.layers // job.plan.pipeline

    held = parts(*ahead)["fragmentation"] - parts(*SHARED)["fragmentation"]

    assert held == pytest.approx(2 * min(layers, lead) * whole)


def test_whole_inputs_are_buffered_only_where_tokens_are_shared():
    """The buffers of gathers have the size of a layer's whole input in sequence parallelism."""
    job, _ = built(*WHOLE)
    whole = job.shard.width * job.shard.tokens * job.model.hidden
    apart = [*WHOLE, "plan.sequence_parallel=false"]
    shared, alone = (parts(*changed)["communication_buffers"] for changed in (WHOLE, apart))

    assert shared - alone == pytest.approx(3 * whole)


def test_a_host_that_is_too_small_is_named():
    """What is offloaded has to fit the host's memory as well, all ranks of a node together."""
    stage = StageMemory(0, {}, (), 0.0, {"runtime": 1.0}, host={"optimiser": 3 * 2.0**30})
    small, large = (Verdict((stage,), 2.0, 8, capacity * 2.0**30) for capacity in (16, 32))

    assert large.fits
    assert (small.fits, small.tight) == (False, False)  # states are known: no error of predictions
    assert small.reason == (
        "does not fit: 24.0 of 16.0 GiB of the host's memory, 8.0 GiB too many;"
        " most of it is optimiser (24.0 GiB)"
    )


def test_an_offloaded_optimiser_moves_to_the_host():
    """States leave the device for its host, where every rank of the node has its own."""
    here, away = ran().memory, ran("offload.optimiser=true").memory
    moved = here.fullest.parts["optimiser"] + here.fullest.parts["master_weights"]

    assert away.fullest.parts["optimiser"] == 0.0
    assert away.host["optimiser"] + away.host["master_weights"] == pytest.approx(8 * moved)
    assert away.state_bytes >= here.state_bytes


# --- advice ---------------------------------------------------------------------------------------


def test_advice_fits_when_it_is_taken():
    """Each change that is advised makes the job fit, at the reported step time and peak."""
    result = simulate(SMALL, TOO_LARGE, advise=True)
    remedies = result.memory.advice

    assert not result.memory.fits
    assert remedies
    assert [r.step_time_s for r in remedies] == sorted(r.step_time_s for r in remedies)
    for remedy in remedies:
        taken = simulate(SMALL, [*TOO_LARGE, *remedy.change.split()])
        assert taken.memory.fits
        assert taken.memory.fullest.peak == remedy.peak_bytes
        assert taken.step_time == remedy.step_time_s


def test_advice_was_stated_to_fit_where_the_run_of_it_is_tight():
    """A change has the verdict that the run of the changed scenario has."""
    capacity = "cluster.node.accelerator.memory.capacity.value=60 GB"
    remedies = simulate(SMALL, [*TOO_LARGE, capacity], advise=True).memory.advice
    verdicts = [
        simulate(SMALL, [*TOO_LARGE, capacity, *remedy.change.split()]).memory.tight
        for remedy in remedies
    ]

    assert [remedy.tight for remedy in remedies] == verdicts
    assert any(verdicts)


def test_changes_are_taken_together_where_none_is_enough():
    """A device too small for any single change gets pairs, a smaller one a combination of more."""
    singles = len(list(changes(load(SMALL, TOO_LARGE).scenario)))
    lengths = {}
    for size in (22, 16):
        capacity = f"cluster.node.accelerator.memory.capacity.value={size} GB"
        remedies = simulate(SMALL, [*TOO_LARGE, capacity], advise=True).memory.advice
        lengths[size] = [len(remedy.change.split()) for remedy in remedies]
        assert all(remedy.peak_bytes <= size * 1e9 for remedy in remedies)

    assert lengths[22] == [3, 3]  # more ranks of one axis change two keys
    assert len(lengths[16]) == 1
    assert 3 < lengths[16][0] <= 2 * singles


TWO_CARDS = {
    "title": "two cards",
    "cluster": {"name": "desktop-2x4090", "nodes": 1},
    "model": "llama3-8b",
    "plan": {"tensor": 1, "pipeline": 1, "data": 2},
    "batch": {"global": 4, "micro": 1, "sequence": 2048},
    "precision": "bf16",
    "recompute": "none",
    "framework": "pytorch-fsdp",
}


def test_offloads_that_need_sharded_weights_are_tried_with_them():
    """A full fine-tune of eight billion parameters on two cards of 24 GB with 192 GB of host."""
    job = TWO_CARDS | {
        "cluster": {"name": "desktop-2x4090", "nodes": 1, "node": {"host": {"memory": "192 GB"}}},
    }
    [remedy] = simulate(job, advise=True).memory.advice

    assert remedy.change == "plan.zero=3 offload.parameters=true"
    assert remedy.peak_bytes < 24e9 * 1.07


def test_adapters_are_advised_where_full_training_does_not_fit():
    """Eight billion parameters on two cards of 24 GB with 64 GB of host: QLoRA, marked as such."""
    result = simulate(TWO_CARDS, advise=True)
    [first, *_] = result.memory.advice
    [line, *_] = remedies(result)

    assert all(remedy.adapters for remedy in result.memory.advice)
    assert first.change.startswith("finetune.method=qlora finetune.rank=16 ")
    assert simulate(TWO_CARDS, first.change.split()).memory.fits
    assert line.endswith(", training adapters only")
    assert not any(r.adapters for r in simulate(SMALL, TOO_LARGE, advise=True).memory.advice)


@pytest.mark.large
def test_advice_names_the_fastest_pair_of_changes(tmp_path):
    """Llama 70B on 64 H100 is advised ZeRO with sequence parallelism, no offload or recomputation.

    Each of the three that are named is as fast as any pair of all changes that fits.
    """
    (tmp_path / "llama.yaml").write_text(
        """
title: Llama 70B that does not fit
cluster: {name: dgx-h100, nodes: 8}
model: llama3-70b
plan: {tensor: 8, pipeline: 2, data: 4}
batch: {global: 128, micro: 1, sequence: 8192}
precision: bf16
framework: megatron-core
"""
    )
    loaded = load(tmp_path / "llama.yaml")
    remedies = simulate(loaded, advise=True).memory.advice
    times = []
    for one, other in combinations(changes(loaded.scenario), 2):
        if one.keys() & other.keys():
            continue
        with suppress(PlanError):
            result = simulate_if_it_fits(loaded.changed({**one, **other}))
            times.append(getattr(result, "step_time", inf))

    assert remedies[0].change == "plan.sequence_parallel=true plan.zero=1"
    assert [remedy.step_time_s for remedy in remedies] == sorted(times)[:3]


def test_nothing_is_advised_to_a_job_that_fits():
    """A verdict that fits has no advice, and one that does not has some only on request."""
    assert simulate(SMALL, advise=True).memory.advice == ()
    assert simulate(SMALL, TOO_LARGE).memory.advice == ()


def test_only_what_the_framework_offers_is_tried():
    """Megatron-LM of 2021 has no ZeRO, so that is not among the changes."""
    given_ = load("megatron21-t1-1.7b").scenario

    assert not any("plan.zero" in change for change in changes(given_))


# --- the figure and the measured runs -------------------------------------------------------------


@pytest.mark.parametrize("changed", [(), ("batch.global=2000",)])
def test_the_figure_shows_the_peak_in_few_colours(changed):
    """However many steps there are, the figure keeps the fullest of them."""
    result = ran(*changed)
    chart = memory_over_time(result)
    total = chart.total.max() * 2.0**30

    assert total == pytest.approx(result.memory.fullest.peak, rel=1e-9)
    assert len(chart.layers) <= MOST_LAYERS + 1
    assert len(chart.begins) <= MOST_LEVELS + 1


@pytest.mark.large
def test_the_runs_of_bloom_fit_and_take_the_memory_that_was_measured():
    """Eleven layouts of BLOOM: none is called out of memory, and the mean error is below 10 %."""
    cases = validated("bloom-*").cases
    errors = [abs(o.memory_error) for o in cases if o.memory_error is not None]

    assert len(errors) == 11
    assert all(o.fits for o in cases)
    assert sum(errors) / len(errors) < 0.10


def test_states_come_first_among_the_parts():
    """What is kept from step to step is drawn at the bottom."""
    assert set(PARTS[: len(STATES)]) == set(STATES)


def test_a_framework_without_facts_of_memory_has_none_of_its_buffers():
    """``memory: null`` ended in a TypeError; a step takes as long, and holds no more."""
    stated, none = (
        simulate("frontier-22b", ["batch.global=16", *more])
        for more in ([], ["framework.memory=null"])
    )

    assert none.step_time == stated.step_time
    assert none.memory.fullest.peak <= stated.memory.fullest.peak


@pytest.mark.parametrize(("precision", "each"), [("bf16", 2), ("fp8", 2)])
def test_frozen_weights_of_16_bits_had_the_32_of_trained_ones(precision, each):
    """Torchtitan trains shards of 32 bits; frozen weights of LoRA are as `finetune.bits` says."""
    changes = {"model": "llama3-8b", "framework": "torchtitan", "precision": precision}
    plan = {"cluster": {"name": "dgx-h100", "nodes": 1}, "plan": {"data": 8}}
    loaded = load("megatron21-t1-1.7b", {**changes, **plan, "batch.global": 8, "batch.micro": 1})
    job = build_job(loaded.changed({"finetune.method": "lora"}))
    trained = build_job(loaded)

    assert state_parts(job, 0)["parameters"] == pytest.approx(each * 8.03e9, rel=0.05)
    assert state_parts(trained, 0)["parameters"] == pytest.approx(4 * 8.03e9, rel=0.01)
