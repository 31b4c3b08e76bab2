"""A scenario with changes, and its run.

    Variant (scenario file, settings) --run_variant--> Run (verdict, answer)

Both are plain values: they travel to other processes and into the run cache.
"""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, Literal, TypeVar

from clustersim.answers import from_json, to_json
from clustersim.catalog.changes import Change
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.memory.verdict import MemoryAnswer
from clustersim.records import dataclass
from clustersim.runs.scenario_files import ScenarioFiles
from clustersim.scenario.load import (
    LoadedScenario,
    LoadedService,
    LoadedSharing,
    LoadedTrace,
    load_any,
)
from clustersim.scenario.origins import name_of
from clustersim.simulation.garbage import garbage_collection_off
from clustersim.simulation.limits import excess_of
from clustersim.simulation.measures import Memory, measures_of
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.service.result import ServeResult
from clustersim.simulation.service.serve import serve, serve_at_highest_rate
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.sharing.share import share
from clustersim.simulation.step.answer import RunAnswer
from clustersim.simulation.step.replications import replicate
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate, simulate_if_it_fits
from clustersim.simulation.trace.answer import TraceAnswer
from clustersim.simulation.trace.replay import replay
from clustersim.simulation.training_run.train import run_measures

Answer = TypeVar("Answer")

Value = str | int | float | bool
Verdict = Literal["ran", "memory_only", "invalid", "failed"]

ScenarioAnswer = RunAnswer | ServeAnswer | ShareAnswer | TraceAnswer
"""What a scenario is answered with, by its kind."""

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
    settings : changes, as texts that ``--set`` takes or parsed
    point : values by axis that identify the variant in its study: ``{"plan.tensor": 8}``
    problem : why the scenario is invalid, where that is known before it is loaded
    memory_first : whether a job that does not fit in memory is not replayed
    within : limits of a service by measure, within which it runs at its highest rate; at that of
        the scenario if None
    replications : steps with random numbers of their own whose times the answer has as well
    """

    scenario: str
    settings: tuple[str | Change, ...] = ()
    point: Mapping[str, Value] = field(default_factory=dict)
    problem: str | None = None
    memory_first: bool = False
    within: Mapping[str, float] | None = None
    replications: int = 0

    def load_any(self, files: ScenarioFiles | None = None) -> LoadedScenario:
        """Return the scenario with its changes.

        Parameters
        ----------
        files : scenario files of the study, which are not read again

        Raises
        ------
        ScenarioError, CatalogError
            one line for each problem.
        """
        if self.problem is not None:
            raise PlanError(self.problem)
        return (load_any if files is None else files.load)(self.scenario, self.settings)


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory of a job that does not fit and was not replayed.

    Attributes
    ----------
    memory : the peak of the fullest stage
    devices : number of devices of the job
    """

    memory: MemoryAnswer
    devices: int


@dataclass(frozen=True)
class Run:
    """The outcome of a variant.

    Attributes
    ----------
    key : cache key of the scenario; None if it could not be loaded
    verdict : ``ran``; ``memory_only``, does not fit and was not replayed; ``invalid``, the layout
        or a value is not allowed; or ``failed``, a fault of clustersim
    why : reason in one line, unless it ran
    answer : what ``clustersim run --json`` prints; None unless it ran
    estimate : memory and devices; None unless memory only
    fresh : whether it was computed now, and not found in a run cache
    """

    key: str | None
    verdict: Verdict
    why: str | None = None
    answer: ScenarioAnswer | None = None
    estimate: MemoryEstimate | None = None
    fresh: bool = field(default=False, compare=False)

    @property
    def memory(self) -> Memory | None:
        """Its memory; None where it did not run and has no estimate."""
        known = self.answer or self.estimate
        return None if known is None else known.memory

    @property
    def fits(self) -> bool:
        """Whether it ran, and fits in memory."""
        return self.answer is not None and self.answer.memory.fits

    @property
    def step(self) -> RunAnswer | None:
        """The answer of a training step; None unless one ran."""
        return self.answer if isinstance(self.answer, RunAnswer) else None


@garbage_collection_off()  # until the result, of which only the answer is kept, is freed
def run_variant(variant: Variant, key: str | None, files: ScenarioFiles | None = None) -> Run:
    """Simulate a variant; an error becomes its verdict.

    Parameters
    ----------
    files : scenario files of the study, which are not read again
    """
    try:
        return _simulated(variant, key, files)
    except (ScenarioError, CatalogError) as problem:
        return Run(key, INVALID, in_a_line(problem), fresh=True)
    except Exception as error:  # one failed run must not end the others
        return Run(key, FAILED, f"{type(error).__name__}: {in_a_line(error)}", fresh=True)


def _simulated(variant: Variant, key: str | None, files: ScenarioFiles | None) -> Run:
    loaded = variant.load_any(files)
    if isinstance(loaded, LoadedService):
        service = serve(loaded) if variant.within is None else _at_highest(loaded, variant.within)
        return Run(key, RAN, answer=_copied(service.answer), fresh=True)
    if isinstance(loaded, LoadedSharing):
        return Run(key, RAN, answer=_copied(share(loaded)), fresh=True)
    if isinstance(loaded, LoadedTrace):
        return Run(key, RAN, answer=_copied(replay(loaded)), fresh=True)
    result = simulate_if_it_fits(loaded) if variant.memory_first else simulate(loaded)
    if isinstance(result, Result):
        if loaded.scenario.training is not None:
            result = replace(result, training=run_measures(result))
        answer = replace(result.answer, **result.priced)
        if variant.replications:
            answer = replace(answer, replications=replicate(loaded, variant.replications))
        return Run(key, RAN, answer=_copied(answer), fresh=True)
    estimate = MemoryEstimate(result.answer, loaded.scenario.devices)
    return Run(key, MEMORY_ONLY, result.reason, estimate=_copied(estimate), fresh=True)


def _at_highest(loaded: LoadedService, limits: Mapping[str, float]) -> ServeResult:
    measures = measures_of(("service",))
    return serve_at_highest_rate(loaded, lambda numbers: excess_of(numbers, limits, measures))


def _copied(answer: Answer) -> Answer:
    """Return an answer converted to text and back, as one read from a run cache."""
    return from_json(type(answer), json.loads(json.dumps(to_json(answer), allow_nan=False)))


def renamed(run: Run, variant: Variant) -> Run:
    """Return a run with the name of its scenario: another file may have been run for it."""
    name = name_of(variant.scenario)
    if run.answer is None or run.answer.name == name:
        return run
    return replace(run, answer=replace(run.answer, name=name))


def in_a_line(problem: Exception) -> str:
    """Return the message of an error in one line."""
    return "; ".join(line.strip() for line in str(problem).splitlines() if line.strip())
