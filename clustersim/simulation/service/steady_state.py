r"""The steady state of a service at an open rate: what it sustains, and when a replay is enough.

    sustainable rate = requests that a backlog lets it complete in a second
    queue growth = max(0, rate - sustainable rate)

A service whose queue is never empty completes requests at the highest rate that it sustains, and
below this rate its queue is stable: the saturation rule, Baccelli and Foss 1995, Journal of Applied
Probability 32(2).  It is that of a replay in which requests always wait.  A stable service is then
replayed at its rate, until the intervals of its mean times are narrow; requests of the warm-up, and
those whose successors the replay did not reach, are not measured.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.engine.requests.completed import CompletedRequests
from clustersim.engine.requests.front_end import NO_INTAKE, Intake
from clustersim.engine.requests.replay import (
    Deployment,
    ReplayedRequests,
    RequestLoad,
    replay_requests,
)
from clustersim.metrics.stationary import (
    BATCHES,
    NORMAL,
    half_width,
    interval,
    wait_spread,
    warm_up,
)
from clustersim.records import dataclass
from clustersim.simulation.service.request_statistics import (
    STATISTICS,
    first_token_times,
    least_half_width,
    times_per_token,
    waits,
)

FIRST: Final = 500
"""Complete requests at which a replay is reviewed first; each review doubles them."""

MOST: Final = 40_000
MOST_BACKLOG: Final = 16_000
"""Complete requests of a replay beyond which it ends; of a backlog unless its rounds need more."""

ROUNDS: Final = 12
ROUNDS_OF_FAR: Final = 7
"""Rounds of a backlog, each with the requests that are in the service at once, two of which are not
measured; fewer if no rate is near the sustainable one."""

GOLDEN: Final = 0.6180339887498949
"""Step of shares that cover an interval evenly."""

FAR: Final = 1.3
"""Ratio of two rates that are not near."""

FEWEST: Final = 4
"""Batches of an interval."""

RESOLUTION: Final = 0.05
"""Half-width of the interval of a sustainable rate, over the rate."""

CERTAIN: Final = 1.5
"""Half-widths by which a rate differs from the sustainable one: 99.7 % of a normal distribution."""

CLEAR: Final = 5.0
"""Half-widths by which they differ where a wider interval will do."""

NARROW: Final = 0.05
"""Half-width of the intervals of mean times, over the mean, at which a replay ends."""


@dataclass(frozen=True, eq=False)
class Saturated:
    """A service with a backlog.

    Attributes
    ----------
    rate : requests that it completes in a second, the sustainable rate
    half : half-width of its 95 % interval [1/s]; None where too few are complete
    replayed : what happened, of one replica where replicas are alike
    """

    rate: float
    half: float | None
    replayed: ReplayedRequests

    def spread(self, arrivals: Floats) -> float:
        """Return the spread of the mean wait of a load that is sustained: see `wait_spread`.

        The half-width of n services is that of their mean; services are exponential if unknown.
        """
        gaps = np.diff(arrivals)
        services = 1.0
        if self.half is not None:
            services = (self.half / (NORMAL * self.rate)) ** 2 * len(self.replayed.measured)
        load = 1 / (float(gaps.mean()) * self.rate)
        variation = float(gaps.var() / gaps.mean() ** 2)
        return wait_spread(load, variation, services) if load < 1 else inf


def saturated(load: RequestLoad, deployment: Deployment, rates: Sequence[float]) -> Saturated:
    """Replay a backlog of requests until its rate is known, and whether it exceeds other rates.

    The rate is that of the engine, or of the front end, where that takes requests more slowly.

    Parameters
    ----------
    load : lengths of the requests, in the order in which they are served
    rates : of arrivals, which are compared with the sustainable one, if any [1/s]
    """
    backlog = _replay_backlog(load, deployment, rates, NO_INTAKE)
    intake = load.intake
    seconds = intake.request + intake.token * float(load.inputs.mean())
    return (
        backlog if backlog.rate * seconds <= 1 else _replay_backlog(load, deployment, rates, intake)
    )


def _replay_backlog(
    load: RequestLoad, deployment: Deployment, rates: Sequence[float], intake: Intake
) -> Saturated:
    """Replay a backlog in front of the engine, or of a front end that takes its requests."""
    alike = deployment.replicas if deployment.prefill is None else 1
    served = replace(deployment, replicas=deployment.replicas // alike)
    first = _together(load, served)
    review = _Backlog([rate / alike for rate in rates], first, len(load.inputs))
    outputs = load.outputs.copy()
    outputs[:first] = np.ceil(outputs[:first] * (GOLDEN * np.arange(1, first + 1) % 1))
    backlog = replace(
        load,
        outputs=outputs,
        arrivals=None,
        users=2 * _room(load, served),
        warm_up=0,
        intake=Intake(alike * intake.request, alike * intake.token),
        after=0.0,
        review=review,
    )
    replayed = replay_requests(backlog, served)
    finish, measured = replayed.requests.finish, replayed.requests[review.skipped :]
    window = _window(replayed, measured, finish[review.skipped - 1], finish[-1])
    emitted = alike * int(measured.output.sum())
    half = None if review.half is None else alike * review.half
    return Saturated(alike * review.rate, half, replace(window, emitted=float(emitted)))


def _together(load: RequestLoad, deployment: Deployment) -> int:
    """Return about how many requests are in a service with a backlog.

    The outputs of these are shortened to shares of all sizes, as if they had begun one after
    another: otherwise equal requests begin and end together, for many rounds.
    """
    model, replicas = deployment.model, deployment.replicas
    if not model.scheduling.continuous:
        return 0
    tokens = float(load.inputs.mean() + load.outputs.mean() / 2)
    most = min(model.room(tokens), model.scheduling.sequences)
    return min(replicas * most, len(load.inputs) // 2)


def _room(load: RequestLoad, deployment: Deployment) -> int:
    """Return more requests than can be in a service at once, or all of them."""
    pools = [(deployment.model, deployment.replicas)]
    if deployment.prefill is not None:
        pools.append((deployment.prefill, deployment.prefill_replicas))
    fewest, room = int(load.inputs.min()), 0
    for model, replicas in pools:
        sequences = max(model.stages, model.scheduling.sequences)
        room += replicas * min(sequences, model.room(fewest))
    return max(1, min(room, len(load.inputs) // 2))


class _Backlog:
    """Reviews a backlog: the rate of whole rounds after the first two.

    Attributes
    ----------
    rate, half : completed requests in a second, and half-width of their interval
    skipped : requests before those that are measured
    """

    def __init__(self, rates: Sequence[float], first: int, most: int) -> None:
        self.rate, self.skipped = 0.0, 0
        self.half: float | None = None
        self._rates, self._first, self._most = rates, first, most

    def __call__(self, completed: CompletedRequests) -> int:
        if not completed:
            return min(FIRST + 2 * self._first, self._most)
        ends, more = completed.finish, 2 * len(completed)
        ends = ends[: np.searchsorted(ends, ends[-1])]  # not all that end last are known
        whole = np.searchsorted(ends, ends, side="right")
        half = int(whole[len(ends) // 2 - 1]) if len(ends) > 1 else len(ends)
        if half == len(ends):
            return more if more <= self._most else 0
        spent = (completed.finish - completed.admitted)[half : len(ends)]
        rate = (len(ends) - half) / float(ends[-1] - ends[half - 1])
        together = max(1, round(float(spent.mean()) * rate))  # Little's law
        self._measure(ends, whole, min(max(self._first, 2 * together), half), together)
        ratios = [max(each / self.rate, self.rate / each) for each in self._rates]
        far = min(ratios, default=1.0) > FAR
        enough = (ROUNDS_OF_FAR if far else ROUNDS) * together
        known = self.half is not None and len(ends) >= enough and self._decided()
        return 0 if known or more > min(max(MOST_BACKLOG, enough), self._most) else more

    def _measure(self, ends: Floats, whole: Integers, skipped: int, together: int) -> None:
        """Set the rate after some requests, and its interval by batches of whole rounds.

        Parameters
        ----------
        whole : requests that are complete when each one ends: those of a static batch end together
        """
        self.skipped = int(whole[max(1, skipped) - 1])
        measured = len(ends) - self.skipped
        self.rate = measured / float(ends[-1] - ends[self.skipped - 1])
        rounds = max(1, measured // (BATCHES * together))
        batches = min(BATCHES, measured // (rounds * together))
        if batches >= FEWEST:
            size = max(rounds * together, measured // BATCHES)
            bounds = np.unique(whole[len(ends) - 1 - size * np.arange(batches, -1, -1)])
            if len(bounds) > FEWEST:
                times = np.diff(ends[bounds - 1]) / np.diff(bounds)
                self.half = self.rate * half_width(times) / float(times.mean())

    def _decided(self) -> bool:
        assert self.half is not None
        margins = [abs(rate - self.rate) for rate in self._rates]
        narrow = (
            self.half <= RESOLUTION * self.rate or min(margins, default=0.0) > CLEAR * self.half
        )
        return narrow and min(margins, default=inf) > CERTAIN * self.half


def steady_replay(
    load: RequestLoad, deployment: Deployment, spread: float = 0.0
) -> tuple[ReplayedRequests, bool]:
    """Replay a stable service at its rate until its mean times are known.

    Parameters
    ----------
    spread : of the mean wait, as of `Saturated`

    Returns
    -------
    what happened in the steady state, and whether the intervals of the means are narrow
    """
    review = _Arrivals(load, spread)
    replayed = replay_requests(replace(load, review=review), deployment)
    measured = replayed.requests.ordered[review.first : review.last]
    window = _window(replayed, measured, measured.arrival[0], measured.arrival[-1])
    return replace(window, emitted=float(measured.output.sum())), review.narrow


class _Arrivals:
    """Reviews arrivals: the requests whose successors are in the service as well.

    Attributes
    ----------
    first, last : number of the first request that is measured, and of the one after the last
    narrow : whether the intervals of the mean times are narrow
    """

    def __init__(self, load: RequestLoad, spread: float) -> None:
        self.first, self.last, self.narrow = 0, 0, False
        self._skipped, self._most = load.warm_up, len(load.inputs)
        self._spread = spread

    def __call__(self, completed: CompletedRequests) -> int:
        if not completed:
            return min(2 * FIRST + self._skipped, self._most)
        requests = _without_gaps(completed)
        self.last = len(requests)
        latency = requests.finish - requests.arrival
        self.first = max(0, min(max(self._skipped, warm_up(latency)), len(requests) - 1))
        measured = requests[self.first :]
        least = least_half_width(STATISTICS["mean"], waits(measured), self._spread)
        times = latency[self.first :], first_token_times(measured)
        self.narrow = (
            len(measured) >= FIRST
            and all(_is_narrow(series, least) for series in times)
            and _is_narrow(times_per_token(measured))
        )
        more = 2 * len(completed)
        if not measured:  # the first request is longer than all others together
            return min(more, self._most)
        return 0 if self.narrow or more > min(MOST, self._most) else more


def _is_narrow(series: Floats, least: float = 0.0) -> bool:
    """Return whether the interval of the mean of some times is narrow; of none it is."""
    known = interval(series, STATISTICS["mean"], least)
    return not len(series) or (known is not None and known.share <= NARROW)


def _without_gaps(completed: CompletedRequests) -> CompletedRequests:
    """Return the requests from the first to the one before the first that is not complete."""
    ordered = completed.ordered
    gaps = np.flatnonzero(ordered.number != np.arange(len(ordered)))
    return ordered[: gaps[0]] if len(gaps) else ordered


def _window(
    replayed: ReplayedRequests, measured: CompletedRequests, begin: float, end: float
) -> ReplayedRequests:
    """Return what happened in a time."""
    return replace(
        replayed,
        measured=measured,
        begin=float(begin),
        end=float(end),
        steps=tuple(each.within(begin, end) for each in replayed.steps),
        prefill_steps=tuple(each.within(begin, end) for each in replayed.prefill_steps),
    )
