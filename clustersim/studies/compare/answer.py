"""Compare scenarios of one kind: what differs in their inputs and results, and what causes it.

    before, after --compare_two--> measures, changes of the parts of each account, finding

The parts of an account (step time, time of a token, elapsed time of a run) add up to it in each
answer, so their differences add up to the difference of the totals.  Steps of different batches
are compared by the device time of a token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Generic, TypeVar, Unpack

from clustersim.answers import Presentable, record
from clustersim.catalog.changes import Settings
from clustersim.catalog.facts import STATED
from clustersim.render.tables import percent
from clustersim.reports.measures import changes_of, format_causes, format_change
from clustersim.runs.arguments import settings_of, study_of
from clustersim.runs.execution import Execution, run_study
from clustersim.runs.table import Differences
from clustersim.runs.variants import ScenarioAnswer
from clustersim.simulation.limits import kinds_of, percentile_changes
from clustersim.simulation.measures import Account, Kind, Measure, check_measure, measures_of
from clustersim.studies.compare.compared import read_compared, required, usual_measure
from clustersim.studies.compare.inputs import Input, changed_inputs
from clustersim.units import format_number

Value = TypeVar("Value")

PER_DAY: Final = ("energy", "cost", "co2e_kg")
"""Measures of a whole run that are its days times what a day takes."""


@record
class BeforeAfter(Generic[Value]):
    """A result of both answers.

    Attributes
    ----------
    before : of the first answer
    after : of the other one
    """

    before: Value
    after: Value


@record
class Difference:
    """A measure of both answers, and its change.

    Attributes
    ----------
    before : of the first answer
    after : of the other one
    change : after less before
    """

    before: float
    after: float
    change: float


@record
class Comparison:
    """A scenario compared with the first one.

    Attributes
    ----------
    before : name of the first scenario
    after : name of the other one
    finding : the result in a sentence
    gain : how many times better the measure `by` is: a rate after over before, a time before over
        after; null where one of them does not run
    inputs : values of the scenarios that differ
    differences : measures that both have by name, in SI units; `energy` is in kWh, `cost` in USD
    account : account that explains the measure `by`: `step`, `token`, `first token` or `run`; null
        where one of them does not run
    parts : change of each of its parts, which add up to its change [s; d of a run]
    accounts : the same for each account that both have for equal work
    facts : `before` and `after` in words, by label: bottleneck, memory and so on
    fits : `before` and `after`: whether they fit in memory
    assumed : keys that only the other scenario assumes, with the reason
    """

    before: str
    after: str
    finding: str
    gain: float | None
    inputs: tuple[Input, ...]
    differences: Differences[Difference]
    account: str | None
    parts: Mapping[str, float]
    accounts: Mapping[str, Mapping[str, float]]
    facts: Mapping[str, BeforeAfter[str | None]]
    fits: BeforeAfter[bool]
    assumed: Mapping[str, str] = field(default_factory=dict)


@record
class ComparedRun:
    """A scenario that is compared.

    Attributes
    ----------
    name : its name in this comparison
    scenario : a file or a shipped name
    settings : changes of the scenario
    answer : what `run --json` prints
    """

    name: str
    scenario: str
    settings: tuple[str, ...]
    answer: ScenarioAnswer


@record
class CompareAnswer(Presentable):
    """Scenarios of one kind, each but the first compared with the first.

    Attributes
    ----------
    by : measure that findings state
    runs : in the order in which they are given
    comparisons : one for each after the first
    """

    by: str
    runs: tuple[ComparedRun, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of measures that all answers have."""
        first, *others = (run.answer.kinds for run in self.runs)
        return tuple(kind for kind in first if all(kind in kinds for kinds in others))


def compare(
    scenarios: Sequence[str | Mapping[str, Any]],
    *,
    by: str | None = None,
    names: Sequence[str] = (),
    settings: Settings = (),
    **execution: Unpack[Execution],
) -> CompareAnswer:
    """Compare scenarios, each with the first one: inputs, results and causes.

    Parameters
    ----------
    scenarios : two or more files or names of shipped scenarios, all of training or all of services;
        ``"A plan.zero=1"`` is A with a change; or their keys and values as dicts
    by : measure that findings state: ``"mfu"``, ``"days"``, ``"tpot"``, ...; the usual one of the
        kind of scenario if None
    names : of the scenarios in the answer; those of their files, with their changes, if empty
    settings : changes of all scenarios, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : called with the number of runs that are done, and of all

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is invalid, before any is run.
    SimulationError
        when a run failed.

    >>> import clustersim
    >>> pair = ["frontier-22b", "frontier-22b recompute=none"]
    >>> answer = clustersim.compare(pair, settings={"batch.global": 16}, jobs=1)
    >>> [value.text for value in answer.comparisons[0].inputs]
    ['recompute full -> none']
    """
    variants, loaded, usual = read_compared(scenarios, settings)
    names = names or usual
    if by is not None:
        (by, *_) = (check_measure("--by", by, kinds_of(each), each.name).name for each in loaded)
        variants = [
            replace(each, settings=(*each.settings, *percentile_changes(job, [by])))
            for each, job in zip(variants, loaded, strict=True)
        ]
    study = study_of("compare", loaded[0].name, loaded[0].scenario.title, variants)
    runs = run_study(study, variants, **execution)
    answers = [required(name, run) for name, run in zip(names, runs, strict=True)]
    measure = by or usual_measure(loaded, answers)
    return CompareAnswer(
        by=measure,
        runs=tuple(
            ComparedRun(name, variant.scenario, settings_of(variant.settings), answer)
            for name, variant, answer in zip(names, variants, answers, strict=True)
        ),
        comparisons=tuple(
            compare_two(
                (names[0], name), answers[0], answer, measure, changed_inputs(loaded[0], other)
            )
            for name, answer, other in zip(names[1:], answers[1:], loaded[1:], strict=True)
        ),
    )


