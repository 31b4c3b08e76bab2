"""A comparison of services as text: results side by side, then inputs and causes of each."""

from collections.abc import Mapping, Sequence
from typing import Final

from clustersim.render.charts.bars import time_unit, to_thousandths
from clustersim.render.service_words import format_amount, measure_name, part_name
from clustersim.render.tables import Row, percent
from clustersim.simulation.service.measures import service_measures
from clustersim.studies.compare import Input
from clustersim.studies.service_compare.answer import CompareServicesAnswer, ServiceComparison
from clustersim.units import GIB, counted

INPUTS: Final = 6
"""Changed inputs that the text lists; the table has all of them."""

PARTS: Final = 4
"""Parts of a time whose changes the text lists."""

SHOWN: Final = (
    "ttft",
    "tpot",
    "latency",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "tokens_per_s_per_user",
    "goodput",
    "devices",
)
"""Measures of the table."""

NAMES: Final[Mapping[str, str]] = {
    "ttft": "first token",
    "tpot": "each token",
    "latency": "request",
    "tokens_per_s_per_device": "tokens/s per device",
    "tokens_per_s_per_user": "tokens/s per user",
    "goodput": "requests/s within limits",
}


def result_table(answer: CompareServicesAnswer) -> list[list[str]]:
    """Return the results of all services side by side, its headings first."""
    services = answer.services
    measures = [service_measures(one.answer) for one in services]
    limited = any(one.answer.goodput is not None for one in services)
    shown = [name for name in SHOWN if limited or name != "goodput"]
    table = [["", *(one.name for one in services)]]
    for name in shown:
        cells = [format_amount(name, found[name]) if name in found else "-" for found in measures]
        table.append([NAMES.get(name, measure_name(name)), *cells])
    memories = [one.answer.memory for one in services]
    table.append(["memory", *("fits" if one.fits else "does not fit" for one in memories)])
    held = [sum(n for part, n in one.parts.items() if part != "kv") / GIB for one in memories]
    table.append(["GiB without KV cache", *(f"{nbytes:.1f}" for nbytes in held)])
    table.append(["room for sequences", *(f"{one.largest_batch:,}" for one in memories)])
    return table


def rows(comparison: ServiceComparison) -> list[Row]:
    """Return one comparison line by line: inputs and causes."""
    unfit = [
        Row("memory", f"{name}: {memory.verdict}", warning=True)
        for name, memory in (
            (comparison.before, comparison.memory.before),
            (comparison.after, comparison.memory.after),
        )
        if not memory.fits
    ]
    return [
        *_inputs(comparison.inputs),
        *unfit,
        *_causes("each token", comparison.parts, _total(comparison, "tpot")),
        *_causes("first token", comparison.ttft_parts, _total(comparison, "ttft")),
    ]


def _total(comparison: ServiceComparison, name: str) -> float:
    found = comparison.differences.get(name)
    return 0.0 if found is None else found.before


def _inputs(inputs: Sequence[Input]) -> list[Row]:
    if not inputs:
        return [Row("inputs", "no difference")]
    lines = [value.text for value in inputs[:INPUTS]]
    if len(inputs) > INPUTS:
        lines.append(f"and {counted(len(inputs) - INPUTS, 'more value')}")
    return [Row("" if place else "inputs", text) for place, text in enumerate(lines)]


def _causes(label: str, parts: Mapping[str, float], before: float) -> list[Row]:
    """Return the parts of a time that changed most, in a line; nothing without a change."""
    changed = sorted(parts.items(), key=lambda part: -abs(part[1]))
    named = [(name, s) for name, s in changed[:PARTS] if before and abs(s) >= 5e-4 * before]
    if not named:
        return []
    factor, unit = time_unit(before)
    texts = [
        f"{part_name(name)} {_change(factor * s, factor * before)} {unit}" for name, s in named
    ]
    whole = sum(parts.values())
    total = f"total {_change(factor * whole, factor * before)} {unit}"
    return [Row(label, f"{', '.join(texts)}; {total} ({percent(whole / before, '+')})")]


def _change(value: float, size: float) -> str:
    return to_thousandths(value, size, "+")
