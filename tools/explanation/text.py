"""An explanation of missing time as tables: each quantity alone, the selection, its outliers."""

from collections.abc import Iterator
from typing import Final

from clustersim.render.tables import ResultTable, Rows, percent
from clustersim.units import format_bandwidth, format_seconds
from tools.explanation.answer import Explanation
from tools.explanation.quantities import ALL_QUANTITIES

NOTHING: Final = "no quantity explains more than chance would"
"""The only row of an empty selection."""


def alone_rows(explanation: Explanation) -> Rows:
    """Yield a row for each quantity, the one that explains the most first."""
    for each in explanation.quantities:
        yield (
            ALL_QUANTITIES[each.quantity].title,
            str(each.runs),
            percent(each.explained),
            percent(each.strongest),
            coefficient_text(each.quantity, each.seconds_each),
        )


def chosen_rows(explanation: Explanation) -> Rows:
    """Yield a row for each selected quantity."""
    if not explanation.chosen:
        yield NOTHING, "", "", "", ""
    for each in explanation.chosen:
        rate = ALL_QUANTITIES[each.quantity].unit == "bytes"
        ends = sorted((abs(each.low), abs(each.high)), reverse=rate)
        low, high = (in_unit_of(each.quantity, seconds) for seconds in ends)
        yield (
            ALL_QUANTITIES[each.quantity].title,
            coefficient_text(each.quantity, each.seconds_each),
            f"{low} to {high}",
            percent(each.explained),
            percent(each.held_out),
        )


def outlier_rows(explanation: Explanation) -> Rows:
    """Yield a row for each run that the selection does not explain."""
    for each in explanation.outliers:
        yield each.id, percent(each.missing, "+"), percent(each.remaining, "+")


def coefficient_text(quantity: str, seconds: float) -> str:
    """Return the missing time of a unit, and whether the model counts too much of it.

    >>> coefficient_text("launches", 4.2e-6), coefficient_text("tensor_bytes", 1e-11)
    ('4.2 us a launch', 'at 100 GB/s')
    >>> coefficient_text("attention", -0.25)
    'over-counted: 25.0 % of it'
    """
    unit, each = ALL_QUANTITIES[quantity].unit, ALL_QUANTITIES[quantity].each
    value = in_unit_of(quantity, abs(seconds))
    text = {"count": f"{value} a {each}", "bytes": f"at {value}", "seconds": f"{value} of it"}[unit]
    return f"over-counted: {text}" if seconds < 0 else text


def in_unit_of(quantity: str, seconds: float) -> str:
    """Return a coefficient of a unit without its sign: a time, a rate of bytes, or a share."""
    unit = ALL_QUANTITIES[quantity].unit
    if unit == "seconds":
        return percent(seconds)
    if unit == "bytes":
        return format_bandwidth(1 / seconds) if seconds else "no time"
    return format_seconds(seconds, 3)


def explanation_tables(
    explanation: Explanation,
) -> Iterator[tuple[ResultTable, list[tuple[str, ...]]]]:
    """Yield the tables of an explanation that have rows."""
    group, runs = explanation.group, explanation.runs
    signs = f"{explanation.too_fast} predicted too fast, {explanation.too_slow} too slow"
    whole, rest = percent(explanation.missing), percent(explanation.remaining)
    for table in (
        ResultTable(
            f"Missing time of {group}, {runs} runs ({signs}): share that each quantity explains"
            " alone",
            ("quantity", ">runs", ">explained", ">strongest in resamples", "coefficient"),
            alone_rows,
        ),
        ResultTable(
            f"Missing time of {group}, explained together: {whole} of the measured time, {rest}"
            " remain",
            ("quantity", "coefficient", "90 % interval", ">explained", ">held out"),
            chosen_rows,
        ),
        ResultTable(
            f"Runs of {group} that this does not explain: missing time, of the measured time",
            ("case", ">missing", ">remaining"),
            outlier_rows,
        ),
    ):
        rows = list(table.rows(explanation))
        if rows:
            yield table, rows
