"""The waterfall that leads from a scenario to all its changes, or to the best one."""

from collections.abc import Sequence
from typing import Final

from clustersim.render.charts import Axis, Step, Waterfall
from clustersim.render.tables import percent
from clustersim.reports.measures import LEGENDS, format_change, part_kind, waterfall
from clustersim.studies.whatif.answer import ChangeResult, WhatIfAnswer
from clustersim.studies.whatif.text import best_of, measure_of, text_of

_ROOM: Final = 28


def savings_chart(answer: WhatIfAnswer) -> Waterfall | None:
    """Return the way from the base to all changes together; or to the best one, part by part."""
    best, together = best_of(answer), answer.together
    if together is not None and together.change is not None and answer.sum is not None:
        return _savings(answer, together, together.change - answer.sum)
    if best is None:
        return None
    accounts = {account.name: account for account in answer.base.accounts()}
    if best.account is None or not best.parts:
        return None
    return waterfall((answer.base.name, text_of(best)), accounts[best.account], best.parts)


def _savings(answer: WhatIfAnswer, together: ChangeResult, interaction: float) -> Waterfall:
    """Return a step for each change alone, the last one for their interaction."""
    measure, base = measure_of(answer), answer.base.measures()[answer.by]
    joined = [change for change in answer.changes if {*change.settings} <= {*together.settings}]
    steps = [
        Step(change_label(change.settings), _kind(change.part), change.change or 0.0)
        for change in joined
    ]
    steps.append(Step("interaction", "other", interaction))
    share = f" ({percent(answer.of_sum)} of the sum of the changes)" if answer.of_sum else ""
    chart = Waterfall(
        title=f"All valid changes: {format_change(measure, base, base + (together.change or 0.0))}"
        f"{share}",
        caption=f"{answer.base.name}: each change alone, coloured by the part that changes most",
        description=f"{len(joined)} changes and their interaction lead from before to after.",
        note="Each bar begins where the one above ends.",
        contents="what each change does alone",
        measure=Axis(measure.label, measure.unit),
        first="before",
        last="after",
        start=base,
        steps=tuple(steps),
        kinds=LEGENDS.get(together.account or "", ()),
    )
    return chart.in_unit() if measure.unit == "s" else chart


def _kind(part: str | None) -> str:
    return "other" if part is None else part_kind(part)


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
