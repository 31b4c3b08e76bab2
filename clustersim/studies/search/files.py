"""The files of a search: replayed layouts and rules as tables, charts, and a page."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from clustersim.catalog.writing import to_yaml
from clustersim.render.charts.bars import Waterfall, time_unit
from clustersim.render.charts.lines import Lines, ScatterWithFront, Series, reference
from clustersim.render.charts.picture import Axis, Picture, text_table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import labelled, percent, short_keys
from clustersim.reports.fronts import FrontLayout, front_chart
from clustersim.reports.measures import cells, headlines, mark_tight, waterfall
from clustersim.simulation.measures import BRIEF, Account, ParetoFront, measures_of
from clustersim.studies.search.answer import (
    LayoutDifference,
    RankedLayout,
    SearchAnswer,
)
from clustersim.studies.search.text import (
    distinct,
    format_bound,
    format_layout_values,
    format_part,
    format_part_of,
    layout_keys,
    rows,
    shown_measures,
)
from clustersim.units import counted

if TYPE_CHECKING:
    import pandas as pd


def files_of(answer: SearchAnswer, command: str = "") -> StudyFiles:
    """Return the files of a search; `command` is its command line, for the page."""
    figures: dict[str, Picture] = {
        f"why-{one.against}": chart
        for one in answer.differences
        if (chart := layout_waterfall(one)) is not None
    }
    if len(answer.ranked) > 1:
        for front in answer.pareto:
            name = front.against.removesuffix("_peak_bytes")
            figures[f"pareto-{name}"] = layout_front(answer, front)
    if (bounds := bound_chart(answer)) is not None:
        figures["bounds"] = bounds
    frames = {"search.csv": layouts_frame(answer)} if answer.ranked or answer.missed else {}
    rules = [("layouts", "rule"), *((rule.count, rule.why) for rule in answer.rules)]
    return StudyFiles(answer, partial(page, answer, command), {"rules.csv": rules}, figures, frames)


def layouts_frame(answer: SearchAnswer) -> "pd.DataFrame":
    """Return the layouts that were replayed and fit, the best first, then those outside limits."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                **{key: format_part(value) for key, value in one.set_.items()},
                "bound": one.bound,
                **one.measures,
                "tie": one.tie,
                "missed": one.missed,
                **{
                    f"on_the_front_of_{front.against}": place in front.positions
                    for front in answer.pareto
                },
            }
            for place, one in enumerate((*answer.ranked, *answer.missed))
        ]
    )


SHOWN: Final = 200
"""Maximum number of layouts in the table; `search.csv` has all."""


def page(answer: SearchAnswer, command: str = "") -> Page:
    """Return the page of a search; `command` is its command line."""
    sections = [_summary(answer)]
    charts = tuple(page_chart(c) for one in answer.differences if (c := layout_waterfall(one)))
    if charts:
        sections.append(Section("Causes", "why", (), charts))
    if answer.ranked:
        sections.append(_ranking(answer))
    if len(answer.ranked) > 1:
        fronts = tuple(page_chart(layout_front(answer, front)) for front in answer.pareto)
        sections.append(Section("Pareto fronts", "pareto", (), fronts))
    if (chart := bound_chart(answer)) is not None:
        sections.append(Section("Bounds and replays", "bounds", (), (page_chart(chart),)))
    counts = answer.layouts
    subtitle = f"{counts.possible:,} possible layouts, {counts.replayed:,} replayed"
    return Page(answer.title, subtitle, (*sections, *_rules(answer)), command)


def _summary(answer: SearchAnswer) -> Section:
    table = text_table("Summary", ("item", "value"), labelled(rows(answer)))
    return Section("Best layout", "answer", (), (Cards(_cards(answer)), table))


def _cards(answer: SearchAnswer) -> tuple[Card, ...]:
    counts = answer.layouts
    valid = counts.possible - counts.excluded
    replayed = Card("layouts replayed", f"{counts.replayed:,}", f"of {valid:,} that are valid")
    if not answer.ranked:
        return (Card("best layout", "none", rows(answer)[0].text, warning=True), replayed)
    best = answer.ranked[0]
    first, *others = headlines(answer.kinds, [best.measures], answer.by, of=BRIEF)
    gap = "no bound" if answer.gap is None else percent(answer.gap)
    return (
        Card(first.label, first.text(best.value), format_layout_values(best.set_)),
        *(Card(measure.label, measure.text(best.measures[measure.name])) for measure in others),
        Card("another layout is better by at most", gap),
        replayed,
    )


