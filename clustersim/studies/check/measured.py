r"""What a log measures: the steady time of a step, how it varies, and how well it is known.

    steps --converted with the scenario's work--> seconds --warm-up, interrupted ones--> median

The relative standard error of the median of n steps with relative deviation s is

.. math:: e = \sqrt{\pi / 2} \, s / \sqrt{n}

with s from the median of absolute deviations, which single slow steps do not raise.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import pi, sqrt
from statistics import median
from typing import Final

import numpy as np

from clustersim.answers import record
from clustersim.errors import CatalogError
from clustersim.importers.logs.formats import QUANTITIES
from clustersim.importers.logs.steps import Log, LoggedStep
from clustersim.metrics.stationary import warm_up
from clustersim.records import dataclass

DEVIATION: Final = 1.4826
"""Standard deviation of a normal variable over its median absolute deviation."""

SLOWEST: Final = 5
"""Slow steps that are named."""

LONG: Final = 1.2
"""Times of the median above which a step is counted as a slow one: a choice, above usual noise."""

LEAST_FOR_DRIFT: Final = 9
"""Steps from which on a drift is stated: three for each third."""


@dataclass(frozen=True)
class Work:
    """What a step of the scenario does: its tokens and sequences, on how many devices."""

    tokens: float
    sequences: float
    devices: int


SECONDS: Final[Mapping[str, Callable[[float, Work], float]]] = {
    "step_time_s": lambda value, work: value,
    "steps_per_s": lambda value, work: 1 / value,
    "tokens_per_s_per_device": lambda value, work: work.tokens / value / work.devices,
    "samples_per_s": lambda value, work: work.sequences / value,
}
"""Time of a step by a quantity that states it, the preferred one first."""


@record
class TimedStep:
    """A step of the log.

    Attributes
    ----------
    number : as the program counts; null of a summary
    line : line of the file
    seconds : its time [s]
    use : `steady`, `warm-up` or `interrupted`, next to a checkpoint or an evaluation
    """

    number: int | None
    line: int
    seconds: float
    use: str


@record
class LogSummary:
    """What the log is made of.

    Attributes
    ----------
    file : the log
    format : its format
    steady : steps that the median is of
    warm_up : steps at the start and after restarts, which are excluded
    interrupted : steps next to a checkpoint or an evaluation, which are excluded
    restarts : how often the numbers of steps go back
    spread : standard deviation of a step, over the median; null of fewer than two
    error : standard error of the median, over the median; null of fewer than two
    drift : median of the last third over that of the first, less one; null of few steps
    slowest : the slowest of the steady steps
    slow : steady steps of more than `LONG` times the median
    mean_s : mean time of the steady steps [s]
    steps : all steps with their times
    """

    file: str
    format: str
    steady: int
    warm_up: int
    interrupted: int
    restarts: int
    spread: float | None
    error: float | None
    drift: float | None
    slowest: tuple[TimedStep, ...]
    slow: int
    mean_s: float
    steps: tuple[TimedStep, ...]


def measure(log: Log, work: Work) -> tuple[LogSummary, dict[str, float]]:
    """Return what a log is made of, and the medians of what its steady steps state.

    Raises
    ------
    CatalogError
        when no step states its time.
    """
    steps = [step for step in log.steps if any(name in step.values for name in SECONDS)]
    if not steps:
        raise CatalogError(
            f"{log.file}: has {len(log.steps)} steps, none of which states its time or rate"
        )
    timed = _timed(steps, work)
    steady = [step for step in timed if step.use == "steady"]
    seconds = np.array([step.seconds for step in steady])
    centre = float(np.median(seconds))
    known = len(seconds) > 1
    spread = DEVIATION * float(np.median(np.abs(seconds - centre))) / centre if known else None
    slowest = sorted(steady, key=lambda step: -step.seconds)[:SLOWEST] if known else []
    summary = LogSummary(
        file=log.file,
        format=log.format,
        steady=len(steady),
        warm_up=sum(step.use == "warm-up" for step in timed),
        interrupted=sum(step.use == "interrupted" for step in timed),
        restarts=log.restarts,
        spread=spread,
        error=None if spread is None else sqrt(pi / 2 / len(seconds)) * spread,
        drift=_drift(seconds.tolist()),
        slowest=tuple(slowest),
        slow=int((seconds > LONG * centre).sum()),
        mean_s=float(seconds.mean()),
        steps=tuple(timed),
    )
    lines = {step.line for step in steady}
    stated = _stated([step.values for step in steps if step.line in lines])
    rate = {"tokens_per_s_per_device": work.tokens / centre / work.devices}
    peak = [
        step.values["memory_peak_bytes"] for step in steps if "memory_peak_bytes" in step.values
    ]
    memory = {"memory_peak_bytes": max(peak)} if peak else {}
    return summary, {"step_time_s": centre, **rate, **stated, **memory}


def _timed(steps: Sequence[LoggedStep], work: Work) -> list[TimedStep]:
    """Return the steps with their times and uses; all are steady where none would be left."""
    timed: list[TimedStep] = []
    for _, attempt in groupby(steps, lambda step: step.attempt):
        own = list(attempt)
        seconds = [_seconds(step.values, work) for step in own]
        calm = [s for s, step in zip(seconds, own, strict=True) if not step.interrupted]
        first = min(max(1, warm_up(np.array(calm))), len(own) - 1)
        for place, (step, time) in enumerate(zip(own, seconds, strict=True)):
            interrupted = "interrupted" if step.interrupted else "steady"
            use = "warm-up" if place < first else interrupted
            timed.append(TimedStep(step.number, step.line, time, use))
    if any(step.use == "steady" for step in timed):
        return timed
    return [TimedStep(step.number, step.line, step.seconds, "steady") for step in timed]


def _seconds(values: Mapping[str, float], work: Work) -> float:
    name = next(name for name in SECONDS if name in values)
    return SECONDS[name](values[name], work)


def _drift(seconds: Sequence[float]) -> float | None:
    third = len(seconds) // 3
    if len(seconds) < LEAST_FOR_DRIFT:
        return None
    return median(seconds[-third:]) / median(seconds[:third]) - 1


def _stated(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each rate that steps state, in the convention of the program."""
    names = [name for name in QUANTITIES if name not in (*SECONDS, "memory_peak_bytes")]
    each = {name: [one[name] for one in values if name in one] for name in names}
    return {name: median(numbers) for name, numbers in each.items() if numbers}
