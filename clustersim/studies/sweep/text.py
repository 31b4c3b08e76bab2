"""A sweep as text: counts by verdict, the best layouts, the front, why others are invalid."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clustersim.render.tables import Row as Line
from clustersim.render.tables import (
    percent,
)
from clustersim.render.words import UNMASKED, format_setting, short_keys
from clustersim.runs.table import RUN_MEASURES, Row
from clustersim.runs.variants import Value
from clustersim.studies.sweep.answer import ReasonCount, SweepAnswer, ValueChange, VerdictCounts
from clustersim.units import GIB, counted, format_number, format_seconds

SHOWN: Final = 10
"""Number of layouts, and of values of an axis, that are printed; half as many reasons are."""

UNITS: Final = {
    "tokens_per_s": "throughput [tokens/s]",
    "tokens_per_s_per_device": "throughput per device [tokens/s]",
    "samples_per_s": "throughput [samples/s]",
    "tflops_per_device_model": "model FLOPs per device [TFLOP/s]",
    "tflops_per_device_hardware": "hardware FLOPs per device [TFLOP/s]",
    "mfu": "MFU [fraction of peak]",
    "hfu": "HFU [fraction of peak]",
    "step_time_s": "step time [s]",
    "days": "duration of the run [days]",
    "goodput": "goodput [fraction of time]",
    "energy": "energy of the run [kWh]",
    "cost": "price of the run [USD]",
}
"""Measures with their units, as axes of figures name them."""

_AMOUNTS: Final = {
    "tokens_per_s": "{} tokens/s",
    "tokens_per_s_per_device": "{} tokens/s per device",
    "samples_per_s": "{} samples/s",
    "tflops_per_device_model": "{} TFLOP/s per device",
    "tflops_per_device_hardware": "{} TFLOP/s per device with recomputation",
    "mfu": "MFU {}",
    "hfu": "HFU {}",
    "step_time_s": "step time {} s",
    "days": "{} days",
    "goodput": "goodput {}",
    "energy": "{} kWh",
    "cost": "{} USD",
}


def rows(answer: SweepAnswer) -> list[Line]:
    """Return the answer line by line, without its tables."""
    return [
        Line("axes", _axes(answer)),
        Line("verdicts", _verdicts(answer.counts)),
        *_best(answer),
        *([Line("MFU", UNMASKED)] if any(row["mfu"] > 1 for row in answer.fitting) else []),
        *_reasons("invalid", answer.invalid, answer),
        *_reasons("failed", answer.failed, answer),
    ]


def layout_tables(answer: SweepAnswer) -> list[tuple[str, list[list[str]]]]:
    """Return the best layouts and the front, each with a heading; none where nothing fits."""
    if not answer.fitting:
        return []
    best, front = answer.fitting[:SHOWN], answer.front
    heading = f"{len(best)} best layouts" if len(best) > 1 else "the only layout that fits"
    sections = [(heading, layouts(answer, best))]
    if len(front) > 1:
        label = measure_label(answer.by)
        heading = f"Pareto front of {label} and {answer.pareto.against}"
        sections.append((heading, layouts(answer, front[-SHOWN:])))
    return sections


def layouts(answer: SweepAnswer, found: Sequence[Row]) -> list[list[str]]:
    """Return layouts as a table, its headings first."""
    keys = answer.varying
    several = len({row["devices"] for row in answer.fitting}) > 1
    run = [name for name in RUN_MEASURES if all(name in row for row in found)]
    headings = [*short_keys(keys), "step", "tokens/s", "per device", "TFLOP/s", "MFU", "GiB"]
    table = [[*headings, *run, *(["devices"] if several else [])]]
    for row in found:
        devices = [f"{row['devices']:,}"] if several else []
        of_run = [format_number(row[name]) for name in run]
        settings = (format_setting(row.get(key)) for key in keys)
        table.append([*settings, *_numbers(row), *of_run, *devices])
    return table


def _numbers(row: Row) -> list[str]:
    return [
        format_seconds(row["step_time_s"]),
        f"{row['tokens_per_s']:,.0f}",
        f"{row['tokens_per_s_per_device']:,.1f}",
        f"{row['tflops_per_device_model']:.1f}",
        percent(row["mfu"]),
        f"{row['memory_peak_bytes'] / GIB:.1f}",
    ]


# --- texts ----------------------------------------------------------------------------------------


def point_of(keys: Sequence[str], point: Mapping[str, Any]) -> str:
    """Return a point as text: ``'tensor 8, pipeline 4'``."""
    names = zip(keys, short_keys(keys), strict=True)
    return ", ".join(f"{name} {format_setting(point[key])}" for key, name in names if key in point)


def amount(by: str, value: float) -> str:
    """Return a measure with its unit: ``'9,914 tokens/s'``."""
    return _AMOUNTS[by].format(format_number(value))


def measure_label(by: str) -> str:
    """Return the name of a measure without its unit: ``'throughput'``."""
    return UNITS[by].partition(" [")[0]


def _axes(answer: SweepAnswer) -> str:
    texts = []
    for key, name in zip(answer.axes, short_keys([*answer.axes]), strict=True):
        values = answer.axes[key]
        shown = "filled" if key in answer.filled else format_values(values)
        texts.append(f"{name} {shown}")
    return f"{counted(len(answer.points), 'combination')}: {'; '.join(texts)}"


def _verdicts(counts: VerdictCounts) -> str:
    texts = [f"{counts.fits:,} fit"]
    if counts.does_not_fit:
        texts.append(f"{counts.does_not_fit:,} do not fit in memory (not replayed)")
    if counts.invalid:
        texts.append(f"{counts.invalid:,} invalid")
    if counts.failed:
        texts.append(f"{counts.failed:,} failed")
    return ", ".join(texts)


def _best(answer: SweepAnswer) -> list[Line]:
    """Return the best layout, and what it changes in the scenario."""
    if not answer.fitting:
        return [Line("best", "no layout fits", warning=True)]
    best = answer.fitting[0]
    keys = [key for key in answer.varying if key in best] or [*answer.axes]
    memory = f"{best['memory_peak_bytes'] / GIB:.1f} of {best['memory_capacity_bytes'] / GIB:.1f}"
    step, mfu = format_seconds(best["step_time_s"]), percent(best["mfu"])
    speed = f"step {step}, {best['tokens_per_s']:,.0f} tokens/s, MFU {mfu}"
    if answer.by in RUN_MEASURES:
        speed = f"{amount(answer.by, best[answer.by])}, {speed}"
    changes = zip(answer.changed.values(), short_keys([*answer.changed]), strict=True)
    changed = [f"{name} {_old(change)} -> {format_setting(change.to)}" for change, name in changes]
    return [
        Line("best", f"{point_of(keys, best)}: {speed}, {memory} GiB"),
        Line("changes", ", ".join(changed) or "none (the scenario itself is the best)"),
    ]


def _old(change: ValueChange) -> str:
    return "unset" if change.from_ is None else format_setting(change.from_)


def _reasons(label: str, reasons: Sequence[ReasonCount], answer: SweepAnswer) -> list[Line]:
    """Return the most frequent reasons, and the number of further ones."""
    shown, rest = reasons[: SHOWN // 2], len(reasons[SHOWN // 2 :])
    texts = [f"{reason_scope(reason, answer)}: {reason.why}" for reason in shown]
    if rest:
        texts.append(f"and {counted(rest, 'more reason')} (the page and --json list all)")
    return [Line(label, text, warning=label == "failed") for text in texts]


def reason_scope(reason: ReasonCount, answer: SweepAnswer) -> str:
    """Return the combinations with a reason: ``'tensor 5, 7, 9 (18 combinations)'``."""
    keys = [*answer.axes]
    if reason.count == 1:
        return f"{point_of(keys, reason.example)} (1 combination)"
    if reason.count == len(answer.points):
        return f"all {counted(reason.count, 'combination')}"
    names = dict(zip(keys, short_keys(keys), strict=True))
    values = "; ".join(
        f"{names[key]} {format_values(values)}" for key, values in reason.values.items()
    )
    if not values:
        example = point_of(keys, reason.example)
        return f"{counted(reason.count, 'combination')}, such as {example}"
    points = answer.points
    always = sum(
        any(point.get(key) in found for key, found in reason.values.items()) for point in points
    )
    others = " and others" if reason.count > always else ""
    return f"{values}{others} ({counted(reason.count, 'combination')})"


def format_values(values: Sequence[Value]) -> str:
    """Return values of an axis, three or more successive whole numbers as a range.

    >>> format_values([1, 3, 5, 6, 7]), format_values(["none", "full"])
    ('1, 3, 5-7', 'none, full')
    """
    runs: list[list[Value]] = []
    for value in values:
        if runs and type(value) is int and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    texts: list[str] = []
    for run in runs:
        short = len(run) > 2
        texts += [f"{run[0]}-{run[-1]}"] if short else [*map(format_setting, run)]
    return ", ".join(texts[:SHOWN]) + (", ..." if len(texts) > SHOWN else "")
