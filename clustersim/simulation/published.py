"""Published numbers of a scenario of any kind, each with the predicted one."""

from clustersim.answers import built_from, record
from clustersim.scenario.schema import PublishedNumber
from clustersim.scenario.training import PublishedRun


@record
class PublishedCheck:
    """A published number and the predicted one; whether something fits is 1 or 0.

    Attributes
    ----------
    metric : as in the scenario
    value : as in the scenario
    predicted : the same metric of this answer; null where it does not fit
    error : predicted over published, less one; null where the metric is 1 or 0, for a bound, where
        nothing is predicted, and where the number belongs to other values
    source : as in the scenario
    changed : keys that were changed (`--set`), with which this is not what the number belongs to
    convention : how FLOPs are counted, as in the scenario; null for other metrics
    statistic : of times of a service, as in the scenario
    bound : `at-least` or `at-most` where the source states a bound
    holds : whether the bound holds; null without one
    """

    metric: str
    value: float
    predicted: float | None
    error: float | None
    source: str
    changed: tuple[str, ...] = ()
    convention: str | None = None
    statistic: str | None = None
    bound: str | None = None
    holds: bool | None = None


def compared(
    number: PublishedNumber | PublishedRun, predicted: float | None, changed: tuple[str, ...]
) -> PublishedCheck:
    """Return a published number next to the predicted one.

    Parameters
    ----------
    changed : keys with which the prediction is not of what was measured
    """
    bound = getattr(number, "bound", None)
    error = holds = None
    if bound is not None and predicted is not None:
        holds = predicted >= number.value if bound == "at-least" else predicted <= number.value
    elif predicted is not None and number.value and number.metric != "fits" and not changed:
        error = predicted / number.value - 1
    return built_from(
        PublishedCheck, number, predicted=predicted, error=error, holds=holds, changed=changed
    )
