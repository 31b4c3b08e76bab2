"""Laws of a step of an inference engine, on devices whose kernels have no time of their own."""

from dataclasses import replace

import numpy as np
import pytest

from clustersim.catalog.records.engines import EngineRecord
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.formats import WEIGHTS, Formats
from clustersim.inference.layout import Layout
from clustersim.inference.replica import ExpertLoads, build_replica
from clustersim.inference.stage import Stage
from clustersim.inference.step_costs import NO_DRAFTING, Drafting, StepCosts
from clustersim.scenario.entries import entry
from clustersim.topology.accelerator import KernelFits
from clustersim.topology.cluster import build_cluster
from clustersim.workload.model import Layer, build_model
from clustersim.workload.parameters import model_parameters

PLAIN = {
    "launch": 0.0, "best": 1.0, "inner_half": 0.0, "memory": 1.0, "sharpness": 200.0,
    "unit": 1e30, "heat": 0.0, "depth": 0.0, "split": 0.0, "tile": 0.0,
    "row": 0.0, "moved": 0.0,
    "shared": 0.0, "expert": 0.0, "head_half": 0.0, "conversion": 0.0, "single": 1.0,
    "single_launch": 1.0, "parts": 1e3,
}  # fmt: skip
"""Terms of kernels that reach peak and bandwidth, and start in no time."""

KINDS = ("gemm", "attention-decode", "attention-prefill", "experts")
VARIANTS = ("bf16", "bf16/bf16", "int8-weights", "int4-weights", "fp8")
IDEAL = KernelFits("ideal", {(kind, name): PLAIN for kind in KINDS for name in VARIANTS})


def engine(name="vllm", collectives=None, host=None, *, ahead=False, **kernels) -> EngineRecord:
    """Return an engine with a free host, and changed facts of host, collectives and kernels."""
    record = entry("engine", name).record
    return record.model_copy(
        update={
            **dict.fromkeys(("step", "sequence", "in_flight", "dispatch"), 0.0),
            **(host or {}),
            "graphs": None,
            "scheduler": record.scheduler.model_copy(update={"ahead": ahead}),
            "kernels": record.kernels.model_copy(update={"measured": None, **kernels}),
            "collectives": record.collectives.model_copy(update=collectives or {}),
        }
    )


def step_costs(
    layout,
    *,
    model="llama3-70b",
    formats=None,
    fits=(IDEAL,),
    shares=None,
    drafting=NO_DRAFTING,
    **facts,
):
    """Return the costs of steps on ideal H100; on measured ones with ``fits=None``."""
    record = entry("model", model).record
    cluster = build_cluster(entry("cluster", "dgx-h100").record, 1)
    if fits is not None:
        cluster.accelerator = replace(
            cluster.accelerator, fits=fits, memory_achieved=1.0, launch_overhead=0.0
        )
    shape = build_model(record, record.sequence, 1, 1)
    parts = layout, formats or Formats(), engine(**facts), shares
    return StepCosts(build_replica(cluster, shape, *parts), drafting)


def test_a_batch_of_one_is_bound_by_the_bytes_of_the_weights():
    """All weights but the embedding are read once: bytes over bandwidth, without any other time."""
    costs = step_costs(Layout())
    model, device = costs.replica.model, costs.replica.kernels.device
    read = 2 * (model_parameters(model) - model.vocab * model.hidden)
    parts = costs.step(Batch(1, 1)).parts

    assert parts["weights"] + parts["sampling"] == pytest.approx(
        read / device.memory_bandwidth, rel=0.003
    )
    assert "compute" not in parts


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_twice_the_tensor_degree_halves_the_weights_of_a_device(tensor):
    """Of the split weights each device holds half; norms are whole."""
    one, two = (step_costs(Layout(tensor=n)).memory.parts["weights"] for n in (tensor, 2 * tensor))

    assert two == pytest.approx(one / 2, rel=1e-4)


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_tensor_parallelism_scales_exactly_without_communication(tensor):
    """The products of a device and its keys are an equal share, as long as heads divide."""
    batch = Batch(1, 4096)
    one, many = (step_costs(Layout(tensor=n)).step(batch).parts for n in (1, tensor))

    assert many["weights"] == pytest.approx(one["weights"] / tensor, rel=1e-3)
    assert many["kv"] == pytest.approx(one["kv"] / tensor, rel=1e-6)


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_tensor_parallelism_never_lowers_the_work_of_a_step(tensor):
    """Devices times their compute is no less than on one device; keys beyond heads are copies."""
    batch = Batch(0, 0, (Prompt(8192),))
    one, many = (step_costs(Layout(tensor=n)).step(batch).parts["compute"] for n in (1, tensor))

    assert many * tensor >= one * (1 - 1e-9)


