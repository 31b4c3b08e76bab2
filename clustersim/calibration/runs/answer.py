"""The answer of `clustersim calibrate`: each coefficient with its error, and errors of the rows.

    Rows.predict: (x, numbers of rows) -> log(predicted / measured) of each kernel and run

A fold is a group of runs, because a property that the model lacks affects all runs of a machine or
a software.  Kernels, and runs of a single group, are divided into a few folds in turn.
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Final

import numpy as np

from clustersim.calibration.fitting import DETERMINED, Fit, HeldOut, Task, fit, hold_out
from clustersim.calibration.linear import Array, Flags, Numbers, Prior
from clustersim.calibration.runs.coefficients import (
    Coefficient,
    accelerator_coefficients,
    with_products,
    with_values,
)
from clustersim.calibration.runs.kernels import KernelRow, kernel_seconds
from clustersim.calibration.runs.replays import MeasuredRun, run_seconds
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.records import dataclass
from clustersim.topology.accelerator import Accelerator, build_accelerator

# --- rows -----------------------------------------------------------------------------------------

FOLDS: Final = 5
"""Folds of rows without groups of their own."""

Key = tuple[str, tuple[float, ...]]
"""A run and the values of the coefficients that it depends on."""


class Rows:
    """Kernels, then runs.

    Parameters
    ----------
    kernels : those with a kernel of the cost model
    executor : where runs are replayed
    """

    def __init__(
        self,
        record: AcceleratorRecord,
        coefficients: Sequence[Coefficient],
        kernels: Sequence[KernelRow],
        runs: Sequence[MeasuredRun],
        executor: Executor,
    ) -> None:
        self.record, self.coefficients = record, tuple(coefficients)
        self.kernels, self.runs = tuple(kernels), tuple(runs)
        self._executor = executor
        self._replayed: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self.kernels) + len(self.runs)

    @property
    def are_runs(self) -> Flags:
        """Whether each row is a run."""
        return np.arange(len(self)) >= len(self.kernels)

    @property
    def groups(self) -> list[str]:
        """The group of each row in the table of errors."""
        return [row.group for row in self.kernels] + [run.group for run in self.runs]

    @property
    def folds(self) -> list[str]:
        """The fold of each row."""
        kernels = divide([row.group for row in self.kernels])
        return kernels + folds_of([run.group for run in self.runs])

    def values(self, x: Array) -> list[float]:
        """Return the coefficients of which x has the logarithms over their values before."""
        return [
            coefficient.prior * math.exp(moved)
            for coefficient, moved in zip(self.coefficients, x, strict=True)
        ]

    def predict(self, tasks: Sequence[Task]) -> list[Array]:
        """Return the logarithms of predicted over measured time of the rows of each task."""
        submitted = [self._submitted(x, rows) for x, rows in tasks]
        ratios = []
        for (x, rows), futures in zip(tasks, submitted, strict=True):
            device = self._device(x)
            ratios.append(np.array([self._ratio(int(row), device, futures) for row in rows]))
        return ratios

    def _device(self, x: Array) -> Accelerator:
        return build_accelerator(with_values(self.record, self._of(self.record.name, x)))

    def _of(self, owner: str, x: Array) -> dict[str, float]:
        """Return the values of the coefficients of one record, by path."""
        pairs = zip(self.coefficients, self.values(x), strict=True)
        return {
            coefficient.path: value for coefficient, value in pairs if coefficient.owner == owner
        }

    def _ratio(
        self, row: int, device: Accelerator, futures: Mapping[int, tuple[Key, Future[float] | None]]
    ) -> float:
        if row < len(self.kernels):
            measured = self.kernels[row]
            assert measured.kernel is not None, "only kernels of the cost model are rows"
            return math.log(kernel_seconds(measured.kernel, device) / measured.seconds)
        run = self.runs[row - len(self.kernels)]
        key, future = futures[row]
        if future is not None:
            self._replayed[key] = future.result()
        return math.log(self._replayed[key] / run.measured)

    def _submitted(self, x: Array, rows: Numbers) -> dict[int, tuple[Key, Future[float] | None]]:
        """Start the replays without a result yet; a run depends only on its own framework."""
        futures = {}
        for row in map(int, rows):
            if row < len(self.kernels):
                continue
            run = self.runs[row - len(self.kernels)]
            accelerator = self._of(self.record.name, x)
            framework = self._of(run.framework, x)
            used = [value for path, value in accelerator.items() if path not in run.unused]
            key = run.row, (*used, *framework.values())
            future = None
            if key not in self._replayed:
                future = self._executor.submit(run_seconds, run.row, accelerator, framework)
            futures[row] = key, future
        return futures


def folds_of(groups: Sequence[str]) -> list[str]:
    """Return the fold of each row: its group, or a number in turn where there is one group.

    >>> folds_of(["a", "b", "a"])
    ['a', 'b', 'a']
    >>> folds_of(["a"] * 6)
    ['a, part 1', 'a, part 2', 'a, part 3', 'a, part 4', 'a, part 5', 'a, part 1']
    """
    return list(groups) if len(set(groups)) > 1 else divide(groups)


def divide(groups: Sequence[str]) -> list[str]:
    """Return folds of rows, divided in turn inside each group."""
    indices: dict[str, int] = {}
    folds = []
    for group in groups:
        index = indices[group] = indices.get(group, -1) + 1
        folds.append(f"{group}, part {index % FOLDS + 1}")
    return folds


# --- the answer -----------------------------------------------------------------------------------

DEPENDENT: Final = 1e-3
"""Relative change of a row's time per change of a coefficient, from which it depends on it."""

