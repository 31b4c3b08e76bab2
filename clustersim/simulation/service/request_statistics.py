"""What requests and steps mean: statistics of times, rates, goodput, KV cache, queue."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final

import numpy as np

from clustersim.arrays import Booleans, Floats
from clustersim.engine.requests.completed import CompletedRequests
from clustersim.engine.requests.replay import ReplayedRequests
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.engine.requests.steps import sums_of
from clustersim.metrics.stationary import NORMAL, interval
from clustersim.scenario.serving import LimitsFile
from clustersim.simulation.measures import QUANTILES
from clustersim.simulation.service.answer import Goodput, KvCache, Queue, Statistics

Statistic = Callable[[Floats], float]

NO_TIMES: Final = np.zeros(0)


def statistics(
    series: Floats, *, steady: bool = False, waiting: Floats = NO_TIMES,
    spread: float = 0.0, percentiles: Iterable[str] = (),
) -> Statistics:  # fmt: skip
    """Return mean and percentiles of some times, with intervals if they are of a steady state.

    Parameters
    ----------
    waiting : times in a queue that are part of them [s]
    spread : of the mean wait, as of `Saturated`
    percentiles : next to those of every answer, by name
    """
    further = {name: _percentile(name) for name in percentiles}
    every = {**STATISTICS, **further}
    values = {name: of(series) for name, of in STATISTICS.items()}
    known = {
        name: interval(series, of, least_half_width(of, waiting, spread))
        for name, of in (every.items() if steady else ())
    }
    intervals = {name: (each.low, each.high) for name, each in known.items() if each is not None}
    others = {name: of(series) for name, of in further.items()}
    return Statistics(**values, percentiles=others, intervals=intervals)


def least_half_width(of: Statistic, waiting: Floats, spread: float) -> float:
    """Return the half-width of the 95 % interval of a statistic of waits that vary as one."""
    if not spread or not len(waiting):
        return 0.0
    return float(NORMAL * spread / len(waiting) ** 0.5 * of(waiting))


def _percentile(name: str) -> Statistic:
    return lambda series: float(np.percentile(series, float(name[1:])))


STATISTICS: Final[Mapping[str, Statistic]] = {
    "mean": lambda series: float(series.mean()),
    **{name: _percentile(name) for name in QUANTILES},
}
"""Statistics of times by name."""


def waits(requests: CompletedRequests) -> Floats:
    """Return the times from a replica to admission [s]."""
    return np.maximum(requests.admitted - requests.reached, 0.0)


def first_token_times(requests: CompletedRequests) -> Floats:
    """Return the times from arrival to the first token [s]."""
    return requests.first - requests.arrival


def times_per_token(requests: CompletedRequests) -> Floats:
    """Return (latency - first) / (output - 1) of requests with more than one token [s]."""
    further, seconds = requests.output, requests.finish - requests.first
    further -= 1
    more = further > 0
    if not more.all():
        further, seconds = further[more], seconds[more]
    seconds /= further
    return seconds


def goodput_of(
    requests: CompletedRequests, limits: LimitsFile | None, rate: float
) -> Goodput | None:
    """Return the requests within the limits; None without limits.

    Parameters
    ----------
    rate : of completed requests [1/s]
    """
    if limits is None or (limits.ttft is None and limits.tpot is None):
        return None
    early, first = _within(first_token_times(requests), limits.ttft)
    quick, each = _within(_times_per_further_token(requests), limits.tpot)
    both = early & quick
    return Goodput(
        share=float(both.mean()),
        requests_per_s=float(both.mean()) * rate,
        ttft_s=limits.ttft,
        tpot_s=limits.tpot,
        ttft_share=None if limits.ttft is None else float(early.mean()),
        tpot_share=None if limits.tpot is None else float(quick.mean()),
        ttft_least_s=first,
        tpot_least_s=each,
    )


def _times_per_further_token(requests: CompletedRequests) -> Floats:
    """Return the times per token of all requests, 0 of those of one token [s]."""
    seconds, further = requests.finish - requests.first, requests.output
    further -= 1
    seconds /= np.maximum(1, further, out=further)
    return seconds


def _within(times: Floats, limit: float | None) -> tuple[Booleans, float]:
    """Return which times are within a limit, if there is one, and the least time [s]."""
    return times <= (inf if limit is None else limit), float(times.min())


def kv_cache(replayed: ReplayedRequests, model: ReplicaModel, token: float) -> KvCache:
    """Return how full the KV cache is; `token` are the bytes of one on all devices [B]."""
    sums = sums_of(replayed.steps)
    return KvCache(
        capacity_tokens=model.blocks * model.block_tokens,
        block_tokens=model.block_tokens,
        bytes_per_token=token,
        state_tokens=model.state_blocks * model.block_tokens,
        mean_occupancy=(sums.block_seconds / sums.seconds / model.blocks if sums.seconds else 0.0),
        peak_occupancy=max(replayed.peak_blocks) / model.blocks,
        mean_context=sums.context / sums.sequences if sums.sequences else 0.0,
    )


def queue(replayed: ReplayedRequests, waited: Statistics) -> Queue:
    """Return the requests that wait, and how long."""
    sums = sums_of(replayed.prefill_steps or replayed.steps)
    return Queue(
        wait_s=waited,
        mean=sums.waiting / sums.steps if sums.steps else 0.0,
        most=sums.most_waiting,
        preemptions=int(replayed.measured.preemptions.sum()),
    )


def mean_batch(replayed: ReplayedRequests) -> float:
    """Return the mean number of sequences of a step that decodes."""
    sums = sums_of(replayed.steps)
    return sums.sequences / sums.decoding if sums.decoding else 0.0
