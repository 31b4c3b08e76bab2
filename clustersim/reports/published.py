"""Published numbers and the predicted ones in words, the same for all kinds of scenarios."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from clustersim.render.charts.picture import Table, text_table
from clustersim.render.page.page import Card
from clustersim.render.tables import Row, percent
from clustersim.simulation.published import PublishedCheck
from clustersim.units import (
    GIB,
    counted,
    format_bytes,
    format_duration,
    format_number,
    format_seconds,
    format_watts,
)

MOST: Final = 5
"""Changed keys that a line names."""


def _verdict(fits: float) -> str:
    return "fits" if fits else "does not fit"


METRICS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "step_time_s": ("step time", format_seconds),
    "tokens_per_s": ("tokens/s", format_number),
    "tokens_per_s_per_device": ("tokens/s per device", format_number),
    "tflops_per_device": ("TFLOP/s per device", format_number),
    "mfu": ("MFU", percent),
    "hfu": ("HFU", percent),
    "memory_bytes": ("peak memory", lambda nbytes: f"{nbytes / GIB:.1f} GiB"),
    "power_w": ("mean power", format_watts),
    "fits": ("memory", _verdict),
    "efficiency": ("efficiency", percent),
    "ttft_s": ("time to first token", format_seconds),
    "tpot_s": ("time per token", format_seconds),
    "latency_s": ("latency", format_seconds),
    "output_tokens_per_s": ("output tokens/s", format_number),
    "total_tokens_per_s": ("total tokens/s", format_number),
    "output_tokens_per_s_per_device": ("output tokens/s per device", format_number),
    "input_tokens_per_s_per_device": ("input tokens/s per device", format_number),
    "requests_per_s": ("requests/s", format_number),
    "days": ("days", format_number),
    "useful_days": ("days without interruptions", format_number),
    "goodput": ("goodput", percent),
    "interruptions": ("interruptions", format_number),
    "checkpoint_bytes": ("checkpoint", format_bytes),
    "save_s": ("time of a save", format_duration),
}
"""Name and format of each published metric."""


def metric_name(metric: str, convention: str | None = None) -> str:
    """Return a metric in words.

    >>> metric_name("tflops_per_device", "hardware")
    'TFLOP/s per device (hardware FLOPs)'
    """
    return METRICS[metric][0] + (f" ({convention} FLOPs)" if convention else "")


def metric_value(metric: str, value: float) -> str:
    """Return the value of a metric with its unit, unless the name has it.

    >>> metric_value("memory_bytes", 16 * 2**30), metric_value("mfu", 0.5)
    ('16.0 GiB', '50.0 %')
    """
    return METRICS[metric][1](value)


def published_cells(check: PublishedCheck) -> tuple[str, str, str, str, str]:
    """Return its name, the published number, the predicted one, the error and the source."""
    name = metric_name(check.metric, check.convention)
    name += "" if check.statistic in (None, "mean") else f" ({check.statistic})"
    value, predicted = metric_value(check.metric, check.value), "none: it does not fit"
    if check.predicted is not None:
        predicted = metric_value(check.metric, check.predicted)
    error = "" if check.error is None else percent(check.error, "+")
    if check.bound is not None:
        value = f"{check.bound.replace('-', ' ')} {value}"
        error = "holds" if check.holds else "does not hold"
    return name, value, predicted, "another run" if check.changed else error, check.source


def published_rows(checks: Iterable[PublishedCheck]) -> list[Row]:
    """Return a line for each published number."""
    return [Row("published", _line(check)) for check in checks]


def _line(check: PublishedCheck) -> str:
    name, value, predicted, error, source = published_cells(check)
    if check.changed:
        return f"{name} {value} for another run ({other_values(check)}); {source}"
    return f"{name} {value}, predicted {predicted}{f' ({error})' if error else ''}; {source}"


def other_values(check: PublishedCheck) -> str:
    """Return in what the answer is not of what was published."""
    keys, more = check.changed[:MOST], len(check.changed) - MOST
    others = f" and {counted(more, 'other key')}" if more > 0 else ""
    return f"this one has other values of {', '.join(keys)}{others}"


def published_cards(checks: Iterable[PublishedCheck]) -> list[Card]:
    """Return a card with the error of each number that was published of the same run."""
    return [_card(check) for check in checks if not check.changed]


def _card(check: PublishedCheck) -> Card:
    name, published, predicted, error, _ = published_cells(check)
    values = f"{name}: predicted {predicted}, published {published}"
    if check.error is None:
        same = "as published" if published == predicted else "not as published"
        return Card("Prediction and publication", same, values)
    return Card("Error of the prediction", error, values)


def published_table(checks: Iterable[PublishedCheck]) -> Table:
    """Return the published numbers as a table."""
    names = ("metric", ">published", ">predicted", ">error", "source")
    caption = "Published and predicted; the error is predicted / published - 1"
    return text_table(caption, names, map(published_cells, checks))
