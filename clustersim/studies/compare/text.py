"""A comparison of two runs as text, line by line."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from clustersim.metrics.attribution import SlowestStage
from clustersim.render.charts import Step, Waterfall
from clustersim.render.charts.bars import to_thousandths
from clustersim.render.run_words import format_duration, short_count
from clustersim.render.tables import (
    Row,
    percent,
)
from clustersim.render.words import UNMASKED
from clustersim.simulation.step.answer import ExposedCommunication
from clustersim.simulation.training_run.answer import CheckpointAnswer
from clustersim.studies.compare.answer import Comparison
from clustersim.studies.compare.before_after import BeforeAfter, Difference
from clustersim.studies.compare.charts import run_waterfall, waterfalls
from clustersim.studies.compare.inputs import Input
from clustersim.units import (
    counted,
    format_bytes,
    format_joules,
    format_number,
    format_seconds,
    format_watts,
)

Value = TypeVar("Value")

INPUTS: Final = 12
"""Changed inputs that the text lists; the table has all of them."""


def rows(comparison: Comparison) -> list[Row]:
    """Return one comparison line by line: inputs, results and causes."""
    return [*_inputs(comparison.inputs), *result_rows(comparison), *_causes(comparison)]


def result_rows(comparison: Comparison) -> list[Row]:
    """Return the results of both runs line by line."""
    numbers = comparison.differences
    step, rate = numbers["step_time_s"], numbers["tokens_per_s"]
    model, executed = numbers["tflops_per_device_model"], numbers["tflops_per_device_executed"]
    mfu, memory = numbers["mfu"], comparison.memory
    return [
        *_run(comparison),
        Row("step time", f"{_arrow(step, format_seconds)}{_change(step)}"),
        Row("throughput", f"{_arrow(rate, '{:,.0f}'.format)} tokens/s{_change(rate)}"),
        Row(
            "FLOP rate",
            f"{_arrow(model, '{:.1f}'.format)} TFLOP/s per device"
            f" (MFU {_arrow(mfu, percent)}), {_arrow(executed, '{:.1f}'.format)}"
            f" executed (HFU {_arrow(numbers['hfu'], percent)})"
            f"{f'; MFU {UNMASKED}' if max(mfu.before, mfu.after) > 1 else ''}",
        ),
        Row("bubble", f"{_arrow(numbers['bubble_fraction'], percent)} of the step time"),
        Row("devices", _arrow(numbers["devices"], "{:,}".format)),
        *_power(numbers),
        Row("memory", _both(memory, lambda peak: peak.verdict), warning=not memory.after.fits),
        Row("bottleneck", _both(comparison.bottleneck, _link)),
        Row("slowest stage", _both(comparison.slowest_stage, _stage)),
    ]


def _power(numbers: Mapping[str, Difference]) -> list[Row]:
    """Return power and energy per token, where the power of both machines is known."""
    if "power_w" not in numbers:
        return []
    power, energy = numbers["power_w"], numbers["energy_per_token_j"]
    per_token = f"{_arrow(energy, format_joules)} per token{_change(energy)}"
    return [Row("power", f"{_arrow(power, format_watts)} mean; {per_token}")]


def _run(comparison: Comparison) -> list[Row]:
    """Return days, goodput, energy, price and checkpoints of the whole runs, if any."""
    numbers, run = comparison.differences, comparison.training
    if run is None:
        return []
    days, stops = numbers["days"], numbers["interruptions"]
    duration = f"{_arrow(days, format_number)} days{_change(days)}"
    if numbers["run_tokens"].change:
        duration += f" for {_arrow(numbers['run_tokens'], short_count)} tokens"
    goodput = f"{_arrow(numbers['goodput'], percent)}, {_arrow(stops, '{:,.0f}'.format)}"
    return [
        Row("duration", duration),
        Row("goodput", f"{goodput} interruptions"),
        *_bill(numbers),
        Row("checkpoint", _both(run.checkpoint, _checkpoint)),
        Row("interval", _arrow(numbers["checkpoint_every_s"], format_duration)),
    ]


def _bill(numbers: Mapping[str, Difference]) -> list[Row]:
    """Return energy, emissions and price of the whole runs, as far as both are known."""
    rows = []
    if "energy" in numbers:
        energy = numbers["energy"]
        text = f"{_arrow(energy, lambda kwh: format_number(kwh / 1e3))} MWh{_change(energy)}"
        if "co2e_kg" in numbers:
            kilograms = numbers["co2e_kg"]
            text += f", {_arrow(kilograms, lambda kg: format_number(kg / 1e3))} t CO2e"
        rows.append(Row("energy", text))
    if "cost" in numbers:
        cost = numbers["cost"]
        rows.append(Row("price", f"{_arrow(cost, '{:,.0f}'.format)} USD{_change(cost)}"))
    return rows


def _checkpoint(saves: CheckpointAnswer) -> str:
    """Return size, mode and times of checkpoints."""
    text = f"{format_bytes(saves.bytes)} {saves.mode}, blocks {format_duration(saves.block_s)}"
    if saves.durable_s > saves.block_s:
        text += f", durable after {format_duration(saves.durable_s)}"
    return text


def _inputs(inputs: Sequence[Input]) -> list[Row]:
    if not inputs:
        return [Row("inputs", "no difference")]
    lines = [value.text for value in inputs[:INPUTS]]
    if len(inputs) > INPUTS:
        lines.append(f"and {counted(len(inputs) - INPUTS, 'more value')}")
    return _column("inputs", lines)


def _column(label: str, lines: Sequence[str]) -> list[Row]:
    """Return several lines under one label."""
    return [Row("" if place else label, text) for place, text in enumerate(lines)]


def _arrow(numbers: Difference, shown: Callable[[float], str]) -> str:
    """Return a number before and after; once where both are written alike."""
    old, new = shown(numbers.before), shown(numbers.after)
    return old if old == new else f"{old} -> {new}"


def _change(numbers: Difference) -> str:
    if not numbers.before:
        return ""
    share = numbers.change / numbers.before
    return f" ({percent(share, '+')})" if abs(share) >= 5e-4 else ""


def _both(values: BeforeAfter[Value], format_value: Callable[[Value], str]) -> str:
    """Return a result before and after; once where both are written alike."""
    old, new = format_value(values.before), format_value(values.after)
    return f"{old}, before and after" if old == new else f"{old} -> {new}"


def _link(bottleneck: ExposedCommunication | None) -> str:
    """Return the longest exposed communication, and the link that limits it."""
    if bottleneck is None:
        return "no communication"
    part = bottleneck.part.replace("_", " ")
    return f"{part} over {bottleneck.link}" if bottleneck.link else part


def _stage(slowest: SlowestStage) -> str:
    busy, mean = format_seconds(slowest.seconds), format_seconds(slowest.mean_s)
    return f"{slowest.stage} (busy for {busy}, the mean stage for {mean})"


def _causes(comparison: Comparison) -> list[Row]:
    """Return the parts of the difference and their sum; also per token where batches differ."""
    run = run_waterfall(comparison)
    step, *token = waterfalls(comparison)
    lines = _summed("causes", run, "total of the run") if run is not None else []
    lines += _summed(
        "step" if run is not None else "causes",
        step,
        "total of the step" if run is not None else "total",
    )
    for chart in token:
        lines += _summed("per token", chart, "total device time per token")
    return lines


def _summed(label: str, chart: Waterfall, total: str) -> list[Row]:
    """Return a line for each part, and one for their sum."""
    if not chart.steps:
        return [Row(label, f"no part of the {chart.measure.label} changed")]
    steps = [*chart.steps, Step(total, "total", chart.end - chart.start)]
    changes = [
        f"{to_thousandths(step.change, chart.size, '+')} {chart.measure.unit}" for step in steps
    ]
    shares = [chart.share(step) for step in steps]
    wide, share = (max(map(len, column)) for column in (changes, shares))
    lines = zip(changes, shares, steps, strict=True)
    return _column(label, [f"{c:>{wide}}  {s:>{share}}  {step.label}" for c, s, step in lines])
