"""Compare whole runs: their days, goodput, energy and price, and where the time of each goes.

The parts of the elapsed time add up to it in each run, so their differences add up to the
difference of the days.  Energy and price are the days times those of a day, so that the ratio of
two runs is the product of the two ratios.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clustersim.errors import ScenarioError
from clustersim.metrics.difference import SAME, difference, largest_changes
from clustersim.render.tables import percent
from clustersim.runs.table import RUN_MEASURES, run_measures
from clustersim.simulation.step.answer import RunAnswer, RunMeasures
from clustersim.simulation.training_run.answer import CheckpointAnswer
from clustersim.studies.compare.before_after import BeforeAfter
from clustersim.units import format_number

DAY: Final = 86_400.0

DAYS, GOODPUT, ENERGY, COST = RUN_MEASURES

KEYS: Final = {ENERGY: "energy_kwh", COST: "cost"}
"""Keys of an answer that may be null."""


@dataclass(frozen=True)
class RunComparison:
    """A whole run compared with the first one.

    Attributes
    ----------
    by : measure that the finding states: `days`, `goodput`, `energy` or `cost`
    gain : how many times better it is: goodput after over before, other measures before over after
    parts : change of each part of `accounting`; they add up to the change of `days` [days]
    checkpoint : `before` and `after`: as in `checkpoint` of `train --json`
    """

    by: str
    gain: float
    parts: Mapping[str, float]
    checkpoint: BeforeAfter[CheckpointAnswer]


def compare_whole_runs(
    names: tuple[str, str], before: RunAnswer, after: RunAnswer, by: str
) -> RunComparison | None:
    """Return what differs between two whole runs; None where one of them is a step alone.

    Raises
    ------
    ScenarioError
        when the measure is not known of one of the runs, with the reason.
    """
    old, new = before.training, after.training
    if old is None or new is None:
        return None
    ratio = _value(names[1], by, after) / _value(names[0], by, before)
    return RunComparison(
        by=by,
        gain=ratio if by == GOODPUT else 1 / ratio,
        parts=difference(_account_days(old), _account_days(new)),
        checkpoint=BeforeAfter(old.checkpoint, new.checkpoint),
    )


def _value(name: str, by: str, answer: RunAnswer) -> float:
    value = run_measures(answer).get(by)
    if value is None:
        assert answer.training is not None, "a scenario with a run"
        why = answer.training.unavailable.get(KEYS[by], "not known")
        raise ScenarioError(f"--by {by}: {name} has no {by}: {why}")
    return value


def _account_days(run: RunMeasures) -> dict[str, float]:
    """Return the parts of the elapsed time [days]."""
    return {part: seconds / DAY for part, seconds in vars(run.accounting).items()}


def run_numbers(answer: RunAnswer) -> dict[str, float]:
    """Return the numbers of a whole run that only comparisons have; nothing of a step alone."""
    run = answer.training
    if run is None:
        return {}
    saves = run.checkpoint
    numbers = {
        "run_tokens": run.tokens,
        "interruptions": run.interruptions,
        "co2e_kg": run.co2e_kg,
        **{f"run_{part}_s": seconds for part, seconds in vars(run.accounting).items()},
        "checkpoint_bytes": saves.bytes,
        "checkpoint_block_s": saves.block_s,
        "checkpoint_durable_s": saves.durable_s,
        "checkpoint_every_s": saves.every_s,
    }
    return {name: value for name, value in numbers.items() if value is not None}


# --- in words -------------------------------------------------------------------------------------


def run_finding(
    names: tuple[str, str], before: RunAnswer, after: RunAnswer, change: RunComparison
) -> str:
    """Return the result in a sentence: by how much, its causes, and what else differs."""
    old, new = run_measures(before), run_measures(after)
    stated = (DAYS, change.by) if change.by in (ENERGY, COST) else (change.by,)
    others = [
        f"{name} {percent(new[name] / old[name] - 1, '+')}"
        for name in (DAYS, ENERGY, COST)
        if name not in stated and name in old and name in new and not _same(old[name], new[name])
    ]
    sentence = f"{names[1]} {_change(change.by, names[0], old[change.by], new[change.by])}"
    return "; ".join([f"{sentence}{_causes(change, old, new)}{_tokens(before, after)}", *others])


def _change(by: str, name: str, old: float, new: float) -> str:
    """Return how a measure of a run differs from that of another.

    >>> _change("days", "a", 50.0, 60.0), _change("cost", "a", 2e6, 1e6)
    ('takes 20.0 % more days than a (50 -> 60)', 'costs 50.0 % less than a (2,000,000 -> 1,000,000 USD)')
    >>> _change("goodput", "a", 0.9, 0.8), _change("energy", "a", 1e4, 1e4)
    ('has 10.0 points less goodput than a (90.0 % -> 80.0 %)', 'takes as much energy as a')
    """  # noqa: E501 - the lines are what is printed
    verb, noun = _WORDS[by]
    if _same(old, new):
        same = {DAYS: "as many days as", GOODPUT: "the same goodput as", COST: "as much as"}
        return f"{verb} {same.get(by, f'as much {noun} as')} {name}"
    if by == GOODPUT:
        points = f"{100 * abs(new - old):.1f} points {_more(old, new)}"
        return f"{verb} {points} {noun} than {name} ({percent(old)} -> {percent(new)})"
    more = "fewer" if by == DAYS and new < old else _more(old, new)
    share = f"{percent(abs(new / old - 1))} {more}{noun and f' {noun}'}"
    return f"{verb} {share} than {name} ({run_amounts(by, old, new)})"


_WORDS: Final = {
    DAYS: ("takes", "days"),
    GOODPUT: ("has", "goodput"),
    ENERGY: ("takes", "energy"),
    COST: ("costs", ""),
}
"""Verb and noun of a sentence about a measure."""


def _same(old: float, new: float) -> bool:
    return abs(new - old) < SAME * old


def _more(old: float, new: float) -> str:
    return "more" if new > old else "less"


def run_amounts(by: str, old: float, new: float) -> str:
    """Return a measure of two runs with its unit; once where both are written alike.

    >>> run_amounts("energy", 1e6, 9e5), run_amounts("days", 54.0, 54.0)
    ('1,000 -> 900 MWh', '54')
    """
    factor, unit = {ENERGY: (1e-3, " MWh"), COST: (1.0, " USD")}.get(by, (1.0, ""))
    first, last = (format_number(factor * value) for value in (old, new))
    return f"{first}{unit}" if first == last else f"{first} -> {last}{unit}"


def _causes(change: RunComparison, old: Mapping[str, float], new: Mapping[str, float]) -> str:
    """Return the causes of a change: parts of the time, or the days and what a day takes."""
    if _same(old[change.by], new[change.by]):
        return ""
    if change.by in (ENERGY, COST):
        days, whole = new[DAYS] / old[DAYS], new[change.by] / old[change.by]
        ratios = (("days", days), (f"{change.by} per day", whole / days))
        texts = [f"{name} {percent(r - 1, '+')}" for name, r in ratios if not _same(1.0, r)]
    else:
        texts = [f"{part} {days:+.3g} d" for part, days in largest_changes(change.parts) if days]
    return f": {', '.join(texts)}" if texts else ""


def _tokens(before: RunAnswer, after: RunAnswer) -> str:
    """Return that runs train on different numbers of tokens."""
    old, new = before.training, after.training
    if old is None or new is None or _same(old.tokens, new.tokens):
        return ""
    return f" ({format_number(new.tokens / old.tokens)} times the tokens)"
