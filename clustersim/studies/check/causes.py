r"""Likely causes of a slow step: changes of the scenario, each at a few sizes.

    base --limits--> links that may be slow;  cause x size --simulated--> times t_i of a step

The measured median m is compared with these times on a logarithmic scale.  Its deviation
:math:`\sigma` from the time of the true cause is that of predictions from measured runs, by the
interval, with its own error.  Of a cause with distinct sizes (a link at a half or a quarter of its
rate, an option that is off) and of one with any size between (a clock, a delay) the likelihood is

.. math:: \frac{1}{n} \sum_i N(\ln m; \ln t_i, \sigma), \qquad
   \frac{1}{n} \sum_i \frac{\Phi((\ln m - \ln t_{i-1}) / \sigma) - \Phi((\ln m - \ln t_i) / \sigma)}
   {\ln t_i - \ln t_{i-1}}

with :math:`t_0` the time without the cause.  That none is true and the prediction is off has
:math:`N(\ln m; \ln t_0, \sigma)`.  All have the same weight beforehand, which links share; a cause
that adds little of what is to be explained is none.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import erf, exp, hypot, inf, log, pi, sqrt
from typing import Any, Final

import numpy as np

from clustersim.answers import record
from clustersim.catalog.changes import setting_text
from clustersim.records import dataclass
from clustersim.render.tables import percent
from clustersim.simulation.step.answer import RunAnswer
from clustersim.units import format_seconds

RESOLUTION: Final = 0.003
"""Deviation of the logarithm of a simulated effect from that in a job; assumed."""

UNKNOWN: Final = 0.1
"""Deviation of a prediction without measured runs that are like it; assumed."""

EXPLAINED: Final = 0.5
"""Share of the excess that a cause must add to be named: a choice, as with less the log is nearer
to the prediction than to it."""

LEAST: Final = 1e-3
"""Share of the likelihood of all causes below which one is not named, and share of a deviation
below which times are equal."""

SIGNIFICANT: Final = 3.0
"""Deviations by which the median must exceed the prediction for causes to be sought."""

SHARES: Final = (0.5, 0.25, 0.125)
"""Rates of a degraded link over its own: half the lanes or the generation before, twice, thrice."""

FAILED: Final = 0.0
"""Rate of a link that failed."""

CLOCKS: Final = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Clocks of a device that is hot or capped, over that of the others."""

DELAYS: Final = (25.0, 50.0, 100.0, 200.0, 400.0)
"""Delays of a host for each kernel [us]."""


@record
class Cause:
    """A cause that may explain the measured time.

    Attributes
    ----------
    cause : what may be wrong, with the size that explains the measured time best
    seconds : what it adds to a step at this size [s]
    check : how to prove it
    likelihood : over that of all causes and of none; null of one that explains a convention, not a
        time
    settings : changes of the scenario with which it is simulated, at the nearest size; none where
        nothing is wrong with the job, or nothing that is tried
    """

    cause: str
    seconds: float
    check: str
    likelihood: float | None
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Size:
    """A size of a cause: its number, and the changes of the scenario."""

    number: float
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """A cause with its sizes.

    Attributes
    ----------
    words : of it; a size, as `text` formats it, takes the place of `{size}`
    continuous : whether sizes between these occur, from `none` on
    none : the size without effect
    weight : its likelihood beforehand, over that of another kind of cause
    """

    words: str
    check: str
    sizes: tuple[Size, ...]
    text: Callable[[float], str] = percent
    continuous: bool = False
    none: float = 1.0
    weight: float = 1.0


@dataclass(frozen=True)
class Base:
    """The scenario that was predicted: its answer, and its own disturbances."""

    answer: RunAnswer
    disturbances: Sequence[Any]

    def disturbed(self, number: float, **disturbance: Any) -> Size:
        """Return the scenario with one more disturbance."""
        every = [*self.disturbances, {**disturbance, "name": "checked"}]
        return Size(number, (setting_text("disturbances", every),))

    @property
    def links(self) -> list[str]:
        """The links that limit a kind of communication."""
        return [*dict.fromkeys(limit.link for limit in self.answer.limits.values())]


def _links(base: Base) -> Iterator[Candidate]:
    for link in base.links:
        slow = [base.disturbed(s, type="slow-link", link=link, bandwidth=s) for s in SHARES]
        nic = re.search(r"\bn(\d+)\.nic(\d+)\b", link)
        failure: dict[str, Any] = (
            {"type": "failed-nic", "node": int(nic[1]), "nic": int(nic[2])}
            if nic
            else {"type": "failed-cable", "link": link}
        )
        yield Candidate(
            f"link {link} {{size}}",
            f"all_reduce_perf of nccl-tests on the group of {link}, next to clustersim collective;"
            " the state of its ports (ibstat, nvidia-smi nvlink -s)",
            (*slow, base.disturbed(FAILED, **failure)),
            _share_text,
            weight=1 / len(base.links),
        )


def _share_text(share: float) -> str:
    return f"at {percent(share)} of its rate" if share > FAILED else "failed"


def _devices(base: Base) -> Iterator[Candidate]:
    yield Candidate(
        "a slow device: its clock at {size}",
        "nvidia-smi -q -d CLOCK,PERFORMANCE on all nodes: the lowest SM clock and its reason",
        tuple(base.disturbed(c, type="slow-device", devices=[0], clock=c) for c in CLOCKS),
        continuous=True,
    )


def _hosts(base: Base) -> Iterator[Candidate]:
    yield Candidate(
        "a late host: {size} more for each kernel",
        "a trace of the host (nsys, torch.profiler): gaps between kernels, and launches in them",
        tuple(base.disturbed(us, type="late-host", delay=f"{us:g} us") for us in DELAYS),
        lambda us: format_seconds(us * 1e-6),
        continuous=True,
        none=0.0,
    )


