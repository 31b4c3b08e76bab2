"""What the missing time of some measured runs follows, as an answer.

    outcomes with counted quantities --explain--> Explanation

The missing time of a run is its measured step time less the predicted one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.errors import ScenarioError
from clustersim.units import counted
from clustersim.validation.outcome import Outcome
from clustersim.validation.robust import scatter
from tools.explanation.quantities import ALL_QUANTITIES, quantities_of, whole_of
from tools.explanation.regression import Regression, Selection

LEAST_RUNS: Final = 5
"""Fewest runs of an explanation, and fewest that have a quantity."""

FAR: Final = 3.0
"""Scatters of what remains, beyond which a run is an outlier."""


@dataclass(frozen=True)
class QuantityAlone:
    """A quantity of the model, and how much of the missing time it explains alone.

    Attributes
    ----------
    quantity : name of the quantity
    runs : runs that have it
    explained : share by which it lowers the mean absolute missing time
    strongest : share of bootstrap samples of the runs in which it explains the most
    seconds_each : missing time of one unit: of a launch or call, of a byte, of a predicted second;
        below 0 where the model counts too much [s]
    """

    quantity: str
    runs: int
    explained: float
    strongest: float
    seconds_each: float


@dataclass(frozen=True)
class ChosenQuantity:
    """A quantity of a selection of at most three, with those before it.

    Attributes
    ----------
    quantity : name of the quantity
    explained : share by which it and those before it lower the mean absolute missing time
    held_out : the same in runs that were held out of the fit
    seconds_each : missing time of one unit, with all quantities of the selection; below 0 where the
        model counts too much [s]
    low : 5th percentile of it over bootstrap samples of the runs
    high : 95th percentile
    over_counted : whether the model counts too much of it
    """

    quantity: str
    explained: float
    held_out: float
    seconds_each: float
    low: float
    high: float
    over_counted: bool


@dataclass(frozen=True)
class Outlier:
    """A run whose missing time the selection does not explain.

    Attributes
    ----------
    id : name of the case
    missing : its missing time, a share of the measured time
    remaining : what the selection leaves of it; below 0 where the prediction is then too slow
    """

    id: str
    missing: float
    remaining: float


@dataclass(frozen=True)
class Explanation:
    """What the missing time of some measured runs follows.

    Attributes
    ----------
    group : name of a group or a case, or a pattern
    runs : runs with a measured and a predicted time: of a step, or of a token of inference
    left_out : other cases of the group
    too_fast : runs with missing time: they are predicted too fast
    too_slow : runs that are predicted too slow
    missing : mean absolute missing time, a share of the measured time
    remaining : the same after the selection
    quantities : each quantity of at least five runs alone, the one that explains the most first
    chosen : at most three quantities that explain missing time together, in the order of selection
    outliers : runs that the selection does not explain, the worst first
    """

    group: str
    runs: int
    left_out: int
    too_fast: int
    too_slow: int
    missing: float
    remaining: float
    quantities: tuple[QuantityAlone, ...]
    chosen: tuple[ChosenQuantity, ...]
    outliers: tuple[Outlier, ...]


def check_number(group: str, runs: int) -> None:
    """Raise a `ScenarioError` for too few runs of a group or a pattern."""
    if runs < LEAST_RUNS:
        raise ScenarioError(
            f"--explain: '{group}' has {counted(runs, 'run')} with a measured time;"
            f" at least {LEAST_RUNS} are required"
        )


def explain(group: str, outcomes: Sequence[Outcome]) -> Explanation:
    """Return what the missing time of some runs follows.

    Parameters
    ----------
    group : name of the group, or a pattern
    outcomes : of all of its cases, with counted quantities

    Raises
    ------
    ScenarioError
        when fewer than five of them have a measured time.
    """
    runs = [outcome for outcome in outcomes if missing_share(outcome) is not None]
    check_number(group, len(runs))
    missing = np.array([missing_share(run) for run in runs], dtype=np.float64)
    names, regression = _regression(runs, missing)
    seconds, shares = regression.alone()
    strongest = regression.strongest()
    selection = regression.select()
    alone = [
        QuantityAlone(
            quantity=name,
            runs=int((regression.columns[:, place] > 0).sum()),
            explained=float(shares[place]),
            strongest=float(strongest[place]),
            seconds_each=float(seconds[place]),
        )
        for place, name in enumerate(names)
    ]
    return Explanation(
        group=group,
        runs=len(runs),
        left_out=len(outcomes) - len(runs),
        too_fast=int((missing > 0).sum()),
        too_slow=int((missing < 0).sum()),
        missing=float(np.abs(missing).mean()),
        remaining=float(np.abs(selection.remaining).mean()),
        quantities=tuple(sorted(alone, key=lambda each: (-each.explained, each.quantity))),
        chosen=tuple(_chosen(names, selection)),
        outliers=tuple(_outliers(runs, missing, selection.remaining)),
    )


def missing_share(outcome: Outcome) -> float | None:
    """Return missing over measured time of a run; None without quantities or a time."""
    if quantities_of(outcome) is None or outcome.grade is None or outcome.grade.time_error is None:
        return None
    return -outcome.grade.time_error


def _regression(runs: Sequence[Outcome], missing: Floats) -> tuple[list[str], Regression]:
    """Return the quantities that the runs have, and the regression of missing time on them."""
    amounts = [quantities_of(run) or {} for run in runs]
    measured = np.array([whole_of(each) for each in amounts]) / (1 - missing)
    names = [
        name
        for name in ALL_QUANTITIES
        if sum(name in each and each[name].units > 0 for each in amounts) >= LEAST_RUNS
    ]
    units = np.array([[each[name].units for name in names] for each in amounts])
    seconds = np.array([[each[name].seconds for name in names] for each in amounts])
    predicted = np.divide(seconds, units, out=np.full_like(units, np.nan), where=units > 0)
    return names, Regression(missing, units / measured[:, None], np.nanmedian(predicted, axis=0))


def _chosen(names: Sequence[str], selection: Selection) -> list[ChosenQuantity]:
    chosen = []
    for place, (column, sign) in enumerate(selection.chosen):
        ends = sorted((sign * selection.low[place], sign * selection.high[place]))
        chosen.append(
            ChosenQuantity(
                quantity=names[column],
                explained=selection.explained[place],
                held_out=selection.held_out[place],
                seconds_each=float(sign * selection.seconds[place]),
                low=float(ends[0]),
                high=float(ends[1]),
                over_counted=sign < 0,
            )
        )
    return chosen


def _outliers(runs: list[Outcome], missing: Floats, remaining: Floats) -> list[Outlier]:
    """Return the runs that are far from the fit, the worst first."""
    bound = FAR * scatter(remaining)
    far = [at for at in range(len(runs)) if abs(remaining[at]) > bound]
    far.sort(key=lambda at: -abs(remaining[at]))
    return [Outlier(runs[at].id, float(missing[at]), float(remaining[at])) for at in far]
