"""Claim 15: recomputation costs a third of small batches, and makes room for large ones."""

import pytest

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.megatron import DEEP, ROW
from clustersim.validation.claims.verdicts import judge


def step(batch, recompute):
    settings = [f"batch.global={batch}", f"recompute={recompute}", "batch.micro=1"]
    return simulate(ROW, [*DEEP, *settings])


def test_a_small_batch_takes_a_third_longer():
    """33 % longer at a batch of 1, within 5 points."""
    verdict = judge(15)
    expected = verdict.claim.expected["longer at a batch of 1"]

    assert expected.met(verdict.predicted["longer at a batch of 1"])


def test_sixteen_microbatches_nearly_fill_a_device_without_it():
    """At a batch of 16 and more stage 0 holds 16 microbatches: within 2 % of all memory.

    The claim wants more than there is, 79.25 GiB: 78.5 are 1 % below.
    """
    memory = step(16, "none").memory

    assert memory.fullest.stage == 0
    assert memory.fullest.in_flight == 16
    assert memory.fullest.peak > 0.98 * memory.capacity
    assert step(64, "none").memory.fullest.peak == pytest.approx(memory.fullest.peak)


def test_twice_the_best_throughput_if_that_is_the_end():
    """Over a batch of 8, the last that has room to spare, a batch of 256 gains 2.0 times."""
    last, best = step(8, "none"), step(256, "full")

    assert last.memory.fullest.peak < 0.8 * last.memory.capacity
    assert best.memory.fits
    assert best.samples_per_s / last.samples_per_s == pytest.approx(2, abs=0.05)
