"""The interval of a step, which an anchor narrows where the job is like one of its logs."""

from collections.abc import Mapping

from clustersim.metrics.anchoring import NEAR, difference, narrowed, shares_of
from clustersim.metrics.prediction_interval import Interval, interval, shipped_reach
from clustersim.scenario.anchors import AnchoredLog
from clustersim.scenario.factors import layout_of
from clustersim.scenario.schema import Scenario
from clustersim.scenario.traits import step_traits


def step_interval(
    step_time: float, scenario: Scenario, attribution: Mapping[str, float]
) -> Interval:
    """Return the step times that are expected, by the nearest measured runs most."""
    reach = shipped_reach(step_traits(scenario))
    if scenario.anchor is not None:
        shares = shares_of(attribution)
        reasons = [_unlike(log, scenario, shares) for log in scenario.anchor.logs]
        reach = narrowed(reach, None if None in reasons else reasons[0])
    return interval(step_time, reach)


def _unlike(log: AnchoredLog, scenario: Scenario, shares: Mapping[str, float]) -> str | None:
    """Return why a job is unlike a log; None where it has the errors of the log."""
    if not log.normal:
        return f"{log.log} is not normal"
    for key, value in layout_of(scenario).items():
        if log.layout.get(key) != value:
            return f"{log.log} has {key} {log.layout.get(key)}, not {value}"
    if difference(shares, log.shares) > NEAR:
        return f"the step has other parts than that of {log.log}"
    return None
