"""A search as text: the best layout, the proof, the counts, and what it is better than."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clustersim.render.tables import Row as Line
from clustersim.render.tables import format_setting, percent, short_keys
from clustersim.reports.measures import (
    cells,
    goodput_rows,
    headlines,
    mark_tight,
    roomy_row,
    summary,
)
from clustersim.simulation.limits import format_limits
from clustersim.simulation.measures import BRIEF, Measure
from clustersim.studies.search.answer import (
    BestRun,
    LayoutDifference,
    RankedLayout,
    SearchAnswer,
)
from clustersim.units import counted, format_number, format_seconds

SHOWN: Final = 10
"""Number of layouts that are printed; half as many rules are."""

ALWAYS: Final = ("plan.tensor", "plan.pipeline", "plan.data", "batch.micro", "recompute")
"""Keys of a layout that are always printed."""

ORDER: Final = "plan.placement.order"

POOLS: Final = ("prefill", "decode")
"""Pools of replicas of a service."""


def rows(answer: SearchAnswer) -> list[Line]:
    """Return the answer line by line, without its table."""
    limits = format_limits(answer.limits, answer.kinds)
    return [
        *_best(answer),
        *([Line("offload", answer.offload_text, caution=True)] if answer.offload else []),
        *_margin(answer),
        *([Line("rate", answer.rate)] if answer.rate else []),
        Line("proof", _proof(answer), warning=answer.best is None),
        Line("layouts", _counts(answer)),
        *([Line("limits", limits)] if limits else []),
        *goodput_rows(answer.goodput, answer.limits),
        *(Line(f"vs {one.against}", _difference(one)) for one in answer.differences),
        *_ties(answer),
        Line("searched in", _time(answer)),
    ]


def format_layout_values(values: Mapping[str, Any]) -> str:
    """Return the values of a layout in words; of the pools of a service one after the other.

    >>> format_layout_values({"plan.tensor": 8, "plan.pipeline": 4})
    'tensor 8, pipeline 4'
    >>> format_layout_values({"plan.prefill.tensor": 2, "plan.decode.tensor": 4})
    'prefill tensor 2; decode tensor 4'
    """
    if has_pools(values):
        pools = {
            pool: {
                key.replace(f"{pool}.", ""): value
                for key, value in values.items()
                if key.startswith(f"plan.{pool}.")
            }
            for pool in POOLS
        }
        words = [f"{pool} {format_layout_values(of)}" for pool, of in pools.items()]
        others = {k: v for k, v in values.items() if not k.startswith("plan.")}
        return "; ".join([*words, *([format_layout_values(others)] if others else [])])
    keys = [key for key in values if is_notable(key, values)]
    names = zip(keys, short_keys(keys), strict=True)
    return ", ".join(f"{name} {format_part_of(key, values)}" for key, name in names)


def has_pools(values: Mapping[str, Any]) -> bool:
    """Return whether a layout has replicas of their own for prompts."""
    return any(key.startswith("plan.prefill.") for key in values)


def format_part_of(key: str, values: Mapping[str, Any]) -> str:
    """Return a value of a layout as it is printed; of an order the axes that have several ranks."""
    if key != ORDER or not values[key]:
        return format_part(values[key])
    return format_part([axis for axis in values[key] if values.get(f"plan.{axis}", 2) != 1])


def is_notable(key: str, values: Mapping[str, Any]) -> bool:
    """Return whether a key of a layout differs from its usual value."""
    plain = {"plan.layers": "even", "plan.sequence_parallel": False, "plan.shard": 0}
    plain |= {"plan.context": 1, "plan.expert": 1, "plan.expert_tensor": 1, "plan.zero": 0}
    plain |= {"plan.chunks": 1, "plan.attention_data": 1}
    if key == ORDER:
        degrees = ("plan.tensor", "plan.context", "plan.data", "plan.pipeline")
        usual = [axis.removeprefix("plan.") for axis in degrees if values.get(axis, 1) != 1]
        order = [axis for axis in values[key] if axis in usual]
        return bool(order != usual)
    if key == "plan.schedule" and values.get("plan.pipeline") == 1:
        return False
    if key == "plan.expert" and values.get("plan.expert_tensor", 1) > 1:
        return True  # next to which it is not clear without experts
    return key not in plain or values[key] != plain[key]


def format_part(value: Any) -> str:
    """Return a value of a layout as it is printed: orders and tables in a word or two."""
    if isinstance(value, Mapping):
        return " ".join(format_setting(each) for each in _brief(value))
    if isinstance(value, list | tuple):
        return "-".join(map(str, value))
    return format_setting(value)


def _brief(table: Mapping[str, Any]) -> list[Any]:
    """Return a table of recomputation in words."""
    if "ops" in table:
        return ["some operations"]
    return [table["mode"], *(["every", table["every"]] if "every" in table else [])]


def _best(answer: SearchAnswer) -> list[Line]:
    if not answer.ranked:
        rate = " and sustains the rate" if "service" in answer.kinds else ""
        within = " and meets the limits" if answer.limits else rate
        why = "" if answer.nearest is None else f"; the nearest is {answer.nearest}"
        if answer.layouts.open and not answer.layouts.replayed:
            text = "no layout was replayed before the time was over (allow more with --seconds)"
            return [Line("best", text, warning=True)]
        what = "layout that was replayed" if answer.layouts.open else "layout"
        return [Line("best", f"no {what} fits in memory{within}{why}", warning=True)]
    best = answer.ranked[0]
    speed = summary(answer.kinds, best.measures, answer.by)
    tight = " (tight in memory)" if best.tight else ""
    lines = [Line("best", format_layout_values(best.set_) + tight), Line("", speed)]
    return [*lines, *_devices(answer)]


def _devices(answer: SearchAnswer) -> list[Line]:
    """Return that the best by device leaves devices idle, and what searches for all of them."""
    used, most = answer.ranked[0].measures["devices"], answer.devices[0]
    if "service" not in answer.kinds or not answer.by.endswith("_per_device") or used >= most:
        return []
    text = f"{used:,.0f} of {most:,}, as the objective is of a device; of all of them:"
    return [Line("devices", f"{text} --objective {answer.by.removesuffix('_per_device')}")]


def _margin(answer: SearchAnswer) -> list[Line]:
    """Return the best layout with room, where the best has less than predictions can be off."""
    if not isinstance(answer.best, BestRun):
        return []
    memory = answer.best.memory
    if not memory.tight or memory.errors.above is None:
        return []
    room = memory.capacity_bytes / memory.errors.above
    text = f"the best has less room than predictions of memory can be off ({memory.verdict})"
    return [Line("margin", text, caution=True), *_roomy(answer, room)]


def _roomy(answer: SearchAnswer, room: float) -> list[Line]:
    """Return the best layout with that margin: its need leaves it, whatever the allocator holds."""
    if answer.roomy is None:
        none = "no layout has that margin" if answer.roomy_proven else "none was replayed in time"
        return [Line("with margin", none)]
    layout, best = format_layout_values(answer.roomy.set_), answer.ranked[0].measures
    unsure = "" if answer.roomy_proven else " (the time was over: another one may be better)"
    if answer.roomy.measures["memory_peak_bytes"] > room:
        unsure += "; its allocator can give back what is more than its need"
    return [roomy_row(answer.kinds, answer.by, best, layout, answer.roomy.measures, unsure)]


def _proof(answer: SearchAnswer) -> str:
    """Return by how much another layout can be better at most."""
    if answer.layouts.unbounded:
        return (
            f"none: the time was over before {answer.layouts.unbounded:,} layouts had a bound"
            " (allow more with --seconds, or fix keys of the layout with --set)"
        )
    if answer.best is None and answer.layouts.open:
        return f"none: the time was over with {counted(answer.layouts.open, 'open layout')}"
    if answer.best is None:
        return "all layouts were examined or excluded"
    if answer.gap is None:
        return "none: too few requests are measured for a bound (load.requests)"
    if answer.gap == 0:
        proven = "no other layout is better"
        if answer.proven > 1:
            proven += f", and the {answer.proven} best are known"
    else:
        proven = f"no other layout is more than {percent(answer.gap)} better"
    tight = "" if answer.tightness is None else f"; median bound {percent(answer.tightness)}"
    return f"{proven}{tight} of the replays" if tight else proven


def _time(answer: SearchAnswer) -> str:
    known = answer.fresh == 0 and answer.layouts.replayed
    cached = ", the answer is in the run cache" if known else ""
    return f"{format_seconds(answer.wall_s, 3)}{cached}"


def _counts(answer: SearchAnswer) -> str:
    counts = answer.layouts
    valid = counts.possible - counts.excluded
    share = f" ({format_number(100 * counts.replayed / valid, 2)} %)" if valid else ""
    texts = [
        f"{counts.possible:,} possible",
        f"{counts.excluded:,} excluded by rules",
        f"{counts.memory:,} by memory",
        f"{counts.bounded:,} by bounds",
        f"{counts.replayed:,} replayed{share}",
    ]
    if counts.limited:
        texts.append(f"{counts.limited:,} by limits")
    if counts.open:
        texts.append(f"{counts.open:,} open")
    return ", ".join(texts)


def _difference(one: LayoutDifference) -> str:
    if one.why is not None:
        return one.why
    return f"{one.finding} (instead of {format_changes(one.set_)})"


def format_changes(values: Mapping[str, Any]) -> str:
    """Return values that differ, in words."""
    keys = [key for key in values if key != ORDER and values[key] is not None]
    names = zip(keys, short_keys(keys), strict=True)
    texts = [f"{name} {format_part(values[key])}" for key, name in names]
    if not texts and ORDER in values:
        texts = [f"order {format_part(values[ORDER])}"]
    return ", ".join(texts) or "the same layout"


def _ties(answer: SearchAnswer) -> list[Line]:
    """Return how many layouts lie within the prediction interval of the best."""
    best = answer.best
    if not isinstance(best, BestRun) or best.interval.high_s is None:
        return []
    ties = sum(one.tie for one in answer.ranked[1:])
    level = f"{100 * best.interval.level:.0f} % interval of the prediction"
    text = f"{counted(ties, 'other replayed layout')} within the {level}, up to"
    return [Line("ties", f"{text} {format_seconds(best.interval.high_s, 3)}")]


def rule_rows(answer: SearchAnswer) -> list[Line]:
    """Return the rules that exclude most layouts."""
    texts = [f"{rule.count:,}: {rule.why}" for rule in answer.rules[: SHOWN // 3]]
    rest = len(answer.rules) - len(texts)
    if rest > 0:
        texts[-1] += f" (and {counted(rest, 'more rule')})"
    return [Line("rules" if not at else "", text) for at, text in enumerate(texts)]


# --- table ----------------------------------------------------------------------------------------


def layout_table(answer: SearchAnswer) -> list[list[str]]:
    """Return the best layouts as a table, its headings first.

    Of layouts that differ in their order only, and take equal time, the first is in it.
    """
    found = distinct(answer.ranked)[:SHOWN]
    if not found:
        return []
    keys, measures = layout_keys(found), shown_measures(answer)
    pools = any(has_pools(one.set_) for one in found)
    heads = ["layout"] if pools else short_keys(keys)
    table = [[*heads, *(measure.heading for measure in measures), "bound"]]
    for one in found:
        values = [format_part_of(key, one.set_) if key in one.set_ else "" for key in keys]
        values = [format_layout_values(one.set_)] if pools else values
        table.append([*values, *cells(measures, one.measures), format_bound(one, answer)])
    return mark_tight(table, [one.tight for one in found])


def shown_measures(answer: SearchAnswer) -> list[Measure]:
    """Return the measures of a table: headlines, the objective, and devices where they vary."""
    numbers = [one.measures for one in answer.ranked]
    several = len({each["devices"] for each in numbers}) > 1
    names = [measure.name for measure in headlines(answer.kinds, numbers, of=BRIEF)]
    more = [answer.by, *["devices"] * several]
    return headlines(answer.kinds, numbers, *names, *more, of=BRIEF)


def format_bound(layout: RankedLayout, answer: SearchAnswer) -> str:
    """Return how much of the cost of a layout its bound is, in percent."""
    if layout.bound is None:
        return "-"
    gain = answer.measure.gain(layout.bound, layout.value) or 0.0
    return percent(gain)


def distinct(ranked: Sequence[RankedLayout]) -> list[RankedLayout]:
    """Return layouts without those that differ from another one in the order of their axes only."""
    known: dict[str, RankedLayout] = {}
    for one in ranked:
        values = {key: value for key, value in one.set_.items() if key != ORDER}
        known.setdefault(f"{values} {one.value!r}", one)
    return [*known.values()]


def layout_keys(found: Sequence[RankedLayout]) -> list[str]:
    """Return the keys of the columns: those in which some layout differs from the usual value."""
    keys = dict.fromkeys(key for one in found for key in one.set_)
    return [
        key
        for key in keys
        if key in ALWAYS or any(key in one.set_ and is_notable(key, one.set_) for one in found)
    ]
