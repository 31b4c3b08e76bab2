"""The rows of a calibration: kernels and runs alike, predicted at any coefficients.

Rows.predict: (x, numbers of rows) -> log(predicted / measured) of each
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future

import numpy as np

from clustersim.calibration.coefficients import Coefficient, with_values
from clustersim.calibration.cross_validation import dealt, parted
from clustersim.calibration.fitting import Task
from clustersim.calibration.kernels import KernelRow, kernel_seconds
from clustersim.calibration.linear import Array, Numbers
from clustersim.calibration.runs import Run, run_seconds
from clustersim.catalog.records import AcceleratorRecord
from clustersim.topology.accelerator import Accelerator, build_accelerator

Key = tuple[str, tuple[float, ...]]
"""A run and the values of the coefficients that it depends on."""


class Rows:
    """Kernels, then runs.

    Parameters
    ----------
    kernels : those that stand for a kernel of the cost model
    executor : where runs are replayed
    """

    def __init__(
        self,
        record: AcceleratorRecord,
        coefficients: Sequence[Coefficient],
        kernels: Sequence[KernelRow],
        runs: Sequence[Run],
        executor: Executor,
    ) -> None:
        self.record, self.coefficients = record, tuple(coefficients)
        self.kernels, self.runs = tuple(kernels), tuple(runs)
        self._executor = executor
        self._replayed: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self.kernels) + len(self.runs)

    @property
    def groups(self) -> list[str]:
        """What each row is graded with."""
        return [row.group for row in self.kernels] + [run.group for run in self.runs]

    @property
    def folds(self) -> list[str]:
        """What each row is left out of a fit with."""
        kernels = parted([row.group for row in self.kernels])
        return kernels + dealt([run.group for run in self.runs])

    def values(self, x: Array) -> list[float]:
        """Return coefficients, of which x has the logarithms over their values before."""
        return [
            each.prior * math.exp(moved) for each, moved in zip(self.coefficients, x, strict=True)
        ]

    def predict(self, tasks: Sequence[Task]) -> list[Array]:
        """Return the logarithms of predicted over measured time of the rows of each task."""
        waiting = [self._submitted(x, rows) for x, rows in tasks]
        found = []
        for (x, rows), futures in zip(tasks, waiting, strict=True):
            device = self._device(x)
            found.append(np.array([self._ratio(int(row), device, futures) for row in rows]))
        return found

    def _device(self, x: Array) -> Accelerator:
        return build_accelerator(with_values(self.record, self._of(self.record.name, x)))

    def _of(self, owner: str, x: Array) -> dict[str, float]:
        """Return the values of the coefficients of one record, by path."""
        pairs = zip(self.coefficients, self.values(x), strict=True)
        return {each.path: value for each, value in pairs if each.owner == owner}

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
        """Start the replays that nobody asked for yet; a run knows only its own framework."""
        futures = {}
        for row in map(int, rows):
            if row < len(self.kernels):
                continue
            run = self.runs[row - len(self.kernels)]
            accelerator = self._of(self.record.name, x)
            framework = self._of(run.framework, x)
            used = [value for path, value in accelerator.items() if path not in run.unused]
            key = run.case, (*used, *framework.values())
            future = None
            if key not in self._replayed:
                future = self._executor.submit(run_seconds, run.case, accelerator, framework)
            futures[row] = key, future
        return futures
