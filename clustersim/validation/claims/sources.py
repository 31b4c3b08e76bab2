"""What the predictions of claims are made of: jobs, rates and measured cases, by name.

What was measured in a case is predicted by running that case, so that a claim and the table of
cases cannot tell two stories.
"""

from collections.abc import Mapping
from functools import lru_cache

from clustersim.catalog.finding import shipped
from clustersim.errors import ScenarioError
from clustersim.program.job import Job
from clustersim.scenario.load import load
from clustersim.simulation.build import build_job
from clustersim.simulation.simulate import Result, simulate
from clustersim.validation.cases.cases import Entry, read_cases
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.outcomes import Outcome
from clustersim.validation.validate import run
from clustersim.workload.parameters import model_parameters


def job_of(name: str, *settings: str) -> Job:
    """Return the job of a scenario."""
    return build_job(load(name, settings))


def state_bytes(name: str, *settings: str) -> float:
    """Return the training states of a scenario's model, over all ranks of a replica [B]."""
    job = job_of(name, *settings)
    recipe = job.framework.state[job.precision]
    parts = (recipe.weights, recipe.gradients, recipe.optimiser, recipe.master)
    each = sum(part.value for part in parts if part is not None)
    return model_parameters(job.model) * each


def rate(name: str, *settings: str) -> float:
    """Return the model FLOPs of a device in a second."""
    result: Result = simulate(name, settings)
    return result.flops_per_device("model")


@lru_cache
def _cases() -> Mapping[str, Entry]:
    return {entry.id: entry for entry in read_cases(shipped("validation") / "cases.yaml")}


@lru_cache
def _outcome(case: str) -> Outcome:
    if case not in _cases():
        raise ScenarioError(f"validation/cases.yaml: has no case '{case}' any more")
    return run(_cases()[case])


def measured(case: str) -> float:
    """Return what is predicted for the measured number of a case, in the units of the case."""
    outcome = _outcome(case)
    if outcome.grade is None:
        raise Ungradable(*outcome.reasons)
    return outcome.grade.predicted
