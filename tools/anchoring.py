"""Anchor measured runs on smaller ones of the same job, and print what that gains as a table.

    python -m tools.anchoring              the table of docs/model/intervals.md
    python -m tools.anchoring --group 'lumi-*'

    outcomes --slopes, parts--> Anchored (with and without the anchor) --by source--> table

A run is anchored on the runs of its job, the same model in the same layout but for the replicas,
on the fewest nodes.  Intervals are made without any run of its source.
"""

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

from clustersim.errors import ClustersimError
from clustersim.evidence import (
    LEVEL,
    Errors,
    Reach,
    intraclass_correlation,
    quantile,
)
from clustersim.metrics import anchoring
from clustersim.metrics.anchoring import Observation, Shift, difference, shares_of, shifts_of
from clustersim.metrics.prediction_interval import ErrorsByNearness, of_training
from clustersim.runs.executors import workers
from clustersim.scenario.factors import factor_paths, layout_of
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import step_time_of
from clustersim.studies.check import STEP
from clustersim.validation.answer import case_entries
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.outcome import Outcome
from tools.interval_data import evidence_of

TRIED: Final = (0.5, 1.0, 2.0, 4.0)
"""Ratios of the spread of factors to the scatter that are compared."""


@dataclass(frozen=True)
class Seen:
    """What a prediction depends on: slopes, parts of the step, and what distinguishes its job."""

    slopes: dict[str, float]
    shares: dict[str, float]
    job: tuple[Any, ...]


def observe(loaded: Loaded, result: Result) -> Seen:
    """Return what the prediction of a case depends on."""
    scenario, slopes = loaded.scenario, {}
    before = step_time_of(build_job(loaded), scenario)
    for name, paths in factor_paths(scenario).items():
        changed = loaded.changed([f"{path}=x{STEP}" for path in paths])
        after = step_time_of(build_job(changed), changed.scenario)
        slopes[name] = math.log(after / before) / math.log(STEP)
    job = scenario.model.name, *layout_of(scenario).values()
    return Seen(slopes, shares_of(result.attribution), job)


@dataclass(frozen=True)
class Anchored:
    """A run next to the prediction, without and with the anchor.

    Attributes
    ----------
    before, after : ln(measured / predicted)
    near : whether its anchors are normal, and its step has the parts of one of them
    larger : whether it has more nodes than its anchors
    reach : the error of predictions without runs of its source
    """

    source: str
    before: float
    after: float
    near: bool
    larger: bool
    reach: Reach

    def relative(self, error: float, share: float = 1.0) -> float:
        """Return an error over the end of the interval on its side, of which a share is taken."""
        assert self.reach.above is not None, "only runs with an interval are anchored"
        assert self.reach.below is not None, "only runs with an interval are anchored"
        end = math.log(self.reach.above if error > 0 else self.reach.below)
        return abs(error) / (share * end) if end else math.inf

    @property
    def length(self) -> float:
        """Length of its interval."""
        return math.log((self.reach.above or 1.0) * (self.reach.below or 1.0))


def anchored_runs(
    outcomes: Iterable[Outcome], spread: float = anchoring.SPREAD
) -> Iterator[Anchored]:
    """Yield the runs that have another run of their job on as many nodes or fewer."""
    known = [outcome for outcome in outcomes if outcome.observed and evidence_of([outcome])]
    every = of_training(evidence_of(known))
    jobs: defaultdict[tuple[Any, ...], list[Outcome]] = defaultdict(list)
    for outcome in known:
        place = outcome.group, outcome.accelerator, outcome.framework
        jobs[*place, *outcome.observed.job].append(outcome)
    for runs in jobs.values():
        for target in runs:
            others = [run for run in runs if run is not target and _nodes(run) <= _nodes(target)]
            least = min(map(_nodes, others), default=0)
            anchors = [run for run in others if _nodes(run) == least]
            reach = _reach(target, every)
            if anchors and reach.below is not None:
                shifts = _shifts(target, anchors, spread)
                yield _anchored(target, anchors, shifts, reach, every)


def _nodes(outcome: Outcome) -> int:
    return outcome.nodes or 0


def _reach(outcome: Outcome, every: ErrorsByNearness) -> Reach:
    """Return the error of predictions without the source of a run."""
    assert outcome.traits is not None, "only graded steps are anchored"
    return every.without(outcome.group).reach(outcome.traits)


def _shifts(target: Outcome, anchors: Sequence[Outcome], spread: float) -> dict[str, Shift]:
    logs = [Observation(_error(run), 0.0, run.observed.slopes) for run in anchors]
    return shifts_of(list(target.observed.slopes), logs, spread)


