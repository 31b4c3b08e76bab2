"""Changes of a scenario by the time that they save, as text."""

from collections.abc import Iterator
from typing import Final

from clustersim.render.charts.bars import time_unit, to_thousandths
from clustersim.render.tables import Row, percent
from clustersim.simulation.answer import ExposedCommunication
from clustersim.studies.whatif.answer import (
    ChangeFailure,
    ChangeResult,
    CombinationResult,
    WhatIfAnswer,
)
from clustersim.units import format_number, format_seconds

HEADINGS: Final = ("saved", "", "step", "change", "main part", "bottleneck", "memory")
WORDS: Final = HEADINGS[3:]
"""Columns that are words."""

UNFIT: Final = "does not fit"

WORTH_IT: Final = 5e-4
"""Share of the step time below which a change is reported to save no time."""


def finding(answer: WhatIfAnswer) -> str:
    """Return which change saves most, in a sentence; one that fits if there is one."""
    results, best = results_of(answer), best_of(answer)
    if best is None:
        return "no change is valid"
    if best.saved_days is not None and answer.base.training is not None:
        return _finding_of_run(best, answer.base.training.days, len(results))
    if best.saved_fraction < WORTH_IT:
        return "none of the changes saves time"
    saved = f"{format_seconds(best.saved_s, 3)} of {format_seconds(answer.base.step_time_s)}"
    most = "most, " if len(results) > 1 else ""
    fits = "" if best.fits else ", but does not fit"
    first = results[0]
    more = "" if first is best else f"; {text_of(first)} would save more, but does not fit"
    return f"{text_of(best)} saves {most}{saved} ({percent(best.saved_fraction)}){fits}{more}"


def _finding_of_run(best: ChangeResult, days: float, changes: int) -> str:
    """Return which change saves most of a whole run."""
    saved = best.saved_days or 0.0
    if saved < WORTH_IT * days:
        return "none of the changes saves time"
    most = "most, " if changes > 1 else ""
    share = percent(saved / days)
    of_days = f"{format_number(saved, 3)} of {format_number(days)} days"
    return f"{text_of(best)} saves {most}{of_days} of the run ({share})"


def results_of(answer: WhatIfAnswer) -> list[ChangeResult]:
    """Return the changes that ran, the one that saves most first."""
    return [change for change in answer.changes if isinstance(change, ChangeResult)]


def best_of(answer: WhatIfAnswer) -> ChangeResult | None:
    """Return the change that saves most of those that fit; of all if none of them saves time."""
    results = results_of(answer)
    fit = [change for change in results if change.fits and _saves(change)]
    return next(iter([*fit, *results]), None)


def _saves(change: ChangeResult) -> bool:
    """Return whether a change saves days of a run, or time of a step where there is no run."""
    if change.saved_days is not None:
        return change.saved_days > 0
    return change.saved_fraction >= WORTH_IT


def joined_in(answer: WhatIfAnswer) -> list[ChangeResult | ChangeFailure]:
    """Return the changes that were run together."""
    settings = set() if answer.together is None else set(answer.together.settings)
    return [change for change in answer.changes if set(change.settings) <= settings]


def text_of(change: ChangeResult | ChangeFailure) -> str:
    """Return the settings of a change as they are given."""
    return " ".join(change.settings)


def table(answer: WhatIfAnswer) -> list[list[str]]:
    """Return the rows of the changes that ran, the best first, after the heading."""
    results, base = results_of(answer), answer.base.step_time_s
    if not results:
        return []
    lines = [[*HEADINGS], *(_cells(change, base) for change in results)]
    if answer.base.training is None:
        return lines
    days = ["days saved", *(_days(change) for change in results)]
    return [[*line[:3], cell, *line[3:]] for line, cell in zip(lines, days, strict=True)]


def _days(change: ChangeResult) -> str:
    return "" if change.saved_days is None else format_number(change.saved_days, 3)


def _cells(change: ChangeResult, base: float) -> list[str]:
    factor, unit = time_unit(base)
    saved, step = (
        f"{to_thousandths(factor * seconds, factor * base)} {unit}"
        for seconds in (change.saved_s, change.step_time_s)
    )
    return [
        saved,
        percent(round(change.saved_fraction, 3) + 0.0),  # -0.0 + 0.0 is 0.0
        step,
        text_of(change),
        change.part or "no part",
        _links(change),
        "fits" if change.fits else UNFIT,
    ]


def _links(change: ChangeResult) -> str:
    """Return the link that limits communication, before the change as well if it is another."""
    old, new = link_of(change.bottleneck.before), link_of(change.bottleneck.after)
    return new if old == new else f"{old} -> {new}"


def link_of(bottleneck: ExposedCommunication | None) -> str:
    """Return the link that limits communication, or its kind where it crosses none."""
    if bottleneck is None:
        return "none"
    return bottleneck.link or bottleneck.part.replace("_", " ")


def rows(answer: WhatIfAnswer) -> list[Row]:
    """Return the lines below the table: all changes together, and those that are invalid."""
    return [*_rows(answer)]


def _rows(answer: WhatIfAnswer) -> Iterator[Row]:
    if answer.together is not None:
        yield Row("together", _together(answer))
    elif answer.apart:
        yield Row("together", f"not run: {answer.apart}")
    if other := [text_of(change) for change in answer.changes if change.same_tokens is False]:
        yield Row(
            "tokens",
            f"{', '.join(other)}: trains on another number of tokens in a step; saved is the time"
            " for the tokens of the base's step",
        )
    for change in answer.changes:
        if isinstance(change, ChangeFailure):
            label = "failed" if change.verdict == "failed" else "invalid"
            name = text_of(change)
            why = (change.why or "").removeprefix(f"--set {name}: ")
            yield Row(label, f"{name}: {why}", warning=True)


def _together(answer: WhatIfAnswer) -> str:
    together, joined = answer.together, joined_in(answer)
    if not isinstance(together, CombinationResult):
        return f"no result: {together and together.why}"
    everything = len(joined) == len(answer.changes)
    changes = "all changes" if everything else f"the {len(joined)} valid changes"
    share, step = percent(abs(together.saved_fraction)), format_seconds(together.step_time_s)
    text = f"{changes} {_gain(together.saved_s)} ({share}), a step of {step}"
    if together.of_sum is not None and together.sum_s is not None:
        total = format_seconds(together.sum_s, 3)
        text += f": {percent(together.of_sum)} of the {total} that they save separately"
    elif together.sum_s is not None:
        text += f"; separately they {_gain(together.sum_s)}"
    return text if together.fits else f"{text}; {together.memory}"


def _gain(saved: float) -> str:
    return f"{'save' if saved >= 0 else 'cost'} {format_seconds(abs(saved), 3)}"


__all__ = [
    "HEADINGS",
    "UNFIT",
    "WORDS",
    "best_of",
    "finding",
    "joined_in",
    "link_of",
    "results_of",
    "rows",
    "table",
    "text_of",
]
