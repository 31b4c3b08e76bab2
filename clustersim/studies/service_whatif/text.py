"""Changes of a service by what they improve, as text."""

from collections.abc import Mapping
from typing import Final

from clustersim.metrics.difference import format_ratio
from clustersim.render.service_words import format_amount, format_gain, measure_name, part_name
from clustersim.render.tables import Row
from clustersim.simulation.service.measures import service_measures
from clustersim.studies.service_whatif.answer import ServiceChange, ServiceWhatIf

HEADINGS: Final = ("gain", "first token", "each token", "per device", "per user", "change", "")
MEASURES: Final = ("ttft", "tpot", "tokens_per_s_per_device", "tokens_per_s_per_user")
WORDS: Final = HEADINGS[5:]
"""Columns that are words."""

WORTH_IT: Final = 5e-4
"""Gain, less one, below which a change is reported to improve nothing."""


def finding(answer: ServiceWhatIf) -> str:
    """Return which change improves most, in a sentence."""
    best = answer.changes[0]
    if best.gain is None:
        return "no change is valid and fits"
    if best.gain < 1 + WORTH_IT:
        return f"none of the changes improves {measure_name(answer.by)}"
    old, new = service_measures(answer.base)[answer.by], best.measures[answer.by]
    most = "is best" if len(answer.changes) > 1 else "helps"
    return f"{change_text(best)} {most}: {format_gain(answer.by, best.gain, old, new)}"


def change_text(change: ServiceChange) -> str:
    """Return the settings of a change as they are given."""
    return " ".join(change.settings)


def change_table(answer: ServiceWhatIf) -> list[list[str]]:
    """Return the base and the changes that ran, the best first, after the heading."""
    base = ["1", *_cells(service_measures(answer.base)), "base", ""]
    return [[*HEADINGS], base, *(_line(one) for one in answer.changes if one.gain is not None)]


def _line(change: ServiceChange) -> list[str]:
    gain = format_ratio(change.gain or 0.0)
    return [gain, *_cells(change.measures), change_text(change), _part(change)]


def _part(change: ServiceChange) -> str:
    """Return the part of a token's time that changed most."""
    if change.part is None:
        return ""
    sign = "less" if change.parts[change.part] < 0 else "more"
    return f"{sign} {part_name(change.part)}"


def _cells(measures: Mapping[str, float]) -> list[str]:
    return [format_amount(name, measures[name]) if measures.get(name) else "-" for name in MEASURES]


def rows(answer: ServiceWhatIf) -> list[Row]:
    """Return the lines below the table: all changes together, and those without a result."""
    lines = []
    if answer.together is not None:
        lines.append(Row("together", _together(answer, answer.together)))
    elif answer.apart:
        lines.append(Row("together", f"not run: {answer.apart}"))
    for change in answer.changes:
        if change.gain is None:
            label = "memory" if change.fits is False else change.verdict
            lines.append(Row(label, f"{change_text(change)}: {change.why}", warning=True))
    return lines


def _together(answer: ServiceWhatIf, together: ServiceChange) -> str:
    if together.gain is None:
        return f"no result: {together.why}"
    old = service_measures(answer.base)[answer.by]
    text = format_gain(answer.by, together.gain, old, together.measures[answer.by])
    if answer.product is None:
        return text
    return f"{text}; the gains alone multiply to {format_ratio(answer.product)}"
