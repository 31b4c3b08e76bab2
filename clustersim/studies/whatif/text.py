"""Changes of a scenario by what they save, as text, from the plain values of ``--json``."""

from collections.abc import Mapping
from typing import Any, Final

from clustersim.render.charts.bars import number, time_unit
from clustersim.render.tables import Row, percent
from clustersim.units import format_seconds

HEADINGS: Final = ("saved", "", "step", "change", "mostly", "bottleneck", "memory")
WORDS: Final = HEADINGS[3:]
"""Columns that are words."""

UNFIT: Final = "does not fit"

Values = Mapping[str, Any]
"""An object of ``whatif --json``, or one of its changes."""


def finding(answer: Values) -> str:
    """Return which change saves most, in a sentence; one that fits if there is one."""
    ran, base = ran_of(answer), answer["base"]["step_time_s"]
    chosen = best(answer)
    if chosen is None:
        return "none of the changes can be"
    if chosen["saved_fraction"] < WORTH_IT:
        return "none of the changes saves time"
    first = ran[0]
    more = "" if first is chosen else f"; {change_of(first)} would save more, but does not fit"
    saved = f"{format_seconds(chosen['saved_s'], 3)} of {format_seconds(base)}"
    most = "most, " if len(ran) > 1 else ""
    fits = "" if chosen["fits"] else ", but does not fit"
    share = percent(chosen["saved_fraction"])
    return f"{change_of(chosen)} saves {most}{saved} ({share}){fits}{more}"


def ran_of(answer: Values) -> list[Values]:
    """Return the changes that ran, the one that saves most first."""
    return [each for each in answer["changes"] if each["verdict"] == "ran"]


def best(answer: Values) -> Values | None:
    """Return the change that saves most of those that fit; of all if none of them saves time."""
    ran = ran_of(answer)
    fit = [each for each in ran if each["fits"] and each["saved_fraction"] >= WORTH_IT]
    return next(iter([*fit, *ran]), None)


WORTH_IT: Final = 5e-4
"""Share of the step below which a change saves nothing to speak of."""


def change_of(each: Values) -> str:
    """Return the settings of a change as they are given."""
    return " ".join(each["settings"])


def table(answer: Values) -> list[list[str]]:
    """Return the rows of the changes that ran, the best first, after the heading."""
    ran, base = ran_of(answer), answer["base"]["step_time_s"]
    return [[*HEADINGS], *(_cells(each, base) for each in ran)] if ran else []


def _cells(each: Values, base: float) -> list[str]:
    factor, unit = time_unit(base)
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
        "fits" if each["fits"] else UNFIT,
    ]


def _link(both: Values) -> str:
    """Return the link that sets the pace after the change, and that of before if it is another."""
    old, new = (link_of(both[end]) for end in ("before", "after"))
    return new if old == new else f"{old} -> {new}"


def link_of(bottleneck: Values | None) -> str:
    """Return the link that sets the pace of communication, or its kind where it crosses none."""
    if bottleneck is None:
        return "none"
    return str(bottleneck["link"] or bottleneck["part"].replace("_", " "))


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
    joined = sum(is_in(each, together) for each in answer["changes"])
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


def is_in(each: Values, together: Values) -> bool:
    """Whether a change is one of those that were run together."""
    return set(each["settings"]) <= set(together["settings"])


__all__ = [
    "HEADINGS",
    "UNFIT",
    "WORDS",
    "Values",
    "best",
    "change_of",
    "finding",
    "is_in",
    "link_of",
    "ran_of",
    "rows",
    "table",
]