def _ranking(answer: SearchAnswer) -> Section:
    """Return the table of layouts: a column for each key in which they differ.

    What they have in common is a sentence.  Layouts that differ in their order only, and take
    equal time, are one line.
    """
    every = distinct(answer.ranked)
    found, measures = every[:SHOWN], shown_measures(answer)
    values = {
        key: [format_part_of(key, one.set_) if key in one.set_ else "" for one in found]
        for key in layout_keys(found)
    }
    shared = [key for key, column in values.items() if len(found) > 1 and len({*column}) == 1]
    columns = {key: column for key, column in values.items() if key not in shared}
    heads = [
        f">{name.removeprefix('plan.')}" if all(each.isdecimal() for each in column) else name
        for name, column in zip(short_keys([*columns]), columns.values(), strict=True)
    ]
    lines = [
        [f"{rank:,}", *of_keys, *cells(measures, one.measures), format_bound(one, answer)]
        for rank, (one, *of_keys) in enumerate(zip(found, *columns.values(), strict=True), 1)
    ]
    names = [">rank", *heads, *(f">{m.column}" for m in measures), ">bound over replay"]
    names, *lines = mark_tight([names, *lines], [one.tight for one in found])
    more = len(every) - SHOWN
    rest = f"; {more:,} more are in search.csv" if more > 0 else ""
    table = text_table(f"Layouts that fit, the best first{rest}", names, lines, "Find layouts")
    common = ", ".join(
        f"{name} {values[key][0]}" for key, name in zip(shared, short_keys(shared), strict=True)
    )
    prose = (f"All of these layouts have {common}.",) if shared else ()
    return Section("Replayed layouts", "layouts", prose, (table,))


def _rules(answer: SearchAnswer) -> tuple[Section, ...]:
    """Return the rules with the layouts that they exclude; no section without any."""
    if not answer.rules:
        return ()
    names = (">layouts", "rule, with the numbers of the first layout")
    table = text_table("Rules", names, ((f"{rule.count:,}", rule.why) for rule in answer.rules))
    return (Section("Excluded layouts", "rules", (), (table,)),)


def scenario_text(scenario: Mapping[str, Any], gap: float | None, command: str) -> str:
    """Return the scenario of the best layout as a file, with the command that found it.

    Parameters
    ----------
    gap : by how much another layout can be better at most, share of the best; None if not known
    """
    proof = "" if gap is None else f", at most {100 * gap:.1f} % from the best"
    return to_yaml(dict(scenario), [f"The best layout of `{command}`{proof}."])


OTHERS: Final = {"second": "second layout", "scenario": "layout of the scenario"}

LEAST: Final = 2
"""Points of a chart that is worth drawing."""


def layout_waterfall(one: LayoutDifference) -> Waterfall | None:
    """Return the changes of the account from another layout to the best one, if it is known."""
    if one.account is None or one.before is None or not one.parts:
        return None
    total = Account(one.account, one.label, "d" if one.account == "run" else "s", {"": one.before})
    return waterfall((OTHERS[one.against], "best layout"), total, one.parts)


def layout_front(answer: SearchAnswer, front: ParetoFront) -> ScatterWithFront:
    """Return the layouts that were replayed and fit, and those on a front."""
    layouts = [FrontLayout(one.measures, format_layout_values(one.set_)) for one in answer.ranked]
    cost = measures_of(answer.kinds)[front.against]
    return front_chart(
        layouts, front.positions, answer.measure, cost, title=answer.title, best="best layout"
    )


def bound_chart(answer: SearchAnswer) -> Lines | None:
    """Return the objective of each replayed layout over its bound; None with fewer than two."""
    every = [one for one in (*answer.ranked, *answer.missed) if one.bound]
    if len(every) < LEAST or answer.tightness is None:
        return None
    measure = answer.measure
    ends = [value for one in every for value in (one.bound or 0.0, one.value)]
    factor, unit = time_unit(max(ends)) if measure.unit == "s" else (1.0, measure.unit)
    line = factor * min(ends), factor * max(ends)
    side = "above" if measure.more_is_better else "below"
    series = [
        _bounds("within the limits" if answer.limits else "replayed", every, factor, "compute"),
        _bounds("misses a limit", [one for one in every if one.missed], factor, "quiet", "x"),
        reference("bound", line, line),
    ]
    if answer.ranked:
        series.append(_bounds("best", [answer.ranked[0]], factor, "warning", "star"))
    return Lines(
        title=f"Bounds are {percent(answer.tightness)} of the replays (median)",
        caption=f"{answer.title}; {counted(len(every), 'replayed layout')}",
        description=f"The {measure.label} of each replayed layout over its bound; none is {side}"
        " the line.",
        note=f"Layouts are replayed in the order of their bounds, until {_end(answer)}.",
        contents="bounds and replays",
        x=Axis(f"bound of the {measure.label}", unit),
        y=Axis(f"{measure.label} of the replay", unit),
        series=tuple(one for one in series if one.x),
    )


def _end(answer: SearchAnswer) -> str:
    """Return when the replays ended."""
    best = "the best" if answer.proven == 1 else f"one of the best {answer.proven}"
    return f"no other can be {best}" if answer.proven else "the time was over"


def _bounds(
    name: str, found: list[RankedLayout], factor: float, colour: str, marker: str = "circle"
) -> Series:
    shown = [one for one in found if name == "best" or marker == "x" or one.missed is None]
    return Series(
        name,
        tuple(factor * (one.bound or 0.0) for one in shown),
        tuple(factor * one.value for one in shown),
        colour,
        marker,
        "none",
        hover=tuple("\n".join(filter(None, (format_layout_values(one.set_), one.missed)))
                    for one in shown),
    )  # fmt: skip
