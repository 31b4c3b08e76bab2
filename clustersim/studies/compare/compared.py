"""The scenarios of a comparison, each with a name of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from clustersim.catalog.changes import Settings
from clustersim.errors import ScenarioError, SimulationError
from clustersim.runs.arguments import check, settings_of, study_of, variant_of
from clustersim.runs.execution import OnProgress, run_study
from clustersim.runs.variants import FAILED, Run, Variant
from clustersim.scenario.load import Loaded, LoadedService

Scenario = TypeVar("Scenario", Loaded, LoadedService)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Compared(Generic[Scenario]):
    """Scenarios that are compared with the first of them.

    Attributes
    ----------
    names : of the scenarios in this comparison
    variants, loaded : the scenarios with their changes
    """

    names: tuple[str, ...]
    variants: tuple[Variant, ...]
    loaded: tuple[Scenario, ...]

    def run(
        self,
        *,
        store: str | Path | None,
        jobs: int | None,
        executor: str | None,
        on_progress: OnProgress,
    ) -> list[Run]:
        """Run all scenarios; parameters as of `run_study`."""
        first = self.loaded[0]
        study = study_of("compare", first.name, first.scenario.title, self.variants)
        return run_study(
            study, self.variants, store=store, jobs=jobs, executor=executor, on_progress=on_progress
        )


def read_compared(
    scenarios: Sequence[str],
    settings: Settings,
    load: Callable[[Variant], Scenario],
    example: tuple[str, str],
) -> Compared[Scenario]:
    """Return the scenarios of a comparison.

    Parameters
    ----------
    scenarios : files or names of shipped scenarios, which may be followed by changes
    settings : changes of all scenarios
    load : loads a scenario of the kind that is compared
    example : a shipped scenario and a change, for the message on a single scenario

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is invalid, or there is only one.
    """
    shared = settings_of(settings)
    texts = [scenarios] if isinstance(scenarios, str) else scenarios
    variants = [variant_of(text, shared) for text in texts]
    loaded = [load(variant) for variant in variants]
    for scenario in loaded:
        check(scenario)
    if len(variants) < 2:
        name, change = variants[0].scenario if variants else example[0], example[1]
        raise ScenarioError(
            f"{name}: one scenario, and two are needed (name a second one, or a change of the"
            f" first: '{name} {change}')"
        )
    own = [settings_of(variant.settings[len(shared) :]) for variant in variants]
    names = names_of([(one.name, extra) for one, extra in zip(loaded, own, strict=True)])
    return Compared(tuple(names), tuple(variants), tuple(loaded))


def names_of(variants: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return names of runs: the scenario, and its settings where two have the same scenario.

    >>> names_of([("a", []), ("b", ["plan.zero=1"])])
    ['a', 'b']
    >>> names_of([("a", []), ("a", ["plan.zero=1"])])
    ['a', 'a plan.zero=1']
    """
    names = [name for name, _ in variants]
    return [
        " ".join([name, *settings]) if names.count(name) > 1 else name
        for name, settings in variants
    ]


def required(name: str, answer: Answer | None, run: Run) -> Answer:
    """Return the answer of a run that must have one.

    Raises
    ------
    ScenarioError, SimulationError
        when its scenario is invalid, or it failed.
    """
    if answer is None:
        error = SimulationError if run.verdict == FAILED else ScenarioError
        raise error(f"{name}: {run.why}")
    return answer
