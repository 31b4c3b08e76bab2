"""A sweep as text: counts by verdict, the best layouts, the front, why others are invalid."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clustersim.memory.room import EXCEEDING, FITS, FITTING, TIGHT
from clustersim.render.tables import UNMASKED, format_setting, short_keys
from clustersim.render.tables import Row as Line
from clustersim.reports.measures import cells, headlines, mark_tight, roomy_row, summary
from clustersim.runs.table import Row
from clustersim.runs.variants import Value
from clustersim.simulation.limits import format_limits
from clustersim.simulation.measures import Measure
from clustersim.studies.sweep.answer import (
    MISSES,
    ReasonCount,
    SweepAnswer,
    ValueChange,
)
from clustersim.units import counted

SHOWN: Final = 10
"""Number of layouts, and of values of an axis, that are printed; half as many reasons are."""


def rows(answer: SweepAnswer) -> list[Line]:
    """Return the answer line by line, without its tables."""
    return [
        Line("axes", _axes(answer)),
        Line("verdicts", _verdicts(answer)),
        *([Line("limits", format_limits(answer.limits, answer.kinds))] if answer.limits else []),
        *_best(answer),
        *([Line("MFU", UNMASKED)] if any(row.get("mfu", 0) > 1 for row in answer.fitting) else []),
        *([Line("rate", answer.rate)] if answer.rate else []),
        *(line._replace(warning=True) for line in _reasons("not ranked", answer.unranked, answer)),
        *_reasons("invalid", answer.invalid, answer),
        *_reasons("failed", answer.failed, answer),
    ]


def layout_tables(answer: SweepAnswer) -> list[tuple[str, list[list[str]]]]:
    """Return the best combinations and the front, each with a heading; none where nothing fits."""
    if not answer.fitting:
        return []
    best, front = answer.fitting[:SHOWN], answer.front
    heading = counted(len(best), "best layout")
    if answer.counts.within == 1:
        heading = "the only layout that fits"
    sections = [(heading, layouts(answer, best))]
    if len(front) > 1:
        heading = f"Pareto front of {answer.measure.label} and {answer.cost.label}"
        sections.append((heading, layouts(answer, front[-SHOWN:])))
    return sections


def layouts(answer: SweepAnswer, found: Sequence[Row]) -> list[list[str]]:
    """Return combinations as a table, the headings first."""
    keys, measures = answer.varying, shown_measures(answer)
    table = [[*short_keys(keys), *(measure.heading for measure in measures)]]
    for row in found:
        table.append([*(format_setting(row.get(key)) for key in keys), *cells(measures, row)])
    return mark_tight(table, [row["verdict"] == TIGHT for row in found])


def shown_measures(answer: SweepAnswer) -> list[Measure]:
    """Return the measures of a table: headlines, `by`, and devices where their number varies."""
    several = len({row["devices"] for row in answer.fitting}) > 1
    names = [m.name for m in headlines(answer.kinds, answer.fitting)]
    return headlines(answer.kinds, answer.fitting, *names, answer.by, *["devices"] * several)


# --- texts ----------------------------------------------------------------------------------------


def point_of(keys: Sequence[str], point: Mapping[str, Any]) -> str:
    """Return a point as text: ``'tensor 8, pipeline 4'``."""
    names = zip(keys, short_keys(keys), strict=True)
    return ", ".join(f"{name} {format_setting(point[key])}" for key, name in names if key in point)


def _axes(answer: SweepAnswer) -> str:
    texts = []
    for key, name in zip(answer.axes, short_keys([*answer.axes]), strict=True):
        values = answer.axes[key]
        shown = "filled" if key in answer.filled else format_values(values)
        texts.append(f"{name} {shown}")
    return f"{counted(len(answer.points), 'combination')}: {'; '.join(texts)}"


def _verdicts(answer: SweepAnswer) -> str:
    counts = answer.counts
    unranked = counts.within - len(answer.ranked)
    notes = [f"{counts.tight:,} tight"] if counts.tight else []
    if unranked:
        notes.append(f"{unranked:,} without {answer.measure.label}, not ranked")
    fit = _verb(counts.within, "fits", "fit") + (f" ({'; '.join(notes)})" if notes else "")
    unfit, unlikely = "not fit in memory (not replayed)", counts.probably_does_not_fit
    others = (
        (counts.misses, "misses a limit", "miss a limit"),
        (unlikely, f"probably does {unfit}", f"probably do {unfit}"),
        (counts.does_not_fit, f"does {unfit}", f"do {unfit}"),
        (counts.invalid, "invalid", "invalid"),
        (counts.failed, "failed", "failed"),
    )
    return ", ".join([fit, *(_verb(*other) for other in others if other[0])])


def _verb(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def _best(answer: SweepAnswer) -> list[Line]:
    """Return the best layout, and what it changes in the scenario."""
    if not answer.fitting:
        return [Line("best", _none(answer), warning=True)]
    best = answer.fitting[0]
    keys = [key for key in answer.varying if key in best] or [*answer.axes]
    changes = zip(answer.changed.values(), short_keys([*answer.changed]), strict=True)
    changed = [f"{name} {_old(change)} -> {format_setting(change.to)}" for change, name in changes]
    tight = " (tight in memory)" if best["verdict"] == TIGHT else ""
    roomy = next((row for row in answer.fitting if row["verdict"] == FITS), None) if tight else None
    return [
        Line("best", f"{point_of(keys, best)}{tight}: {summary(answer.kinds, best, answer.by)}"),
        *([] if roomy is None else [
            roomy_row(answer.kinds, answer.by, best, point_of(keys, roomy), roomy)
        ]),
        Line("changes", ", ".join(changed) or "none (the scenario itself is the best)"),
    ]  # fmt: skip


def _none(answer: SweepAnswer) -> str:
    """Return why there is no best combination: the reason of the one with the least memory."""
    ran = [row for row in answer.points if row["verdict"] in (MISSES, *EXCEEDING, *FITTING)]
    if not ran:
        return "no combination is valid"
    fit = [row for row in ran if row["verdict"] not in EXCEEDING]
    first = fit[0] if fit else min(ran, key=lambda row: row.get("memory_peak_bytes") or math.inf)
    rule = "fits and meets the limits" if answer.limits else "fits"
    if first["verdict"] in FITTING:
        rule = "has the measure"
    return f"no layout {rule}; {point_of([*answer.axes], first)}: {first['why']}"


def _old(change: ValueChange) -> str:
    return "unset" if change.from_ is None else format_setting(change.from_)


def _reasons(label: str, reasons: Sequence[ReasonCount], answer: SweepAnswer) -> list[Line]:
    """Return the most frequent reasons, and the number of further ones."""
    shown, rest = reasons[: SHOWN // 2], len(reasons[SHOWN // 2 :])
    texts = [f"{reason_scope(reason, answer)}: {reason.why}" for reason in shown]
    if rest:
        texts.append(f"and {counted(rest, 'more reason')} (the page and --json list all)")
    return [Line(label, text, warning=label == "failed") for text in texts]


def reason_scope(reason: ReasonCount, answer: SweepAnswer) -> str:
    """Return the combinations with a reason: ``'tensor 5, 7, 9 (18 combinations)'``."""
    keys = [*answer.axes]
    if reason.count == 1:
        return f"{point_of(keys, reason.example)} (1 combination)"
    if reason.count == len(answer.points):
        return f"all {counted(reason.count, 'combination')}"
    names = dict(zip(keys, short_keys(keys), strict=True))
    values = "; ".join(
        f"{names[key]} {format_values(values)}" for key, values in reason.values.items()
    )
    if not values:
        example = point_of(keys, reason.example)
        return f"{counted(reason.count, 'combination')}, such as {example}"
    points = answer.points
    always = sum(
        any(point.get(key) in found for key, found in reason.values.items()) for point in points
    )
    others = " and others" if reason.count > always else ""
    return f"{values}{others} ({counted(reason.count, 'combination')})"


def format_values(values: Sequence[Value]) -> str:
    """Return values of an axis, three or more successive whole numbers as a range.

    >>> format_values([1, 3, 5, 6, 7]), format_values(["none", "full"])
    ('1, 3, 5-7', 'none, full')
    """
    runs: list[list[Value]] = []
    for value in values:
        if runs and type(value) is int and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    texts: list[str] = []
    for run in runs:
        short = len(run) > 2
        texts += [f"{run[0]}-{run[-1]}"] if short else [*map(format_setting, run)]
    return ", ".join(texts[:SHOWN]) + (", ..." if len(texts) > SHOWN else "")
