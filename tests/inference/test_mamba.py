"""Services of models with a pattern of layers: Mamba-2 states instead of a growing KV cache."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.engine.requests.sequences import BlockPool
from clustersim.errors import PlanError
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.formats import Formats
from clustersim.inference.layer_work import layer_work
from clustersim.inference.layout import Layout
from clustersim.inference.mamba import scan_bytes, scan_products, scan_seconds, update_seconds
from clustersim.inference.replica import build_replica
from clustersim.inference.step_costs import StepCosts
from clustersim.scenario.entries import entry
from clustersim.simulation.service.serve import serve
from clustersim.topology.cluster import build_cluster
from clustersim.workload.flops import scan_flops
from clustersim.workload.model import build_model

MODEST = settings(max_examples=25, deadline=None)

SERVED = {
    "model": "nemotron-h-8b", "plan": {"tensor": 1}, "precision": "bf16",
    "load": {"requests": 40, "concurrency": 8, "input": 256, "output": 32},
}  # fmt: skip


def shape_of(model, **changes):
    """Return a model of the catalogue, changed."""
    record = entry("model", model).record
    return replace(build_model(record, record.sequence, 1, 1), **changes)


ALONE = Layout()


def costs(shape, layout=ALONE):
    """Return the costs of steps of a model on a node of H100."""
    machine, engine = build_cluster(entry("cluster", "dgx-h100").record, 1), entry("engine", "vllm")
    return StepCosts(build_replica(machine, shape, layout, Formats(), engine.record))


def work_of(model):
    """Return what a device runs for the first layer of a model."""
    return layer_work(model.replica, model.replica.model.stack[0])


HYBRID = costs(shape_of("nemotron-h-8b"))


@given(
    st.sampled_from([ALONE, Layout(tensor=4), Layout(tensor=2, pipeline=2)]),
    st.integers(1, 300), st.integers(1, 5000), st.integers(0, 3000),
)  # fmt: skip
@MODEST
def test_layers_in_halves_are_whole_layers(layout, sequences, keys, prompt):
    """A pattern of attention and MLPs in turn is the model whose layers have both."""
    whole = shape_of("llama3-8b")
    halves = replace(whole, layers=2 * whole.layers, pattern="*-" * whole.layers)
    batch = Batch(sequences, sequences * keys, (Prompt(prompt),) if prompt else ())

    one, two = costs(whole, layout), costs(halves, layout)

    assert two.step(batch).parts == pytest.approx(one.step(batch).parts, rel=1e-12)
    assert two.memory == one.memory


@given(st.integers(1, 400), st.integers(1, 20_000))
@MODEST
def test_states_cost_the_same_after_any_number_of_tokens(sequences, keys):
    """A step that decodes grows with the contexts by the attention of a model's 4 layers alone."""
    dense = costs(shape_of("nemotron-h-8b", layers=8, pattern="*-*-*-*-"))

    def attention(model):
        short, long = (Batch(sequences, sequences * each) for each in (1, keys))
        return model.step(long).parts["kv"] - model.step(short).parts["kv"]

    assert attention(HYBRID) == pytest.approx(attention(dense), rel=1e-9, abs=1e-12)


@given(st.integers(1, 400), st.integers(1, 4000), st.sampled_from([1, 2, 4, 8]))
@MODEST
def test_tensor_ranks_share_states_and_scans(sequences, tokens, tensor):
    """Each has its share of the bytes of an update and of the states; no scan takes longer."""
    one, shared = HYBRID.replica, costs(shape_of("nemotron-h-8b"), Layout(tensor=tensor)).replica
    shape = one.model.mamba
    launches = one.kernels.passes(0.0, 2)

    def moved(replica):
        return float(update_seconds(replica, shape, sequences) - launches)

    assert moved(shared) * tensor == pytest.approx(moved(one), rel=1e-12)
    assert shared.state_bytes * tensor == pytest.approx(one.state_bytes, rel=1e-12)
    assert scan_seconds(shared, shape, tokens) <= scan_seconds(one, shape, tokens)


@pytest.mark.parametrize("rule", ["sum", "delta"])
def test_a_scan_has_the_flops_of_training(rule):
    """Its products over some tokens are those of the scan of a sequence, on one device."""
    shape = HYBRID.replica.model.mamba.model_copy(update={"rule": rule})
    products = scan_products(HYBRID.replica, shape)
    flops = sum(2 * 4_096 * each.n * each.k * each.batch for each in products)

    assert flops == scan_flops(shape, 4_096)


