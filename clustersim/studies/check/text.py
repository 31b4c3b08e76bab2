"""A log next to the prediction of its scenario, as text."""

from collections.abc import Iterator, Mapping
from typing import Final

from clustersim.metrics.prediction_interval import Interval
from clustersim.render.tables import Row, percent
from clustersim.simulation.measures import measures_of
from clustersim.studies.check.answer import CheckAnswer
from clustersim.studies.check.measured import LogSummary
from clustersim.units import counted, format_number, format_seconds

WORDS: Final = ("measure", "cause", "check")
"""Columns that are words."""

MOST_CAUSES: Final = 5
"""Causes that are printed; the files have all."""

LABELS: Final[Mapping[str, str]] = {
    "tflops_per_device": "TFLOP/s per device, as logged",
}
"""Names of what only logs state."""

SENTENCES: Final[Mapping[str, str]] = {
    "normal": "is normal for this layout",
    "slow": "is slow for this layout",
    "fast": "is fast for this layout",
    "unknown": "has no interval to be held to",
}
"""Verdicts in words."""


def finding(answer: CheckAnswer) -> str:
    """Return the verdict in a sentence."""
    seconds = answer.measured.get("step_time_s")
    if seconds is None or answer.interval is None:
        return f"{answer.file} next to {answer.name}: {counted(len(answer.predicted), 'measure')}"
    predicted = answer.predicted["step_time_s"]
    change = f"{percent(seconds / predicted - 1, '+')} on the predicted {format_seconds(predicted)}"
    return (
        f"a step of {format_seconds(seconds)} {SENTENCES[answer.verdict]}"
        f" ({change}; {_range(answer.interval)})"
    )


def _range(interval: Interval) -> str:
    if interval.low_s is None or interval.high_s is None:
        return interval.why
    low, high = format_seconds(interval.low_s), format_seconds(interval.high_s)
    return f"normal: {low} to {high}, {interval.why}"


def table(answer: CheckAnswer) -> list[list[str]]:
    """Return measured and predicted values, the headings first."""
    known = measures_of(["step"] if answer.log else ["service"])
    lines = [["measure", "measured", "predicted", "difference"]]
    for name, value in answer.measured.items():
        text = known[name].text if name in known else format_number
        label = known[name].label if name in known else LABELS[name]
        predicted = answer.predicted.get(name)
        cells = (
            ("-", "-") if not predicted else (text(predicted), percent(value / predicted - 1, "+"))
        )
        lines.append([label, text(value), *cells])
    return lines


def cause_table(answer: CheckAnswer) -> list[list[str]]:
    """Return the causes with what they cost and how they are proved, the headings first."""
    lines = [
        [
            "-" if each.likelihood is None else percent(each.likelihood),
            format_seconds(each.seconds),
            each.cause,
            each.check,
        ]
        for each in answer.causes
    ]
    return [["likelihood", "costs", "cause", "check"], *lines] if lines else []


def rows(answer: CheckAnswer) -> Iterator[Row]:
    """Return what the log is made of, and its conventions."""
    for convention in answer.conventions:
        yield Row("convention", convention.text, caution=convention.name is None)
    if answer.log is not None:
        yield from _log_rows(answer.log)


def _log_rows(log: LogSummary) -> Iterator[Row]:
    left = {"of the warm-up": log.warm_up, "next to a checkpoint or an evaluation": log.interrupted}
    out = ", ".join(f"{count} {what}" for what, count in left.items() if count)
    restarts = f", {counted(log.restarts, 'restart')}" if log.restarts else ""
    yield Row(
        "log", f"{log.format}, {counted(log.steady, 'step')}{restarts}; excluded: {out or 'none'}"
    )
    if log.spread is not None and log.error is not None:
        drift = "" if log.drift is None else f", drift {percent(log.drift, '+')}"
        error = f"known to {percent(log.error)}"
        yield Row("steps", f"vary by {percent(log.spread)}{drift}; the median is {error}")
    if log.slowest:
        slow = ", ".join(
            f"step {each.number} of line {each.line:,} ({format_seconds(each.seconds)})"
            for each in log.slowest
        )
        yield Row("slowest", slow)
