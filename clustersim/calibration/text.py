"""A calibration as tables: what each coefficient became, and how far off each group of rows is."""

from collections.abc import Iterator, Mapping
from typing import Any

from clustersim.render.tables import percent
from clustersim.units import format_flops_per_second, format_seconds
from clustersim.validation.text import Table, Values


def coefficient_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each coefficient: before, after, how well it is known, or why it stays."""
    for each in answer["coefficients"]:
        low, high = (in_its_unit(each["path"], each[end]) for end in ("low", "high"))
        yield (
            f"{each['owner']}: {each['path']}",
            in_its_unit(each["path"], each["prior"]),
            in_its_unit(each["path"], each["value"]) if each["fitted"] else "left",
            percent(each["error"]) if each["fitted"] else "",
            str(each["rows"]),
            f"{low} to {high}" if each["fitted"] and low != high else "",
            each["why"] or "",
        )


def group_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each group, and one for all."""
    for name, group in [*answer["groups"].items(), ("all", answer["all"])]:
        yield (
            name,
            str(group["rows"]),
            *_errors(group["before"]),
            *_errors(group["after"]),
            *(_errors(group["held_out"]) if group["held_out"] else ("", "")),
        )


def left_out_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of row that is measured but not fitted."""
    for each in answer["not_fitted"]:
        yield (each["kind"], str(each["rows"]), in_words(each))


def in_words(told: Mapping[str, Any]) -> str:
    """Return the best rate of some rows that are not fitted, of bytes or of kernels."""
    if told["bytes_per_s"] is not None:
        return f"{told['bytes_per_s'] / 1e9:.3g} GB/s at best"
    return f"{format_seconds(told['seconds_each'])} for each kernel at best"


def in_its_unit(path: str, value: float) -> str:
    """Return a coefficient as its file has it.

    >>> in_its_unit("gemm.best", 0.81234), in_its_unit("launch_overhead", 2e-6)
    ('0.8123', '2 us')
    """
    if path in ("launch_overhead", "dispatch"):
        return format_seconds(value)
    return format_flops_per_second(value) if path == "gemm.ragged" else f"{value:.4g}"


def _errors(errors: Mapping[str, float]) -> tuple[str, str]:
    return percent(errors["mean_abs"]), percent(errors["bias"], "+")


TABLES = (
    Table(
        "Coefficients",
        (
            "coefficient",
            ">before",
            ">fitted",
            ">give or take",
            ">rows",
            "parts left out",
            "why it is left",
        ),
        coefficient_rows,
    ),
    Table(
        "Errors of predicted time: mean absolute, and bias (above 0 where too slow)",
        ("group", ">rows", ">before", ">bias", ">fitted", ">bias", ">held out", ">bias"),
        group_rows,
    ),
    Table("Measured and not fitted", ("kind", ">rows", ">measured"), left_out_rows),
)
"""The tables of a calibration, in order."""


def for_terminal(answer: Values) -> list[tuple[Table, list[tuple[str, ...]]]]:
    """Return the tables that have rows."""
    made = [(table, list(table.rows(answer))) for table in TABLES]
    return [(table, rows) for table, rows in made if rows]