def _anchored(
    target: Outcome,
    anchors: Sequence[Outcome],
    shifts: dict[str, Shift],
    reach: Reach,
    every: ErrorsByNearness,
) -> Anchored:
    slopes = target.observed.slopes
    before = _error(target)
    normal = [run for run in anchors if _is_normal(run, _reach(run, every))]
    apart = [difference(run.observed.shares, target.observed.shares) for run in normal]
    return Anchored(
        source=target.group,
        before=before,
        after=before - sum(slopes[name] * shift.mean for name, shift in shifts.items()),
        near=min(apart, default=math.inf) <= anchoring.NEAR,
        larger=_nodes(target) > _nodes(anchors[0]),
        reach=reach,
    )


def _error(outcome: Outcome) -> float:
    (run,) = evidence_of([outcome])
    return math.log(run.ratio)


def _is_normal(run: Outcome, reach: Reach) -> bool:
    if reach.below is None or reach.above is None:
        return True
    return -math.log(reach.below) <= _error(run) <= math.log(reach.above)


# --- the table ------------------------------------------------------------------------------------


def narrowing(runs: Sequence[Anchored], level: float = LEVEL) -> float:
    """Return the share of their intervals that has `level` of the anchored runs, and one more."""
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        errors[run.source].append(run.relative(run.after))
    sizes: Errors = errors
    return min(1.0, quantile(sizes, intraclass_correlation(sizes), level))


def table(runs: Sequence[Anchored]) -> Iterator[list[str]]:
    """Yield a row for each source with larger runs, and one for all of them."""
    near = [run for run in runs if run.near]
    shares = {
        source: narrowing([run for run in near if run.source != source])
        for source in {run.source for run in runs}
    }
    larger = [run for run in runs if run.larger]
    for source in sorted({run.source for run in larger}):
        yield [source, *_cells([run for run in larger if run.source == source], shares)]
    together = {
        "all": larger,
        "all, near their anchor": [run for run in larger if run.near],
        "all, also on as many nodes": runs,
    }
    yield from ([name, *_cells(chosen, shares)] for name, chosen in together.items() if chosen)


def _cells(runs: Sequence[Anchored], shares: dict[str, float]) -> list[str]:
    share = [shares[run.source] if run.near else 1.0 for run in runs]
    pairs = list(zip(runs, share, strict=True))
    inside = [sum(run.relative(run.before) <= 1 for run in runs)]
    inside += [sum(run.relative(run.after, part) <= 1 for run, part in pairs)]
    lengths = fmean(run.length for run in runs), fmean(run.length * part for run, part in pairs)
    return [
        f"{len(runs)}",
        f"{sum(run.near for run in runs)}",
        *(_percent(median(abs(error) for error in errors)) for errors in _errors(runs)),
        *(f"{count / len(runs):.1%}".replace("%", " %") for count in inside),
        *(f"{length:.2f}" for length in lengths),
    ]


def _errors(runs: Sequence[Anchored]) -> tuple[list[float], list[float]]:
    return [run.before for run in runs], [run.after for run in runs]


def _percent(error: float) -> str:
    return f"{100 * math.expm1(error):.1f} %"


def ratios(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of a table of other spreads of the factors."""
    yield "| spread over scatter | median error | anchored | share of the interval |"
    yield "| ---: | ---: | ---: | ---: |"
    for ratio in TRIED:
        runs = list(anchored_runs(outcomes, ratio * anchoring.SCATTER))
        cells = [_percent(median(abs(error) for error in errors)) for errors in _errors(runs)]
        share = narrowing([run for run in runs if run.near])
        yield f"| {ratio:g} | {' | '.join(cells)} | {share:.2f} |"


HEAD: Final = (
    "source", "larger runs", "near", "median error", "anchored", "inside", "anchored",
    "length", "anchored",
)  # fmt: skip


def markdown(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"| --- |{' ---: |' * (len(HEAD) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the gain by source, and by the coefficients of `clustersim.metrics.anchoring`."""
    parser = argparse.ArgumentParser(prog="python -m tools.anchoring", description=__doc__)
    add = parser.add_argument
    add("--group", action="append", default=[], metavar="PATTERN", help="only cases of this group")
    add("--jobs", type=int, metavar="N", help="number of processes [one per core]")
    given = parser.parse_args(arguments)
    try:
        entries = select_groups(case_entries(None), given.group)
    except ClustersimError as error:
        parser.exit(2, f"{error}\n")
    with workers(given.jobs, tasks=len(entries)) as executor:
        outcomes = run_cases(entries, executor, observe=observe)
    runs = list(anchored_runs(outcomes))
    lines = [*markdown(table(runs)), "", *ratios(outcomes)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
