"""Changes of a scenario by the time that they save, as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from clustersim.render.charts.bars import time_unit, to_thousandths
from clustersim.render.tables import Row, percent
from clustersim.runs.table import run_measures
from clustersim.simulation.step.answer import ExposedCommunication
from clustersim.studies.whatif.answer import (
    ChangeFailure,
    ChangeResult,
    CombinationResult,
    WhatIfAnswer,
    saved_by,
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
    if answer.by is not None:
        return _finding_of_run(answer, best, answer.by)
    if best.saved_fraction < WORTH_IT:
        return "none of the changes saves time"
    saved = f"{format_seconds(best.saved_s, 3)} of {format_seconds(answer.base.step_time_s)}"
    most = "most, " if len(results) > 1 else ""
    fits = "" if best.fits else ", but does not fit"
    first = results[0]
    more = "" if first is best else f"; {text_of(first)} would save more, but does not fit"
    return f"{text_of(best)} saves {most}{saved} ({percent(best.saved_fraction)}){fits}{more}"


def _finding_of_run(answer: WhatIfAnswer, best: ChangeResult, by: str) -> str:
    """Return which change saves most of a whole run, or gains most goodput."""
    words, base, saved = RUN_WORDS[by], run_measures(answer.base)[by], saved_by(best, by)
    if saved < WORTH_IT * base:
        return f"none of the changes {words.verb} {words.noun}"
    most = " most," if len(results_of(answer)) > 1 else ""
    fits = "" if best.fits else ", but does not fit"
    amount = f"{words.number(saved)} of {words.number(base)} {words.unit} of the run"
    amount += f" ({percent(saved / base)})"
    if by == "goodput":
        amount = f"{words.number(saved)} points ({percent(base)} -> {percent(base + saved)})"
    return f"{text_of(best)} {words.verb}{most} {amount}{fits}"


class RunWords(NamedTuple):
    """How a measure of whole runs is stated: ``none of the changes saves time``.

    Attributes
    ----------
    verb : what a change does to it
    noun : what is saved or gained
    unit : of numbers, and `factor` from that of answers
    heading : of its column
    """

    verb: str
    noun: str
    unit: str
    factor: float
    heading: str

    def number(self, value: float, digits: int = 4) -> str:
        """Return a value of an answer in this unit."""
        return format_number(self.factor * value, digits)


RUN_WORDS: Final[Mapping[str, RunWords]] = {
    "days": RunWords("saves", "time", "days", 1.0, "days saved"),
    "goodput": RunWords("gains", "goodput", "points", 100.0, "goodput gained"),
    "energy": RunWords("saves", "energy", "MWh", 1e-3, "MWh saved"),
    "cost": RunWords("saves", "money", "USD", 1.0, "USD saved"),
}
"""Measures of whole runs in words."""


def results_of(answer: WhatIfAnswer) -> list[ChangeResult]:
    """Return the changes that ran, the one that saves most first."""
    return [change for change in answer.changes if isinstance(change, ChangeResult)]


def best_of(answer: WhatIfAnswer) -> ChangeResult | None:
    """Return the change that saves most of those that fit; of all if none of them saves time."""
    results = results_of(answer)
    fit = [change for change in results if change.fits and _saves(change, answer.by)]
    return next(iter([*fit, *results]), None)


def _saves(change: ChangeResult, by: str | None) -> bool:
    """Return whether a change saves something of a run, or time of a step without a run."""
    return saved_by(change, by) > 0 if by is not None else change.saved_fraction >= WORTH_IT


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
    return lines if answer.by is None else _run_table(answer, answer.by, lines)


def _run_table(answer: WhatIfAnswer, by: str, lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return rows with what is saved of a whole run instead of a step, `by` first."""
    base = run_measures(answer.base)
    others = [name for name in base if name not in (by, "goodput")]
    table = [[RUN_WORDS[by].heading, "", *(RUN_WORDS[name].heading for name in others)]]
    for change in results_of(answer):
        saved = {name: _rounded(saved_by(change, name), base[name]) for name in base}
        share = "" if by == "goodput" else percent(round(saved[by] / base[by], 3) + 0.0)
        cells = [RUN_WORDS[name].number(saved[name], 3) for name in (by, *others)]
        table.append([cells[0], share, *cells[1:]])
    return [[*cells, *line[2:]] for cells, line in zip(table, lines, strict=True)]


def _rounded(saved: float, whole: float) -> float:
    """Return what is saved; 0 where it is no 0.01 % of the whole."""
    return saved if abs(saved) >= 1e-4 * whole else 0.0


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
        main_part(change),
        _links(change),
        "fits" if change.fits else UNFIT,
    ]


def main_part(change: ChangeResult) -> str:
    """Return the part that changed most, of the elapsed time of a run or of a step."""
    if change.run_parts is None:
        return change.part or "no part"
    part = largest_part(change)
    if part == "useful" and change.part:
        return change.part
    return part if change.run_parts[part] else "no part"


def largest_part(change: ChangeResult) -> str:
    """Return the part of the elapsed time of a run that changed most."""
    parts = change.run_parts or {"useful": 0.0}
    return max(parts, key=lambda part: abs(parts[part]))


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
    if answer.by is not None and together.sum_run is not None:
        text = _together_of_run(answer, answer.by, changes, together, together.sum_run)
    elif together.of_sum is not None and together.sum_s is not None:
        total = format_seconds(together.sum_s, 3)
        text += f": {percent(together.of_sum)} of the {total} that they save separately"
    elif together.sum_s is not None:
        text += f"; separately they {_gain(together.sum_s)}"
    return text if together.fits else f"{text}; {together.memory}"


def _together_of_run(
    answer: WhatIfAnswer, by: str, changes: str, together: CombinationResult, total: float
) -> str:
    """Return what changes save together of a whole run, and separately."""
    words, base = RUN_WORDS[by], run_measures(answer.base)[by]
    saved = saved_by(together, by)
    if by == "goodput":
        verbs, share, after = ("gain", "lose"), "", percent(base + saved)
    else:
        verbs, share = ("save", "cost"), f" ({percent(abs(saved) / base)})"
        after = f"{words.number(base - saved)} {words.unit}"
    gains = [
        f"{verbs[value < 0]} {words.number(abs(value), 3)} {words.unit}" for value in (saved, total)
    ]
    return f"{changes} {gains[0]}{share}, {after} in all; separately they {gains[1]}"


def _gain(saved: float) -> str:
    return f"{'save' if saved >= 0 else 'cost'} {format_seconds(abs(saved), 3)}"
