"""The answer of `clustersim calibrate` as tables: coefficients, errors of rows, rows not fitted."""

from collections.abc import Iterator
from typing import Final

from clustersim.calibration.runs.answer import Calibration, NotFitted, TimeErrors
from clustersim.render.tables import ResultTable, percent
from clustersim.units import format_flops_per_second, format_seconds

Rows = Iterator[tuple[str, ...]]


def coefficient_rows(answer: Calibration) -> Rows:
    """Yield a row for each coefficient: before, after and its error, or why it is not fitted."""
    for coefficient in answer.coefficients:
        fitted, path = coefficient.fitted, coefficient.path
        low, high = (in_its_unit(path, value) for value in (coefficient.low, coefficient.high))
        yield (
            f"{coefficient.owner}: {path}",
            in_its_unit(path, coefficient.prior),
            in_its_unit(path, coefficient.value) if fitted else "not fitted",
            percent(coefficient.error) if fitted else "",
            str(coefficient.rows),
            f"{low} to {high}" if fitted and low != high else "",
            coefficient.why or "",
        )


def error_rows(answer: Calibration) -> Rows:
    """Yield a row for each group, and one for all."""
    for name, group in [*answer.groups.items(), ("all", answer.all)]:
        yield (
            name,
            str(group.rows),
            *_errors(group.before),
            *_errors(group.after),
            *(_errors(group.held_out) if group.held_out else ("", "")),
        )


def not_fitted_rows(answer: Calibration) -> Rows:
    """Yield a row for each kind of row that is measured and not fitted."""
    for kind in answer.not_fitted:
        yield kind.kind, str(kind.rows), best_rate(kind)


def best_rate(kind: NotFitted) -> str:
    """Return the best rate of some rows that are not fitted, of bytes or of kernels."""
    if kind.bytes_per_s is not None:
        return f"{kind.bytes_per_s / 1e9:.3g} GB/s at best"
    return f"{format_seconds(kind.seconds_each or 0.0)} for each kernel at best"


def in_its_unit(path: str, value: float) -> str:
    """Return a coefficient in the unit of its file.

    >>> in_its_unit("gemm.best", 0.81234), in_its_unit("launch_overhead", 2e-6)
    ('0.8123', '2 us')
    """
    if path in ("launch_overhead", "dispatch"):
        return format_seconds(value)
    return format_flops_per_second(value) if path == "gemm.ragged" else f"{value:.4g}"


def _errors(errors: TimeErrors) -> tuple[str, str]:
    return percent(errors.mean_abs), percent(errors.bias, "+")


TABLES: Final = (
    ResultTable(
        "Coefficients",
        (
            "coefficient",
            ">before",
            ">fitted",
            ">standard error",
            ">rows",
            "range over folds",
            "why it is not fitted",
        ),
        coefficient_rows,
    ),
    ResultTable(
        "Errors of predicted time: mean absolute, and bias (above 0 where too slow)",
        ("group", ">rows", ">before", ">bias", ">fitted", ">bias", ">held out", ">bias"),
        error_rows,
    ),
    ResultTable("Measured and not fitted", ("kind", ">rows", ">measured"), not_fitted_rows),
)
"""The tables of a calibration, in order."""


def calibration_tables(answer: Calibration) -> list[tuple[ResultTable, list[tuple[str, ...]]]]:
    """Return the tables that have rows."""
    tables = [(table, list(table.rows(answer))) for table in TABLES]
    return [(table, rows) for table, rows in tables if rows]
