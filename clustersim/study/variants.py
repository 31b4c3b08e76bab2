"""One scenario of a study, and the run that answers it.

    Variant (a scenario file and what is changed in it) --answered--> Run (the verdict, the answer)

Both are plain values: they travel to other processes and into the study store.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.scenario.load import Loaded, load
from clustersim.simulate import simulate

Value = str | int | float | bool
Verdict = Literal["ran", "refused", "failed"]

RAN: Final = "ran"
REFUSED: Final = "refused"
FAILED: Final = "failed"


@dataclass(frozen=True)
class Variant:
    """A scenario of a study.

    Attributes
    ----------
    scenario : a scenario file, or the bare name of a shipped one
    settings : changes of it, as ``--set`` takes them
    point : what sets it apart in the study, by axis: ``{"plan.tensor": 8}``
    trouble : why there is no such scenario, where that is known before it is loaded
    """

    scenario: str
    settings: tuple[str, ...] = ()
    point: Mapping[str, Value] = field(default_factory=dict)
    trouble: str | None = None

    def load(self) -> Loaded:
        """Return the scenario with its changes.

        Raises
        ------
        ScenarioError, CatalogError
            one line for each problem.
        """
        if self.trouble is not None:
            raise PlanError(self.trouble)
        return load(self.scenario, self.settings)


@dataclass(frozen=True)
class Run:
    """What came of a variant.

    Attributes
    ----------
    key : the content of its scenario; None for one that could not be loaded
    verdict : ``ran``; ``refused``, a layout that cannot be; or ``failed``, a fault of clustersim
    why : in one line, unless it ran
    answer : what ``clustersim run --json`` prints; None unless it ran
    """

    key: str | None
    verdict: Verdict
    why: str | None = None
    answer: Mapping[str, Any] | None = None

    @property
    def fits(self) -> bool:
        """Whether it ran and fits in memory."""
        return self.answer is not None and bool(self.answer["memory"]["fits"])


def answered(variant: Variant, key: str | None) -> Run:
    """Simulate a variant; whatever is wrong with it becomes its verdict."""
    try:
        result = simulate(variant.load())
    except (ScenarioError, CatalogError) as problem:
        return Run(key, REFUSED, in_a_line(problem))
    except Exception as error:  # one run must not end the others: it is kept with its error
        return Run(key, FAILED, f"{type(error).__name__}: {in_a_line(error)}")
    # by way of text, so that a run of today and one out of the store are the same values
    return Run(key, RAN, answer=json.loads(json.dumps(result.to_json(), allow_nan=False)))


def in_a_line(problem: Exception) -> str:
    """Return all that a complaint says, in one line."""
    return "; ".join(line.strip() for line in str(problem).splitlines() if line.strip())


__all__ = [
    "FAILED",
    "RAN",
    "REFUSED",
    "Run",
    "Value",
    "Variant",
    "Verdict",
    "answered",
    "in_a_line",
]