OPTIONS: Final[Sequence[tuple[str, str, tuple[str, ...]]]] = (
    (
        "no overlap of gradients and weights with computation",
        "the options of overlap in the launch file (--overlap-grad-reduce, overlap_comm)",
        ("framework.gradients.overlap=never", "framework.gradients.gather_overlap=false"),
    ),
    (
        "no overlap of tensor communication with products",
        "the options of overlap in the launch file (--tp-comm-overlap), and"
        " CUDA_DEVICE_MAX_CONNECTIONS",
        ("framework.kernels.tensor_overlap=false", "framework.kernels.tensor_pipelined=false"),
    ),
    (
        "full recomputation",
        "the options of recomputation in the launch file, and the logged memory",
        ("recompute=full",),
    ),
    (
        "selective recomputation",
        "the options of recomputation in the launch file, and the logged memory",
        ("recompute=selective",),
    ),
)
"""Options that a launch file may have set otherwise: name, check, changes."""


def _options(base: Base) -> Iterator[Candidate]:
    for name, check, settings in OPTIONS:
        yield Candidate(name, check, (Size(0.0, settings),))


KINDS: Final[Sequence[Callable[[Base], Iterator[Candidate]]]] = (
    _links,
    _devices,
    _hosts,
    _options,
)
"""All that may slow a step down; a new cause is one more line."""


def candidates_of(base: Base) -> list[Candidate]:
    """Return the causes that are simulated, each at all its sizes."""
    return [candidate for kind in KINDS for candidate in kind(base)]


def deviation_of(error: float | None) -> float:
    """Return the deviation of the logarithm of a median with a relative standard error."""
    return hypot(error or 0.0, RESOLUTION)


def exceeds(measured: float, predicted: float, error: float | None) -> bool:
    """Return whether a median is longer than the prediction by more than its own error."""
    return log(measured / predicted) > SIGNIFICANT * deviation_of(error)


def ranked(
    measured: float,
    error: float | None,
    base: Base,
    candidates: Sequence[Candidate],
    times: Mapping[tuple[str, ...], float],
) -> tuple[Cause, ...]:
    """Return the causes by their likelihood, the largest first.

    Parameters
    ----------
    measured : median time of a step [s]
    error : its standard error, over it
    times : step time by the settings of a size [s]; without those that cannot be run
    """
    before, x = base.answer.step_time_s, log(measured)
    own = base.answer.interval.deviation
    sigma = hypot(deviation_of(error), UNKNOWN if own is None else own)
    none = _normal(x - log(before), sigma)
    found: list[tuple[float, Callable[[float], Cause]]] = [(none, _none(measured, before))]
    for candidate in candidates:
        sizes = [size for size in candidate.sizes if size.settings in times]
        logs = [log(times[size.settings]) for size in sizes]
        if max(logs, default=-inf) - log(before) > EXPLAINED * (x - log(before)):
            likelihood = _likelihood(x, [log(before), *logs], sigma, candidate)
            found.append((likelihood, _explained(measured, before, candidate, sizes, logs)))
    total = sum(likelihood for likelihood, _ in found)
    named = [(each / total, cause) for each, cause in found if total and each >= LEAST * total]
    return tuple(cause(share) for share, cause in sorted(named, key=lambda pair: -pair[0]))


def _none(measured: float, before: float) -> Callable[[float], Cause]:
    """Return that no cause is true, for its likelihood."""
    words = f"none of these: the prediction is {percent(1 - before / measured)} too short"
    check = "a log of the same job that is known to be good, with --anchor; the scenario's keys"
    return partial(_cause, words, measured - before, check, ())


def _likelihood(x: float, logs: Sequence[float], sigma: float, candidate: Candidate) -> float:
    """Return the density of the measured logarithm under a cause; `logs` begin without it."""
    pairs = list(pairwise(logs))
    if candidate.continuous:
        parts = [_between(x, min(pair), max(pair), sigma) for pair in pairs]
    else:
        parts = [_normal(x - after, sigma) for _, after in pairs]
    return candidate.weight * sum(parts) / len(candidate.sizes)


def _between(x: float, low: float, high: float, sigma: float) -> float:
    """Return the density of an even distribution with a normal error."""
    if high - low < LEAST * sigma:
        return _normal(x - low, sigma)
    steps = (erf((x - edge) / sigma / sqrt(2)) / 2 for edge in (low, high))
    return (next(steps) - next(steps)) / (high - low)


def _normal(distance: float, sigma: float) -> float:
    return exp(-((distance / sigma) ** 2) / 2) / sigma / sqrt(2 * pi)


def _explained(
    measured: float,
    before: float,
    candidate: Candidate,
    sizes: Sequence[Size],
    logs: Sequence[float],
) -> Callable[[float], Cause]:
    """Return a cause at the size that explains the time best, for its likelihood."""
    x = log(measured)
    nearest = min(range(len(sizes)), key=lambda i: abs(logs[i] - x))
    number, after = sizes[nearest].number, exp(logs[nearest])
    if candidate.continuous:
        number = float(
            np.interp(x, [log(before), *logs], [candidate.none, *(s.number for s in sizes)])
        )
        after = min(max(measured, before), exp(max(logs)))
    words = candidate.words.format(size=candidate.text(number))
    return partial(_cause, words, after - before, candidate.check, sizes[nearest].settings)


def _cause(
    words: str, seconds: float, check: str, settings: tuple[str, ...], likelihood: float
) -> Cause:
    return Cause(words, seconds, check, likelihood, settings)
