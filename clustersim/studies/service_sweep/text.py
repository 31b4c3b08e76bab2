"""A sweep of a service as text: the best combination within the limits, and all of them."""

from collections import Counter
from typing import Final

from clustersim.render.service_words import format_measure
from clustersim.render.tables import Row
from clustersim.render.words import format_setting, short_keys
from clustersim.studies.service_sweep.answer import ServedPoint, ServiceSweep
from clustersim.units import counted, format_number, format_seconds

SHOWN: Final = 12
"""Combinations that are printed."""


def rows(answer: ServiceSweep) -> list[Row]:
    """Return the answer line by line, without its table."""
    counts = Counter(point.verdict for point in answer.points)
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    limits = ", ".join(f"{name} {format_seconds(s, 3)}" for name, s in answer.limits.items())
    lines = [
        Row("combinations", f"{counted(len(answer.points), 'combination')}: {verdicts}"),
        *([Row("limits", f"{limits} (means)")] if limits else []),
    ]
    if answer.best is None:
        return [Row("best", _none(answer), warning=True), *lines]
    best = answer.points[answer.best]
    return [
        Row("best", f"{format_point(best)}: {format_measure(answer.by, best.measures[answer.by])}"),
        *lines,
        *_wrong(answer),
    ]


def _none(answer: ServiceSweep) -> str:
    """Return why no combination meets the limits: the reason of the first."""
    first = answer.points[0]
    return f"no combination meets the limits; {format_point(first)}: {first.why}"


def _wrong(answer: ServiceSweep) -> list[Row]:
    """Return the first reasons of combinations that did not run."""
    wrong = [point for point in answer.points if not point.measures]
    return [Row(point.verdict, f"{format_point(point)}: {point.why}") for point in wrong[:3]]


def combination_table(answer: ServiceSweep, most: int | None = SHOWN) -> list[list[str]]:
    """Return the combinations that ran, the best first, their headings first."""
    others = [i for i, p in enumerate(answer.points) if p.measures and i not in answer.ranked]
    order = [*answer.ranked, *others][:most]
    keys = answer.keys
    heads = [*short_keys(keys), "first token", "each token", "tokens/s", "per device", "per user"]
    table = [[*heads, "devices", "limits"]]
    for position in order:
        point = answer.points[position]
        found = point.measures
        table.append(
            [
                *(format_setting(point.point.get(key)) for key in keys),
                format_seconds(found["ttft"], 3),
                format_seconds(found["tpot"], 3),
                *(
                    format_number(found[name])
                    for name in (
                        "tokens_per_s", "tokens_per_s_per_device", "tokens_per_s_per_user",
                    )
                ),
                f"{found['devices']:,.0f}",
                "met" if position in answer.ranked else "missed",
            ]
        )  # fmt: skip
    return table


def format_point(point: ServedPoint) -> str:
    """Return the values of a combination in a line."""
    keys = [*point.point]
    names = zip(keys, short_keys(keys), strict=True)
    return ", ".join(f"{name} {format_setting(point.point[key])}" for key, name in names)
