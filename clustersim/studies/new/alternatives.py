"""Why a layout has its degrees: what the neighbouring values of each would cost.

A neighbour halves a degree, or doubles one of 1, and changes the replicas to use as many devices;
it has another microbatch or recomputation.  Each is estimated, and replayed if it fits in memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from clustersim.answers import record
from clustersim.errors import PlanError, ScenarioError
from clustersim.memory.verdict import Verdict
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate_if_it_fits
from clustersim.studies.search import Deadline
from clustersim.units import GIB, format_seconds


@record
class Alternative:
    """A neighbouring layout.

    Attributes
    ----------
    key : the value of the layout that it is about, by dotted key
    set_ : values of the layout that differ
    step_time_s : its step time; null where it does not fit [s]
    memory_peak_bytes : memory of its fullest stage [B]
    words : what it costs
    """

    key: str
    set_: Mapping[str, Any]
    step_time_s: float | None
    memory_peak_bytes: float
    words: str


def alternatives(best: Loaded, step_time: float, deadline: Deadline) -> Iterator[Alternative]:
    """Yield the neighbours of a layout that are allowed, with what each would cost, in a time.

    Parameters
    ----------
    best : the scenario of the layout
    step_time : of that layout [s]
    deadline : after which no further one is replayed
    """
    for key, changes in _neighbours(best):
        if not deadline.remaining:
            return
        try:
            found = simulate_if_it_fits(best.changed(changes))
        except (PlanError, ScenarioError):
            continue  # not allowed by the model, the batch, the machine or the framework
        yield _alternative(key, changes, found, step_time)


def _neighbours(best: Loaded) -> Iterator[tuple[str, dict[str, Any]]]:
    plan, batch = best.scenario.plan, best.scenario.batch
    for axis in ("tensor", "pipeline", "context"):
        degree = getattr(plan, axis)
        if degree % 2 == 0:
            changed, data = degree // 2, 2 * plan.data
        elif degree == 1 and plan.data % 2 == 0:
            changed, data = 2, plan.data // 2
        else:
            continue
        alone = {"plan.sequence_parallel": False} if axis == "tensor" and changed == 1 else {}
        single = {"plan.schedule": "1f1b", "plan.chunks": None}
        reset = single if axis == "pipeline" and changed == 1 else {}
        yield f"plan.{axis}", {f"plan.{axis}": changed, "plan.data": data, **alone, **reset}
    if plan.zero:
        yield "plan.zero", {"plan.zero": 0}
    yield "batch.micro", {"batch.micro": 2 * batch.micro}
    yield "recompute", {"recompute": "full" if best.scenario.recompute == "none" else "none"}


def _alternative(
    key: str, changes: Mapping[str, Any], found: Result | Verdict, step_time: float
) -> Alternative:
    memory = found.memory if isinstance(found, Result) else found
    seconds = found.step_time if isinstance(found, Result) and memory.fits else None
    shown = [
        f"{changes[key]}",
        *([f"data {changes['plan.data']}"] if "plan.data" in changes else []),
    ]
    words = f"with {shown[0]}{f' ({shown[1]})' if shown[1:] else ''}"
    peak = memory.fullest.peak
    if seconds is None:
        need = f"{peak / GIB:.1f} of {memory.capacity / GIB:.1f} GiB"
        return Alternative(key, changes, None, peak, f"{words} it does not fit: {need}")
    slower = seconds / step_time - 1
    change = f"{100 * abs(slower):.1f} % {'slower' if slower >= 0 else 'faster'}"
    text = f"{words}: {format_seconds(seconds)}, {change}, {peak / GIB:.1f} GiB"
    return Alternative(key, changes, seconds, peak, text)