def test_a_pipeline_leaves_the_time_of_a_token_and_shortens_the_slowest_stage():
    """A token passes all stages; the next batch follows after the slowest one."""
    batch = Batch(8, 8 * 1024)
    one, four = (step_costs(Layout(pipeline=n)).step(batch) for n in (1, 4))
    sent = four.parts["pipeline"]

    assert four.seconds - sent == pytest.approx(one.seconds, rel=1e-6)
    assert one.seconds / 4 <= four.slowest < one.seconds / 3


def test_skewed_experts_cost_maximum_over_mean():
    """Where experts are bound by compute, the part of the experts grows with the busiest device.

    All tokens are sorted on each device, which skew leaves as it is.
    """
    shares = [3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    batch = Batch(0, 0, (Prompt(512 * 12 * 16),))
    layout = Layout(tensor=4, expert=4)
    even, uneven = (
        step_costs(layout, model="mixtral-8x7b", shares=given).step(batch).parts["experts"]
        for given in (None, shares)
    )

    assert uneven / even == pytest.approx(2.0, rel=5e-3)  # of 6 and 3 tokens


@pytest.mark.parametrize(("weights", "size"), [("int8", 1.0), ("int4", WEIGHTS["int4"])])
def test_narrow_weights_are_faster_for_one_sequence_and_not_for_many(weights, size):
    """Weights alone are read faster in proportion, and multiplied in 16 bits: the sign turns."""
    layout, formats = Layout(tensor=8), Formats(weights=weights)
    one, many = Batch(1, 1), Batch(0, 0, (Prompt(16_384),))
    wide, narrow = (step_costs(layout, formats=given) for given in (Formats(), formats))

    ratio = narrow.step(one).parts["weights"] / wide.step(one).parts["weights"]
    assert ratio == pytest.approx(size / 2, rel=0.05)
    assert narrow.step(many).parts["compute"] >= wide.step(many).parts["compute"]


def test_fused_kernels_save_their_launches_for_one_sequence():
    """A token moves few bytes: of separate kernels there remains the time to start each."""
    layout, batch = Layout(tensor=4), Batch(1, 128)
    separate = step_costs(layout, fits=None, residual_norm=False, gate=False)
    fused = step_costs(layout, fits=None)
    launches = separate.stages[0].launches - fused.stages[0].launches
    saved = separate.step(batch).seconds - fused.step(batch).seconds
    overhead = fused.replica.kernels.device.launch_overhead

    assert launches == 3 * 80  # two norms and a gate of each layer
    assert saved == pytest.approx(launches * overhead, rel=0.02)
    assert saved / fused.step(batch).seconds > 0.02


def test_expected_experts_with_a_token_follow_their_formula():
    """Equal shares: E (1 - (1 - k/E)^T)."""
    tiles = ExpertLoads([1.0] * 64, chosen=4, devices=8).tiles(np.array([10.0]))

    assert 8 * tiles["active"][0] == pytest.approx(64 * (1 - (1 - 4 / 64) ** 10))


def test_prompts_of_a_step_share_the_launches_of_attention():
    """Further prompts of the same or another length add their work, and no launches."""
    replica = step_costs(Layout(), fits=None)
    stage, head = replica.stages[0], Prompt(64)

    def attention(*prompts):
        return replica.step(Batch(0, 0, prompts)).parts["prefill"]

    alone, other = attention(head), attention(Prompt(32))
    assert stage.prefill_launch > 0
    assert alone < attention(head, head) <= 2 * alone - stage.prefill_launch * (1 - 1e-9)
    assert attention(head, Prompt(32)) == pytest.approx(alone + other - stage.prefill_launch)
    assert attention(head, Prompt(32)) == attention(Prompt(32), head)


def test_chunks_of_a_prompt_are_prompts_of_their_own():
    """Two chunks and a half cost what three prompts do; the next tokens fill the last chunk."""
    full, chunks = Layer(), Layer(window=1024, chunked=True)
    replica = step_costs(Layout()).replica
    whole, local = (Stage(replica, {layer: 1}, last=False) for layer in (full, chunks))

    def attention(stage, queries, keys):
        return float(stage.prefill(np.array([float(queries)]), np.array([float(keys)]))[0])

    parts = 2 * attention(whole, 1024, 1024) + attention(whole, 512, 512)
    assert attention(local, 2560, 2560) == pytest.approx(parts)
    assert attention(local, 256, 2560) == attention(whole, 256, 512)
    assert attention(local, 512, 2304) == pytest.approx(
        attention(whole, 256, 1024) + attention(whole, 256, 256)
    )
    assert all(attention(local, q, 1024) == attention(whole, q, 1024) for q in (1, 512, 1024))


@pytest.mark.parametrize("prompt", [4096, 20_000, 120_000])
def test_queries_beyond_a_window_read_it_alone(prompt):
    """The tokens of each window attend to it and to the one before, wherever they are."""
    size = 1024
    replica = step_costs(Layout()).replica
    whole, local = (Stage(replica, {Layer(window=one): 1}, last=False) for one in (None, size))

    def attention(stage, queries, keys):
        seconds = stage.prefill(np.array([float(queries)]), np.array([float(keys)]))[0]
        return float(seconds) - stage.prefill_launch

    assert attention(local, size, size) == attention(whole, size, size)
    assert attention(local, 256, 512) == attention(whole, 256, 512)
    first, next_window = attention(local, size, size), attention(local, size, prompt)
    assert next_window == attention(local, size, 2 * size)
    windows = prompt / size - 1
    assert attention(local, prompt, prompt) == pytest.approx(first + windows * next_window, rel=0.1)
    assert attention(local, prompt, prompt) < attention(whole, prompt, prompt)
    pairs, causal = prompt * size - size**2 / 2, prompt**2 / 2
    ratio = attention(local, prompt, prompt) / attention(whole, prompt, prompt)
    assert pairs / causal < ratio < 1.5 * pairs / causal


@pytest.mark.parametrize("chunked", [False, True])
def test_a_context_group_takes_as_long_as_the_last_queries(chunked):
    """The last quarter of a prompt sees its own windows, not those of the whole prompt."""
    layer = Layer(window=1024, chunked=chunked)
    alone, shared = (
        Stage(step_costs(Layout(context=n)).replica, {layer: 1}, last=False) for n in (1, 4)
    )
    keys = np.array([20_000.0, 600.0])

    assert (shared.prefill(keys, keys) == alone.prefill(keys / 4, keys)).all()


def test_a_decoded_token_reads_half_of_a_chunk_in_the_mean():
    """All keys before the end of the first chunk, then (c + 1) / 2 of them, as long as it gets."""
    replica = step_costs(Layout()).replica
    keys, one = np.array([1.0, 1000.0, 1024.0, 1025.0, 9000.0]), np.ones(5)
    seen = np.array([1.0, 1000.0, 1024.0, 512.5, 512.5])
    local = Stage(replica, {Layer(window=1024, chunked=True): 1}, last=False)

    assert (
        local.decode(one, keys).tolist()
        == Stage(replica, {Layer(): 1}, last=False).decode(one, seen).tolist()
    )


def test_each_collective_of_the_library_waits_for_the_last_device():
    """The skew of two all-reduces a layer and of the gather of logits is added to a step."""
    none, some = (
        step_costs(Layout(tensor=8), collectives={"library": "nccl", "skew": skew})
        for skew in (0.0, 50e-6)
    )
    batch = Batch(1, 128)
    calls = 2 * some.replica.model.layers + 1

    assert some.step(batch).seconds - none.step(batch).seconds == pytest.approx(calls * 50e-6)


def test_half_the_rate_of_the_library_is_twice_the_bytes():
    """All-reduces of some tokens at half the bandwidth take as long as those of twice as many."""
    half, whole = (
        step_costs(Layout(tensor=8), collectives={"library": "nccl", "rate": rate})
        for rate in (0.5, 1.0)
    )
    slow, fast = half.step(Batch(0, 0, (Prompt(1024),))), whole.step(Batch(0, 0, (Prompt(2048),)))

    assert slow.parts["tensor"] == pytest.approx(fast.parts["tensor"])


def test_attention_in_separate_kernels_writes_the_scores_of_prompts():
    """Scores cost time with the square of a prompt, and nothing where one token is decoded."""
    one, apart = (step_costs(Layout(), prompts=fused) for fused in (True, False))

    def added(tokens):
        batch = Batch(0, 0, (Prompt(tokens),))
        return apart.step(batch).parts["prefill"] - one.step(batch).parts["prefill"]

    assert added(4096) > 2.5 * added(2048) > 0
    assert apart.step(Batch(4, 4096)).parts == one.step(Batch(4, 4096)).parts


def test_a_host_that_schedules_ahead_costs_what_it_takes_longer_than_the_devices():
    """A short host is free; a long one sets the pace of steps."""
    batch, alone = Batch(64, 64 * 128), step_costs(Layout())
    device = alone.step(batch).seconds

    for each, waited in ((1e-6, 0.0), (2 * device / 64, device)):
        ahead = step_costs(Layout(), host={"sequence": each}, ahead=True)
        after = step_costs(Layout(), host={"sequence": each})
        assert ahead.step(batch).seconds == pytest.approx(device + waited)
        assert after.step(batch).seconds == pytest.approx(device + 64 * each)


def test_a_pipeline_schedules_the_sequences_of_all_batches_in_flight():
    """Each stage more adds the host time of another batch of sequences to the slowest stage."""
    batch = Batch(64, 64 * 128)

    def waited(stages):
        return step_costs(Layout(pipeline=stages), host={"in_flight": 6e-6}).step(batch).parts

    assert "host" not in waited(1)
    assert waited(2)["host"] == pytest.approx(64 * 6e-6)
    assert waited(8)["host"] == pytest.approx(7 * 64 * 6e-6)


def test_a_draft_model_takes_its_own_steps_and_the_room_of_its_weights_and_keys():
    """A step adds one of the draft model for each drafted token, and one for the prompts."""
    small = step_costs(Layout(tensor=8), model="llama3-8b")
    alone = step_costs(Layout(tensor=8), drafting=Drafting(3))
    drafted = step_costs(Layout(tensor=8), drafting=Drafting(3, small))
    batch, prompts = Batch(8, 8 * 512), (Prompt(256),)

    added = drafted.step(batch).seconds - alone.step(batch).seconds
    assert added == pytest.approx(3 * small.device_seconds(batch))
    mixed = drafted.step(batch._replace(prompts=prompts)).parts["draft"]
    assert mixed == pytest.approx(added + small.device_seconds(Batch(0, 0, prompts)))
    assert drafted.seconds(batch) == pytest.approx(drafted.step(batch).seconds, rel=0.03)

    held = drafted.memory.parts["draft_model"]
    assert held == pytest.approx(small.memory.parts["weights"])
    assert drafted.memory.tokens < alone.memory.tokens


def test_heads_that_draft_take_their_share_of_the_verifying_step():
    """Three drafted tokens at a tenth of a step each make it 1.3 times as long."""
    free, heads = (step_costs(Layout(), drafting=Drafting(3, share=share)) for share in (0.0, 0.1))
    batch = Batch(8, 8 * 512)

    assert heads.step(batch).seconds == pytest.approx(1.3 * free.step(batch).seconds)
    assert heads.step(Batch(0, 0, (Prompt(64),))) == free.step(Batch(0, 0, (Prompt(64),)))


@pytest.mark.parametrize("context", [2, 4, 8])
def test_a_context_group_divides_a_prompt_and_gathers_its_keys(context):
    """Products of a prompt scale exactly; the gather has the bytes of all its keys and values."""
    prompt = Batch(0, 0, (Prompt(65_536),))
    one, many = (step_costs(Layout(context=n)) for n in (1, context))
    alone, shared = one.step(prompt).parts, many.step(prompt).parts
    model = many.replica.model
    nbytes = 2 * 2 * model.kv_heads * model.head_size * 65_536
    gather = many.replica.links.context_gather(np.array([float(nbytes)]))[0]

    assert shared["compute"] == pytest.approx(alone["compute"] / context, rel=0.01)
    assert shared["context"] == pytest.approx(model.layers * gather)
    assert "context" not in alone
    assert many.seconds(prompt) == pytest.approx(many.step(prompt).seconds, rel=0.03)


def test_a_context_group_reads_its_share_of_the_cache_and_combines_the_results():
    """Decoding of long sequences is faster by less than the number of devices."""
    batch = Batch(1, 100_000)
    one, four = (step_costs(Layout(context=n)).step(batch) for n in (1, 4))

    assert four.parts["kv"] == pytest.approx(one.parts["kv"] / 4, rel=0.01)
    assert four.parts["context"] > 0
    assert one.seconds / 4 < four.seconds < one.seconds
