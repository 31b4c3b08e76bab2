"""Two runs beside each other as text, from the plain values of ``compare --json``."""

from collections.abc import Sequence
from typing import Any, Final

from clustersim.render.charts.bars import Step, Waterfall, number
from clustersim.render.tables import Row, counted, percent
from clustersim.studies.compare.charts import Values, waterfalls
from clustersim.units import format_seconds

INPUTS: Final = 12
"""Changed inputs that the text names; the table has all of them."""


def rows(found: Values) -> list[Row]:
    """Return one comparison line by line: its two runs, what changed, and why."""
    return [
        *_inputs(found["inputs"]),
        *_numbers(found["differences"]),
        _memory(found),
        Row("link", _both(found["bottleneck"], _link)),
        Row("slowest", _both(found["slowest_stage"], _stage)),
        *_why(found),
    ]


def _inputs(inputs: Sequence[Values]) -> list[Row]:
    if not inputs:
        return [Row("changed", "nothing in the input")]
    said = [each["text"] for each in inputs[:INPUTS]]
    if len(inputs) > INPUTS:
        said.append(f"and {counted(len(inputs) - INPUTS, 'more value')}")
    return _column("changed", said)


def _column(label: str, said: Sequence[str]) -> list[Row]:
    """Return several lines under one label."""
    return [Row("" if place else label, text) for place, text in enumerate(said)]


def _numbers(all_: Values) -> list[Row]:
    """Return how fast each run is."""
    step, rate = all_["step_time_s"], all_["tokens_per_s"]
    model, hardware = all_["tflops_per_device_model"], all_["tflops_per_device_hardware"]
    return [
        Row("step", f"{_arrow(step, format_seconds)}{_change(step)}"),
        Row("tokens", f"{_arrow(rate, '{:,.0f}'.format)} tokens/s{_change(rate)}"),
        Row(
            "rate",
            f"{_arrow(model, '{:.1f}'.format)} TFLOP/s a device of model FLOPs"
            f" (MFU {_arrow(all_['mfu'], percent)}), {_arrow(hardware, '{:.1f}'.format)}"
            f" with recomputation (HFU {_arrow(all_['hfu'], percent)})",
        ),
        Row("bubble", f"{_arrow(all_['bubble_fraction'], percent)} of the step"),
        Row("devices", _arrow(all_["devices"], "{:,}".format)),
    ]


def _arrow(number: Values, said: Any) -> str:
    """Return a number before and after; once where it is the same."""
    old, new = said(number["before"]), said(number["after"])
    return str(old) if old == new else f"{old} -> {new}"


def _change(number: Values) -> str:
    if not number["before"]:
        return ""
    share = number["change"] / number["before"]
    return f" ({percent(share, '+')})" if abs(share) >= 5e-4 else ""


def _both(found: Values, said: Any) -> str:
    """Return something before and after; once where it reads the same."""
    old, new = said(found["before"]), said(found["after"])
    return f"{old}, before and after" if old == new else f"{old} -> {new}"


def _memory(found: Values) -> Row:
    alarm = not found["memory"]["after"]["fits"]
    return Row("memory", _both(found["memory"], lambda each: each["verdict"]), alarm=alarm)


def _link(bottleneck: Values | None) -> str:
    """Return the largest part of exposed communication and the link that sets its pace."""
    if bottleneck is None:
        return "no communication"
    part = str(bottleneck["part"]).replace("_", " ")
    return f"{part} over {bottleneck['link']}" if bottleneck["link"] else part


def _stage(slowest: Values) -> str:
    seconds, mean = format_seconds(slowest["seconds"]), format_seconds(slowest["mean_s"])
    return f"stage {slowest['stage']} ({seconds} at work, the mean stage {mean})"


def _why(found: Values) -> list[Row]:
    """Return the parts of the difference, which add up to it; of a token where steps differ."""
    step, *token = waterfalls(found)
    said = _added_up("why", step, "in all")
    for picture in token:
        said += _added_up("a token", picture, "in all, of a token's device time")
    return said


def _added_up(label: str, picture: Waterfall, total: str) -> list[Row]:
    """Return a line for each part, and one for their sum."""
    if not picture.steps:
        return [Row(label, "no part of the step time changed")]
    whole = Step(total, "total", picture.end - picture.start)
    steps = [*picture.steps, whole]
    changes = [f"{number(step.change, picture.size, '+')} {picture.measure.unit}" for step in steps]
    shares = [picture.share(step) for step in steps]
    wide, share = (max(map(len, column)) for column in (changes, shares))
    lines = zip(changes, shares, steps, strict=True)
    return _column(label, [f"{c:>{wide}}  {s:>{share}}  {step.label}" for c, s, step in lines])


__all__ = ["rows"]