def test_passes_of_a_scan_move_the_bytes_of_its_kernels():
    """Qwen3-Next: 8,192 convolved, 32 steps, 4,096 x 128 / 64 states, 16 x 128 keys, 32 x 64 pairs.

    Bytes of each: 4, 2 + 2 + 8, 4, 2 x 4 for queries and keys, and 6. Mamba-2 has 10 a step and
    8 a number of a state.
    """
    shape = shape_of("qwen3-next-80b-a3b").mamba
    conv, states = 4 * 8192, 4096 * 128 // 64

    assert scan_bytes(shape) == conv + 12 * 32 + 4 * states + 8 * 16 * 128 + 6 * 32 * 64
    other = shape.model_copy(update={"rule": "sum"})
    assert scan_bytes(other) == conv + 10 * 32 + 8 * states


def test_prompts_of_a_step_are_scanned_together():
    """Prompts of 97 to 128 tokens have two chunks of 64 each; they took 5.1 times as long."""
    model = costs(shape_of("qwen3-next-80b-a3b"), Layout(tensor=4))
    even, uneven = (
        model.step(Batch(0, 0, tuple(Prompt(128 - n * spread) for n in range(32)))).parts["prefill"]
        for spread in (0, 1)
    )

    assert even < uneven < 1.3 * even


def test_an_update_reads_and_writes_the_state():
    """64 sequences of Nemotron-H 8B: 2 x 4.2 MB each, at the rate of passes over memory."""
    shape, device = HYBRID.replica.model.mamba, HYBRID.replica.kernels.device
    state = 4 * 128 * 64 * 128 + 2 * 3 * (128 * 64 + 2 * 8 * 128)
    moved = 64 * (2 * state + 2 * 2 * (128 * 64 + 2 * 8 * 128 + 128 * 64))
    rate = device.memory_bandwidth * device.memory_achieved

    assert HYBRID.replica.state_bytes == state
    assert update_seconds(HYBRID.replica, shape, 64) == pytest.approx(
        moved / rate + 2 * device.launch_overhead, rel=1e-12
    )


def test_gates_of_attention_widen_its_queries():
    """As many columns more as the queries have, and a pass over the results."""
    plain = shape_of("qwen3-8b")
    one, two = (costs(replace(plain, attention_gate=gate)) for gate in (False, True))
    products = [{n for _, n, *_ in work_of(each).products} for each in (one, two)]
    passes = [sum(each.nbytes for each in work_of(model).passes) for model in (one, two)]

    assert products[1] - products[0] == {(2 * 32 + 2 * 8) * 128}
    assert passes[1] - passes[0] == 3 * 2 * 32 * 128


def test_states_of_a_sequence_take_room_of_the_cache():
    """24 layers of states are 6,240 tokens of 4 layers; as many sequences fit as states allow."""
    result = serve("llama3-70b-h100-serving", SERVED)
    kv, state = result.answer.kv, 24 * HYBRID.replica.state_bytes
    each = kv.bytes_per_token * kv.block_tokens

    assert kv.bytes_per_token == 4 * 2 * 8 * 128 * 2
    assert kv.state_tokens == -(-state // each) * kv.block_tokens == 6_240
    assert result.memory.largest_batch == kv.capacity_tokens // (256 + 32 + 6_240)
    assert result.model.room(256 + 32) == result.memory.largest_batch


def test_a_backlog_begins_with_as_many_sequences_as_have_room():
    """Without their states more began than have room, and the rate was 23.2 +- 0.2 requests/s."""
    load = {"rate": 8, "requests": 300, "input": 256, "output": 256}
    steady = serve("llama3-70b-h100-serving", {**SERVED, "load": load}).answer.steady

    assert steady.sustainable_requests_per_s == pytest.approx(22.5, rel=0.01)
    assert steady.half_width < 0.05


@given(st.integers(0, 20), st.integers(0, 500))
@MODEST
def test_a_sequence_has_blocks_for_its_states_and_its_tokens(state, tokens):
    """Blocks of the states are added to those of the tokens."""
    pool = BlockPool(total=100, tokens=16, state=state)

    assert pool.blocks_of(tokens) == state + BlockPool(total=100, tokens=16).blocks_of(tokens)


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        (Layout(tensor=3), "plan.tensor: 3 does not divide the 128 Mamba-2 heads of"),
        (Layout(context=2), "plan.context: is not modelled for layers of Mamba-2"),
        (Layout(pipeline=8), "plan.pipeline: one of 8 stages of 'nemotron-h-8b' has no layer with"),
    ],
)
def test_what_a_hybrid_cannot_be_divided_into_is_a_line(layout, problem):
    """A layout that does not divide Mamba heads, shares contexts, or has stages without a cache."""
    with pytest.raises(PlanError, match=problem.replace("(", r"\(")):
        costs(shape_of("nemotron-h-8b"), layout)


def test_speculation_of_a_hybrid_is_a_line():
    """Drafted tokens that are rejected would need the state before them."""
    drafted = {**SERVED, "speculation": {"tokens": 2, "acceptance": 0.7}}

    with pytest.raises(PlanError, match="speculation: is not modelled with layers of Mamba-2"):
        serve("llama3-70b-h100-serving", drafted)
