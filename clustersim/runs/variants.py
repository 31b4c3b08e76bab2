"""One scenario of a study, and the run that answers it.

    Variant (a scenario file and what is changed in it) --answered--> Run (the verdict, the answer)

Both are plain values: they travel to other processes and into the study store.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from clustersim.answers import to_json
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.simulate import Result, simulate, simulate_if_it_fits

Value = str | int | float | bool
Verdict = Literal["ran", "weighed", "refused", "failed"]

RAN: Final = "ran"
WEIGHED: Final = "weighed"
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
    weigh_first : whether a job that does not fit in memory is only weighed, not replayed
    """

    scenario: str
    settings: tuple[str, ...] = ()
    point: Mapping[str, Value] = field(default_factory=dict)
    trouble: str | None = None
    weigh_first: bool = False

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
    verdict : ``ran``; ``weighed``, too large to be replayed; ``refused``, a layout that cannot be;
        or ``failed``, a fault of clustersim
    why : in one line, unless it ran
    answer : what ``clustersim run --json`` prints, only its ``memory`` and ``counts.devices`` of
        a run that was weighed; None where there is none
    fresh : whether it was run for the one who asks, rather than found in a store
    """

    key: str | None
    verdict: Verdict
    why: str | None = None
    answer: Mapping[str, Any] | None = None
    fresh: bool = field(default=False, compare=False)

    @property
    def fits(self) -> bool:
        """Whether it ran and fits in memory."""
        return self.answer is not None and bool(self.answer["memory"]["fits"])


def answered(variant: Variant, key: str | None) -> Run:
    """Simulate a variant; whatever is wrong with it becomes its verdict."""
    try:
        verdict, why, answer = _told(variant)
    except (ScenarioError, CatalogError) as problem:
        return Run(key, REFUSED, in_a_line(problem), fresh=True)
    except Exception as error:  # one run must not end the others: it is kept with its error
        return Run(key, FAILED, f"{type(error).__name__}: {in_a_line(error)}", fresh=True)
    return Run(key, verdict, why, answer, fresh=True)


def _told(variant: Variant) -> tuple[Verdict, str | None, dict[str, Any]]:
    """Return the verdict on a variant, with the reason unless it ran, and its answer."""
    loaded = variant.load()
    found = simulate_if_it_fits(loaded) if variant.weigh_first else simulate(loaded)
    if isinstance(found, Result):
        return RAN, None, _plain(to_json(found.answer))
    counts = {"devices": loaded.scenario.devices}
    return WEIGHED, found.reason, _plain({"memory": to_json(found.answer), "counts": counts})


def _plain(answer: dict[str, Any]) -> Any:
    """Return an answer by way of text: one of today and one out of the store are the same."""
    return json.loads(json.dumps(answer, allow_nan=False))


def in_a_line(problem: Exception) -> str:
    """Return all that a complaint says, in one line."""
    return "; ".join(line.strip() for line in str(problem).splitlines() if line.strip())


__all__ = [
    "FAILED",
    "RAN",
    "REFUSED",
    "WEIGHED",
    "Run",
    "Value",
    "Variant",
    "Verdict",
    "answered",
    "in_a_line",
]
