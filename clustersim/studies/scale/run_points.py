"""Points of a scaling curve that have run: rate and efficiency, and the loss by part."""

from collections.abc import Mapping
from dataclasses import dataclass

from clustersim.runs.variants import ScenarioAnswer
from clustersim.studies.scale.answer import FLOPS, Work
from clustersim.studies.scale.points import PlannedPoint


@dataclass(frozen=True)
class RunPoint:
    """A point with the answer of its run.

    Attributes
    ----------
    work : what is counted: tokens, or model FLOPs
    """

    point: PlannedPoint
    answer: ScenarioAnswer
    work: Work

    @property
    def rate(self) -> float:
        """Work of a device in a second; all tokens of a service whose requests have one token."""
        numbers = self.answer.measures()
        if self.work == FLOPS:
            return numbers["tflops_per_device_model"]
        prompts_only = "ttft" in numbers and "tpot" not in numbers
        return numbers[f"{'total_' if prompts_only else ''}tokens_per_s_per_device"]

    @property
    def attribution(self) -> Mapping[str, float]:
        """Seconds of each part of a step, or of the time per token [s]."""
        accounts = {account.name: account.parts for account in self.answer.accounts()}
        return next(accounts[n] for n in ("step", "token", "first token") if n in accounts)

    @property
    def parts(self) -> dict[str, float]:
        """Device-seconds of a unit of work, by part [s]."""
        total = sum(self.attribution.values())
        return {part: s / total / self.rate for part, s in self.attribution.items()}


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
    return {
        part: (parts.get(part, 0.0) - before.get(part, 0.0)) / total for part in {**before, **parts}
    }
