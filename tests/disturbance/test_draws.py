"""Random numbers of causes: their distributions, and how sequences fill microbatches."""

import numpy as np
import pytest

from clustersim.disturbance import (
    Jitter,
    Pauses,
    SequenceLengths,
    attention_loads,
    generator,
    jitter_factors,
    pauses_of_step,
)


@pytest.mark.parametrize("distribution", ["normal", "log-normal", "exponential"])
def test_factors_have_the_stated_deviation(distribution):
    """Factors deviate as stated; their mean is 1, exponential delays add their own."""
    jitter = Jitter("noise", distribution=distribution, deviation=0.1)
    factors = jitter_factors(jitter, generator(jitter, 0), (200_000,))

    assert factors.std() == pytest.approx(0.1, rel=0.01)
    assert factors.mean() == pytest.approx(1.1 if distribution == "exponential" else 1, abs=1e-3)


def test_factors_are_never_negative():
    """A wide normal distribution is cut at 0: no kernel ends before it begins."""
    jitter = Jitter("noise", deviation=3.0)

    assert jitter_factors(jitter, generator(jitter, 0), (1_000,)).min() == 0


def test_a_histogram_gives_its_values_as_often_as_it_states():
    """Measured factors occur in the shares of their counts."""
    jitter = Jitter("noise", distribution="histogram", values=(1.0, 1.5, 4.0), weights=(7, 2, 1))
    factors = jitter_factors(jitter, generator(jitter, 0), (100_000,))
    values, counts = np.unique(factors, return_counts=True)

    assert values.tolist() == [1.0, 1.5, 4.0]
    assert counts / 100_000 == pytest.approx([0.7, 0.2, 0.1], abs=0.01)


def test_the_maximum_of_16384_factors_is_four_deviations_up():
    """m(16,384) = 3.971: the mean maximum of that many normal numbers."""
    jitter = Jitter("noise", deviation=0.01)
    maxima = [
        jitter_factors(jitter, generator(jitter, replication), (16_384,)).max()
        for replication in range(400)
    ]

    assert (np.mean(maxima) - 1) / 0.01 == pytest.approx(3.971, abs=0.05)


def test_a_device_pauses_once_in_its_interval():
    """One step in `every` has a pause, at a random forward."""
    pauses = Pauses("collection", length=0.3, every=5)
    hits = [pauses_of_step(pauses, replication, 1_000) for replication in range(20)]
    places = [place for hit in hits for place in hit.values()]

    assert sum(map(len, hits)) == pytest.approx(20 * 1_000 / 5, rel=0.05)
    assert np.mean(places) == pytest.approx(0.5, abs=0.02)


def test_short_sequences_have_a_share_of_the_attention():
    """32 sequences of 1 K in a row of 32 K have 1 / 32 of the attention of one."""
    one, many, cut = (
        SequenceLengths("lengths", lengths=(length,), weights=(1.0,))
        for length in (32_768, 1_024, 40_000)
    )

    for cause, expected in ((one, 1.0), (many, 1 / 32), (cut, 1.0)):
        loads = attention_loads(cause, generator(cause, 0), 3, 2, 32_768)
        assert loads == pytest.approx([expected] * 3)


def test_drawn_sequences_fill_a_microbatch():
    """The last sequence of a row is cut; loads are between the shortest's and the longest's."""
    cause = SequenceLengths("lengths", lengths=(100, 1_000), weights=(3.0, 1.0))
    loads = attention_loads(cause, generator(cause, 0), 50, 1, 4_096)

    assert 100 / 4_096 * 0.9 < loads.min() < loads.max() <= 1_000 / 4_096
