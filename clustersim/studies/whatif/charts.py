"""The waterfall that leads from a scenario to all its changes, or to the best one."""

from collections.abc import Sequence
from typing import Final

from clustersim.metrics.difference import because, claim
from clustersim.render.charts import Axis, Step, Waterfall
from clustersim.render.charts.bars import steps_of
from clustersim.render.tables import kind_of, percent
from clustersim.studies.whatif.text import Values, best, change_of, is_in, ran_of


def waterfall(answer: Values) -> Waterfall | None:
    """Return the way from the base to all changes together; or to the best one, part by part."""
    chosen = best(answer)
    if chosen is None:
        return None
    together = answer["together"]
    if together is not None and together["verdict"] == "ran" and together["sum_s"] is not None:
        return _savings(answer, [one for one in ran_of(answer) if is_in(one, together)])
    return _parts(answer, chosen)


def _savings(answer: Values, joined: Sequence[Values]) -> Waterfall:
    """Return a step for the saving of each change, the last one for their interaction."""
    together, base = answer["together"], answer["base"]
    steps = [
        Step(label(change), kind_of(str(change["part"]).replace(" ", "_")), -change["saved_s"])
        for change in joined
    ]
    steps.append(Step("interaction", "other", together["sum_s"] - together["saved_s"]))
    after = base["step_time_s"] - together["saved_s"]
    return Waterfall(
        title=f"{claim('Together a step', base['step_time_s'] / after)}{_of_sum(together)}",
        caption=f"{base['name']}: what each change saves alone, coloured by the component that"
        " changes most",
        description=f"{len(joined)} changes and their interaction lead from before to after.",
        note=NOTE,
        contents="what each change saves",
        measure=MEASURE,
        first="before",
        last="after",
        start=base["step_time_s"],
        steps=tuple(steps),
    ).in_unit()


def _of_sum(together: Values) -> str:
    if together["of_sum"] is None:
        return ""
    return f", {percent(together['of_sum'])} of the sum of the savings"


def _parts(answer: Values, chosen: Values) -> Waterfall:
    """Return the best change part by part."""
    base, step = answer["base"], chosen["step_time_s"]
    before = base["step_time_s"]
    return Waterfall(
        title=f"{claim('A step', before / step)}{because(chosen['parts'])}",
        caption=f"{base['name']}, before and after {change_of(chosen)}",
        description=f"The components of a step lead from before to after {change_of(chosen)}.",
        note=NOTE,
        contents="changes of the components of a step",
        measure=MEASURE,
        first="before",
        last="after",
        start=before,
        steps=steps_of(chosen["parts"], max(before, step)),
    ).in_unit()


def label(change: Values) -> str:
    """Return a change in the letters that fit next to a bar.

    >>> label({"settings": ["cluster.node.interconnect.bandwidth=x2", "plan.zero=1"]})
    '...bandwidth=x2 and 1 more'
    """
    first, *others = change["settings"]
    more = f" and {len(others)} more" if others else ""
    path, equals, value = first.partition("=")
    end = f"{equals}{value}{more}"
    words, cut = path.split("."), ""
    while len(words) > 1 and len(cut + ".".join(words) + end) > _ROOM:
        words, cut = words[1:], "..."
    return f"{cut}{'.'.join(words)}{end}"


_ROOM: Final = 28

MEASURE: Final = Axis("time of a step", "s")
NOTE: Final = "Each bar begins where the one above ends."


__all__ = ["label", "waterfall"]
