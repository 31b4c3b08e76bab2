"""The interval that a measured step time is expected in, from runs that were measured before.

    runs --similar ones (`clustersim.evidence`)--> factors a, b
    predicted step time t --> [t / a, t b]

A run can be slower than its machine for many reasons and faster for none, so the interval is longer
above the prediction.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import log
from typing import Final

from clustersim.answers import record
from clustersim.evidence import (
    LEVEL,
    Evidence,
    MeasuredRuns,
    Nodes,
    Reach,
    errors_of,
    intraclass_correlation,
    number_of,
    reach_by,
    share_below,
    shipped_interval_data,
)

SIZES: Final[Mapping[Nodes, str]] = {"one": "one node", "several": "several nodes"}
"""Sizes of a job in words."""

SOURCES: Final = 9
"""Sources from which on jobs of one size, or on one accelerator, have an interval of their own;
assumed."""


@record
class Interval:
    """The step times between which `level` of the measured runs are expected.

    Attributes
    ----------
    low_s : shortest step time of the interval; null without evidence [s]
    high_s : longest step time of the interval; null without evidence [s]
    level : share of measured runs that are expected in it
    rows : number of measured runs that it is based on
    why : which runs these are, or why there is no interval
    """

    low_s: float | None
    high_s: float | None
    level: float
    rows: int
    why: str


def interval(step_time: float, reach: Reach) -> Interval:
    """Return the interval around a predicted step time [s].

    >>> interval(10.0, Reach(1.25, 1.5, 12, "12 measured runs"))
    Interval(low_s=8, high_s=15, level=0.9, rows=12, why='12 measured runs')
    """
    if reach.below is None or reach.above is None:
        return Interval(None, None, LEVEL, reach.rows, reach.why)
    low, high = step_time / reach.below, step_time * reach.above
    return Interval(low, high, LEVEL, reach.rows, reach.why)


def reach_of(runs: Iterable[MeasuredRuns], accelerator: str, nodes: Nodes) -> Reach:
    """Return the error of predictions on an accelerator, on ``one`` node or ``several``.

    The runs are the most similar ones that suffice for a bound: on the accelerator and as many
    nodes; on the accelerator, for a job on several nodes, or on one node of all accelerators, for
    one that has no errors of a network; on all accelerators.
    """
    known = list(runs)
    if all(run.accelerator != accelerator for run in known):
        return Reach(None, None, 0, f"no measured runs on {accelerator}")
    rho = intraclass_correlation(errors_of(known))
    return reach_by(_evidence(known, accelerator, nodes), rho, "measured run")[0]


def share_faster(
    runs: Iterable[MeasuredRuns], accelerator: str, nodes: Nodes, ratio: float
) -> float | None:
    """Return the share of the runs of `reach_of` whose ratio to their prediction is at most one.

    None where these runs have no interval.
    """
    known = list(runs)
    rho = intraclass_correlation(errors_of(known))
    reach, errors = reach_by(_evidence(known, accelerator, nodes), rho, "measured run")
    return None if reach.above is None else share_below(errors, rho, log(ratio), ahead=0.0)


def _evidence(known: list[MeasuredRuns], accelerator: str, nodes: Nodes) -> Iterator[Evidence]:
    """Yield the runs of `reach_of`, the most similar ones first."""
    own = [run for run in known if run.accelerator == accelerator]
    sized = [run for run in own if run.nodes == nodes]
    size = SIZES[nodes]
    yield Evidence(sized, f"on {accelerator}, {size}", sources=SOURCES)
    if nodes == "one":
        single = [run for run in known if run.nodes == nodes]
        where = f"on all accelerators, {size}, {number_of(sized)} of them on {accelerator}"
        yield Evidence(single, where, sized)
    else:
        yield Evidence(own, f"on {accelerator}", sources=SOURCES)
    where = f"on all accelerators, {number_of(own)} of them on {accelerator}"
    yield Evidence(known, where, own)


@lru_cache
def shipped_reach(accelerator: str, nodes: Nodes) -> Reach:
    """Return the error of predictions by the measured runs of the shipped file, as `reach_of`."""
    return reach_of(shipped_interval_data().runs, accelerator, nodes)


def size_of(nodes: int) -> Nodes:
    """Return the size class of a job by its number of nodes."""
    return "one" if nodes == 1 else "several"
