"""Frameworks that shard weights: what moves, the time outside the network, what is held."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.memory.states import state_parts, steady_parts
from clustersim.plan.parallelism import by_work
from clustersim.program.movement.sharding import layer_fetch, layer_push, local_seconds
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.workload.kernels import Collective
from clustersim.workload.parameters import layer_parameters, model_parameters
from measured_runs import validated

MODEST = settings(max_examples=20, deadline=None)

GATHERED = {"llm-foundry": 2, "pytorch-fsdp": 2, "torchtitan": 2, "deepspeed-zero3": 3}
"""How often a recomputed layer is gathered in a step, by framework."""


def scenario(framework, *changes, **plan):
    """Llama 2 7B on two boards of eight A100, its weights shared out."""
    return training(
        "dgx-a100", 2, "llama2-7b", {"data": 16, "zero": 3, **plan}, (16, 1, 2048), framework,
        *changes, recompute="full",
        precision="fp16" if framework == "deepspeed-zero3" else "bf16"
    )  # fmt: skip


def first_layer(*arguments, **plan):
    """Return the job of a scenario and the first layer of its stack."""
    job = build_job(scenario(*arguments, **plan))
    return job, job.layers.stacked(0, 0)[0]


# --- what moves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("framework", "times"), GATHERED.items())
def test_bytes_that_move_are_their_closed_form(framework, times):
    """A layer is gathered in 16 bits for its forward and its backward, in some frameworks twice.

    Its gradients are reduced once, in their own width; those of norms may be separate.
    """
    job, stacked = first_layer(framework)
    weights = layer_parameters(job.model, stacked.layer).all
    fetched = [c for kind in (FORWARD, BACKWARD) for c in layer_fetch(job, stacked, kind)]
    pushed = layer_push(job, stacked, BACKWARD)
    width = job.framework.sharding.reduce

    assert sum(c.nbytes for c in fetched) == pytest.approx(2 * times * weights)
    assert sum(c.nbytes for c in pushed) == pytest.approx(width * weights, rel=1e-3)


def test_a_weight_for_itself_is_a_collective_for_itself():
    """DeepSpeed of 2021 gathers 4 times 3 and reduces 4 + 8 times for each layer."""
    job, stacked = first_layer("deepspeed-zero3")

    assert len(layer_fetch(job, stacked, FORWARD)) == 4
    assert len(layer_fetch(job, stacked, BACKWARD)) == 8
    assert len(layer_push(job, stacked, BACKWARD)) == 12


@MODEST
@given(st.integers(1, 50), st.floats(1e-6, 1e-3))
def test_the_host_takes_its_time_for_each_share_of_each_collective(count, seconds):
    """Ranks times collectives times what one share takes, where nothing is copied."""
    changes = [f"framework.sharding.host_each={seconds} s"]
    changes += [f"framework.sharding.{which}_copied=0" for which in ("gather", "reduce")]
    job = build_job(scenario("deepspeed-zero3", *changes))
    moved = [Collective("weights", "all-gather", 1e6, "data")] * count

    assert local_seconds(job, moved) == pytest.approx(16 * count * seconds)


def test_prefetch_hides_what_a_blocking_fetch_shows():
    """The same bytes take less of a step where the next layer comes while one is computed."""
    ahead = simulate(scenario("llm-foundry"))
    blocking = simulate(scenario("llm-foundry", "framework.sharding.prefetch=0"))
    part = "sharding_communication"

    assert ahead.attribution["matmul"] == pytest.approx(blocking.attribution["matmul"])
    assert ahead.attribution[part] < 0.7 * blocking.attribution[part]


def test_what_runs_beside_a_collective_has_the_rest_of_the_device():
    """Hidden gathers cost the share of the device that they occupy, of all that is hidden."""
    loaded = scenario("llm-foundry")
    occupied = build_job(loaded).cluster.occupied
    ahead = simulate(loaded).attribution
    every = simulate(scenario("llm-foundry", "framework.sharding.prefetch=0")).attribution
    hidden = every["sharding_communication"] - ahead["sharding_communication"]

    assert occupied > 0.1
    assert 0.9 * occupied * hidden < ahead["overlap_slowdown"] < 1.1 * occupied * hidden
    assert every["overlap_slowdown"] == 0


def test_a_slower_attention_kernel_takes_longer_in_proportion():
    """Half the rate of flash attention is twice its time."""
    usual = simulate(scenario("llm-foundry", "framework.kernels.attention_share=0.6"))
    half = simulate(scenario("llm-foundry", "framework.kernels.attention_share=0.3"))

    assert half.attribution["attention"] == pytest.approx(2 * usual.attribution["attention"], 0.01)


def test_flat_parameters_need_no_copy_beside_their_collectives():
    """FSDP1 gathers into the flat parameter itself; FSDP2 copies out of a buffer, and into one."""
    moved = [Collective("weights", "all-gather", 1e9, "data")]
    flat, apart = (
        local_seconds(build_job(scenario(framework)), moved)
        for framework in ("pytorch-fsdp", "torchtitan")
    )

    assert flat == 0
    assert apart > 0


def test_what_is_kept_until_the_backward_is_gathered_once_for_each_microbatch():
    """SHARD_GRAD_OP comes before the forward only, and again after the backward released it."""
    job, stacked = first_layer("pytorch-fsdp", "plan.reshard=false")

    assert len(layer_fetch(job, stacked, FORWARD)) == 1
    assert layer_fetch(job, stacked, BACKWARD) == []
    assert steady_parts(job, 0)["gathered_layers"] == pytest.approx(
        2 * model_parameters(job.model), rel=0.01
    )


# --- what is held ---------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", GATHERED)
def test_states_are_shared_out_over_all_ranks(framework):
    """A rank holds a sixteenth of the states, and in addition no more than what it computes with.

    Current layers are whole: at most two of them with the embedding and the logits.
    """
    job = build_job(scenario(framework))
    recipe = job.framework.state[job.precision]
    each = [recipe.weights, recipe.gradients, recipe.optimiser, recipe.master]
    states = sum(fact for fact in each if fact is not None)
    layer = layer_parameters(job.model, job.model.layer(0)).all
    ends = 2 * job.model.vocab * job.model.hidden
    held = steady_parts(job, 0)

    assert sum(state_parts(job, 0).values()) == pytest.approx(
        states * model_parameters(job.model) / 16
    )
    assert 2 * ends <= held["gathered_layers"] <= 2 * (2 * layer + ends) * 1.001


def test_modules_one_by_one_hold_less_than_layers():
    """What is gathered weight by weight is whole for its largest weight only."""
    job = build_job(scenario("deepspeed-zero3"))
    whole = build_job(scenario("deepspeed-zero3", "framework.sharding.by_module=false"))
    largest = 2 * job.model.hidden * 3 * job.model.hidden
    ends = 2 * 2 * job.model.vocab * job.model.hidden

    found = steady_parts(job, 0)["gathered_layers"] - ends
    assert found == pytest.approx(largest, rel=0.01)
    assert found < steady_parts(whole, 0)["gathered_layers"] - ends


def test_gradients_that_are_reduced_once_a_step_are_whole_until_then():
    """Summed up over microbatches they take their full size, reduced each time a sixteenth."""
    often = scenario("torchtitan", "batch.global=64")
    once = scenario("torchtitan", "batch.global=64", "framework.sharding.each_microbatch=false")
    shared, whole = (state_parts(build_job(each), 0)["gradients"] for each in (often, once))

    assert whole == pytest.approx(16 * shared)


# --- layers by work -------------------------------------------------------------------------------


@MODEST
@given(
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=60), st.floats(0.0, 20.0), st.integers(1, 12)
)
def test_layers_by_work_are_all_there_and_no_stage_is_empty(work, logits, parts):
    """Each layer is on one stage, each stage has one, and stages end once their part is passed."""
    parts = min(parts, len(work))
    shares = by_work(work, logits, parts)
    first = sum(work[: shares[0]])

    assert len(shares) == parts
    assert sum(shares) == len(work)
    assert min(shares) >= 1
    if parts > 1 and shares[0] < len(work) - parts + 1:
        assert first > (sum(work) + logits) / parts >= first - work[shares[0] - 1]


# --- what was measured ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "tolerance"),
    [
        pytest.param("mosaicml-a100-80g", 0.1, marks=pytest.mark.large),
        pytest.param("mosaicml-h100-large", 0.1, marks=pytest.mark.large),
        ("torchtitan-a100", 0.135),
    ],
)
def test_half_of_the_rows_of_a_group_are_near(group, tolerance):
    """Half of the rows are predicted within the tolerance, and all of them fit their devices."""
    errors = validated(group).groups[group]

    assert errors.gradable == errors.count
    assert errors.median_abs_error < tolerance
    assert errors.called_out_of_memory == 0


TWICE = ["cluster.nodes=96", "plan.data=768", "batch.micro=2"]
"""Twice the devices of `zero3-175b` at the same batch."""

PTD_P = ["framework=megatron-lm", "plan.zero=0", "plan.tensor=8", "plan.pipeline=12"]
"""Tensor and pipeline parallelism instead, with microbatches of one sequence."""


def rate_of_175b(*settings):
    return simulate("zero3-175b", settings).flops_per_device("hardware")


def test_tensor_and_pipeline_parallelism_keep_the_rate_that_zero_loses():
    """At twice the devices ZeRO-3 keeps less than two thirds of its rate, PTD-P nine tenths."""
    zero, zero_doubled = rate_of_175b(), rate_of_175b(*TWICE)
    ptdp = rate_of_175b(*PTD_P, "plan.data=4", "batch.micro=1")
    ptdp_doubled = rate_of_175b(*PTD_P, *TWICE[:1], "plan.data=8", "batch.micro=1")

    assert zero_doubled < 0.67 * zero
    assert ptdp_doubled > 0.9 * ptdp
    assert 1.4 < ptdp_doubled / zero_doubled < 1.9


def test_zero_loses_by_the_shares_of_ranks():
    """Without the host's work on the share of each rank, doubling costs less than a quarter."""
    free = ["framework.sharding.host_each=0 s"]

    assert rate_of_175b(*TWICE, *free) > 0.75 * rate_of_175b(*free)


# --- shards of some of the ranks ------------------------------------------------------------------


def test_a_hybrid_reduces_inside_its_shards_and_sums_over_the_copies():
    """On two nodes of eight: scattered over the eight of a node, then a share summed over two."""
    job, stacked = first_layer("torchtitan", shard=8)
    pushed = layer_push(job, stacked, BACKWARD)
    scattered = sum(c.nbytes for c in pushed if c.operation == "reduce-scatter")
    summed = sum(c.nbytes for c in pushed if c.axis == "copies")

    assert {c.operation for c in pushed} == {"reduce-scatter", "all-reduce"}
    assert summed == pytest.approx(scattered / 8)


def test_a_hybrid_holds_more_and_gathers_inside_a_node():
    """Eight shares instead of sixteen: twice the states a rank, all of whose sharers are near."""
    whole, hybrid = (scenario("torchtitan", shard=n) for n in (0, 8))
    parts = [simulate(each).memory.fullest.parts for each in (whole, hybrid)]
    groups = build_job(hybrid).placement.shard_groups()[0].tolist()

    assert parts[1]["optimiser"] == pytest.approx(2 * parts[0]["optimiser"])
    assert all(len({device // 8 for device in group}) == 1 for group in groups)
