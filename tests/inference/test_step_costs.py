"""A step of a replica: its parts, its tables, and what parallelism does to it."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.engine.requests.scheduling import later
from clustersim.errors import PlanError
from clustersim.inference.batch import Batch, Prompt, ends_of
from clustersim.inference.formats import Formats
from clustersim.inference.layout import Layout
from clustersim.inference.replica import build_replica
from clustersim.inference.stage import Stage
from clustersim.inference.step_costs import StepCosts
from clustersim.scenario.entries import entry
from clustersim.topology.cluster import build_cluster
from clustersim.workload.model import build_model

ALONE = Layout()
WIDE = Formats()


def costs(
    layout=ALONE, *, model="llama3-8b", cluster="dgx-h100", nodes=1, formats=WIDE,
    engine="vllm",
):  # fmt: skip
    """Return the costs of steps of a replica from the catalogue."""
    record = entry("model", model).record
    machine = build_cluster(entry("cluster", cluster).record, nodes)
    shape, how = build_model(record, record.sequence, 1, 1), entry("engine", engine).record
    return StepCosts(build_replica(machine, shape, layout, formats, how))


EXAMPLE = costs(Layout(tensor=2))
PROMPTS = (Prompt(512),)


@given(
    st.integers(1, 512),
    st.integers(1, 8000),
    st.lists(st.builds(Prompt, st.integers(1, 4000), st.integers(0, 4000)), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_tables_are_within_a_thirtieth_of_the_exact_step(sequences, keys, prompts):
    """Interpolation between knots costs accuracy of at most 3 %."""
    batch = Batch(sequences, sequences * keys, tuple(prompts))

    assert EXAMPLE.seconds(batch) == pytest.approx(EXAMPLE.step(batch).seconds, rel=0.03)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "fastertransformer"])
@given(st.integers(1, 5000), st.integers(0, 300_000), st.floats(0, 1), st.integers(1, 200))
@settings(max_examples=15, deadline=None)
def test_steps_that_only_decode_are_looked_up_together(engine, sequences, keys, more, steps):
    """The ends of a run of steps are those of its steps, also beyond the tables."""
    replica = costs(Layout(tensor=2), engine=engine)
    context = sequences * keys + int(more * sequences) + 1
    batches = [Batch(sequences, context + step * sequences) for step in range(steps)]

    ends = ends_of(replica.alike(0.5, batches[0], context, steps))

    singly = [*accumulate(map(replica.seconds, batches), initial=0.5)][1:]
    assert ends == pytest.approx(singly, rel=1e-13)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("layout", [Layout(tensor=2), Layout(context=2)])
@given(st.integers(0, 500), st.integers(0, 30_000), st.integers(1, 300), st.integers(1, 64))
@settings(max_examples=10, deadline=None)
def test_chunks_of_a_prompt_are_looked_up_together(engine, layout, sequences, keys, tokens, steps):
    """The ends of a run of steps are those of its steps, each with the next chunk of a prompt."""
    replica = costs(layout, engine=engine)
    first = Batch(sequences, sequences * keys, (Prompt(tokens, 70),))
    batches = [later(first, first.context, 1.0, step) for step in range(steps)]

    ends = ends_of(replica.alike(0.5, first, first.context, steps))

    singly = [*accumulate(map(replica.seconds, batches), initial=0.5)][1:]
    assert ends == pytest.approx(singly, rel=1e-13)


@pytest.mark.parametrize(("sequences", "keys"), [(1, 900), (7, 33_000), (100, 1_234), (300, 77)])
def test_tables_know_that_prompts_slow_the_attention_of_a_step(sequences, keys):
    """Steps with prompts have a table of their own, within the same 3 %."""
    card = costs(cluster="server-8xrtx-pro-6000")
    batch = Batch(sequences, sequences * keys, (Prompt(300), Prompt(40, 2_000)))

    assert card.seconds(batch) == pytest.approx(card.step(batch).seconds, rel=0.03)


def test_query_heads_read_their_keys_again_in_steps_with_prompts():
    """FlashAttention 2 shares keys between query heads only where all sequences decode.

    With prompts the 32 heads read the keys of 8: four times the bytes at 2.1 times the bandwidth.
    """
    card, sequences, keys = costs(cluster="server-8xrtx-pro-6000"), 64, 8_000
    decoding = Batch(sequences, sequences * keys)
    alone, together = (
        card.step(batch).parts["kv"] for batch in (decoding, decoding._replace(prompts=PROMPTS))
    )

    nbytes = 2 * 2 * 128 * 32 * sequences * keys * 32
    bandwidth = card.replica.kernels.device.memory_bandwidth
    assert together == pytest.approx(nbytes / (2.1 * bandwidth), rel=1e-6)
    assert together > 1.5 * alone


@pytest.mark.parametrize(
    ("cluster", "model", "engine"),
    [
        ("dgx-h100", "llama3-8b", "vllm"),  # FlashAttention 3 packs heads in every step
        ("server-8xrtx-pro-6000", "llama3-8b", "tensorrt-llm"),  # a kernel for each
        ("server-8xrtx-pro-6000", "deepseek-v3", "vllm"),  # latent attention, likewise
        ("mi300x-roce", "llama3-8b", "vllm"),  # not CUDA
        ("server-8xrtx-pro-6000", "llama2-7b", "vllm"),  # each query head has its own keys
    ],
)
def test_other_kernels_decode_as_fast_beside_prompts(cluster, model, engine):
    """Only the kernel that devices of some compute capabilities share is slower."""
    card = costs(cluster=cluster, model=model, engine=engine)
    decoding = Batch(64, 64 * 8_000)
    mixed = decoding._replace(prompts=PROMPTS)

    assert card.step(decoding).parts["kv"] == card.step(mixed).parts["kv"]


def test_prompts_multiply_in_8_bits_where_the_engine_and_its_cache_do():
    """On RTX PRO 6000 attention of a long prompt takes some half of its time in 16 bits."""
    batch = Batch(0, 0, (Prompt(16_000),))
    card, engine = "server-8xrtx-pro-6000", "tensorrt-llm"
    narrow, half, compiled = (
        costs(cluster=card, engine=name, formats=Formats(kv=kv)).step(batch).parts["prefill"]
        for name, kv in ((engine, "fp8"), (engine, "bf16"), (f"{engine}-0.6", "fp8"))
    )

    assert narrow < 0.6 * half
    assert compiled == pytest.approx(half, rel=0.1)


def test_tables_know_that_halves_of_a_batch_overlap():
    """Exchanges between experts hide behind the other half in tables as in the exact step."""
    wide = costs(
        Layout(attention_data=128, expert=128), model="deepseek-v3", cluster="deepseek-h800",
        nodes=16, formats=Formats(weights="fp8-block"), engine="deepseek",
    )  # fmt: skip
    for each in (1, 3, 32, 57, 64, 100, 128):
        batch = Batch(128 * each, 128 * each * 4_200)
        assert wide.seconds(batch) == pytest.approx(wide.step(batch).seconds, rel=0.03)


def test_parts_of_a_step_add_up_to_its_time():
    """No part of a step is lost or counted twice."""
    step = EXAMPLE.step(Batch(16, 16_000, (Prompt(512),)))

    assert sum(step.parts.values()) == pytest.approx(step.seconds)
    assert {"compute", "kv", "prefill", "tensor", "host"} <= {*step.parts}


def test_a_step_is_looked_up_without_its_kernels(monkeypatch):
    """Once its tables exist, no surface of a kernel is evaluated for a decoding step."""
    before = EXAMPLE.seconds(Batch(8, 8_000))
    monkeypatch.setattr(Stage, "dense", None)
    monkeypatch.setattr(Stage, "decode", None)

    assert EXAMPLE.seconds(Batch(8, 8_000)) == before
    assert EXAMPLE.seconds(Batch(8, 9_000)) > before


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"layout": Layout(tensor=16)}, "plan: a replica needs 16 devices, but the cluster has 8"),
        (
            {"layout": Layout(tensor=3)},
            "plan.tensor: 3 does not divide the 32 attention heads of 'llama3-8b' (divisors up to"
            " 16: 1, 2, 4, 8, 16)",
        ),
        (
            {"layout": Layout(expert=2, tensor=2)},
            "plan.expert: 'llama3-8b' has no experts (leave expert out)",
        ),
        (
            {"formats": Formats(kv="int8")},
            "precision.kv: engine 'vllm' has no int8 (allowed: fp16, bf16, fp8)",
        ),
    ],
)
def test_a_replica_that_cannot_be_built_is_described(more, complaint):
    """One line names the key, the value and what is allowed."""
    with pytest.raises(PlanError) as problem:
        costs(**more)

    assert str(problem.value) == complaint


def test_a_share_of_the_free_memory_leaves_weights_alone():
    """TensorRT-LLM takes 90 % of what weights and buffers leave, others 90 % of the device."""
    free, whole = costs(engine="tensorrt-llm").memory, costs(engine="vllm").memory

    held = sum(free.parts.values()) - free.parts["kv"]
    assert free.parts["kv"] == pytest.approx(0.9 * (free.capacity - held))
    assert whole.usable == pytest.approx(0.9 * whole.capacity)
    assert sum(free.parts.values()) == pytest.approx(free.usable)


def test_weights_beyond_the_device_do_not_fit_a_share_of_nothing():
    """Without free memory there is no KV cache; the missing bytes are those beyond the device."""
    found = costs(model="llama3-70b", engine="tensorrt-llm").memory

    assert not found.fits
    assert found.usable == found.capacity
    assert found.missing == pytest.approx(sum(found.parts.values()) - found.capacity)
