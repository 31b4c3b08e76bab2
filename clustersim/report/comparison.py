"""Runs beside each other as text, tables and waterfalls, from the plain values of ``--json``."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clustersim import __version__
from clustersim.metrics.difference import because, claim
from clustersim.report import folder
from clustersim.report.tables import Row, counted, percent
from clustersim.report.waterfall import (
    Step,
    Waterfall,
    draw_waterfall,
    number,
    share_of,
    steps_of,
    write_csv,
)
from clustersim.units import format_seconds

FILES: Final = (
    folder.SUMMARY,
    "compare.csv",
    "inputs.csv",
    "report.html",
    "waterfall.csv",
    "waterfall.png",
    "waterfall.svg",
)
"""What the verb leaves; more waterfalls where there are more runs, or unlike batches."""

ENDINGS: Final = (".csv", ".png", ".svg")

Values = Mapping[str, Any]
"""An object of ``compare --json``, or one of its comparisons."""

INPUTS: Final = 12
"""Changed inputs that the text names; the table has all of them."""

SHORT: Final = 28
"""Letters of a run's name that stand beside a bar; longer ones are told in the caption."""


# --- text -----------------------------------------------------------------------------------------


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
    step, *token = pictures(found)
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
    changes = [f"{number(step.change, picture.size, '+')} {picture.unit}" for step in steps]
    shares = [share_of(step, picture) for step in steps]
    wide, share = (max(map(len, column)) for column in (changes, shares))
    lines = zip(changes, shares, steps, strict=True)
    return _column(label, [f"{c:>{wide}}  {s:>{share}}  {step.label}" for c, s, step in lines])


# --- figures --------------------------------------------------------------------------------------


def pictures(found: Values) -> list[Waterfall]:
    """Return the waterfall of the step time; and of a token, where steps have other batches."""
    step = found["differences"]["step_time_s"]
    title = f"{claim('A step', step['before'] / step['after'])}{because(found['parts'])}"
    drawn = [_picture(found, found["parts"], step, title, "time of a step")]
    if found["same_tokens"]:
        return drawn
    token = {end: _of_a_token(found["differences"], end) for end in ("before", "after")}
    title = (
        f"{claim('A token', token['before'] / token['after'])}{because(found['parts_per_token'])}"
    )
    axis = "device time of a token"
    return [*drawn, _picture(found, found["parts_per_token"], token, title, axis)]


def _of_a_token(numbers: Values, end: str) -> float:
    """Return the device-seconds of a token."""
    return 1 / float(numbers["tokens_per_s_per_device"][end])


def _picture(
    found: Values, parts: Mapping[str, float], total: Values, title: str, axis: str
) -> Waterfall:
    names = found["before"], found["after"]
    short = all(len(name) <= SHORT for name in names) and names[0] != names[1]
    told = f"before: {names[0]}; after: {names[1]}; clustersim {__version__}"
    return Waterfall(
        title=title,
        caption=told,
        first=names[0] if short else "before",
        last=names[1] if short else "after",
        start=total["before"],
        steps=steps_of(parts, max(total["before"], total["after"])),
        axis=axis,
    ).in_unit()


# --- files ----------------------------------------------------------------------------------------


def write(answer: Values, place: Path, *, command: str = "", force: bool = False) -> None:
    """Write the numbers, the page and the figures into a folder; `command` is what made them.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    from clustersim.report.page.of_compare import page
    from clustersim.report.page.page import render

    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
        stems = dict(_stems(answer["comparisons"]))
        more = (f"{stem}{ending}" for stem in stems for ending in ENDINGS)
        files = dict.fromkeys([*FILES[:4], *more])
        summary = {**answer, "version": __version__, "files": [*files]}
        content = json.dumps(summary, indent=1, allow_nan=False)
        (new / folder.SUMMARY).write_text(content + "\n", encoding="utf-8")
        _write_table(_measured(answer), new / "compare.csv")
        _write_table(_changed(answer["comparisons"]), new / "inputs.csv")
        (new / "report.html").write_text(render(page(answer, command)), encoding="utf-8")
        for stem, picture in stems.items():
            draw_waterfall(picture, new / stem)
            write_csv(picture, new / f"{stem}.csv")


def _stems(comparisons: Sequence[Values]) -> Iterator[tuple[str, Waterfall]]:
    """Yield the waterfalls with the names of their files."""
    for place, found in enumerate(comparisons, 2):
        number = "" if place == 2 else f"-{place}"
        step, *token = pictures(found)
        yield f"waterfall{number}", step
        for picture in token:
            yield f"waterfall-token{number}", picture


def _measured(answer: Values) -> Iterator[Sequence[Any]]:
    """Yield a line for each number, a column for each run."""
    comparisons = answer["comparisons"]
    yield ["measure", *(run["name"] for run in answer["runs"])]
    for measure, first in comparisons[0]["differences"].items():
        others = (found["differences"][measure]["after"] for found in comparisons)
        yield [measure, first["before"], *others]


def _changed(comparisons: Sequence[Values]) -> Iterator[Sequence[Any]]:
    yield ["run", "path", "before", "after", "values"]
    for found in comparisons:
        for each in found["inputs"]:
            yield [found["after"], *(each[key] for key in ("path", "before", "after", "values"))]


def _write_table(lines: Iterator[Sequence[Any]], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)


__all__ = ["FILES", "pictures", "rows", "write"]
