"""Claims of papers, and what is predicted for their numbers.

    tools/claims/claims.yaml --runs, metric--------------> prediction --expected--> ClaimVerdict
    functions.py           --where an algorithm needs it--^

A claim names its runs: measured cases, or scenarios with settings.  A number of a claim is a metric
of a run, or a ratio, gain or difference of two.  A claim holds if all its numbers do.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, NotNegative, Strict
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError, ClustersimError
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.outcome import Outcome
from tools.claims.functions import FUNCTIONS
from tools.claims.runs import METRICS, ClaimRun

NO_OUTCOMES: Final[Mapping[str, Outcome]] = MappingProxyType({})

# --- the file -------------------------------------------------------------------------------------


Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class Prediction(Strict):
    """A metric of one run, or a comparison of two runs by it.

    For [a, b] `ratio` is a / b, `percent` 100 a / b, `gain` 100 (a / b - 1), `difference` a - b.
    """

    metric: str
    run: str | None = None
    ratio: Pair | None = None
    percent: Pair | None = None
    gain: Pair | None = None
    difference: Pair | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.metric not in METRICS:
            raise ValueError(f"metric: no '{self.metric}' (metrics: {', '.join(METRICS)})")
        forms = (self.run, self.ratio, self.percent, self.gain, self.difference)
        if sum(form is not None for form in forms) != 1:
            raise ValueError("needs one of 'run', 'ratio', 'percent', 'gain' and 'difference'")
        return self

    def value(self, runs: Mapping[str, ClaimRun]) -> float:
        """Return the predicted number."""

        def of(names: Sequence[str]) -> list[float]:
            return [METRICS[self.metric](runs[name]) for name in names]

        if self.run is not None:
            return of([self.run])[0]
        first, second = of(self.ratio or self.percent or self.gain or self.difference or ())
        if self.difference is not None:
            return first - second
        if self.gain is not None:
            return 100 * (first / second - 1)
        return first / second if self.percent is None else 100 * (first / second)


class Bound(Strict):
    """A tolerance of a number, as a share of it or in its unit, or a bound."""

    relative: NotNegative | None = None
    within: NotNegative | None = None
    at_least: float | None = None
    at_most: float | None = None

    def met(self, predicted: float, value: float | None) -> bool:
        """Return whether a prediction lies within the tolerance of a value, or the bound."""
        if self.at_least is not None:
            return predicted >= self.at_least
        if self.at_most is not None:
            return predicted <= self.at_most
        assert value is not None, "checked when the file was read"
        slack = self.within if self.relative is None else self.relative * abs(value)
        return abs(predicted - value) <= (slack or 0.0)


class Expected(Bound):
    """A number of a claim, and its prediction; without one, the function of the claim predicts it.

    `missed` is the reason why the prediction is off, `today` a wider bound that it keeps.
    """

    value: float | None = None
    unit: str
    predict: Prediction | None = None
    missed: str | None = None
    today: Bound | None = None

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        tests = [self.relative, self.within, self.at_least, self.at_most]
        count = sum(test is not None for test in tests)
        if count != 1 or (self.value is None) == (self.at_least is self.at_most is None):
            raise ValueError("needs 'value' with 'relative' or 'within', or one bound")
        return self

    def holds(self, predicted: float) -> bool:
        """Return whether a prediction is the expected one."""
        return self.met(predicted, self.value)


class Claim(Strict):
    """One claim with its runs and its numbers, by name.

    `function` names the function of `functions` that predicts numbers without `predict`.
    """

    number: Count
    claim: str
    source: str
    runs: dict[str, ClaimRun] = Field(default_factory=dict)
    function: str | None = None
    expected: Annotated[dict[str, Expected], Field(min_length=1)]

    @model_validator(mode="after")
    def _every_number_is_predicted(self) -> Self:
        complete = all(expected.predict is not None for expected in self.expected.values())
        if complete == (self.function is not None):
            raise ValueError("needs 'function' exactly where a number has no 'predict'")
        if self.function is not None and self.function not in FUNCTIONS:
            raise ValueError(f"function: no '{self.function}' (functions: {', '.join(FUNCTIONS)})")
        return self


class ClaimsFile(Strict):
    """``tools/claims/claims.yaml``; `settings` are named lists, which may contain one another."""

    kind: Literal["claims"]
    settings: dict[str, list[str]]
    claims: list[Claim]

    def runs_of(self, claim: Claim) -> dict[str, ClaimRun]:
        """Return the runs of a claim, by name."""
        return {
            name: run.model_copy(update={"set": self._expanded(run.set)})
            for name, run in claim.runs.items()
        }

    def _expanded(self, names: Sequence[str]) -> list[str]:
        return [
            setting
            for name in names
            for setting in ([name] if "=" in name else self._expanded(self.settings[name]))
        ]

    @cached_property
    def by_number(self) -> Mapping[int, Claim]:
        """The claims by number."""
        return {claim.number: claim for claim in self.claims}


def read_claims() -> ClaimsFile:
    """Return the shipped claims.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    document = read_yaml(Path(__file__).with_name("claims.yaml"), CatalogError)
    return checked(ClaimsFile, Tree.of(document), CatalogError)


