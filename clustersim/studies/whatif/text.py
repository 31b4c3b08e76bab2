"""Changes of a scenario by what they improve, as text."""

from collections.abc import Iterator
from typing import Final

from clustersim.memory.room import FITS, TIGHT, outcome_of
from clustersim.render.tables import Row, percent
from clustersim.reports.measures import brief, cells, format_change, part_name
from clustersim.simulation.measures import QUEUE_GROWTH, Measure, measures_of
from clustersim.studies.whatif.answer import ChangeResult, WhatIfAnswer
from clustersim.units import format_number

WORDS: Final = ("change", "main part", "bottleneck", "memory")
"""Columns that are words."""


WORTH_IT: Final = 5e-4
"""Gain, less one, below which a change is reported to improve nothing."""


def measure_of(answer: WhatIfAnswer) -> Measure:
    """Return the measure that ranks the changes."""
    return measures_of(answer.base.kinds)[answer.by]


def finding(answer: WhatIfAnswer) -> str:
    """Return which change that fits improves most, in a sentence; else the best that does not."""
    results, best = results_of(answer), best_of(answer)
    if best is None:
        return "no change is valid and fits"
    measure = measure_of(answer)
    if not _improves(best, answer):
        return f"none of the changes improves the {measure.label}"
    change = format_change(measure, answer.base.measures()[answer.by], best.measures[answer.by])
    if not best.fits:
        nothing = f"no change that fits improves the {measure.label}"
        return f"{nothing}; {text_of(best)} would: {change}{_caveat(best)}"
    verb = "is best" if len(results) > 1 else "helps"
    more = "" if results[0] is best else f"; {text_of(results[0])} gains more{_caveat(results[0])}"
    return f"{text_of(best)} {verb}: {change}{_caveat(best)}{more}"


def _caveat(change: ChangeResult) -> str:
    """Return a remark on the memory of a change that does not surely fit."""
    verdict = outcome_of(change.facts["memory"].after or "")
    return {FITS: "", TIGHT: ", tight in memory"}.get(verdict, f", but {verdict}")


def results_of(answer: WhatIfAnswer) -> list[ChangeResult]:
    """Return the changes that have a result, the best first."""
    return [change for change in answer.changes if change.change is not None]


def best_of(answer: WhatIfAnswer) -> ChangeResult | None:
    """Return the change with the largest gain of those that fit; of all if none of them gains."""
    results = results_of(answer)
    fit = [change for change in results if change.fits and _improves(change, answer)]
    return next(iter([*fit, *results]), None)


def _improves(change: ChangeResult, answer: WhatIfAnswer) -> bool:
    """Return whether a change improves the measure, also to 0, which has no ratio."""
    if change.gain is None:
        return measure_of(answer).order(change.change or 0.0) < 0
    return change.gain >= 1 + WORTH_IT


def text_of(change: ChangeResult) -> str:
    """Return the settings of a change as they are given."""
    return " ".join(change.settings)


def table(answer: WhatIfAnswer) -> list[list[str]]:
    """Return the base and the changes that ran, the best first, after the headings."""
    results, base = results_of(answer), answer.base
    if not results:
        return []
    numbers = [base.measures(), *(change.measures for change in results)]
    measures = brief(base.kinds, numbers, answer.by)
    heads = ["gain", "", *(measure.heading for measure in measures), *WORDS]
    facts = base.facts()
    fits = outcome_of(base.memory.verdict)
    first = ["1", "", *cells(measures, numbers[0]), "base", "", facts.get("bottleneck", ""), fits]
    return [heads, first, *(_line(change, answer, measures) for change in results)]


def _line(change: ChangeResult, answer: WhatIfAnswer, measures: list[Measure]) -> list[str]:
    old, new = answer.base.measures()[answer.by], change.measures[answer.by]
    return [
        "-" if change.gain is None else format_number(change.gain),
        percent(round(new / old - 1, 3) + 0.0, "+"),  # -0.0 + 0.0 is 0.0
        *cells(measures, change.measures),
        text_of(change),
        _part(change),
        _bottleneck(change),
        outcome_of(change.facts["memory"].after or ""),
    ]


def _part(change: ChangeResult) -> str:
    """Return the part of the account that changed most, and in which direction."""
    if change.part is None:
        return "no part"
    parts = {part: seconds for part, seconds in change.parts.items() if part == change.part}
    less = sum(parts.values() or (s for p, s in change.parts.items() if p.startswith("bubble"))) < 0
    return f"{'less' if less else 'more'} {part_name(change.part)}"


def _bottleneck(change: ChangeResult) -> str:
    """Return what limits it, before the change as well if that is another."""
    fact = change.facts.get("bottleneck")
    if fact is None:
        return ""
    return fact.after or "" if fact.before == fact.after else f"{fact.before} -> {fact.after}"


def rows(answer: WhatIfAnswer) -> Iterator[Row]:
    """Return the lines below the table: all changes together, and those without a result."""
    if answer.together is not None:
        yield Row("together", _together(answer, answer.together))
    elif answer.apart:
        yield Row("together", f"not run: {answer.apart}")
    other = [text_of(change) for change in answer.changes if _other_work(change, answer)]
    if other:
        text = ", ".join(other)
        yield Row("work", f"{text}: other tokens in a step; parts are those of a token")
    for change in answer.changes:
        for key, why in change.assumed.items():
            yield Row("assumed", f"{text_of(change)}: {key}: {why}")
        if change.change is None:
            name, why = text_of(change), change.why or ""
            label: str = "memory" if change.fits is False else change.verdict
            if change.measures.get(QUEUE_GROWTH):
                label = "queue"
            yield Row(label, f"{name}: {why.removeprefix(f'--set {name}: ')}", warning=True)


def _other_work(change: ChangeResult, answer: WhatIfAnswer) -> bool:
    """Return whether a step with a change is not for the tokens of the base's step."""
    tokens = [
        numbers["step_time_s"] * numbers["tokens_per_s"]
        for numbers in (change.measures, answer.base.measures())
        if "step_time_s" in numbers
    ]
    return len(tokens) == 2 and abs(tokens[0] - tokens[1]) > 0.5


def _together(answer: WhatIfAnswer, together: ChangeResult) -> str:
    """Return what all valid changes do together, and what they do alone."""
    if together.change is None:
        return f"no result: {together.why}"
    joined = [change for change in answer.changes if {*change.settings} <= {*together.settings}]
    everything = len(joined) == len(answer.changes)
    which = "all changes" if everything else f"the {len(joined)} valid changes"
    measure, base = measure_of(answer), answer.base.measures()[answer.by]
    text = f"{which}: {format_change(measure, base, together.measures[answer.by])}"
    if together.gain is not None:
        text += f", gain {format_number(together.gain)}"
    if answer.product is not None:
        text += f"; separate gains multiply to {format_number(answer.product)}"
    if answer.of_sum is not None:
        text += f"; the change is {percent(answer.of_sum)} of the sum of separate changes"
    return text if together.fits else f"{text}; {together.facts['memory'].after}"
