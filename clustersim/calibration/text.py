"""The answers of `clustersim calibrate` as tables: of runs, then fits and grades of kernels."""

from collections.abc import Iterator, Mapping
from typing import Final

from clustersim.calibration.kernels.fits import (
    KernelFits,
    KernelGrade,
    KernelGrades,
    SurfaceFit,
)
from clustersim.calibration.kernels.surfaces import FittedTerm
from clustersim.calibration.runs.answer import Calibration, NotFitted, TimeErrors
from clustersim.render.tables import ResultTable, Rows, percent
from clustersim.units import format_flops_per_second, format_seconds


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


# --- kernels --------------------------------------------------------------------------------------


def grade_rows(answer: KernelGrades) -> Rows:
    """Yield a row for each kind, format and accelerator."""
    for group in answer.groups:
        yield group.kind, group.variant, _issuer(group), *_kernel_errors(group)


def kind_rows(answer: KernelGrades) -> Rows:
    """Yield a row for each kind and format, over all accelerators."""
    for group in answer.kinds:
        yield " ".join([group.engine, group.kind]).strip(), group.variant, *_kernel_errors(group)


def _issuer(each: KernelGrade | SurfaceFit) -> str:
    """Return the accelerator of kernels, and the engine that has fits of its own."""
    return f"{each.accelerator} {each.engine}".strip()


def _kernel_errors(group: KernelGrade) -> tuple[str, ...]:
    errors = group.errors
    return (
        str(group.rows),
        percent(errors.median),
        percent(errors.p90),
        percent(errors.bias, "+"),
        f"as {group.like}" if group.like else "" if group.fitted else "priors",
    )


def fit_rows(answer: KernelFits) -> Rows:
    """Yield a row for each fit: errors with priors, fitted and held out."""
    for fit in answer.fits:
        yield (
            fit.kind,
            fit.variant,
            _issuer(fit),
            str(fit.rows),
            percent(fit.before.median),
            percent(fit.after.median),
            percent(fit.held_out.median),
            percent(fit.held_out.p90),
            percent(fit.held_out.bias, "+"),
        )


def term_rows(answer: KernelFits) -> Rows:
    """Yield a row for each term of each fit."""
    for fit in answer.fits:
        for term in fit.terms:
            yield (
                f"{_issuer(fit)} {fit.kind} {fit.variant}",
                term.name,
                _value(term, term.prior),
                _value(term, term.value) if term.fitted else "not determined",
                percent(term.error) if term.fitted else "",
            )


def _value(term: FittedTerm, value: float) -> str:
    return format_seconds(value) if term.unit == "s" else f"{value:.4g} {term.unit}".rstrip()


def left_out_lines(left_out: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each reason to leave rows out."""
    for reason, count in left_out.items():
        yield f"left out  {count:>6,}  {reason}"


_GRADES: Final = (">rows", ">median", ">90th percentile", ">bias", "")

GRADES: Final = (
    ResultTable(
        "Errors of predicted time by kernel, format or library, and accelerator",
        ("kernel", "format", "accelerator", *_GRADES),
        grade_rows,
    ),
    ResultTable(
        "Errors of predicted time over all accelerators", ("kernel", "format", *_GRADES), kind_rows
    ),
)
"""The tables of grades."""

FITS: Final = (
    ResultTable("Fitted terms", ("fit", "term", ">prior", ">fitted", ">standard error"), term_rows),
    ResultTable(
        "Errors of predicted time: medians, and of rows held out by shape",
        (
            "kernel",
            "format",
            "accelerator",
            ">rows",
            ">prior",
            ">fitted",
            ">held out",
            ">90th percentile",
            ">bias",
        ),
        fit_rows,
    ),
)
"""The tables of fits."""