# --- the answer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimNumber:
    """A number of a claim, and its prediction.

    Attributes
    ----------
    name : of the number
    value : the number
    relative : its tolerance, as a share of it
    within : its tolerance, in its unit
    at_least : or a lower bound
    at_most : or an upper bound
    unit : its unit
    predicted : what is predicted; `null` without a prediction
    holds : whether the prediction is as expected
    """

    name: str
    value: float | None
    relative: float | None
    within: float | None
    at_least: float | None
    at_most: float | None
    unit: str
    predicted: float | None
    holds: bool | None


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim of a paper, and whether it holds.

    Attributes
    ----------
    number : of the claim
    claim : the claim in a sentence
    source : where it is made
    numbers : its numbers
    holds : whether all of them hold; `null` without a prediction
    why : why there is no prediction
    """

    number: int
    claim: str
    source: str
    numbers: tuple[ClaimNumber, ...]
    holds: bool | None
    why: str | None


def claim_verdict(
    claim: Claim, predicted: Mapping[str, float], why: str | None = None
) -> ClaimVerdict:
    """Return the verdict on a claim, given the predictions for its numbers."""
    numbers = tuple(
        ClaimNumber(
            name=name,
            value=expected.value,
            relative=expected.relative,
            within=expected.within,
            at_least=expected.at_least,
            at_most=expected.at_most,
            unit=expected.unit,
            predicted=predicted.get(name),
            holds=expected.holds(predicted[name]) if name in predicted else None,
        )
        for name, expected in claim.expected.items()
    )
    holds = None if why is not None else all(number.holds for number in numbers)
    return ClaimVerdict(claim.number, claim.claim, claim.source, numbers, holds, why)


def judge_claim(
    number: int,
    file: ClaimsFile | None = None,
    outcomes: Mapping[str, Outcome] = NO_OUTCOMES,
) -> ClaimVerdict:
    """Predict the numbers of one claim and judge them.

    Parameters
    ----------
    outcomes : of cases that have been run, by the name of the case

    Raises
    ------
    KeyError
        when there is no claim of that number.
    """
    file = file or read_claims()
    claim = file.by_number[number]
    runs = {name: run.with_outcome(outcomes) for name, run in file.runs_of(claim).items()}
    try:
        return claim_verdict(claim, _predicted(claim, runs))
    except (ClustersimError, Ungradable) as problem:
        return claim_verdict(claim, {}, why=str(problem).splitlines()[0])


def _predicted(claim: Claim, runs: Mapping[str, ClaimRun]) -> dict[str, float]:
    function: Callable[[Mapping[str, ClaimRun]], Mapping[str, float]] | None
    function = None if claim.function is None else FUNCTIONS[claim.function]
    predicted = {} if function is None else dict(function(runs))
    for name, expected in claim.expected.items():
        if expected.predict is not None:
            predicted[name] = expected.predict.value(runs)
    assert predicted.keys() == claim.expected.keys(), f"claim {claim.number}: other numbers"
    return predicted


def judge_claims(executor: Executor, outcomes: Sequence[Outcome] = ()) -> tuple[ClaimVerdict, ...]:
    """Return the verdict on every claim, in order.

    Parameters
    ----------
    outcomes : of shipped cases that have been run
    """
    found, futures = {outcome.id: outcome for outcome in outcomes}, []
    for claim in read_claims().claims:
        cases = {run.case or "" for run in claim.runs.values()}
        own = {case: found[case] for case in sorted(cases & found.keys())}
        futures.append(executor.submit(judge_claim, claim.number, outcomes=own))
    return tuple(future.result() for future in futures)
