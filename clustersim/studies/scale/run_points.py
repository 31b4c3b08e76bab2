"""Points of a scaling curve that have run: rate and efficiency, and the loss by part."""

from dataclasses import dataclass

from clustersim.simulation.step.answer import RunAnswer
from clustersim.studies.scale.points import PlannedPoint


@dataclass(frozen=True)
class RunPoint:
    """A point with the answer of its run.

    Attributes
    ----------
    work : of a step, in the unit of its curve
    """

    point: PlannedPoint
    answer: RunAnswer
    work: float

    @property
    def rate(self) -> float:
        """Work of a device in a second."""
        return self.work / (self.point.devices * self.answer.step_time_s)

    @property
    def parts(self) -> dict[str, float]:
        """Device-seconds of a unit of work, by part [s]."""
        share = self.point.devices / self.work
        return {part: share * seconds for part, seconds in self.answer.attribution.items()}


def efficiency(run: RunPoint, reference: RunPoint) -> float:
    """Return the rate of a device over that of the reference point [unitless].

    With the same batch this is the speed-up over the ratio of devices (strong scaling); with a
    batch that grows with the devices it is the ratio of step times (weak scaling).
    """
    return run.rate / reference.rate


def loss(run: RunPoint, reference: RunPoint) -> dict[str, float]:
    r"""Return the loss of efficiency by part [unitless]; below 0 where a part gains.

    .. math:: 1 - E = \sum_i \frac{w_i - w_{0,i}}{w}

    with w the device-seconds of a unit of work, whose parts add up to it.
    """
    parts, before = run.parts, reference.parts
    total = sum(parts.values())
    return {part: (parts[part] - before[part]) / total for part in parts}
