"""Fitting and grading on separate rows: all folds but one are fitted, and the one is graded.

A fold is a group of runs, because what the model lacks of a machine or a software is off in all its
runs alike.  Kernels, and runs of a single group, are dealt out into a few folds in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clustersim.calibration.fitting import Fit, Predict
from clustersim.calibration.linear import Array, Prior, settled

DEALT: Final = 5
"""Folds that rows without groups of their own are dealt out into."""


@dataclass(frozen=True)
class HeldOut:
    """What came out of fitting without each fold.

    Attributes
    ----------
    ratios : r of each row by the coefficients that were fitted without it; None with one fold
    low, high : least and most that x of each coefficient was, over the folds
    """

    ratios: Array | None
    low: Array
    high: Array


def dealt(groups: Sequence[str]) -> list[str]:
    """Return the fold of each row: its group, or a number in turn where there is one group.

    >>> dealt(["a", "b", "a"])
    ['a', 'b', 'a']
    >>> dealt(["a"] * 6)
    ['a, part 1', 'a, part 2', 'a, part 3', 'a, part 4', 'a, part 5', 'a, part 1']
    """
    if len(set(groups)) > 1:
        return list(groups)
    return parted(groups)


def parted(groups: Sequence[str]) -> list[str]:
    """Return folds of rows that are dealt out inside each group."""
    seen: dict[str, int] = {}
    folds = []
    for group in groups:
        place = seen[group] = seen.get(group, -1) + 1
        folds.append(f"{group}, part {place % DEALT + 1}")
    return folds


def hold_out(predict: Predict, prior: Prior, whole: Fit, folds: Sequence[str]) -> HeldOut:
    """Fit without each fold and grade it.

    What is fitted is the whole fit's straight line, so that nothing need be simulated but the rows
    of each fold at its own coefficients.
    """
    names = sorted(set(folds))
    if len(names) < 2:
        return HeldOut(None, whole.x, whole.x)
    inside = [np.array([fold == name for fold in folds]) for name in names]
    found = [settled(whole.line, prior, whole.free, rows=~mine) for mine in inside]
    tasks = [(x, np.flatnonzero(mine)) for x, mine in zip(found, inside, strict=True)]
    ratios = np.empty(len(folds))
    for (_, rows), graded in zip(tasks, predict(tasks), strict=True):
        ratios[rows] = graded
    return HeldOut(ratios, np.min(found, axis=0), np.max(found, axis=0))
