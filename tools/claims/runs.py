"""The runs of claims, and the metrics of a run that a claim may compare.

The measured number of a case is predicted by running that case, so that a claim and the table of
cases agree.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Final, Self

from pydantic import Field, PrivateAttr, model_validator

from clustersim.catalog.facts import Count, Strict
from clustersim.catalog.finding import shipped
from clustersim.errors import ScenarioError
from clustersim.program.job import Job
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.scale import scale
from clustersim.validation.case_runs import run_case
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.cases.rows import Entry, read_entries
from clustersim.validation.grading import LayerTimes, layer_times
from clustersim.validation.outcome import Outcome
from clustersim.workload.parameters import model_parameters


class ClaimRun(Strict):
    """A run of a claim: a measured case, or a scenario with settings.

    `set` has settings, or names of lists of them in `settings` of the file.  `weak` and `strong`
    are the numbers of devices of a scaling curve.  Each result is computed when it is read.
    """

    case: str | None = None
    scenario: str | None = None
    set: list[str] = Field(default_factory=list)
    weak: list[Count] = Field(default_factory=list)
    strong: list[Count] = Field(default_factory=list)
    _known: Outcome | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.case is None) == (self.scenario is None):
            raise ValueError("needs either 'case' or 'scenario', and not both")
        return self

    def changed(self, *settings: str) -> "ClaimRun":
        """Return the run with more settings."""
        return ClaimRun(scenario=self.name, set=[*self.set, *settings])

    def with_outcome(self, outcomes: Mapping[str, Outcome]) -> Self:
        """Return the run with the outcome of its case, where that has been run."""
        run = self.model_copy()
        run._known = outcomes.get(self.case or "")
        return run

    @property
    def predicted(self) -> float:
        """The prediction of the measured number of its case, in the units of the case."""
        outcome = self._known or _outcome(self.case or "")
        if outcome.grade is None:
            raise Ungradable(*outcome.reasons)
        return outcome.grade.predicted

    @property
    def name(self) -> str:
        """The scenario."""
        assert self.scenario is not None, "the metric of a scenario, not of a case"
        return self.scenario

    @cached_property
    def result(self) -> Result:
        """The simulated step."""
        return simulate(self.name, self.set)

    @cached_property
    def job(self) -> Job:
        """The job, without its step."""
        return build_job(load(self.name, self.set))

    @cached_property
    def layer(self) -> LayerTimes:
        """The times of the first layer."""
        return layer_times(load(self.name, self.set))

    @property
    def kept_by_layer(self) -> float:
        """What the first layer keeps for its backward [B]."""
        return self.job.layers.kept(self.job.layers.stacked(0, 0)[0])

    @property
    def states(self) -> float:
        """Training states of the model, over all ranks of a replica [B]."""
        recipe = self.job.framework.state[self.job.precision]
        states = (recipe.weights, recipe.gradients, recipe.optimiser, recipe.master)
        per_parameter = sum(state for state in states if state is not None)
        return model_parameters(self.job.model) * per_parameter

    @property
    def scaling_efficiency(self) -> float:
        """Efficiency of the last point of its scaling curve [%]."""
        (curve,) = scale(self.name, weak=self.weak, strong=self.strong, jobs=1).curves
        return 100 * curve.points[-1].efficiency


@lru_cache
def _outcome(case: str) -> Outcome:
    if case not in _entries():
        raise ScenarioError(f"validation/cases.yaml: no case '{case}', which a claim names")
    return run_case(_entries()[case])


@lru_cache
def _entries() -> Mapping[str, Entry]:
    return {entry.id: entry for entry in read_entries(shipped("validation") / "cases.yaml")}


def _layer_backward(run: ClaimRun) -> float:
    return 1e3 * (run.layer.backward + run.layer.recompute)


METRICS: Final[Mapping[str, Callable[[ClaimRun], float]]] = {
    "measured number": lambda run: run.predicted,
    "step time [s]": lambda run: run.result.step_time,
    "node time [s]": lambda run: run.result.scenario.cluster.nodes * run.result.step_time,
    "bubble [s]": lambda run: run.result.bubble,
    "model FLOP/s of a device": lambda run: run.result.flops_per_device("model"),
    "microbatches in flight": lambda run: run.result.memory.stages[0].in_flight,
    "peak memory [GiB]": lambda run: run.result.memory.fullest.peak / 2**30,
    "training states [GB]": lambda run: run.states / 1e9,
    "kept by a layer [B]": lambda run: run.kept_by_layer,
    "layer forward [ms]": lambda run: 1e3 * run.layer.forward,
    "layer backward [ms]": _layer_backward,
    "layer time [s]": lambda run: sum(run.layer),
    "scaling efficiency [%]": lambda run: run.scaling_efficiency,
}
"""Metrics by the names in ``tools/claims/claims.yaml``."""