def compare_two(
    names: tuple[str, str],
    before: ScenarioAnswer,
    after: ScenarioAnswer,
    by: str,
    inputs: Sequence[Input] = (),
) -> Comparison:
    """Return what differs between two answers of a kind, and why."""
    kinds = tuple(kind for kind in before.kinds if kind in after.kinds)
    measure, old, new = measures_of(kinds)[by], before.measures(), after.measures()
    accounts = dict(_shared_accounts(before, after))
    changes = {name: changes_of(*pair) for name, pair in accounts.items()}
    account = next((name for name in (*measure.accounts, *accounts) if name in accounts), None)
    facts, others = before.facts(), after.facts()
    return Comparison(
        before=names[0],
        after=names[1],
        finding=_finding(names, (before, after), measure, accounts.get(account or "")),
        gain=measure.gain(old.get(by, 0.0), new.get(by, 0.0)),
        inputs=tuple(inputs),
        differences={
            name: Difference(old[name], new[name], new[name] - old[name])
            for name in old
            if name in new
        },
        account=account,
        parts=changes.get(account or "", {}),
        accounts=changes,
        facts={
            label: BeforeAfter(facts.get(label), others.get(label)) for label in {**facts, **others}
        },
        fits=BeforeAfter(before.memory.fits, after.memory.fits),
        assumed={
            key: why
            for key, why in after.assumed.items()
            if key not in before.assumed and why != STATED
        },
    )


def _shared_accounts(
    before: ScenarioAnswer, after: ScenarioAnswer
) -> list[tuple[str, tuple[Account, Account]]]:
    """Return the accounts that both answers have for equal work."""
    others = {account.name: account for account in after.accounts()}
    return [
        (account.name, (account, others[account.name]))
        for account in before.accounts()
        if account.name in others and account.basis == others[account.name].basis
    ]


def _finding(
    names: tuple[str, str],
    answers: tuple[ScenarioAnswer, ScenarioAnswer],
    measure: Measure,
    accounts: tuple[Account, Account] | None,
) -> str:
    """Return the result in a sentence: how the measure changes, and by which parts."""
    numbers = [answer.measures().get(measure.name) for answer in answers]
    for name, answer, number in zip(names, answers, numbers, strict=True):
        if number is None:
            return f"{name}: {answer.why_missing(measure.name)}"
    old, new = (number or 0.0 for number in numbers)
    causes = "" if accounts is None else _causes(measure, accounts)
    if measure.name in PER_DAY:
        days = [answer.measures()["days"] for answer in answers]
        ratios = {
            "days": days[1] / days[0],
            f"{measure.name} per day": new / days[1] / old * days[0],
        }
        causes = ": " + ", ".join(f"{name} {percent(r - 1, '+')}" for name, r in ratios.items())
    unfit = [
        f"; {name} is hypothetical: it {answer.memory.verdict}"
        for name, answer in zip(names, answers, strict=True)
        if not answer.memory.fits
    ]
    work = _other_tokens(measure, *answers)
    return f"{names[1]}: {format_change(measure, old, new)}{causes}{''.join(unfit)}{work}"


def _causes(measure: Measure, accounts: tuple[Account, Account]) -> str:
    """Return the parts that changed most; of a sum that is not the measure, with its name."""
    before = accounts[0]
    own = measure.unit in ("s", "days")
    return format_causes(changes_of(*accounts), before.unit, "" if own else before.label)


def _other_tokens(measure: Measure, before: ScenarioAnswer, after: ScenarioAnswer) -> str:
    """Return how many times the tokens a whole run is of, where that differs from the first."""
    old, new = (answer.measures().get("run_tokens") for answer in (before, after))
    if measure.kind != "training run" or not old or not new or old == new:
        return ""
    return f" ({format_number(new / old)} times the tokens)"
