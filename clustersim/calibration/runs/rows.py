"""The rows of a calibration: kernels and runs, predicted with any coefficients, and their folds.

    Rows.predict: (x, numbers of rows) -> log(predicted / measured) of each

A fold is a group of runs, because a property that the model lacks affects all runs of a machine or
a software.  Kernels, and runs of a single group, are divided into a few folds in turn.
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Final

import numpy as np

from clustersim.calibration.fitting import Task
from clustersim.calibration.linear import Array, Flags, Numbers
from clustersim.calibration.runs.coefficients import Coefficient, with_values
from clustersim.calibration.runs.kernels import KernelRow, kernel_seconds
from clustersim.calibration.runs.replays import MeasuredRun, run_seconds
from clustersim.catalog.accelerators import AcceleratorRecord
from clustersim.topology.accelerator import Accelerator, build_accelerator

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
    places: dict[str, int] = {}
    folds = []
    for group in groups:
        place = places[group] = places.get(group, -1) + 1
        folds.append(f"{group}, part {place % FOLDS + 1}")
    return folds
