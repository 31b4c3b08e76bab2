"""The answer of a study of scaling: its curves, their points, and published numbers."""

from collections.abc import Mapping
from typing import Final, Literal

from clustersim.answers import Presentable, record
from clustersim.runs.table import Numbers
from clustersim.simulation.measures import Kind as AnswerKind
from clustersim.simulation.step.answer import Replications
from clustersim.studies.scale.points import Kind

Work = Literal["tokens", "sustainable tokens", "model FLOPs", "steps"]

TOKENS: Final = "tokens"
SUSTAINED: Final = "sustainable tokens"
FLOPS: Final = "model FLOPs"
STEPS: Final = "steps"


def sustained(measures: Mapping[str, float]) -> float:
    """Return the rate that a service sustains over the rate at which it was measured."""
    return measures["sustainable_rate"] / measures["requests_per_s"]


@record
class ScalingPoint:
    """A point of a curve that has been run.

    Attributes
    ----------
    scenario : name of the scenario of the point
    devices : devices of the job or service
    nodes : nodes of its cluster
    load : sequences of a step; users, requests in a second, or requests of a service; jobs of a
        shared machine; null of a trace
    set : changes of the scenario
    measures : by name, in SI units
    efficiency : rate of a device over that of the reference point
        ([formula](../model/attribution.md#along-a-scaling-curve))
    speedup : rate of all devices over that of the reference point
    fits : whether it fits in memory
    memory : `fits`, `tight`, `probably does not fit` or `does not fit`
    attribution : seconds of each part of a step, of the time per token, or of the step of a mean
        device of a shared machine; they add up to it [s]
    loss : loss of efficiency by part; all of them add up to 1 - `efficiency`
    bottleneck : what limits it, in words
    replications : the step time over several steps with random numbers of their own, and what each
        disturbance costs; null without random disturbances
    efficiency_spread : 10th and 90th percentile of the efficiency over these steps
    """

    scenario: str
    devices: int
    nodes: int
    load: float | None
    set: tuple[str, ...]
    measures: Numbers
    efficiency: float
    speedup: float
    fits: bool
    memory: str
    attribution: Mapping[str, float]
    loss: Mapping[str, float]
    bottleneck: str
    replications: Replications | None = None
    efficiency_spread: tuple[float, float] | None = None


@record
class SkippedPoint:
    """A point that has not been run.

    Attributes
    ----------
    devices : its devices
    why : the reason in one line
    """

    devices: int
    why: str


@record
class PublishedResult:
    """A published number of a curve, and the predicted one.

    Attributes
    ----------
    devices : devices of the point
    metric : `efficiency`, or a metric of a scenario's `published`
    convention : how FLOPs are counted: `model` or `hardware`
    value : the published number
    source : where it was read
    predicted : the same number as predicted; null where the point has not been run
    error : predicted over published, less one; for `efficiency` predicted less published
    efficiency : the efficiency that corresponds to it; null where the reference has no such number
    base : devices of the point that an efficiency is relative to; null for other metrics
    """

    devices: int
    metric: str
    convention: str | None
    value: float
    source: str
    predicted: float | None
    error: float | None
    efficiency: float | None
    base: int | None = None


@record
class ScalingCurve:
    """A scaling curve of a scenario.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    kinds : kinds of the measures of its points
    scaling : `weak`, where the batch or load grows with the devices, or `strong`, where it does not
    axis : parallel axis that grows with the number of devices
    set : changes of all points
    guessed : whether the numbers of devices were chosen by doubling, since none are given
    work : what efficiency counts: `tokens`, `sustainable tokens` of a service at an open rate,
        `model FLOPs` where points train several models, or `steps` of the jobs of a shared machine
    against : devices of the reference point, which has efficiency 1; null where it has not run
    points : points that have been run, by number of devices
    skipped : points that have not been run
    published : published numbers and the predicted ones, by number of devices
    cautions : what the efficiencies leave out, and the interval of step times
    assumed : `assumed` of the scenario: keys that no source states, with the reason
    """

    name: str
    title: str
    kinds: tuple[AnswerKind, ...]
    scaling: Kind
    axis: str
    set: tuple[str, ...]
    guessed: bool
    work: Work
    against: int | None
    points: tuple[ScalingPoint, ...]
    skipped: tuple[SkippedPoint, ...]
    published: tuple[PublishedResult, ...]
    cautions: tuple[str, ...]
    assumed: Mapping[str, str]


@record
class ScalingAnswer(Presentable):
    """Scaling curves.

    Attributes
    ----------
    curves : the weak ones first
    """

    curves: tuple[ScalingCurve, ...]
