"""A log next to the prediction of its scenario, as text."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from clustersim.metrics.prediction_interval import Interval
from clustersim.render.tables import Row, percent
from clustersim.simulation.measures import measures_of
from clustersim.studies.check.answer import CheckAnswer
from clustersim.studies.check.measured import LogSummary
from clustersim.units import counted, format_number, format_seconds

WORDS: Final = ("measure", "cause", "check", "factor")
"""Columns that are words."""

MOST_CAUSES: Final = 5
"""Causes that are printed; the files have all."""

LABELS: Final[Mapping[str, str]] = {
    "tflops_per_device": "TFLOP/s per device, as logged",
}
"""Names of what only logs state."""

FACTORS: Final[Mapping[str, str]] = {
    "products": "rate of matrix products",
    "attention": "rate of fused attention",
    "memory": "rate of memory-bound kernels",
    "host": "host time of a kernel",
    "links": "bandwidth within a node",
    "network": "bandwidth of a NIC",
}
"""Factors of an anchor in words."""

APART: Final = 1.02
"""Mean over median of the steps from which on the verdict names both: a choice, as steps without
slow ones among them have less."""

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
    step = f"a step of {format_seconds(seconds)}"
    if answer.agrees:
        predicted = answer.predicted["step_time_s"]
        close = percent(max(seconds / predicted, predicted / seconds) - 1)
        return (
            f"{step} is normal: it agrees with the predicted {format_seconds(predicted)} within"
            f" {close} ({_range(answer.interval)}){_apart(answer, seconds)}"
        )
    return (
        f"{step} {SENTENCES[answer.verdict]}{_place(answer)} ({change_of(answer, seconds)};"
        f" {_range(answer.interval)}){_apart(answer, seconds)}"
    )


def _apart(answer: CheckAnswer, median: float) -> str:
    """Return that single slow steps make a run slower than its median step."""
    log = answer.log
    if log is None or log.mean_s < APART * median:
        return ""
    longer = f"{percent(log.mean_s / median - 1)} longer"
    return (
        f"; but the mean step takes {format_seconds(log.mean_s)}, {longer}: {log.slow} of"
        f" {log.steady} steps are slow"
    )


def _place(answer: CheckAnswer) -> str:
    """Return the place of a normal step among measured runs, where it is not in their middle."""
    share = answer.slower_than
    if share is None or answer.verdict != "normal":
        return ""
    side, of = ("slower", share) if share > 0.5 else ("faster", 1 - share)
    return f", but {side} than {percent(of)} of measured runs over their predictions"


def change_of(answer: CheckAnswer, seconds: float) -> str:
    """Return by how much a step is longer than the predicted one."""
    predicted = answer.predicted["step_time_s"]
    return f"{percent(seconds / predicted - 1, '+')} on the predicted {format_seconds(predicted)}"


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


def anchor_table(answer: CheckAnswer) -> list[list[str]]:
    """Return the factors of the anchor, the headings first; nothing without one."""
    if answer.anchor is None:
        return []
    lines = [
        [FACTORS[each.name], f"{each.value:.4f}", percent(each.spread), f"{each.effect:+.2f}"]
        for each in answer.anchor.factors
    ]
    return [["factor", "value", "spread", "effect on ln(step time)"], *lines]


def anchor_rows(answer: CheckAnswer, file: Path | None = None) -> Iterator[Row]:
    """Return what the anchor changes; `file` is where it was written."""
    anchor, seconds = answer.anchor, answer.measured.get("step_time_s")
    if anchor is None or seconds is None:
        return
    change = percent(seconds / anchor.predicted_s - 1, "+")
    normal = answer.verdict in ("normal", "unknown")
    caution = "" if normal else f"; the log is {answer.verdict}, and narrows no interval"
    predicted = format_seconds(anchor.predicted_s)
    yield Row(
        "anchored",
        f"{predicted} with the factors of {counted(anchor.logs, 'log')} ({change}){caution}",
        caution=not normal,
    )
    if file is not None:
        yield Row("anchor", f"{file} (in a scenario of the job: 'anchor: {file.name}')")


def rows(answer: CheckAnswer) -> Iterator[Row]:
    """Return what the log is made of, its conventions, and whether a slow step has no cause."""
    for convention in answer.conventions:
        yield Row("convention", convention.text, caution=convention.name is None)
    if answer.log is not None:
        yield from _log_rows(answer.log)
    if answer.verdict == "slow" and not any(each.settings for each in answer.causes):
        yield Row("causes", "no disturbance or option of those that are tried explains it")


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
