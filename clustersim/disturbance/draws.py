"""Random numbers of causes: each from a generator of its own, so that one cause moves no other.

generator(name, seed, replication, number)     the same numbers whatever else the job has
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from clustersim.disturbance.causes import Cause, Jitter, Pauses, SequenceLengths

if TYPE_CHECKING:
    from numpy.random import Generator

Floats = NDArray[np.float64]

MOST_DRAWN = 4_096
"""Sequences that are drawn at once to fill microbatches."""


def generator(cause: Cause, replication: int, number: int = 0) -> "Generator":
    """Return the generator of a cause, for a replication and a device or a replica."""
    return np.random.default_rng([crc32(cause.name.encode()), cause.seed, replication, number])


def jitter_factors(jitter: Jitter, rng: "Generator", shape: tuple[int, ...]) -> Floats:
    r"""Return random factors of the time of kernels [unitless].

    .. math:: 1 + \sigma Z, \qquad e^{s Z - s^2 / 2}, \qquad 1 + \sigma E

    with \sigma = `deviation`, s^2 = \ln(1 + \sigma^2), Z normal and E exponential, both of
    deviation 1; no factor is below 0. Exponential delays are added to the time, whose mean they
    raise by \sigma. A histogram gives its own values.
    """
    if jitter.distribution == "histogram":
        return np.asarray(jitter.values, float)[_chosen(jitter.weights, rng, shape)]
    if jitter.distribution == "exponential":
        return np.asarray(1.0 + jitter.deviation * rng.standard_exponential(shape))
    drawn = rng.standard_normal(shape)
    if jitter.distribution == "log-normal":
        spread = np.log1p(jitter.deviation**2)
        return np.asarray(np.exp(np.sqrt(spread) * drawn - spread / 2))
    return np.maximum(0.0, 1.0 + jitter.deviation * drawn)


def pauses_of_step(pauses: Pauses, replication: int, devices: int) -> dict[int, float]:
    """Return the devices that pause in a step, and when: share of their forwards before it."""
    rng = generator(pauses, replication)
    pausing, when = rng.random(devices) < 1.0 / pauses.every, rng.random(devices)
    return {
        device: float(when[device])
        for device in np.flatnonzero(pausing).tolist()
        if pauses.concerns(device)
    }


def attention_loads(
    cause: SequenceLengths, rng: "Generator", microbatches: int, micro: int, sequence: int
) -> Floats:
    r"""Return the attention of microbatches, relative to sequences of full length [unitless].

    .. math:: \sum_i l_i^2 / (b s^2)

    with l the sequences of a microbatch, b = `micro` and s = `sequence`. Drawn sequences fill the
    b rows of s tokens one after another; the last one of a row is cut.
    """
    lengths = np.minimum(np.asarray(cause.lengths), sequence)
    rows = np.array([_row(cause, lengths, rng, sequence) for _ in range(microbatches * micro)])
    return np.asarray(rows.reshape(microbatches, micro).mean(axis=1))


def _row(
    cause: SequenceLengths, lengths: NDArray[np.int64], rng: "Generator", sequence: int
) -> float:
    """Return the sum of squares of the sequences of a row, share of one of full length."""
    filled, squares = 0, 0.0
    count = min(MOST_DRAWN, 1 + sequence // int(lengths.min()))
    while filled < sequence:
        drawn = lengths[_chosen(cause.weights, rng, (count,))]
        ends = np.minimum(sequence - filled, np.cumsum(drawn))
        parts = np.diff(ends, prepend=0).astype(float)
        squares += float((parts**2).sum())
        filled += int(ends[-1])
    return squares / sequence**2


def _chosen(
    weights: Sequence[float], rng: "Generator", shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the numbers of drawn classes, each as often as its weight."""
    bounds = np.cumsum(weights)
    chosen = np.searchsorted(bounds, rng.random(shape) * bounds[-1], side="right")
    return np.asarray(np.minimum(chosen, len(weights) - 1))