ROUNDS: Final = 12
"""Rounds of a fit to kernels, which take almost no time."""

ROUNDS_OF_RUNS: Final = 4
"""Rounds of a fit to runs: each replays all of them for every coefficient."""


@dataclass(frozen=True)
class FittedCoefficient:
    """One coefficient after the fit.

    Attributes
    ----------
    owner : its file, an accelerator or a framework
    path : its key there
    prior : its value before, in SI units
    value : its value now; that before if it is not fitted
    error : standard error of the value, a share of it; that of the prior if it is not fitted
    low : its least value over fits that leave out one fold each
    high : its largest value over them
    rows : rows that depend on it
    why : why it is not fitted; `null` where it is
    fitted : whether the data determine it
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
    fitted: bool


@dataclass(frozen=True)
class TimeErrors:
    """Errors of the predicted time of some rows [unitless].

    Attributes
    ----------
    mean_abs : mean absolute error
    median_abs : median of it
    worst : the largest, with its sign
    bias : mean error; above 0 where predictions are too slow
    """

    mean_abs: float
    median_abs: float
    worst: float
    bias: float


@dataclass(frozen=True)
class RowGroup:
    """Errors of a group of runs, or of a kind of kernel in a precision.

    Attributes
    ----------
    rows : its rows
    before : errors before the fit
    after : errors after it
    held_out : errors of fits without the fold of the row; `null` with one fold
    """

    rows: int
    before: TimeErrors
    after: TimeErrors
    held_out: TimeErrors | None


@dataclass(frozen=True)
class NotFitted:
    """A kind of row that is measured and not fitted.

    Attributes
    ----------
    kind : of the rows
    rows : number of them
    bytes_per_s : highest rate of them [B/s]
    seconds_each : least time of a kernel among them [s]
    """

    kind: str
    rows: int
    bytes_per_s: float | None
    seconds_each: float | None


@dataclass(frozen=True)
class Calibration:
    """Coefficients of an accelerator, fitted to measurements.

    Attributes
    ----------
    accelerator : the accelerator
    coefficients : those of the accelerator and of the frameworks that ran on it
    scatter : scale of the remaining ratios, a share of a row's time
    groups : errors of each group of rows, by name
    all : errors of all rows
    rows_of : files and rows in words, as the source of every fitted value
    not_fitted : kinds of rows that are measured and not fitted
    left_out : why a case of the accelerator, or a kind of kernel, is left out, by its name
    files : files that were written
    """

    accelerator: str
    coefficients: tuple[FittedCoefficient, ...]
    scatter: float
    groups: Mapping[str, RowGroup]
    all: RowGroup
    rows_of: str
    not_fitted: tuple[NotFitted, ...]
    left_out: Mapping[str, str]
    files: tuple[str, ...] = ()


def fit_accelerator(
    record: AcceleratorRecord,
    kernels: Sequence[KernelRow],
    runs: Sequence[MeasuredRun],
    executor: Executor,
    *,
    rows_of: str = "",
    not_fitted: tuple[NotFitted, ...] = (),
    left_out: Mapping[str, str] | None = None,
) -> Calibration:
    """Fit the coefficients of an accelerator, and the dispatch of the frameworks that ran on it.

    Parameters
    ----------
    kernels, runs : at least one of them, of this accelerator
    executor : where runs are replayed
    rows_of, not_fitted, left_out : parts of the answer that describe the measurements
    """
    if any(row.kind == "gemm" for row in kernels):
        record = with_products(record)
    coefficients = chosen(record, kernels, runs)
    rows = Rows(record, coefficients, kernels, runs, executor)
    low, high = np.array([coefficient.bounds for coefficient in coefficients]).T
    prior = Prior(np.array([coefficient.spread for coefficient in coefficients]), low, high)
    fitted = fit(rows.predict, prior, rows.are_runs, ROUNDS_OF_RUNS if runs else ROUNDS)
    held_out = hold_out(rows.predict, prior, fitted, rows.folds)
    return Calibration(
        accelerator=record.name,
        coefficients=tuple(_coefficients(rows, prior, fitted, held_out)),
        scatter=fitted.scatter,
        groups={
            name: _group([group == name for group in rows.groups], fitted, held_out)
            for name in sorted(set(rows.groups))
        },
        all=_group([True] * len(rows), fitted, held_out),
        rows_of=rows_of,
        not_fitted=not_fitted,
        left_out=left_out or {},
    )


def chosen(
    record: AcceleratorRecord, kernels: Sequence[KernelRow], runs: Sequence[MeasuredRun]
) -> list[Coefficient]:
    """Return the coefficients to fit: tiles only to single products, dispatch only to runs."""
    coefficients = accelerator_coefficients(
        record, alone=any(row.kind == "gemm" for row in kernels)
    )
    of_frameworks = {(c.owner, c.path): c for run in runs for c in run.coefficients}
    return coefficients + [of_frameworks[key] for key in sorted(of_frameworks)]


def _coefficients(
    rows: Rows, prior: Prior, fitted: Fit, held_out: HeldOut
) -> list[FittedCoefficient]:
    values, low, high = (rows.values(x) for x in (fitted.x, held_out.low, held_out.high))
    reasons = [_why(index, rows.coefficients, prior, fitted) for index in range(len(values))]
    return [
        FittedCoefficient(
            owner=coefficient.owner,
            path=coefficient.path,
            prior=coefficient.prior,
            value=values[index],
            error=float(fitted.errors[index]),
            low=low[index],
            high=high[index],
            rows=int((np.abs(fitted.line.slopes[:, index]) > DEPENDENT).sum()),
            why=reasons[index],
            fitted=reasons[index] is None,
        )
        for index, coefficient in enumerate(rows.coefficients)
    ]


def _why(index: int, coefficients: Sequence[Coefficient], prior: Prior, fitted: Fit) -> str | None:
    """Return why a coefficient is not fitted; None where it is."""
    if fitted.free[index]:
        return None
    if not np.abs(fitted.line.slopes[:, index]).any():
        return "no row depends on it"
    if fitted.alone[index] > DETERMINED * prior.spread[index]:
        return "too few rows depend on it, or too little"
    likeness = np.where(fitted.free, fitted.likeness[index], 0.0)
    other = coefficients[int(np.argmax(likeness))]
    return f"its effect is that of {other.path} of {other.owner}"


def _group(inside: Sequence[bool], fitted: Fit, held_out: HeldOut) -> RowGroup:
    members = np.array(inside)
    return RowGroup(
        rows=int(members.sum()),
        before=_errors(fitted.before[members]),
        after=_errors(fitted.after[members]),
        held_out=None if held_out.ratios is None else _errors(held_out.ratios[members]),
    )


def _errors(ratios: Array) -> TimeErrors:
    errors = np.expm1(ratios)
    return TimeErrors(
        mean_abs=float(np.abs(errors).mean()),
        median_abs=float(np.median(np.abs(errors))),
        worst=float(errors[np.argmax(np.abs(errors))]),
        bias=float(errors.mean()),
    )
