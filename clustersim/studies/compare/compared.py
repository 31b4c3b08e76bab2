"""The scenarios of a comparison: of one kind, each with a name of its own."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clustersim.catalog.changes import Settings
from clustersim.errors import ScenarioError, SimulationError
from clustersim.runs.arguments import check, settings_of, variant_of
from clustersim.runs.variants import FAILED, Run, ScenarioAnswer, Variant
from clustersim.scenario.load import (
    Loaded,
    LoadedScenario,
    LoadedService,
    LoadedSharing,
    LoadedTrace,
)
from clustersim.simulation.limits import kinds_of
from clustersim.simulation.measures import QUEUE_GROWTH

EXAMPLES: Final = {
    Loaded: ("frontier-22b", "batch.micro=2"),
    LoadedService: ("llama3-70b-h100-serving", "precision=fp8"),
    LoadedSharing: ("superpod-hashed-neighbours", "jobs.0.nodes=scattered"),
    LoadedTrace: ("trace.yaml", "cluster.nic.bandwidth=x2"),
}
"""A shipped scenario of each kind and a change, for the message on a single scenario."""

RATED: Final = ("concurrency", "offline")
"""Loads of which a faster service serves more; of the others it serves the same sooner."""


def read_compared(
    scenarios: Sequence[str | Mapping[str, Any]], settings: Settings
) -> tuple[list[Variant], list[LoadedScenario], list[str]]:
    """Return the scenarios of a comparison with their changes, and a name of each in it.

    Parameters
    ----------
    scenarios : files or names of shipped scenarios, which may be followed by changes
    settings : changes of all scenarios

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is invalid, there is only one, or they are of different kinds.
    """
    shared = settings_of(settings)
    texts = [scenarios] if isinstance(scenarios, str | Mapping) else scenarios
    variants = [variant_of(text, shared) for text in texts]
    loaded = [variant.load_any() for variant in variants]
    check_one_kind(loaded)
    for scenario in loaded:
        check(scenario)
    if len(variants) < 2:
        example = EXAMPLES[type(loaded[0]) if loaded else Loaded]
        name, change = loaded[0].name if variants else example[0], example[1]
        raise ScenarioError(
            f"{name}: one scenario, and two are needed (name a second one, or a change of the"
            f" first: '{name} {change}')"
        )
    own = [settings_of(variant.settings[len(shared) :]) for variant in variants]
    names = names_of([(one.name, extra) for one, extra in zip(loaded, own, strict=True)])
    return variants, loaded, names


_KINDS: Final = {
    Loaded: "training",
    LoadedService: "a service",
    LoadedSharing: "several jobs",
    LoadedTrace: "a trace",
}
"""What a scenario of each kind is."""


def check_one_kind(loaded: Sequence[LoadedScenario]) -> None:
    """Check that scenarios of one kind alone share a study.

    Raises
    ------
    ScenarioError
        in one line, with a scenario of each of two kinds.
    """
    first = {type(one): one.name for one in reversed(loaded)}
    if len(first) > 1:
        (a, one), (b, other), *_ = sorted(first.items(), key=lambda e: [*_KINDS].index(e[0]))[::-1]
        raise ScenarioError(
            f"{one} is {_KINDS[a]} and {other} is {_KINDS[b]}: only scenarios of one kind share a"
            " study"
        )


def usual_measure(loaded: Sequence[LoadedScenario], answers: Sequence[ScenarioAnswer]) -> str:
    """Return the measure that describes answers of one kind.

    Days of whole runs; the step time, or the throughput of steps for different work; of services
    the rate of a device, or the latency where the load is the same for a faster one, or the rate
    that each sustains where a queue grows.
    """
    first = loaded[0]
    if any(each.measures().get(QUEUE_GROWTH) for each in answers):
        return "sustainable_rate"
    if isinstance(first, LoadedSharing):
        return "slowdown"
    if isinstance(first, LoadedTrace):
        return "step_time_s"
    if isinstance(first, LoadedService):
        if first.scenario.load.kind not in RATED:
            return "latency"
        numbers = answers[0].measures()  # prompts alone have no time per token
        prompts_only = "ttft" in numbers and "tpot" not in numbers
        return "total_tokens_per_s_per_device" if prompts_only else "tokens_per_s_per_device"
    if all("training run" in kinds_of(one) for one in loaded):
        return "days"
    work = {account.basis for each in answers for account in each.accounts()[:1]}
    return "step_time_s" if len(work) == 1 else "tokens_per_s"


def names_of(variants: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return names of runs: the scenario, and its settings where two have the same scenario.

    >>> names_of([("a", []), ("b", ["plan.zero=1"])])
    ['a', 'b']
    >>> names_of([("a", []), ("a", ["plan.zero=1"])])
    ['a', 'a plan.zero=1']
    >>> names_of([("scenario", []), ("scenario", [])])
    ['scenario (1)', 'scenario (2)']
    """
    plain = [name for name, _ in variants]
    names = [
        " ".join([name, *settings]) if plain.count(name) > 1 else name
        for name, settings in variants
    ]
    return [
        f"{name} ({number})" if names.count(name) > 1 else name
        for number, name in enumerate(names, 1)
    ]


def required(name: str, run: Run) -> ScenarioAnswer:
    """Return the answer of a run that must have one.

    Raises
    ------
    ScenarioError, SimulationError
        when its scenario is invalid, or it failed.
    """
    if run.answer is None:
        error = SimulationError if run.verdict == FAILED else ScenarioError
        raise error(f"{name}: {run.why}")
    return run.answer
