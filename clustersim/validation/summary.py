"""The outcomes of many cases in a few numbers: how far off a group is, and which way.

Beside the errors stand those of the best constant (`constant.py`), and how well layouts are ranked
(`ranking.py`): a mean error alone does not tell whether a prediction is of use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median

import numpy as np

from clustersim.validation.baseline import best_constant, errors_of, runs_of
from clustersim.validation.outcomes import Outcome
from clustersim.validation.ranking import differences, kendall, layout_sets


@dataclass(frozen=True)
class Constant:
    """What the best constant throughput scores on the same runs [unitless].

    Attributes
    ----------
    tflops, convention : of a device [TFLOP/s], and how its FLOPs are counted, ``model`` or
        ``hardware``, whichever scores better; None over several groups, which have one each
    count : runs with a known throughput, in groups of at least two
    mean_abs_error, median_abs_error, p90_abs_error, worst : of its absolute errors
    """

    tflops: float | None
    convention: str | None
    count: int
    mean_abs_error: float
    median_abs_error: float
    p90_abs_error: float
    worst: float


@dataclass(frozen=True)
class Layouts:
    """How well runs that differ only in layout are told apart [unitless].

    Attributes
    ----------
    sets, runs : jobs that were measured in several layouts, and their runs
    kendall_tau : rank correlation over pairs of layouts of one job
    kendall_tau_group : over all pairs of runs, by throughput of a device; None over several groups
    regret, worst_regret : share of measured throughput lost by the layout ranked first, its mean
        over jobs and the largest, of the layout `worst_id`
    blind_regret : what a choice without looking loses, its mean over jobs
    """

    sets: int
    runs: int
    kendall_tau: float | None
    kendall_tau_group: float | None
    regret: float
    worst_regret: float
    worst_id: str
    blind_regret: float


@dataclass(frozen=True)
class Tally:
    """The errors of a group [unitless].

    Attributes
    ----------
    count, gradable, gating : cases; those that ran; those of them that a tolerance may be held to
    mean_abs_error, median_abs_error, p90_abs_error : of `error`, over gradable cases but those of
        memory alone; None without any
    gating_mean_abs_error : the same over gating cases
    worst : the largest absolute error, of the case `worst_id`
    bias : mean of `time_error`: above 0 where predictions are too slow
    constant : what the best constant scores; None where no two runs of a group have a throughput
    layouts : how layouts are ranked; None where no job was measured in two of them
    memory_count, memory_mean_abs_error, memory_bias : of measured memory
    memory_worst : the largest absolute error of memory, of the case `memory_worst_id`
    called_out_of_memory : runs that are predicted not to fit, and really ran
    """

    count: int
    gradable: int
    gating: int
    mean_abs_error: float | None
    median_abs_error: float | None
    p90_abs_error: float | None
    gating_mean_abs_error: float | None
    worst: float | None
    worst_id: str | None
    bias: float | None
    constant: Constant | None
    layouts: Layouts | None
    memory_count: int
    memory_mean_abs_error: float | None
    memory_bias: float | None
    memory_worst: float | None
    memory_worst_id: str | None
    called_out_of_memory: int


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Sum up the outcomes of a group, or of all of them.

    >>> from clustersim.validation.grading import Grade
    >>> slow = Grade("step_time_s", None, measured=1.0, predicted=1.2, error=0.2, time_error=0.2)
    >>> fast = Grade("mfu_pct", "model", measured=40.0, predicted=50.0, error=0.25, time_error=-0.2)
    >>> sums = tally([Outcome("a", "x", grade=slow), Outcome("b", "x", grade=fast)])
    >>> sums.mean_abs_error, sums.bias, sums.worst_id
    (0.225, 0.0, 'b')
    """
    graded = [(outcome, outcome.grade) for outcome in outcomes if outcome.grade is not None]
    ran = [(outcome, grade) for outcome, grade in graded if grade.time_error is not None]
    errors = [abs(grade.error) for _, grade in ran]
    gating = [abs(grade.error) for outcome, grade in ran if outcome.gates]
    memory = {o.id: o.memory_error for o in outcomes if o.memory_error is not None}
    heaviest = max(memory, key=lambda name: abs(memory[name]), default=None)
    worst = max(range(len(ran)), key=errors.__getitem__, default=None)
    return Tally(
        count=len(outcomes),
        gradable=len(graded),
        gating=len(gating),
        mean_abs_error=_mean(errors),
        median_abs_error=median(errors) if errors else None,
        p90_abs_error=_ninth_decile(errors) if errors else None,
        gating_mean_abs_error=_mean(gating),
        worst=None if worst is None else errors[worst],
        worst_id=None if worst is None else ran[worst][0].id,
        bias=_mean([grade.time_error for _, grade in ran if grade.time_error is not None]),
        constant=_constant(outcomes),
        layouts=_layouts(outcomes),
        memory_count=len(memory),
        memory_mean_abs_error=_mean([abs(error) for error in memory.values()]),
        memory_bias=_mean(list(memory.values())),
        memory_worst=None if heaviest is None else abs(memory[heaviest]),
        memory_worst_id=heaviest,
        called_out_of_memory=sum(outcome.fits is False for outcome in outcomes),
    )


def _constant(outcomes: Sequence[Outcome]) -> Constant | None:
    """Return what the best constant of each group scores over all of them."""
    scores = [found for each in _groups(outcomes) if (found := _score(each)) is not None]
    if not scores:
        return None
    alone = len(scores) == 1
    errors = list(chain.from_iterable(errors for _, _, errors in scores))
    return Constant(
        tflops=scores[0][0] / 1e12 if alone else None,
        convention=scores[0][1] if alone else None,
        count=len(errors),
        mean_abs_error=fmean(errors),
        median_abs_error=median(errors),
        p90_abs_error=_ninth_decile(errors),
        worst=max(errors),
    )


def _score(outcomes: Sequence[Outcome]) -> tuple[float, str, list[float]] | None:
    """Return the best constant of one group [FLOP/s], its convention and its errors.

    One run alone has none: its own throughput would be right by construction.
    """
    found = []
    for convention in ("model", "hardware"):
        runs = runs_of(outcomes, convention)
        if len(runs) < 2:
            return None
        constant = best_constant(runs)
        found.append((constant, convention, errors_of(constant, runs).tolist()))
    return min(found, key=lambda score: sum(score[2]))


def _layouts(outcomes: Sequence[Outcome]) -> Layouts | None:
    """Return how layouts are ranked, over all jobs of all groups."""
    sets = layout_sets(outcomes)
    if not sets:
        return None
    worst = max(sets, key=lambda each: each.regret)
    groups = list(_groups(outcomes))
    rates = [(o.measured_rate("model"), o.rates["model"]) for o in outcomes if o.rates]
    points = [(measured, predicted) for measured, predicted in rates if measured is not None]
    return Layouts(
        sets=len(sets),
        runs=sum(len(each.runs) for each in sets),
        kendall_tau=kendall(chain.from_iterable(each.pairs() for each in sets)),
        kendall_tau_group=kendall(differences(points)) if len(groups) == 1 else None,
        regret=fmean(each.regret for each in sets),
        worst_regret=worst.regret,
        worst_id=worst.chosen.id,
        blind_regret=fmean(each.blind_regret for each in sets),
    )


def _groups(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.group, []).append(outcome)
    return list(found.values())


def _ninth_decile(errors: Sequence[float]) -> float:
    """Return what nine of ten errors are below, between two of them in proportion."""
    return float(np.percentile(errors, 90))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
