"""What leads from a scenario to all its changes: a waterfall of what each of them saves."""

from collections.abc import Sequence
from typing import Final

from clustersim import __version__
from clustersim.metrics.difference import because, claim
from clustersim.render.tables import kind_of, percent
from clustersim.render.waterfall import Step, Waterfall, steps_of
from clustersim.studies.whatif.text import Values, best, change_of, is_in, ran_of


def picture(answer: Values) -> Waterfall | None:
    """Return what leads from the base to all changes together; or to the best, part by part."""
    chosen = best(answer)
    if chosen is None:
        return None
    together = answer["together"]
    if together is not None and together["verdict"] == "ran" and together["sum_s"] is not None:
        return _savings(answer, [each for each in ran_of(answer) if is_in(each, together)])
    return _parts(answer, chosen)


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


def _parts(answer: Values, chosen: Values) -> Waterfall:
    """Return the best change part by part."""
    base, step = answer["base"], chosen["step_time_s"]
    before = base["step_time_s"]
    return Waterfall(
        title=f"{claim('A step', before / step)}{because(chosen['parts'])}",
        caption=f"{base['name']}, before and after {change_of(chosen)}; clustersim {__version__}",
        first="before",
        last="after",
        start=before,
        steps=steps_of(chosen["parts"], max(before, step)),
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


__all__ = ["label", "picture"]
