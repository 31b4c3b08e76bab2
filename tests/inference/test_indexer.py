"""Services of models with sparse attention: an indexer chooses the tokens a query attends to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import PlanError
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.formats import Formats
from clustersim.inference.indexer import chosen_seconds, decode_choice, prompt_choice
from clustersim.inference.layout import Layout
from clustersim.inference.replica import build_replica
from clustersim.inference.step_costs import StepCosts
from clustersim.scenario.entries import entry
from clustersim.simulation.service.serve import serve
from clustersim.topology.cluster import build_cluster
from clustersim.workload.model import build_model

MODEST = settings(max_examples=25, deadline=None)

EIGHT = Layout(tensor=8)


def shape_of(name, **changes):
    record = entry("model", name).record
    return replace(build_model(record, 131_072, 1, 1), layers=8, **changes)


def costs(shape, layout=EIGHT):
    """Return the costs of steps of a model on a node of H200."""
    machine, engine = build_cluster(entry("cluster", "dgx-h200").record, 1), entry("engine", "vllm")
    formats = Formats(weights="fp8-block")
    return StepCosts(build_replica(machine, shape, layout, formats, engine.record))


SPARSE = costs(shape_of("deepseek-v3.2"))
FULL = costs(shape_of("deepseek-v3"))


def attention(model, sequences, keys):
    return model.step(Batch(sequences, sequences * keys, ())).parts["kv"]


@given(st.integers(1, 256), st.integers(4096, 100_000))
@MODEST
def test_long_contexts_cost_their_scores_and_no_more_attention(sequences, keys):
    """Beyond 2,048 tokens a step grows by the keys of the indexer: 132 bytes, and scores of 8."""
    reads = 8 * (128 + 4 + 8) * sequences * keys
    grown = attention(SPARSE, sequences, 2 * keys) - attention(SPARSE, sequences, keys)
    fast = SPARSE.replica.kernels.device.memory_bandwidth

    assert reads / fast < grown * 1.0001
    assert grown < attention(FULL, sequences, 2 * keys) - attention(FULL, sequences, keys)


def test_drafted_tokens_share_keys_and_choose_tokens_of_their_own():
    """Three queries of 16 sequences attend as 48 do, and read the keys of the indexer once."""
    (stage,), keys = SPARSE.stages, np.array([50_000.0])
    indexer, kernels = stage.indexer, SPARSE.replica.kernels

    def seconds(sequences, queries):
        decoding = stage.decode(np.array([float(sequences)]), keys, queries)
        choice = 8 * decode_choice(kernels, indexer, sequences, keys, queries)
        return float(decoding[0]), float(choice[0])

    (drafted, choice), (apart, choices) = seconds(16, 3), seconds(48, 1)
    reads = 8 * 2 * (128 + 4) * 16 * 50_000
    assert drafted - choice == pytest.approx(apart - choices, rel=1e-12)
    assert choices - choice > reads / kernels.device.memory_bandwidth


def test_short_contexts_are_attended_to_in_full():
    """Up to 2,048 tokens the indexer is work on top of attention to all of them."""
    assert attention(SPARSE, 32, 1024) > attention(FULL, 32, 1024)
    assert attention(SPARSE, 32, 65_536) < attention(FULL, 32, 65_536)


def test_a_cached_token_has_the_key_of_the_indexer():
    """576 numbers of 2 bytes, and 128 of one with a scale of 4: on every device of the group."""
    assert SPARSE.replica.cached_bytes == 2 * 576 + 132
    assert FULL.replica.cached_bytes == 2 * 576


def test_prompts_score_as_many_pairs_as_queries_have_tokens_before_them():
    """Twice the heads take twice the products."""
    kernels, latent = SPARSE.replica.kernels, SPARSE.replica.model.latent
    wide = latent.indexer.model_copy(update={"heads": 2 * latent.indexer.heads})
    q, k = np.array([32_000.0]), np.array([20_000.0])
    one, two = (float(prompt_choice(kernels, each, q, k)[0]) for each in (latent.indexer, wide))
    rates = kernels.device.peak["fp8"]

    assert 2 * 64 * 128 * 32_000 * 20_000 / rates < two - one


def test_prompts_of_a_step_are_scored_together():
    """Up to 2,048 tokens attention is that of V3, and the choice one kernel for all lengths."""

    def choice(lengths):
        step = Batch(0, 0, tuple(Prompt(n, 1500) for n in lengths))
        with_scores, without = (model.step(step).parts["prefill"] for model in (SPARSE, FULL))
        return with_scores - without

    assert choice(range(100, 109)) == pytest.approx(choice([104] * 9), rel=1e-3)


def test_long_prompts_attend_to_chosen_tokens_with_all_heads():
    """Sparse attention of 100,000 tokens takes a third of full attention on one device.

    On eight, whose 16 heads are padded to 64 and which all score all tokens, it takes longer.
    Prompts of up to 2,048 tokens attend in full.
    """
    step, short = Batch(0, 0, (Prompt(100_000),)), Batch(0, 0, (Prompt(2_000),))
    one = [costs(shape_of(name), Layout()) for name in ("deepseek-v3.2", "deepseek-v3")]
    sparse, full = (model.step(step).parts["prefill"] for model in one)
    wide = [model.step(step).parts["prefill"] for model in (SPARSE, FULL)]
    few = [model.step(short).parts["prefill"] for model in (SPARSE, FULL)]

    assert sparse < full / 3
    assert full / 8 == pytest.approx(wide[1], rel=0.01)
    assert wide[0] > wide[1]
    assert few[1] < few[0] < 2 * few[1]


def test_heads_of_a_device_are_padded_to_a_tile():
    """16 heads take as long as 64, at some 640 TFLOP/s, which FlashMLA states for an H800."""
    kernels, head = SPARSE.replica.kernels, SPARSE.replica.head
    indexer, queries = SPARSE.replica.model.latent.indexer, np.array([30_000.0])
    each = [
        float(chosen_seconds(kernels, "bf16/bf16", head._replace(heads=n), indexer, queries, 1)[0])
        for n in (16, 64, 128)
    ]

    assert each[0] == each[1] == pytest.approx(each[2] / 2, rel=0.02)
    assert 2 * 30_000 * 2_048 * 64 * (576 + 512) / each[0] == pytest.approx(640e12, rel=0.15)


def test_a_replica_of_an_indexer_splits_no_contexts():
    """Ranks of a context group would choose tokens from parts of the context."""
    with pytest.raises(PlanError, match=r"plan\.context: is not modelled with an indexer"):
        costs(shape_of("deepseek-v3.2"), Layout(tensor=4, context=2))


def test_a_service_of_long_contexts_is_faster_with_an_indexer():
    """One context of 120,000 tokens on 8 H200: the first token later than of V3, others sooner."""
    served = {
        "cluster": "dgx-h200",
        "plan": {"tensor": 8},
        "load": {"requests": 1, "concurrency": 1, "input": 120_000, "output": 64},
    }
    models = ("deepseek-v3", "deepseek-v3.2")
    full, sparse = (serve("llama3-70b-h100-serving", {**served, "model": each}) for each in models)

    assert sparse.tpot.mean < full.tpot.mean
    assert sparse.ttft.mean > full.ttft.mean
