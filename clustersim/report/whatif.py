"""Changes of a scenario by what they save: text, a table and a waterfall, from ``--json``."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clustersim import __version__
from clustersim.metrics.difference import because, claim
from clustersim.report import folder
from clustersim.report.tables import Row, kind_of, percent
from clustersim.report.waterfall import (
    Step,
    Waterfall,
    draw_waterfall,
    number,
    steps_of,
    unit_of,
    write_csv,
)
from clustersim.units import format_seconds

TABLES: Final = (folder.SUMMARY, "whatif.csv", "report.html")
WATERFALL: Final = ("waterfall.csv", "waterfall.png", "waterfall.svg")
FILES: Final = (*TABLES, *WATERFALL)
"""What the verb leaves; no waterfall where no change can be."""

HEADINGS: Final = ("saved", "", "step", "change", "mostly", "bottleneck", "memory")
RIGHT: Final = HEADINGS[:3]
"""Columns of numbers."""

Values = Mapping[str, Any]
"""An object of ``whatif --json``, or one of its changes."""


# --- text -----------------------------------------------------------------------------------------


def finding(answer: Values) -> str:
    """Return which change saves most, in a sentence."""
    ran = [each for each in answer["changes"] if each["verdict"] == "ran"]
    if not ran:
        return "none of the changes can be"
    best, base = ran[0], answer["base"]["step_time_s"]
    if best["saved_fraction"] < 5e-4:
        return "none of the changes saves time"
    share = percent(best["saved_fraction"])
    return f"{change_of(best)} saves {_most(ran)}{format_seconds(best['saved_s'], 3)}" + (
        f" of {format_seconds(base)} ({share})"
    )


def _most(ran: Sequence[Values]) -> str:
    return "most, " if len(ran) > 1 else ""


def change_of(each: Values) -> str:
    """Return the settings of a change as they are given."""
    return " ".join(each["settings"])


def table(answer: Values) -> list[list[str]]:
    """Return the rows of the changes that ran, the best first, after the heading."""
    ran = [each for each in answer["changes"] if each["verdict"] == "ran"]
    base = answer["base"]["step_time_s"]
    return [[*HEADINGS], *(_cells(each, base) for each in ran)] if ran else []


def _cells(each: Values, base: float) -> list[str]:
    factor, unit = unit_of(base)
    saved, step = (
        f"{number(factor * each[key], factor * base)} {unit}" for key in ("saved_s", "step_time_s")
    )
    return [
        saved,
        percent(each["saved_fraction"]),
        step,
        change_of(each),
        each["part"] or "nothing",
        _link(each["bottleneck"]),
        "fits" if each["fits"] else "does not fit",
    ]


def _link(both: Values) -> str:
    """Return the link that sets the pace after the change, and that of before if it is another."""
    old, new = (_named(both[end]) for end in ("before", "after"))
    return new if old == new else f"{old} -> {new}"


def _named(bottleneck: Values | None) -> str:
    if bottleneck is None:
        return "none"
    return str(bottleneck["link"] or bottleneck["part"].replace("_", " "))


def lines(answer: Values) -> list[str]:
    """Return the table as plain text, numbers to the right."""
    cells = table(answer)
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADINGS))] if cells else []
    return [
        "  ".join(
            cell.rjust(width) if i < len(RIGHT) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def rows(answer: Values) -> list[Row]:
    """Return what is told below the table: what all save together, and what cannot be."""
    said = []
    together = answer["together"]
    if together is not None:
        said.append(Row("together", _together(together, answer)))
    elif answer["apart"]:
        said.append(Row("together", f"not run: {answer['apart']}"))
    other = [change_of(each) for each in answer["changes"] if each["same_tokens"] is False]
    if other:
        told = "trains on other tokens in a step; saved is the time for as many as the base's"
        said.append(Row("tokens", f"{', '.join(other)}: {told}"))
    for each in answer["changes"]:
        if each["verdict"] != "ran":
            said.append(Row("cannot be", f"{change_of(each)}: {each['why']}", alarm=True))
    return said


def _together(together: Values, answer: Values) -> str:
    if together["verdict"] != "ran":
        return f"cannot be: {together['why']}"
    joined = sum(_is_in(each, together) for each in answer["changes"])
    what = "all changes" if joined == len(answer["changes"]) else f"the {joined} that can be"
    share, step = percent(abs(together["saved_fraction"])), together["step_time_s"]
    said = f"{what} {_gain(together['saved_s'])} ({share}), a step of {format_seconds(step)}"
    if together["of_sum"] is not None:
        total = format_seconds(together["sum_s"], 3)
        said += f": {percent(together['of_sum'])} of the {total} that they save one by one"
    elif together["sum_s"] is not None:
        said += f"; one by one they {_gain(together['sum_s'])}"
    return said if together["fits"] else f"{said}; {together['memory']}"


def _gain(saved: float) -> str:
    return f"{'save' if saved >= 0 else 'cost'} {format_seconds(abs(saved), 3)}"


# --- the figure -----------------------------------------------------------------------------------


def picture(answer: Values) -> Waterfall | None:
    """Return what leads from the base to all changes together; or to the best, part by part."""
    ran = [each for each in answer["changes"] if each["verdict"] == "ran"]
    if not ran:
        return None
    together = answer["together"]
    if together is not None and together["verdict"] == "ran" and together["sum_s"] is not None:
        return _savings(answer, [each for each in ran if _is_in(each, together)])
    return _parts(answer, ran[0])


def _is_in(each: Values, together: Values) -> bool:
    return set(each["settings"]) <= set(together["settings"])


def _savings(answer: Values, joined: Sequence[Values]) -> Waterfall:
    """Return each saving as a step, and at the end what they do to each other."""
    together, base = answer["together"], answer["base"]
    steps = [
        Step(label(each), kind_of(str(each["part"]).replace(" ", "_")), -each["saved_s"])
        for each in joined
    ]
    steps.append(
        Step("what they do to each other", "other", together["sum_s"] - together["saved_s"])
    )
    after = base["step_time_s"] - together["saved_s"]
    return Waterfall(
        title=f"{claim('Together a step', base['step_time_s'] / after)}{_of_sum(together)}",
        caption=f"{base['name']}: what each change saves alone, coloured by the part that changes"
        f" most; clustersim {__version__}",
        first="before",
        last="after",
        start=base["step_time_s"],
        steps=tuple(steps),
    ).in_unit()


def _of_sum(together: Values) -> str:
    if together["of_sum"] is None:
        return ""
    return f", {percent(together['of_sum'])} of what is saved one by one"


def _parts(answer: Values, best: Values) -> Waterfall:
    """Return the best change part by part."""
    base, step = answer["base"], best["step_time_s"]
    before = base["step_time_s"]
    return Waterfall(
        title=f"{claim('A step', before / step)}{because(best['parts'])}",
        caption=f"{base['name']}, before and after {change_of(best)}; clustersim {__version__}",
        first="before",
        last="after",
        start=before,
        steps=steps_of(best["parts"], max(before, step)),
    ).in_unit()


def label(each: Values) -> str:
    """Return a change in as many letters as have room beside a bar.

    >>> label({"settings": ["cluster.node.interconnect.bandwidth=x2", "plan.zero=1"]})
    '...bandwidth=x2 and 1 more'
    """
    first, *others = each["settings"]
    more = f" and {len(others)} more" if others else ""
    path, equals, value = first.partition("=")
    end = f"{equals}{value}{more}"
    words, cut = path.split("."), ""
    while len(words) > 1 and len(cut + ".".join(words) + end) > _ROOM:
        words, cut = words[1:], "..."
    return f"{cut}{'.'.join(words)}{end}"


_ROOM: Final = 28


# --- files ----------------------------------------------------------------------------------------


def write(answer: Values, place: Path, *, command: str = "", force: bool = False) -> None:
    """Write the numbers, the page and the figure into a folder; `command` is what made them.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    from clustersim.report.page.of_whatif import page
    from clustersim.report.page.page import render

    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
        drawn = picture(answer)
        files = TABLES if drawn is None else FILES
        summary = {**answer, "version": __version__, "files": files}
        content = json.dumps(summary, indent=1, allow_nan=False)
        (new / folder.SUMMARY).write_text(content + "\n", encoding="utf-8")
        _write_table(answer, new / "whatif.csv")
        (new / "report.html").write_text(render(page(answer, command)), encoding="utf-8")
        if drawn is not None:
            draw_waterfall(drawn, new / "waterfall")
            write_csv(drawn, new / "waterfall.csv")


def _write_table(answer: Values, path: Path) -> None:
    columns = ("verdict", "why", "step_time_s", "saved_s", "saved_fraction", "part", "fits")
    together = [answer["together"]] if answer["together"] else []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["change", *columns, "bottleneck"])
        for each in [*answer["changes"], *together]:
            link = each["bottleneck"] and _named(each["bottleneck"]["after"])
            writer.writerow([change_of(each), *(each[key] for key in columns), link])


__all__ = [
    "FILES",
    "HEADINGS",
    "RIGHT",
    "change_of",
    "finding",
    "label",
    "lines",
    "picture",
    "rows",
    "table",
    "write",
]
