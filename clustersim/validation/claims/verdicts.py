"""Claims beside what is predicted for them.

    validation/claims.yaml --numbers that a claim expects-->  Verdict
    clustersim/validation/claims/predictions.py --the same, predicted-------->

A claim holds where each of its numbers does.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, NotNegative, Strict
from clustersim.catalog.finding import find
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError, ClustersimError
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.claims.predictions import CLAIMS


class Expected(Strict):
    """A number that a claim expects: one to meet, or a bound."""

    value: float | None = None
    relative: NotNegative | None = None
    within: NotNegative | None = None
    at_least: float | None = None
    at_most: float | None = None
    unit: str

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        tests = [self.relative, self.within, self.at_least, self.at_most]
        told = [test for test in tests if test is not None]
        if len(told) != 1 or (self.value is None) == (self.at_least is self.at_most is None):
            raise ValueError("needs 'value' with 'relative' or 'within', or one bound")
        return self

    def met(self, predicted: float) -> bool:
        """Return whether a prediction is what is expected."""
        if self.at_least is not None:
            return predicted >= self.at_least
        if self.at_most is not None:
            return predicted <= self.at_most
        assert self.value is not None, "checked when it was read"
        slack = self.within if self.relative is None else self.relative * abs(self.value)
        return abs(predicted - self.value) <= (slack or 0.0)


class Claim(Strict):
    """One claim, with the numbers that it gives, by name."""

    number: Count
    claim: str
    source: str
    expected: Annotated[dict[str, Expected], Field(min_length=1)]


class ClaimsFile(Strict):
    """``validation/claims.yaml``."""

    kind: Literal["claims"]
    claims: list[Claim]


@dataclass(frozen=True)
class Verdict:
    """A claim and what is predicted for it.

    Attributes
    ----------
    predicted : by the names of the claim; empty where there is no prediction
    trouble : why there is none
    """

    claim: Claim
    predicted: Mapping[str, float] = field(default_factory=dict)
    trouble: str | None = None

    @property
    def holds(self) -> bool | None:
        """Whether every number is what is expected; None without a prediction."""
        if self.trouble is not None:
            return None
        return all(told.met(self.predicted[name]) for name, told in self.claim.expected.items())

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        numbers = [
            {
                "name": name,
                **told.model_dump(),
                "predicted": self.predicted.get(name),
                "holds": told.met(self.predicted[name]) if name in self.predicted else None,
            }
            for name, told in self.claim.expected.items()
        ]
        return {
            "number": self.claim.number,
            "claim": self.claim.claim,
            "source": self.claim.source,
            "numbers": numbers,
            "holds": self.holds,
            "why": self.trouble,
        }


def read_claims() -> list[Claim]:
    """Return the shipped claims.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    return checked(ClaimsFile, Tree.of(find("validation", "claims")), CatalogError).claims


def judge(number: int, functions: Mapping[int, Callable[[], dict[str, float]]] = CLAIMS) -> Verdict:
    """Return a claim with what is predicted for it.

    Raises
    ------
    KeyError
        when there is no claim of that number.
    """
    claim = {claim.number: claim for claim in read_claims()}[number]
    try:
        predicted = functions[number]()
    except (ClustersimError, Ungradable) as problem:
        return Verdict(claim, trouble=str(problem).splitlines()[0])
    assert predicted.keys() == claim.expected.keys(), f"claim {number} predicts other numbers"
    return Verdict(claim, predicted)


def judge_all(executor: Executor) -> Sequence[Verdict]:
    """Return the verdict on every claim, in order."""
    futures = [executor.submit(judge, claim.number) for claim in read_claims()]
    return tuple(future.result() for future in futures)
