"""The answer of `clustersim calibrate --grade`: errors of measured kernels, without a fit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from clustersim.calibration.kernels.accelerators import measured_groups
from clustersim.calibration.kernels.surfaces import KernelErrors, kernel_errors
from clustersim.calibration.kernels.tables import read_tables
from clustersim.calibration.linear import Array
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
    ratios = [group.rows.ratios(group.terms) for group in measured.groups]
    graded = list(zip(measured.groups, ratios, strict=True))
    names = sorted({(group.rows.kind, group.rows.variant) for group in measured.groups})
    kinds = []
    for name in names:
        own = [one for one in graded if (one[0].rows.kind, one[0].rows.variant) == name]
        fitted = all(group.fit is not None for group, _ in own)
        kinds.append(_grade(*name, "", np.concatenate([found for _, found in own]), fitted=fitted))
    groups = []
    for group, found in graded:
        fitted_on = group.record.name if group.fit is None else group.fit[0]
        like = None if fitted_on == group.record.name else fitted_on
        one = _grade(
            group.rows.kind,
            group.rows.variant,
            group.record.name,
            found,
            fitted=group.fit is not None,
        )
        groups.append(replace(one, like=like))
    ordered = sorted(groups, key=lambda one: (one.kind, one.variant, one.accelerator))
    tables = chain.from_iterable(_of_table(path, accelerator) for path in paths)
    return KernelGrades(tuple(tables), tuple(ordered), tuple(kinds), measured.left_out)


def _of_table(path: Path, accelerator: str | None) -> Iterator[TableGrade]:
    """Yield the errors of one table."""
    for group in measured_groups(read_tables([path]), accelerator).groups:
        ratios = group.rows.ratios(group.terms)
        found = kernel_errors(ratios)
        yield TableGrade(
            shown(path),
            group.record.name,
            group.rows.kind,
            group.rows.variant,
            len(ratios),
            found.median,
            found.p90,
            found.bias,
        )


def _grade(
    kind: str, variant: str, accelerator: str, ratios: Array, *, fitted: bool
) -> KernelGrade:
    errors = kernel_errors(ratios)
    return KernelGrade(kind, variant, accelerator, len(ratios), fitted, None, errors)
