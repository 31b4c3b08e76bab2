"""A search of a service as text: the best layout first, then what became of the others."""

from collections.abc import Mapping
from typing import Any, Final

from clustersim.render.tables import Row, percent
from clustersim.reports.measures import amount, cells, format_ratio
from clustersim.reports.service.text import layout_text
from clustersim.runs.limits import format_limits
from clustersim.scenario.serving import ReplicaFile
from clustersim.studies.service_search.answer import FoundService, ServiceSearch
from clustersim.studies.service_search.bounded_search import SERVICE
from clustersim.units import format_seconds

SHOWN: Final = (
    "ttft", "tpot", "tokens_per_s", "tokens_per_s_per_device", "tokens_per_s_per_user", "devices",
)  # fmt: skip
"""Measures of the table."""

REASONS: Final = 2
"""Reasons of invalid layouts that are printed."""


def rows(answer: ServiceSearch) -> list[Row]:
    """Return the answer line by line, without its table."""
    return [
        *_best(answer),
        Row("layouts", _layouts(answer)),
        *([Row("limits", _limits(answer))] if answer.limits else []),
        *_reasons(answer),
    ]


def _best(answer: ServiceSearch) -> list[Row]:
    best = answer.best
    if best is None:
        why = "" if answer.nearest is None else f"; the nearest is {answer.nearest}"
        return [Row("best", f"no layout fits and meets the limits{why}", warning=True)]
    measure, value = SERVICE[answer.objective], best.measures[answer.objective]
    lines = [Row("best", f"{found_text(best)}: {amount(measure, value)}")]
    own = answer.own.get(answer.objective)
    if own:
        ratio = measure.gain(own, value) or 0.0
        text = (
            f"{format_ratio(ratio)} times as good as that of the scenario ({amount(measure, own)})"
        )
        lines.append(Row("gain", text))
    return [*lines, Row("proof", _proof(answer))]


def _proof(answer: ServiceSearch) -> str:
    """Return how sure the best layout is."""
    tight = ""
    if answer.tightness is not None:
        tight = f"; bounds are tight to {percent(answer.tightness)} (median of the replays)"
    if answer.gap is None:
        return "none: too few requests are measured for a bound (load.requests)"
    if not answer.gap:
        return f"no other layout of at most {answer.devices:,} devices is better{tight}"
    return f"no other layout can be better by more than {percent(answer.gap)}{tight}"


def _layouts(answer: ServiceSearch) -> str:
    found = answer.layouts
    parts = (
        ("invalid", found.invalid),
        ("do not fit", found.memory),
        ("cannot meet the limits", found.limits),
        ("bounded away", found.bounded),
        ("simulated", found.replayed),
    )
    named = ", ".join(f"{count:,} {name}" for name, count in parts if count)
    return f"{found.possible:,} possible: {named}; {format_seconds(answer.wall_s, 3)}"


def _limits(answer: ServiceSearch) -> str:
    return f"{format_limits(answer.limits, ['service'])} (means)"


def _reasons(answer: ServiceSearch) -> list[Row]:
    reasons = [*answer.excluded.items()][:REASONS]
    return [Row("invalid", f"{why} ({count:,} layouts)") for why, count in reasons]


def found_text(found: FoundService) -> str:
    """Return a layout in words, with further values that were free."""
    free = "".join(f", {key} {value}" for key, value in found.set.items())
    return plan_text(found.plan) + free


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return the key `plan` of a service in words."""
    if "prefill" in plan:
        pools = (f"{name} {layout_text(_pool(plan[name]))}" for name in ("prefill", "decode"))
        return "; ".join(pools)
    return layout_text(_pool(plan))


def _pool(plan: Mapping[str, Any]) -> ReplicaFile:
    own = {key: value for key, value in plan.items() if key in ReplicaFile.model_fields}
    return ReplicaFile.model_validate(own)


def found_table(answer: ServiceSearch) -> list[list[str]]:
    """Return the best layouts, the best first, their headings first."""
    names = ["first token", "each token", "tokens/s", "per device", "per user", "devices"]
    table = [["layout", *names]] if answer.ranked else []
    for found in answer.ranked:
        shown = cells([SERVICE[name] for name in SHOWN], found.measures)
        table.append([found_text(found), *shown])
    return table
