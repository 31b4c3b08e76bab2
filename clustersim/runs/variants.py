"""A scenario with changes, and its run.

    Variant (scenario file, settings) --run_variant--> Run (verdict, answer)

Both are plain values: they travel to other processes and into the run cache.
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
Verdict = Literal["ran", "memory_only", "invalid", "failed"]

RAN: Final = "ran"
MEMORY_ONLY: Final = "memory_only"
INVALID: Final = "invalid"
FAILED: Final = "failed"


@dataclass(frozen=True)
class Variant:
    """A scenario of a study.

    Attributes
    ----------
    scenario : scenario file, or the bare name of a shipped one
    settings : changes, as ``--set`` takes them
    point : values by axis that identify the variant in its study: ``{"plan.tensor": 8}``
    problem : why the scenario is invalid, where that is known before it is loaded
    memory_first : whether a job that does not fit in memory is not replayed
    """

    scenario: str
    settings: tuple[str, ...] = ()
    point: Mapping[str, Value] = field(default_factory=dict)
    problem: str | None = None
    memory_first: bool = False

    def load(self) -> Loaded:
        """Return the scenario with its changes.

        Raises
        ------
        ScenarioError, CatalogError
            one line for each problem.
        """
        if self.problem is not None:
            raise PlanError(self.problem)
        return load(self.scenario, self.settings)


@dataclass(frozen=True)
class Run:
    """The outcome of a variant.

    Attributes
    ----------
    key : cache key of the scenario; None if it could not be loaded
    verdict : ``ran``; ``memory_only``, does not fit and was not replayed; ``invalid``, the layout
        or a value is not allowed; or ``failed``, a fault of clustersim
    why : reason in one line, unless it ran
    answer : what ``clustersim run --json`` prints; only its ``memory`` and ``counts.devices`` if
        memory only; None if invalid or failed
    fresh : whether it was computed now, and not found in a run cache
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


def run_variant(variant: Variant, key: str | None) -> Run:
    """Simulate a variant; an error becomes its verdict."""
    try:
        verdict, why, answer = _simulated(variant)
    except (ScenarioError, CatalogError) as problem:
        return Run(key, INVALID, in_a_line(problem), fresh=True)
    except Exception as error:  # one failed run must not end the others
        return Run(key, FAILED, f"{type(error).__name__}: {in_a_line(error)}", fresh=True)
    return Run(key, verdict, why, answer, fresh=True)


def _simulated(variant: Variant) -> tuple[Verdict, str | None, dict[str, Any]]:
    """Return verdict, reason (None if it ran) and answer of a variant."""
    loaded = variant.load()
    result = simulate_if_it_fits(loaded) if variant.memory_first else simulate(loaded)
    if isinstance(result, Result):
        return RAN, None, _plain(to_json(result.answer))
    counts = {"devices": loaded.scenario.devices}
    return MEMORY_ONLY, result.reason, _plain({"memory": to_json(result.answer), "counts": counts})


def _plain(answer: dict[str, Any]) -> Any:
    """Return an answer converted to text and back, equal to one read from a run cache."""
    return json.loads(json.dumps(answer, allow_nan=False))


def in_a_line(problem: Exception) -> str:
    """Return the message of an error in one line."""
    return "; ".join(line.strip() for line in str(problem).splitlines() if line.strip())


__all__ = [
    "FAILED",
    "INVALID",
    "MEMORY_ONLY",
    "RAN",
    "Run",
    "Value",
    "Variant",
    "Verdict",
    "in_a_line",
    "run_variant",
]
