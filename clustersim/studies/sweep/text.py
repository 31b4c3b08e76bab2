"""A sweep in words: how many layouts fit, the best ten, the front, why others cannot be."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clustersim.render.tables import Row, counted, percent
from clustersim.studies.sweep.told import Told
from clustersim.units import GIB, format_seconds

SHOWN: Final = 10
"""Layouts that the answer lists; as many values of an axis, and half as many reasons."""

UNITS: Final = {
    "tokens_per_s": "throughput [tokens/s]",
    "tokens_per_s_per_device": "throughput of a device [tokens/s]",
    "samples_per_s": "throughput [samples/s]",
    "tflops_per_device_model": "model FLOPs of a device [TFLOP/s]",
    "tflops_per_device_hardware": "hardware FLOPs of a device [TFLOP/s]",
    "mfu": "MFU [share of the peak]",
    "hfu": "HFU [share of the peak]",
    "step_time_s": "time of a step [s]",
}
"""Measures with their units, as axes of figures name them."""

_AMOUNTS: Final = {
    "tokens_per_s": "{} tokens/s",
    "tokens_per_s_per_device": "{} tokens/s a device",
    "samples_per_s": "{} samples/s",
    "tflops_per_device_model": "{} TFLOP/s a device",
    "tflops_per_device_hardware": "{} TFLOP/s a device, with recomputation",
    "mfu": "an MFU of {}",
    "hfu": "an HFU of {}",
    "step_time_s": "{} s a step",
}


def rows(sweep: Told) -> list[Row]:
    """Return the answer line by line, without its tables."""
    return [
        Row("swept", _swept(sweep)),
        Row("verdicts", _verdicts(sweep)),
        *_best(sweep),
        *(
            _reason(verdict, group, sweep)
            for verdict in ("refused", "failed")
            for group in sweep.answer[verdict][: SHOWN // 2]
        ),
    ]


def tables(sweep: Told) -> list[tuple[str, list[list[str]]]]:
    """Return the best layouts and the front, each with a heading; none where nothing fits."""
    if not sweep.ranked:
        return []
    best, front = sweep.ranked[:SHOWN], sweep.front
    less = {"memory": "with less memory", "devices": "with fewer devices"}[sweep.against]
    found = [(f"the best {len(best)}" if len(best) > 1 else "the only one that fits", best)]
    if len(front) > 1:
        found.append((f"no other is better in {measured(sweep.by)} {less}", front[-SHOWN:]))
    return [(heading, layouts(sweep, each)) for heading, each in found]


def layouts(sweep: Told, found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return layouts as a table, its heading first."""
    keys = [key for key in sweep.axes if key in sweep.free or key in sweep.filled]
    names = short(keys)
    head = [*names, "step", "tokens/s", "a device", "TFLOP/s", "MFU", "GiB"]
    several = len({each["devices"] for each in sweep.ranked}) > 1
    head += ["devices"] if several else []
    table = [head]
    for each in found:
        table.append([*(str_of(each.get(key)) for key in keys), *_numbers(each)])
        table[-1] += [f"{each['devices']:,}"] if several else []
    return table


def _numbers(each: Mapping[str, Any]) -> list[str]:
    return [
        format_seconds(each["step_time_s"]),
        f"{each['tokens_per_s']:,.0f}",
        f"{each['tokens_per_s_per_device']:,.1f}",
        f"{each['tflops_per_device_model']:.1f}",
        percent(each["mfu"]),
        f"{each['memory_peak_bytes'] / GIB:.1f}",
    ]


# --- words ----------------------------------------------------------------------------------------


def short(keys: Sequence[str]) -> list[str]:
    """Return keys by their last word, in full where two have the same.

    >>> short(["plan.tensor", "batch.micro"]), short(["a.name", "b.name"])
    (['tensor', 'micro'], ['a.name', 'b.name'])
    """
    last = [key.rpartition(".")[2].replace("_", " ") for key in keys]
    return [word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)]


def str_of(value: object) -> str:
    """Return a value as it is written in a scenario."""
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def point_of(keys: Sequence[str], point: Mapping[str, Any]) -> str:
    """Return a point in words: ``'tensor 8, pipeline 4'``."""
    names = zip(keys, short(keys), strict=True)
    return ", ".join(f"{name} {str_of(point[key])}" for key, name in names if key in point)


def number(value: float) -> str:
    """Return a number to four digits, without an exponent where a person would write none."""
    return f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.4g}"


def amount(by: str, value: float) -> str:
    """Return a measure with its unit: ``'9,914 tokens/s'``."""
    return _AMOUNTS[by].format(number(value))


def measured(by: str) -> str:
    """Return the name of a measure in words: ``'throughput'``."""
    return UNITS[by].partition(" [")[0]


def _swept(sweep: Told) -> str:
    said = []
    for key, name in zip(sweep.axes, short([*sweep.axes]), strict=True):
        values = sweep.axes[key]
        shown = ", ".join(map(str_of, values[:SHOWN])) + (", ..." if len(values) > SHOWN else "")
        said.append(f"{name} filled" if key in sweep.filled else f"{name} {shown}")
    return f"{counted(len(sweep.rows), 'combination')}: {'; '.join(said)}"


def _verdicts(sweep: Told) -> str:
    counts = sweep.answer["counts"]
    said = [f"{counts['fits']:,} fit"]
    if number := counts["does_not_fit"]:
        said.append(f"{number:,} do not fit in memory and were not replayed")
    said += [f"{counts[each]:,} {each}" for each in ("refused", "failed") if counts[each]]
    return ", ".join(said)


def _best(sweep: Told) -> list[Row]:
    """Return the best layout, and what it differs in from the scenario as it is."""
    if not sweep.ranked:
        return [Row("best", "none fits", alarm=True)]
    best = sweep.ranked[0]
    there = [key for key in sweep.axes if key in best]
    keys = [key for key in there if key in sweep.free or key in sweep.filled] or there
    memory = f"{best['memory_peak_bytes'] / GIB:.1f} of {best['memory_capacity_bytes'] / GIB:.1f}"
    step, mfu = format_seconds(best["step_time_s"]), percent(best["mfu"])
    speed = f"{step} a step, {best['tokens_per_s']:,.0f} tokens/s, MFU {mfu}"
    changed = sweep.answer["changed"]
    changes = zip(changed.values(), short([*changed]), strict=True)
    moved = [f"{name} {str_of(each['to'])} ({_was(each['from'])})" for each, name in changes]
    return [
        Row("best", f"{point_of(keys, best)}: {speed}, {memory} GiB"),
        Row("which changes", ", ".join(moved) or "nothing: it is the scenario as it stands"),
    ]


def _was(value: object) -> str:
    return "was left out" if value is None else f"was {str_of(value)}"


def _reason(label: str, group: Mapping[str, Any], sweep: Told) -> Row:
    example = point_of([*sweep.axes], group["example"])
    said = f"{group['count']:,} x {group['why']} [{example}]"
    return Row(label, said, alarm=label == "failed")


__all__ = [
    "UNITS",
    "amount",
    "layouts",
    "measured",
    "number",
    "point_of",
    "rows",
    "short",
    "str_of",
    "tables",
]
