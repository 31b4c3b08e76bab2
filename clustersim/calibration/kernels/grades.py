"""The answer of `clustersim calibrate --grade`: errors of measured kernels, without a fit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from clustersim.calibration.kernels.accelerators import MeasuredGroup, measured_groups
from clustersim.calibration.kernels.surfaces import KernelErrors, kernel_errors
from clustersim.calibration.kernels.tables import read_tables
from clustersim.catalog.files import shown


@dataclass(frozen=True)
class KernelGrade:
    """Errors of one kind of kernel in one format or library on one accelerator.

    Attributes
    ----------
    kind : of kernel
    variant : number format, formats of queries and of keys, or library
    accelerator : the accelerator; empty for all of them together
    rows : number of measurements
    fitted : whether there is a fit of them; priors are graded otherwise
    like : the similar accelerator whose fit it is; `null` where it is its own
    errors : errors of the predicted time
    """

    kind: str
    variant: str
    accelerator: str
    rows: int
    fitted: bool
    like: str | None
    errors: KernelErrors


@dataclass(frozen=True)
class TableGrade:
    """Errors of the rows of one table of one kind, format or library, and accelerator.

    Attributes
    ----------
    file : the table
    accelerator : the accelerator
    kernel : kind of kernel
    dtype : number format, formats of queries and of keys, or library
    count : number of measurements
    median : median of the absolute errors of the predicted time
    p90 : 90th percentile of the absolute errors
    bias : mean error; above 0 where predictions are too slow
    """

    file: str
    accelerator: str
    kernel: str
    dtype: str
    count: int
    median: float
    p90: float
    bias: float


@dataclass(frozen=True)
class KernelGrades:
    """Errors of measured kernels with the fitted terms of their accelerators.

    Attributes
    ----------
    tables : by table, kind, format or library, and accelerator
    groups : by kind, format or library, and accelerator
    kinds : by kind and format or library, over all accelerators
    left_out : number of rows without a grade or a fit, by reason
    """

    tables: tuple[TableGrade, ...]
    groups: tuple[KernelGrade, ...]
    kinds: tuple[KernelGrade, ...]
    left_out: Mapping[str, int]


def grade_kernels(paths: Sequence[Path], accelerator: str | None = None) -> KernelGrades:
    """Grade tables of measured kernels.

    Parameters
    ----------
    accelerator : only rows of this one

    Raises
    ------
    ScenarioError
        when a table cannot be used.
    """
    measured = measured_groups(read_tables(paths), accelerator)
    kinds: dict[tuple[str, str], list[MeasuredGroup]] = {}
    for group in measured.groups:
        kinds.setdefault((group.rows.kind, group.rows.variant), []).append(group)
    grades = [_grade([group], group.record.name) for group in measured.groups]
    return KernelGrades(
        tables=tuple(chain.from_iterable(_of_table(path, accelerator) for path in paths)),
        groups=tuple(sorted(grades, key=lambda each: (each.kind, each.variant, each.accelerator))),
        kinds=tuple(_grade(kinds[name]) for name in sorted(kinds)),
        left_out=measured.left_out,
    )


def _grade(groups: Sequence[MeasuredGroup], accelerator: str = "") -> KernelGrade:
    """Return the errors of groups of one kind and variant: of one accelerator, or of all."""
    ratios = np.concatenate([group.ratios for group in groups])
    fit = groups[0].fit if accelerator else None
    return KernelGrade(
        kind=groups[0].rows.kind,
        variant=groups[0].rows.variant,
        accelerator=accelerator,
        rows=len(ratios),
        fitted=all(group.fit is not None for group in groups),
        like=None if fit is None or fit[0] == accelerator else fit[0],
        errors=kernel_errors(ratios),
    )


def _of_table(path: Path, accelerator: str | None) -> Iterator[TableGrade]:
    """Yield the errors of one table."""
    for group in measured_groups(read_tables([path]), accelerator).groups:
        grade = _grade([group], group.record.name)
        yield TableGrade(
            file=shown(path),
            accelerator=grade.accelerator,
            kernel=grade.kind,
            dtype=grade.variant,
            count=grade.rows,
            median=grade.errors.median,
            p90=grade.errors.p90,
            bias=grade.errors.bias,
        )
