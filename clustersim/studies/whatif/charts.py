"""The waterfall that leads from a scenario to all its changes, or to the best one."""

from collections.abc import Sequence
from typing import Final

from clustersim.metrics.difference import format_causes, format_speed
from clustersim.render.charts import Axis, Step, Waterfall
from clustersim.render.charts.bars import steps_of
from clustersim.render.charts.run_days import COLOURS, days_waterfall
from clustersim.render.tables import kind_of, percent
from clustersim.runs.table import run_measures
from clustersim.studies.whatif.answer import (
    ChangeResult,
    CombinationResult,
    WhatIfAnswer,
    saved_by,
)
from clustersim.studies.whatif.text import RUN_WORDS, best_of, joined_in, largest_part, text_of


def savings_chart(answer: WhatIfAnswer) -> Waterfall | None:
    """Return the way from the base to all changes together; or to the best one, part by part."""
    best, together = best_of(answer), answer.together
    if best is None:
        return None
    if isinstance(together, CombinationResult) and together.sum_s is not None:
        return _savings(answer, together, together.sum_s)
    return _parts(answer, best)


def _savings(answer: WhatIfAnswer, together: CombinationResult, total: float) -> Waterfall:
    """Return a step for the saving of each change, the last one for their interaction."""
    base = answer.base
    joined = [change for change in joined_in(answer) if isinstance(change, ChangeResult)]
    if answer.by is not None and together.sum_run is not None:
        return _savings_of_run(answer, answer.by, together, together.sum_run, joined)
    steps = [
        Step(change_label(change.settings), _kind(change.part), -change.saved_s)
        for change in joined
    ]
    steps.append(Step("interaction", "other", total - together.saved_s))
    after = base.step_time_s - together.saved_s
    speed = format_speed("With all valid changes a step", base.step_time_s / after)
    return Waterfall(
        title=f"{speed}{_of_sum(together)}",
        caption=f"{base.name}: what each change saves alone, coloured by the component that"
        " changes most",
        description=f"{len(joined)} changes and their interaction lead from before to after.",
        note=NOTE,
        contents="what each change saves",
        measure=MEASURE,
        first="before",
        last="after",
        start=base.step_time_s,
        steps=tuple(steps),
    ).in_unit()


def _savings_of_run(
    answer: WhatIfAnswer,
    by: str,
    together: CombinationResult,
    total: float,
    joined: Sequence[ChangeResult],
) -> Waterfall:
    """Return the same of a measure of whole runs."""
    words, start = RUN_WORDS[by], run_measures(answer.base)[by]
    sign = words.factor * (1 if by == "goodput" else -1)
    steps = [
        Step(
            change_label(change.settings),
            COLOURS[largest_part(change)],
            sign * saved_by(change, by),
        )
        for change in joined
    ]
    saved = saved_by(together, by)
    steps.append(Step("interaction", "other", sign * (saved - total)))
    unit = "%" if by == "goodput" else words.unit
    number = words.number(abs(saved), 3)
    verb = words.verb.removesuffix("s") if saved >= 0 else "cost"
    return Waterfall(
        title=f"All valid changes {verb} {number} {words.unit}{_of_sum(together)}",
        caption=f"{answer.base.name}: what each change saves alone, coloured by the part of the"
        " elapsed time that changes most",
        description=f"{len(joined)} changes and their interaction lead from before to after.",
        note=NOTE,
        contents="what each change saves",
        measure=Axis(by if by != "days" else "elapsed time", unit.replace("days", "d")),
        first="before",
        last="after",
        start=words.factor * start,
        steps=tuple(steps),
        kinds=tuple((colour, part) for part, colour in COLOURS.items()),
    )


def _kind(part: str | None) -> str:
    """Return the kind of a part that is given in words."""
    return "other" if part is None else kind_of(part.replace(" ", "_"))


def _of_sum(together: CombinationResult) -> str:
    if together.of_sum is None:
        return ""
    return f" ({percent(together.of_sum)} of the sum of the separate savings)"


def _parts(answer: WhatIfAnswer, best: ChangeResult) -> Waterfall:
    """Return the best change part by part: the days of a whole run, or a step."""
    if answer.base.training is not None and best.run_parts is not None:
        names = (answer.base.name, text_of(best))
        return days_waterfall(names, answer.base.training.days, best.run_parts)
    before, after = answer.base.step_time_s, best.step_time_s
    return Waterfall(
        title=f"{format_speed('A step', before / after)}{format_causes(best.parts)}",
        caption=f"{answer.base.name}, before and after {text_of(best)}",
        description=f"The components of a step lead from before to after {text_of(best)}.",
        note=NOTE,
        contents="changes of the components of a step",
        measure=MEASURE,
        first="before",
        last="after",
        start=before,
        steps=steps_of(best.parts, max(before, after)),
    ).in_unit()


def change_label(settings: Sequence[str]) -> str:
    """Return a change in the letters that fit next to a bar.

    >>> change_label(["cluster.node.interconnect.bandwidth=x2", "plan.zero=1"])
    '...bandwidth=x2 and 1 more'
    """
    first, *others = settings
    more = f" and {len(others)} more" if others else ""
    path, equals, value = first.partition("=")
    end = f"{equals}{value}{more}"
    words, cut = path.split("."), ""
    while len(words) > 1 and len(cut + ".".join(words) + end) > _ROOM:
        words, cut = words[1:], "..."
    return f"{cut}{'.'.join(words)}{end}"


_ROOM: Final = 28

MEASURE: Final = Axis("step time", "s")
NOTE: Final = "Each bar begins where the one above ends."
