"""Which choices of the form are valid with the rest of the question, and why the others are not."""

from collections.abc import Mapping
from typing import Final

from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.explore.fields import fields_of
from clustersim.explore.question import Home, Question, loaded_of
from clustersim.scenario.load import Loaded, LoadedService
from clustersim.simulation.service.serve import check_service
from clustersim.simulation.step.build import build_job

MOST_LETTERS: Final = 90
"""Letters of a reason at most."""


def reasons(question: Question, home: Home) -> Mapping[str, Mapping[str, str]]:
    """Return for each field with choices why a choice is not valid; empty text where it is.

    Names of models and machines are left out: with another one, degrees change as well.
    """
    return {
        field.key: {text: reason(question.having(field.key, text), home) for text in field.choices}
        for field in fields_of(question.kind)
        if field.choices and field.entries not in ("model", "cluster")
    }


def reason(question: Question, home: Home) -> str:
    """Return why a question is not valid, in one line; empty if it is."""
    try:
        check_layout(loaded_of(question, home))
    except (ScenarioError, CatalogError, PlanError) as problem:
        return brief(str(problem))
    return ""


def check_layout(loaded: Loaded | LoadedService) -> None:
    """Check the layout of a scenario without simulating it."""
    if isinstance(loaded, LoadedService):
        check_service(loaded)
    else:
        build_job(loaded)


def brief(message: str) -> str:
    """Return the first line of a message without the place where it comes from.

    >>> brief("scenario: plan.tensor: 6 does not divide the 64 heads (divisors: 1, 2, 4, 8)")
    '6 does not divide the 64 heads'
    """
    first = message.split("\n")[0]
    words = first.split(": ")
    while len(words) > 1 and " " not in words[0].removeprefix("--set "):
        words.pop(0)
    text = ": ".join(words).partition(" (")[0]
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."
