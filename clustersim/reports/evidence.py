"""Measured runs that are like a prediction, as lines and as a table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from clustersim.render.charts.picture import text_table
from clustersim.render.page.page import Section
from clustersim.render.tables import Row
from clustersim.units import format_number, format_seconds

if TYPE_CHECKING:
    from clustersim.metrics.prediction_interval import Bounds, NearRun

FEW: Final = 3
"""Measured runs that are listed on a terminal."""

METRICS: Final = {
    "step_time": "step time",
    "ttft": "first token",
    "tpot": "each token",
    "latency": "request",
    "throughput": "throughput",
}
"""Metrics of measured runs, in words."""

HEADINGS: Final = (
    "measured run", "errors", "accelerator", "software", "layout", ">devices", "differs in",
)  # fmt: skip
"""Columns of the table of measured runs."""


@runtime_checkable
class Evident(Protocol):
    """A prediction whose evidence is known: of a step, or of a service."""

    @property
    def intervals(self) -> "Mapping[str, Bounds]":
        """Where measured runs like it are expected, by key."""

    @property
    def nearest(self) -> "Sequence[NearRun]":
        """Measured runs that are most like it."""


def evidence_rows(predicted: Evident) -> list[Row]:
    """Return the prediction intervals, and the nearest measured runs."""
    return [*bounds_row(predicted.intervals), *nearest_rows(predicted.nearest)]


def nearest_rows(runs: "Sequence[NearRun]") -> list[Row]:
    """Return a line with the nearest measured runs and the errors of their predictions."""
    texts = [f"{run.run} {_errors(run)} ({_setting(run)})" for run in runs[:FEW]]
    return [Row("nearest runs", "; ".join(texts))] if texts else []


def _errors(run: "NearRun") -> str:
    """Return the errors of a run: ``-9.2 %`` of a step, which has one number."""
    return errors_text(run).removeprefix("step time ")


def _setting(run: "NearRun") -> str:
    return f"{run.devices:,} x {run.accelerator}, {run.software}"


def errors_text(run: "NearRun") -> str:
    """Return the errors of the prediction of a measured run: ``step time +2.9 %``."""
    return ", ".join(f"{METRICS[name]} {100 * e:+.1f} %" for name, e in sorted(run.errors.items()))


def nearest_section(runs: "Sequence[NearRun]") -> Section:
    """Return the nearest measured runs as a section of a page."""
    text = "Runs that were measured, the most similar first, with the errors of their predictions."
    table = text_table("Nearest measured runs", HEADINGS, [_cells(run) for run in runs])
    return Section("Nearest measured runs", "nearest", (text,), (table,) if runs else ())


def _cells(run: "NearRun") -> tuple[str, ...]:
    differs = ", ".join(run.differs) or "layout or scale"
    setting = run.accelerator, run.software, run.layout, f"{run.devices:,}"
    return run.run, errors_text(run), *setting, differs


def bounds_row(intervals: "Mapping[str, Bounds]") -> list[Row]:
    """Return prediction intervals in a line, or why there is none."""
    known = {name: each for name, each in intervals.items() if each.low is not None}
    if not known:
        reasons = {each.why for each in intervals.values()}
        return [Row("interval", f"none: {'; '.join(sorted(reasons))}")] if reasons else []
    texts = [f"{_KEYS[name]} {_ends(name, each)}".lstrip() for name, each in known.items()]
    first = next(iter(known.values()))
    level = f"level {100 * first.level:g} %, from {first.why}"
    return [Row("interval", f"{', '.join(texts)} ({level})")]


_KEYS: Final = {
    "step_time_s": "",
    "ttft_s": "first token",
    "tpot_s": "each token",
    "latency_s": "request",
    "output_tokens_per_s": "output",
}
"""Keys with an interval, in words; a step has no other."""


def _ends(name: str, found: "Bounds") -> str:
    """Return the ends of an interval."""
    ends = found.low or 0.0, found.high or 0.0
    if name == "output_tokens_per_s":
        return " to ".join(format_number(end, 3) for end in ends) + " tokens/s"
    return " to ".join(format_seconds(end, 3) for end in ends)
