"""A calibration: what rows say of the coefficients of one accelerator, and how surely."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from clustersim.calibration.coefficients import Coefficient, of_accelerator
from clustersim.calibration.cross_validation import HeldOut, hold_out
from clustersim.calibration.fitting import Fit, fit
from clustersim.calibration.identifiability import TOLD
from clustersim.calibration.kernels import KernelRow
from clustersim.calibration.linear import Array, Prior
from clustersim.calibration.rows import Rows
from clustersim.calibration.runs import Run
from clustersim.catalog.records import AcceleratorRecord

FELT: Final = 1e-3
"""Change of a row's time with a coefficient, share for share, from which it depends on it."""

ROUNDS: Final = 12
"""Rounds of a fit to kernels, which cost next to nothing."""

ROUNDS_OF_RUNS: Final = 4
"""Rounds of a fit to runs: each is a replay of all of them for every coefficient."""


@dataclass(frozen=True)
class Answer:
    """What became of one coefficient.

    Attributes
    ----------
    prior, value : before and after
    error : standard error of `value`, a share of it; what was assumed of `prior` if it is left
    low, high : its range over fits that leave out one fold each
    rows : rows that depend on it
    why : why it is left at its prior; None where it is fitted
    """

    owner: str
    path: str
    prior: float
    value: float
    error: float
    low: float
    high: float
    rows: int
    why: str | None

    @property
    def fitted(self) -> bool:
        """Whether the data tell it."""
        return self.why is None


@dataclass(frozen=True)
class Errors:
    """Predicted over measured time, less one, of some rows [unitless]."""

    mean_abs: float
    median_abs: float
    worst: float
    bias: float


@dataclass(frozen=True)
class Group:
    """How far off the rows of a group are; `held_out` by fits that did not see their fold."""

    rows: int
    before: Errors
    after: Errors
    held_out: Errors | None


@dataclass(frozen=True)
class Calibration:
    """What came out, and of what.

    Attributes
    ----------
    scatter : of the rows around the fit, a share of their time
    groups, whole : errors by group and of all rows
    """

    accelerator: str
    answers: tuple[Answer, ...]
    scatter: float
    groups: dict[str, Group]
    whole: Group

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "accelerator": self.accelerator,
            "coefficients": [{**asdict(each), "fitted": each.fitted} for each in self.answers],
            "scatter": self.scatter,
            "groups": {name: asdict(group) for name, group in self.groups.items()},
            "all": asdict(self.whole),
        }


def calibrate(
    record: AcceleratorRecord,
    kernels: Sequence[KernelRow],
    runs: Sequence[Run],
    executor: Executor,
) -> Calibration:
    """Fit the coefficients of an accelerator, and the dispatch of the frameworks that ran on it.

    Parameters
    ----------
    kernels, runs : at least one of them, of this accelerator
    executor : where runs are replayed
    """
    coefficients = chosen(record, kernels, runs)
    rows = Rows(record, coefficients, kernels, runs, executor)
    low, high = np.array([each.bounds for each in coefficients]).T
    prior = Prior(np.array([each.spread for each in coefficients]), low, high)
    rounds = ROUNDS_OF_RUNS if runs else ROUNDS
    found = fit(rows.predict, prior, len(rows), rounds)
    apart = hold_out(rows.predict, prior, found, rows.folds)
    return Calibration(
        accelerator=record.name,
        answers=tuple(_answers(rows, prior, found, apart)),
        scatter=found.scatter,
        groups={
            name: _group([each == name for each in rows.groups], found, apart)
            for name in sorted(set(rows.groups))
        },
        whole=_group([True] * len(rows), found, apart),
    )


def chosen(
    record: AcceleratorRecord, kernels: Sequence[KernelRow], runs: Sequence[Run]
) -> list[Coefficient]:
    """Return what is fitted: tiles only to single products, dispatch only to runs."""
    found = of_accelerator(record, tiles=any(row.kind == "gemm" for row in kernels))
    of_frameworks = {(each.owner, each.path): each for run in runs for each in run.coefficients}
    return found + [of_frameworks[key] for key in sorted(of_frameworks)]


def _answers(rows: Rows, prior: Prior, found: Fit, apart: HeldOut) -> list[Answer]:
    values = [rows.values(x) for x in (found.x, apart.low, apart.high)]
    return [
        Answer(
            owner=each.owner,
            path=each.path,
            prior=each.prior,
            value=values[0][place],
            error=float(found.errors[place]),
            low=values[1][place],
            high=values[2][place],
            rows=int((np.abs(found.line.slopes[:, place]) > FELT).sum()),
            why=_why(place, rows.coefficients, prior, found),
        )
        for place, each in enumerate(rows.coefficients)
    ]


def _why(place: int, coefficients: Sequence[Coefficient], prior: Prior, found: Fit) -> str | None:
    """Return why a coefficient is left at its prior."""
    if found.free[place]:
        return None
    if not np.abs(found.line.slopes[:, place]).any():
        return "no row depends on it"
    if found.alone[place] > TOLD * prior.spread[place]:
        return "too few rows depend on it, or too little"
    like = np.where(found.free, found.likeness[place], 0.0)
    other = coefficients[int(np.argmax(like))]
    return f"cannot be told from {other.path} of {other.owner}"


def _group(inside: Sequence[bool], found: Fit, apart: HeldOut) -> Group:
    mine = np.array(inside)
    return Group(
        rows=int(mine.sum()),
        before=_errors(found.before[mine]),
        after=_errors(found.after[mine]),
        held_out=None if apart.ratios is None else _errors(apart.ratios[mine]),
    )


def _errors(ratios: Array) -> Errors:
    off = np.expm1(ratios)
    return Errors(
        mean_abs=float(np.abs(off).mean()),
        median_abs=float(np.median(np.abs(off))),
        worst=float(off[np.argmax(np.abs(off))]),
        bias=float(off.mean()),
    )
