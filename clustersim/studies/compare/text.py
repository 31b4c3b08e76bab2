"""A comparison as text: inputs, results side by side, what explains them."""

from collections.abc import Sequence
from typing import Final

from clustersim.memory.room import TIGHT, outcome_of
from clustersim.render.charts.bars import Waterfall
from clustersim.render.tables import UNMASKED, Row
from clustersim.reports.evidence import Evident, evidence_rows
from clustersim.reports.measures import cause_lines, format_pair, headlines, waterfall
from clustersim.simulation.measures import Account, Measure
from clustersim.studies.compare.answer import BeforeAfter, CompareAnswer, Comparison
from clustersim.studies.compare.inputs import Input
from clustersim.units import counted

INPUTS: Final = 12
"""Changed inputs that the text lists; the table has all of them."""

DETAILS: Final = (
    *("hfu", "bubble_fraction", "devices", "power_w", "energy_per_token_j", "goodput"),
    *("usd_per_hour", "tokens_per_dollar", "output_tokens_per_usd"),
)
"""Measures of the table after the headlines."""


def compared_measures(answer: CompareAnswer) -> list[Measure]:
    """Return the measures of the table, `by` first."""
    numbers = [run.answer.measures() for run in answer.runs]
    shown = headlines(answer.kinds, numbers, answer.by)
    more = headlines(answer.kinds, numbers, *DETAILS)
    return [*shown, *(m for m in more if m.name in DETAILS and m not in shown)]


def result_table(answer: CompareAnswer) -> list[list[str]]:
    """Return the measures of all answers side by side, the headings first."""
    numbers = [run.answer.measures() for run in answer.runs]
    first, *others = numbers
    unfit = {True: "", False: " (hypothetical)"}
    table = [["", *(f"{run.name}{unfit[run.answer.memory.fits]}" for run in answer.runs)]]
    for measure in compared_measures(answer):
        cells = [measure.text(first[measure.name]) if measure.name in first else "-"]
        for other in others:
            cells.append(_cell(measure, first.get(measure.name), other.get(measure.name)))
        table.append([measure.label, *cells])
    fits = (outcome_of(run.answer.memory.verdict) for run in answer.runs)
    return [*table, ["memory", *fits]]


def evidence(answer: CompareAnswer) -> list[Row]:
    """Return the intervals and nearest measured runs of each answer; once where all have one."""
    texts: dict[str, dict[str, str]] = {}
    for run in answer.runs:
        for row in evidence_rows(run.answer) if isinstance(run.answer, Evident) else []:
            texts.setdefault(row.label, {})[run.name] = row.text
    found = list[Row]()
    for label, by_run in texts.items():
        alike = len(by_run) == len(answer.runs) and len({*by_run.values()}) == 1
        lines = [next(iter(by_run.values()))] if alike else [f"{n}: {t}" for n, t in by_run.items()]
        found += _column(label, lines)
    return found


def _cell(measure: Measure, before: float | None, after: float | None) -> str:
    """Return a measure of another answer, with its change from the first one."""
    if before is None or after is None:
        return "-" if after is None else measure.text(after)
    return format_pair(measure, before, after).rpartition(" -> ")[2]


def rows(comparison: Comparison, answer: CompareAnswer) -> list[Row]:
    """Return one comparison line by line: inputs, facts and causes."""
    return [*_inputs(comparison.inputs), *fact_rows(comparison), *_causes(comparison, answer)]


def _looks(comparison: Comparison) -> tuple[bool, bool]:
    """Return whether the memory of the second answer is highlighted as a warning or a caution."""
    verdict = comparison.facts["memory"].after or ""
    return not comparison.fits.after, outcome_of(verdict) == TIGHT


def fact_rows(comparison: Comparison) -> list[Row]:
    """Return bottleneck, memory and other facts of both answers."""
    lines = [
        Row(label, _both(fact), *(_looks(comparison) if label == "memory" else ()))
        for label, fact in comparison.facts.items()
    ]
    mfu, hfu = (comparison.differences.get(name) for name in ("mfu", "hfu"))
    pairs = ((mfu.before, hfu.before), (mfu.after, hfu.after)) if mfu and hfu else ()
    above = any(of_model > min(1.0, executed) for of_model, executed in pairs)
    assumed = [Row("assumed", f"{key}: {why}") for key, why in comparison.assumed.items()]
    return [*lines, *assumed, *([Row("MFU", UNMASKED)] if above else [])]


def _both(fact: BeforeAfter[str | None]) -> str:
    """Return a fact before and after; once where both are written alike."""
    old, new = fact.before or "none", fact.after or "none"
    return f"{old}, before and after" if old == new else f"{old} -> {new}"


def _inputs(inputs: Sequence[Input]) -> list[Row]:
    if not inputs:
        return [Row("inputs", "no difference")]
    lines = [value.text for value in inputs[:INPUTS]]
    if len(inputs) > INPUTS:
        lines.append(f"and {counted(len(inputs) - INPUTS, 'more value')}")
    return _column("inputs", lines)


def _causes(comparison: Comparison, answer: CompareAnswer) -> list[Row]:
    """Return the parts of each account that changed, and their sum."""
    lines: list[Row] = []
    for account in first_accounts(comparison, answer):
        label = "causes" if account.name == comparison.account else account.name
        lines += _column(label, cause_lines(comparison.accounts[account.name], account))
    return lines


def _column(label: str, lines: Sequence[str]) -> list[Row]:
    """Return several lines under one label."""
    return [Row("" if index else label, text) for index, text in enumerate(lines)]


def first_accounts(comparison: Comparison, answer: CompareAnswer) -> list[Account]:
    """Return the accounts of the first answer that explain a comparison, the chosen one first.

    A token of a step is an account of its own only where the steps are for different work.
    """
    accounts = [a for a in answer.runs[0].answer.accounts() if a.name in comparison.accounts]
    accounts.sort(key=lambda account: account.name != comparison.account)
    whole = any(account.name == "step" for account in accounts)
    return [a for a in accounts if not whole or a.name in (comparison.account, "step", "run")]


def waterfalls(comparison: Comparison, answer: CompareAnswer) -> dict[str, Waterfall]:
    """Return the way from one answer to the other by account, the chosen one first."""
    names = comparison.before, comparison.after
    return {
        account.name: waterfall(names, account, comparison.accounts[account.name])
        for account in first_accounts(comparison, answer)
    }
