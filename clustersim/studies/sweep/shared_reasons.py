"""Why combinations are invalid: each problem once, with the values that always have it.

A message joins all problems of a combination.  Problems that differ only by their numbers are one
reason: tensor 5, 7 and 9 do not divide the attention heads.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from clustersim.catalog.changes import setting_place
from clustersim.runs.variants import Run, Value, Variant
from clustersim.studies.sweep.answer import ReasonCount
from clustersim.studies.sweep.arguments import FILL
from clustersim.studies.sweep.combinations import points_of

_START: Final = "\0"
"""Mark of the beginning of a problem."""

_PLACE: Final = re.compile(r"(^|; )(?:--set [^:;]+|[^:;]*\.ya?ml(?::\d+)?): ")
"""File and line, or setting, with which a problem begins."""


def reasons_of(both: Sequence[tuple[Variant, Run]], verdict: str) -> tuple[ReasonCount, ...]:
    """Return the reasons of combinations with a verdict, the most frequent first."""
    messages: dict[str, str] = {}
    groups: dict[str, dict[int, None]] = {}
    for position, (variant, run) in enumerate(both):
        if run.verdict == verdict:
            for problem in _problems(run.why or "", variant):
                pattern = _pattern(problem)
                messages.setdefault(pattern, problem)
                groups.setdefault(pattern, {})[position] = None
    points = [variant.point for variant, _ in both]
    axes = points_of([variant for variant, _ in both])
    return tuple(
        ReasonCount(
            why=messages[pattern],
            count=len(found),
            example=dict(points[next(iter(found))]),
            values=_always(found, points, axes),
        )
        for pattern, found in sorted(groups.items(), key=lambda group: -len(group[1]))
    )


def _problems(why: str, variant: Variant) -> Iterator[str]:
    """Yield the problems of a message, without the files and settings that they begin with."""
    for setting in variant.settings:
        why = why.replace(f"{setting_place(str(setting))}: ", _START)
    marked = _PLACE.sub(rf"\1{_START}", why)
    for problem in re.split(rf"(?:^|; ){_START}+", marked):
        if problem:
            yield problem.replace(_START, "")


def _pattern(problem: str) -> str:
    """Return a problem without its numbers and without advice in parentheses."""
    return re.sub(r"\d[\d,.]*", "#", re.sub(r"\([^()]*\)", "", problem))


def _always(
    found: Mapping[int, None],
    points: Sequence[Mapping[str, Value]],
    axes: Mapping[str, Sequence[Value]],
) -> dict[str, tuple[Value, ...]]:
    """Return values of axes with which every combination is among those found, if any."""
    if len(found) == len(points):
        return {}
    always: dict[str, tuple[Value, ...]] = {}
    remaining = set(found)
    for key, values in axes.items():
        others = {FILL, *(point.get(key) for i, point in enumerate(points) if i not in found)}
        full = tuple(value for value in values if value not in others)
        covered = {i for i in remaining if points[i].get(key) in full}
        if covered:
            always[key] = full
            remaining -= covered
    return always
