"""Packed samples and chunks: attention is that of each alone, and padding is no throughput."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.catalog.records.models import WindowShape
from clustersim.errors import ClustersimError
from clustersim.scenario.entries import entry
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.workload.flops import attention_flops, model_flops
from clustersim.workload.model import Layer, attended_tokens, build_model

MODEST = settings(max_examples=20, deadline=None)
DENSE = Layer()


def step(micro, sequence, *changes):
    """A step of Llama 3 8B on eight devices, four microbatches each."""
    batch = 8 * 4 * micro, micro, sequence
    plan = {"data": 8, "zero": 1}
    return training("dgx-h100", 1, "llama3-8b", plan, batch, "megatron-core", *changes)


def packed(mean, **keys):
    """Return the setting of packed samples."""
    stated = ", ".join(f"{key}: {value}" for key, value in {"mean": mean, **keys}.items())
    return f"batch.lengths={{{stated}}}"


@pytest.mark.parametrize("sample", [512, 1024, 4096])
def test_packed_samples_take_as_long_as_short_sequences(sample):
    """A sequence of 4,096 tokens in samples of one length is that many sequences of them."""
    one = simulate(step(1, 4096, packed(sample)))
    many = simulate(step(4096 // sample, sample))

    assert one.step_time == many.step_time
    assert one.tokens_per_s == many.tokens_per_s
    assert one.flops_per_device("model") == many.flops_per_device("model")
    assert one.flops_per_device("hardware") == pytest.approx(many.flops_per_device("hardware"))
    assert one.memory.stages == many.memory.stages


@MODEST
@given(st.lists(st.integers(1, 2048), min_size=1, max_size=40))
def test_the_length_of_the_sample_of_a_token_has_the_pairs_of_all_samples(lengths):
    """Sum of l^2 / 2 over samples is s / 2 times the mean length that a token is in."""
    sizes = np.array(lengths, float)
    attended = attended_tokens(sizes.mean(), sizes.std() / sizes.mean())
    record = entry("model", "llama3-8b").record
    model = build_model(record, int(sizes.sum()), 1, 1, attended)

    assert model.pairs(DENSE) == pytest.approx((sizes**2).sum() / 2)
    assert sizes.mean() <= attended * (1 + 1e-12) <= sizes.max() * (1 + 1e-9)


def test_longer_samples_take_longer():
    """Attention grows with the samples and their spread, up to that of the whole sequence."""
    times = [simulate(step(1, 8192, packed(mean))).step_time for mean in (128, 1024, 8192)]
    spread = simulate(step(1, 8192, packed(1024, spread=1.5))).step_time
    whole = simulate(step(1, 8192)).step_time

    assert all(shorter < longer for shorter, longer in pairwise(times))
    assert times[1] < spread < whole == times[2]


def test_a_window_sees_no_more_than_its_sample():
    """A window longer than the samples has no effect; a shorter one has that of short sequences."""
    record = entry("model", "llama3-8b").record
    model, short = (build_model(record, s, 1, 1, a) for s, a in ((4096, 256.0), (256, 0.0)))

    for window in (None, 64, 256, 1024):
        assert model.pairs(Layer(window=window)) == 16 * short.pairs(Layer(window=window))
    assert model_flops(model, 1) == model_flops(short, 16)


def chunked(sequence, tokens, full_every=None):
    """Return a model of one layer or more with attention in chunks."""
    model = build_model(entry("model", "llama3-8b").record, sequence, 1, 1)
    return replace(model, window=WindowShape(tokens=tokens, chunked=True, full_every=full_every))


@MODEST
@given(st.integers(1, 300), st.integers(1, 400))
def test_a_query_sees_the_tokens_of_its_chunk_before_it(sequence, tokens):
    """Pairs by enumeration, without half of the diagonal; of a long chunk they are all."""
    model = chunked(sequence, tokens)
    layer = Layer(window=tokens, chunked=True)
    visible = sum(query % tokens + 1 for query in range(sequence))

    assert model.pairs(layer) == pytest.approx(visible - sequence / 2)
    assert model.pairs(layer) <= model.pairs(Layer(window=tokens)) * (1 + 1e-12)
    if tokens >= sequence:
        assert model.layer(0) == DENSE
        assert model.pairs(layer) == model.pairs(DENSE)
        assert model.seen(layer) == model.seen(DENSE)


@pytest.mark.parametrize("chunks", [1, 2, 7])
def test_chunks_have_the_flops_of_as_many_sequences(chunks):
    """Attention of n chunks of c tokens is that of n sequences of c, forward and backward."""
    one, many = chunked(512 * chunks, 512), chunked(512, 512)

    assert model_flops(one, 1) == pytest.approx(model_flops(many, chunks))
    assert attention_flops(one) == 4 * 32 * chunks * 512 * 512 * 32 * 128
    job = build_job(step(1, 512 * chunks, "model.window={tokens: 512, chunked: true}"))
    short = build_job(step(chunks, 512))
    layers = Layer(window=512, chunked=True) if chunks > 1 else DENSE, DENSE
    assert job.layers.ops(layers[0]) == short.layers.ops(layers[1])


def test_chunks_are_faster_than_windows_and_full_attention():
    """A step over 32,768 tokens: chunks skip half of a window, every fourth layer is whole."""
    keys = "", ", chunked: true", ", chunked: true, full_every: 4"
    window, chunks, some = (
        simulate(step(1, 32768, f"model.window={{tokens: 4096{each}}}")).step_time for each in keys
    )

    assert chunks < window < some < simulate(step(1, 32768)).step_time


def test_kernels_that_write_the_matrix_compute_all_of_it():
    """Without flash attention the pairs of different samples are computed, and masked."""
    unfused = "framework.kernels.attention=unfused"
    whole, apart = (
        build_job(step(1, 2048, unfused, *lengths)).layers.ops(DENSE)
        for lengths in ((), (packed(128),))
    )

    assert whole == apart


def test_padding_is_no_throughput():
    """A step takes as long with padding, and has fewer tokens."""
    full, padded = (simulate(step(1, 4096, packed(512, filled=share))) for share in (1, 0.75))

    assert padded.step_time == full.step_time
    assert padded.tokens_per_s == 0.75 * full.tokens_per_s


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            [packed(5000)],
            "batch: lengths.mean: 5000 tokens of a sample exceed the 4096 of a sequence"
            " (take at most 4096)",
        ),
        (
            [
                packed(500),
                "disturbances=[{type: sequence-lengths, histogram: [[100, 1], [4000, 1]]}]",
            ],
            "batch.lengths: excludes the disturbance 'sequence-lengths', which draws the lengths"
            " of samples (leave one of them out)",
        ),
    ],
)
def test_lengths_that_contradict_others_are_rejected(changes, reason):
    """Samples are no longer than sequences, and their lengths are stated once."""
    with pytest.raises(ClustersimError) as error:
        build_job(step(1, 4096, *changes))

    assert str(error.value).endswith(reason)
