"""Grades and fits of measured kernels as tables."""

from collections.abc import Iterator, Mapping
from typing import Final

from clustersim.calibration.kernels.fits import KernelFits
from clustersim.calibration.kernels.grades import KernelGrade, KernelGrades
from clustersim.calibration.kernels.surfaces import FittedTerm
from clustersim.render.tables import ResultTable, percent
from clustersim.units import format_seconds

Rows = Iterator[tuple[str, ...]]


def grade_rows(answer: KernelGrades) -> Rows:
    """Yield a row for each kind, format and accelerator."""
    for group in answer.groups:
        yield group.kind, group.variant, group.accelerator, *_errors(group)


def kind_rows(answer: KernelGrades) -> Rows:
    """Yield a row for each kind and format, over all accelerators."""
    for group in answer.kinds:
        yield group.kind, group.variant, *_errors(group)


def _errors(group: KernelGrade) -> tuple[str, ...]:
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
    for one in answer.fits:
        yield (
            one.kind,
            one.variant,
            one.accelerator,
            str(one.rows),
            percent(one.before.median),
            percent(one.after.median),
            percent(one.held_out.median),
            percent(one.held_out.p90),
            percent(one.held_out.bias, "+"),
        )


def term_rows(answer: KernelFits) -> Rows:
    """Yield a row for each term of each fit."""
    for one in answer.fits:
        for term in one.terms:
            yield (
                f"{one.accelerator} {one.kind} {one.variant}",
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
