"""Measures and accounts in words and charts, the same for a step, a training run and a service."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from clustersim.memory.room import EXCEEDING, TIGHT, outcome_of
from clustersim.metrics.attribution import BUBBLES
from clustersim.render.charts.bars import NEGLIGIBLE, Step, Waterfall, time_unit, to_thousandths
from clustersim.render.charts.lines import Series
from clustersim.render.charts.picture import Axis
from clustersim.render.page.page import Card
from clustersim.render.tables import CAUTION, WARNING, Row, kind_of, percent, words
from clustersim.simulation.expectations import Expectation
from clustersim.simulation.measures import (
    BRIEF,
    HEADLINES,
    MONEY,
    QUEUE_GROWTH,
    QUOTES,
    Account,
    Kind,
    Measure,
    measures_of,
)
from clustersim.units import format_seconds

if TYPE_CHECKING:
    from clustersim.simulation.service.answer import Goodput

SAME: Final = 5e-4
"""Ratio, less one, below which two amounts are called equal."""

NAMED: Final = 3
"""Parts that a sentence names."""

NOTABLE: Final = 0.1
"""Share of the largest change; smaller changes are not named in a sentence."""

MAXIMUM: Final = 12
"""Parts that have a bar of their own."""

ROOM: Final = 28
"""Letters of the name of an answer that fit next to a bar; the caption has longer ones."""

# --- measures -------------------------------------------------------------------------------------


def format_change(measure: Measure, before: float, after: float) -> str:
    """Return how a measure changes.

    >>> format_change(measures_of(["service"])["tpot"], 0.01, 0.02)
    'time per token 10 ms -> 20 ms (+100.0 %)'
    >>> format_change(measures_of(["step"])["tokens_per_s"], 100.0, 100.0)
    'the same throughput (100 tokens/s)'
    """
    if abs(after - before) < SAME * abs(before):
        return f"the same {measure.label} ({measure.text(after)})"
    return f"{measure.label} {format_pair(measure, before, after)}"


def format_pair(measure: Measure, before: float, after: float) -> str:
    """Return a measure before and after with its change; once where both are written alike."""
    old, new = measure.text(before), measure.text(after)
    if old == new:
        return new
    share = f" ({percent(after / before - 1, '+')})" if before and not _is_share(measure) else ""
    return f"{old} -> {new}{share}"


def _is_share(measure: Measure) -> bool:
    return measure.text(0.5) == "50.0 %"


def amount(measure: Measure, value: float) -> str:
    """Return a measure with its name: ``'throughput 9,914 tokens/s'``."""
    return f"{measure.label} {measure.text(value)}"


def headlines(
    kinds: Sequence[Kind],
    numbers: Iterable[Mapping[str, float]],
    *first: str,
    of: Mapping[Kind, tuple[str, ...]] = HEADLINES,
) -> list[Measure]:
    """Return the measures of a table: some first, then the headlines that any answer has.

    Where the queue of a service grows, its growth is the last one; where one of some prices is a
    single quote, the number of quotes of each follows.

    Parameters
    ----------
    of : headlines by kind
    """
    numbers = [*numbers]
    table, present = measures_of(kinds), {name for each in numbers for name in each}
    unstable = any(each.get(QUEUE_GROWTH) for each in numbers)
    names = [*first, *(name for kind in kinds for name in of[kind]), *[QUEUE_GROWTH] * unstable]
    if {*MONEY} & {*names} & present and any(each.get(QUOTES) == 1 for each in numbers):
        names.append(QUOTES)
    found = [table.named(name) for name in dict.fromkeys(names) if name in present]
    return [measure for measure in found if measure is not None]


def brief(kinds: Sequence[Kind], numbers: Iterable[Mapping[str, float]], by: str) -> list[Measure]:
    """Return the few measures that a line has room for, `by` first, of the kind that it is of."""
    kind = measures_of(kinds)[by].kind
    return headlines(kinds, numbers, by, of={**dict.fromkeys(kinds, ()), kind: BRIEF[kind]})


def summary(kinds: Sequence[Kind], numbers: Mapping[str, float], by: str) -> str:
    """Return an answer in a line, the measure `by` first."""
    return ", ".join(amount(m, numbers[m.name]) for m in brief(kinds, [numbers], by))


def cells(measures: Iterable[Measure], numbers: Mapping[str, float]) -> list[str]:
    """Return the cells of a row; ``-`` where a number is not known."""
    return [m.cell(numbers[m.name]) if m.name in numbers else "-" for m in measures]


# --- expectations ---------------------------------------------------------------------------------


def expectation_rows(expectations: Iterable[Expectation]) -> list[Row]:
    """Return a line for each expectation of a scenario: whether the answer holds it, and why."""
    return [
        Row("expected", f"{each.measure} {outcome(each)}: {each.why}", not each.held)
        for each in expectations
    ]


def expectation_cards(expectations: Sequence[Expectation]) -> list[Card]:
    """Return a card with the number of expectations that are held, and those that are missed."""
    missed = [f"{each.measure}: {each.why}" for each in expectations if not each.held]
    count = len(expectations)
    value = f"{len(missed)} of {count} missed" if missed else f"{count} held"
    return [Card("Expectations", value, "; ".join(missed), bool(missed))] * bool(expectations)


def outcome(expectation: Expectation) -> str:
    """Return whether an expectation is held, in a word."""
    return "held" if expectation.held else "missed"


# --- parts of accounts ----------------------------------------------------------------------------

_PARTS: Final[Mapping[str, str]] = {
    "kv": "KV cache",
    "prefill": "attention of prompts",
    "tensor": "tensor communication",
    "context": "context communication",
    "draft": "drafting",
    "expert": "expert exchange",
    "pipeline": "pipeline sends",
    "prompts": "prompts of others",
    "transfer": "KV transfer",
}
"""Parts of services in words, where their names are not words."""

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("tensor", "expert", "pipeline", "transfer", "context"), "communication"),
    **dict.fromkeys(("waiting", "queue", "host", "frontend", "prompts"), "bubble"),
    "lost": "imbalance",
    "saving": "communication",
    "restarting": "optimiser",
    "planned": "quiet",
}
"""Kinds of parts of services and runs, which are colours of the palette."""

LEGENDS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "token": (("bubble", "waiting"),),
    "first token": (("bubble", "waiting"),),
    "run": tuple((_KINDS.get(part, "compute"), part) for part in (
        "useful", "lost", "saving", "restarting", "waiting", "planned")),
}  # fmt: skip
"""Names of the kinds in a legend by account, where they are not the names of the kinds."""


def part_name(part: str) -> str:
    """Return a part of an account in words.

    >>> part_name("kv"), part_name("pipeline_communication"), part_name("bubble_fill")
    ('KV cache', 'pipeline communication', 'fill bubble')
    """
    return _PARTS.get(part, words(part))


def part_kind(part: str) -> str:
    """Return the kind of a part: compute, communication, optimiser, imbalance or bubble."""
    if part.startswith("waiting for "):  # another job of a shared machine, on links
        return "communication"
    return _KINDS.get(part.partition(" ")[0]) or kind_of(part)


def format_causes(parts: Mapping[str, float], unit: str = "s", account: str = "") -> str:
    """Return the parts that changed most with their changes, after a colon; bubbles are one part.

    Parameters
    ----------
    account : label of what they are parts of, where that is not the measure of the sentence

    >>> format_causes({"matmul": -2.0, "bubble_fill": 1.0, "bubble_drain": 2.0})
    ': bubble +3 s, matmul -2 s'
    >>> format_causes({"matmul": -4e-4}, account="device time per token")
    '; of the device time per token: matmul -400 us'
    """
    changes = largest_changes(parts)
    named = ", ".join(f"{part_name(part)} {_signed(change, unit)}" for part, change in changes)
    head = f"; of the {account}: " if account else ": "
    return head + named if named else ""


def largest_changes(parts: Mapping[str, float], most: int = NAMED) -> list[tuple[str, float]]:
    """Return the parts that changed most, the three bubbles as one.

    >>> largest_changes({"matmul": -2.0, "bubble_fill": 1.0, "bubble_drain": 2.0, "dispatch": 0.1})
    [('bubble', 3.0), ('matmul', -2.0)]
    """
    merged: dict[str, float] = {}
    for part, change in parts.items():
        name = "bubble" if part in BUBBLES else part
        merged[name] = merged.get(name, 0.0) + change
    ordered = sorted(merged.items(), key=lambda item: (-abs(item[1]), item[0]))
    least = max(NOTABLE * abs(ordered[0][1]), 1e-12) if ordered else 0.0
    return [(part, change) for part, change in ordered[:most] if abs(change) >= least]


def _signed(change: float, unit: str) -> str:
    """Return a change of time with its sign: ``'-12.1 s'``."""
    if unit == "d":
        return f"{change:+.3g} d"
    return f"{'+' if change > 0 else '-'}{format_seconds(abs(change), 3)}"


def changes_of(before: Account, after: Account) -> dict[str, float]:
    """Return `after` less `before`, part by part; a part that one of them lacks is 0 there.

    >>> one, two = (Account("token", "", "s", parts) for parts in ({"kv": 2.0}, {"kv": 1.0}))
    >>> changes_of(one, two)
    {'kv': -1.0}
    """
    names = {**after.parts, **before.parts}
    return {part: after.parts.get(part, 0.0) - before.parts.get(part, 0.0) for part in names}


def cause_lines(parts: Mapping[str, float], before: Account) -> list[str]:
    """Return a line for each part that changed, the largest first, and one for their sum."""
    size = max(before.total, before.total + sum(parts.values()))
    factor, unit = (1.0, "d") if before.unit == "d" else time_unit(size)
    steps = steps_of(parts, size)
    if not steps:
        return [f"no part of the {before.label} changed"]
    steps = (*steps, Step(f"total {before.label}", "total", sum(parts.values())))
    changes = [to_thousandths(factor * step.change, factor * size, "+") for step in steps]
    shares = [percent(step.change / before.total, "+") if before.total else "" for step in steps]
    wide, share = max(map(len, changes)), max(map(len, shares))
    lines = zip(changes, shares, steps, strict=True)
    return [f"{change:>{wide}} {unit}  {s:>{share}}  {step.label}" for change, s, step in lines]


# --- charts ---------------------------------------------------------------------------------------


def steps_of(parts: Mapping[str, float], size: float) -> tuple[Step, ...]:
    """Return parts as bars: kind by kind, in a kind the largest first; small ones are last.

    Parameters
    ----------
    parts : what each part adds
    size : the larger total, which sets what is small
    """
    ordered = sorted(parts, key=lambda part: -abs(parts[part]))
    own = [part for part in ordered[:MAXIMUM] if abs(parts[part]) >= NEGLIGIBLE * size]
    own = own or [part for part in ordered[:3] if parts[part]]
    kinds: dict[str, float] = {}
    for part in own:
        kinds[part_kind(part)] = kinds.get(part_kind(part), 0.0) + abs(parts[part])
    own.sort(key=lambda part: (-kinds[part_kind(part)], part_kind(part), -abs(parts[part])))
    steps = [Step(part_name(part), part_kind(part), parts[part]) for part in own]
    rest = [parts[part] for part in parts if part not in own]
    if any(abs(change) > 1e-9 * size for change in rest):
        steps.append(Step("all other parts", "other", sum(rest)))
    return tuple(steps)


def waterfall(names: tuple[str, str], before: Account, parts: Mapping[str, float]) -> Waterfall:
    """Return the way from an account to another one.

    Parameters
    ----------
    names : of the answers
    before : the first account
    parts : change of each part
    """
    after = before.total + sum(parts.values())
    change = percent(after / before.total - 1, "+") if before.total else ""
    same = abs(after - before.total) < SAME * before.total
    label = before.label[:1].upper() + before.label[1:]
    chart = Waterfall(
        title=f"{label} {'unchanged' if same else change}{format_causes(parts, before.unit)}",
        caption=f"before: {names[0]}; after: {names[1]}",
        description=f"The parts of the {before.label} lead from {names[0]} to {names[1]}.",
        note="Each bar begins where the one above ends.",
        contents=f"changes of the {before.label} from {names[0]} to {names[1]}",
        measure=Axis(before.label, before.unit),
        first=names[0] if _fit_next_to_bars(names) else "before",
        last=names[1] if _fit_next_to_bars(names) else "after",
        start=before.total,
        steps=steps_of(parts, max(before.total, after)),
        kinds=() if BUBBLES[0] in parts else LEGENDS.get(before.name, ()),
    )
    return chart if before.unit == "d" else chart.in_unit()


def power_series(
    time: Sequence[float], watts: Sequence[float], peak: float
) -> tuple[float, str, Series]:
    """Return the watts of the unit in which power is read best, the unit, and levels in it.

    Parameters
    ----------
    time : when each level begins, and the end of the last
    """
    factor, unit = (1e6, "MW") if peak >= 1e6 else (1e3, "kW")
    levels = [level / factor for level in watts]
    series = Series("power", tuple(time), (*levels, levels[-1]), marker="", stroke="steps")
    return factor, unit, series


def _fit_next_to_bars(names: Sequence[str]) -> bool:
    return all(len(name) <= ROOM for name in names) and names[0] != names[1]


# --- memory ---------------------------------------------------------------------------------------

VERDICT_STYLES: Final[Mapping[str, str]] = {TIGHT: CAUTION} | dict.fromkeys(EXCEEDING, WARNING)
"""Styles of cells of a table with verdicts on memory."""


def hypothetical(verdict: str, *, fits: bool) -> str:
    """Return the remark on the time of a job that cannot run.

    >>> hypothetical("does not fit: 96.8 of 79.1 GiB on stage 0", fits=False)
    ' (hypothetical: the job does not fit in memory)'
    """
    return "" if fits else f" (hypothetical: the job {outcome_of(verdict)} in memory)"


def goodput_rows(goodput: "Goodput | None", limits: Collection[str]) -> list[Row]:
    """Return that the best service misses limits of its scenario.

    Parameters
    ----------
    limits : of the search, by which it is chosen
    """
    if goodput is None or goodput.share == 1:
        return []
    stated = {"ttft": goodput.ttft_s, "tpot": goodput.tpot_s}
    missed = {name: limit for name, limit in stated.items() if limit and name not in limits}
    if not missed:
        return []
    options = " ".join(f"--limit {name}={limit:g}s" for name, limit in missed.items())
    share = f"{percent(goodput.share)} of the requests within the limits of the scenario"
    better = f"clustersim search {options} finds the best that meets them"
    return [Row("goodput", f"{share}, by which no layout is chosen: {better}", caution=True)]


def roomy_row(
    kinds: Sequence[Kind],
    by: str,
    best: Mapping[str, float],
    layout: str,
    roomy: Mapping[str, float],
    note: str = "",
) -> Row:
    """Return the best layout with room for the errors of memory, next to a best that is tight.

    Parameters
    ----------
    best, roomy : measures of both
    layout : with that room, in words
    """
    gain = measures_of(kinds)[by].gain(roomy[by], best[by])
    worse = "" if gain is None else f"; {percent(1 - 1 / gain)} worse"
    return Row("with margin", f"{layout}: {summary(kinds, roomy, by)}{worse}{note}")


def mark_tight(table: list[list[str]], tight: Sequence[bool]) -> list[list[str]]:
    """Return a table with a column that marks tight rows, if any is."""
    words = ["memory", *(TIGHT if each else "" for each in tight)]
    return [[*r, word] for r, word in zip(table, words, strict=True)] if any(tight) else table
