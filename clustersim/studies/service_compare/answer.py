"""Compare services: what differs in their inputs and results, and in the time of a token.

    before, after (what `serve --json` prints) --compare_services--> differences, parts, finding

The parts of the mean time per token add up to it in each service, so their differences add up to
the difference of the times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clustersim.catalog.changes import Settings
from clustersim.render.service_words import causes_text, format_gain
from clustersim.runs.arguments import settings_of
from clustersim.runs.execution import OnProgress, ignore_progress
from clustersim.runs.service_arguments import check_measure
from clustersim.runs.variants import Variant
from clustersim.scenario.load import LoadedService
from clustersim.simulation.service.answer import ServeAnswer, ServeMemory
from clustersim.simulation.service.measures import SERVICE_MEASURES, service_measures
from clustersim.studies.compare import (
    BeforeAfter,
    Difference,
    Input,
    changed_inputs,
    read_compared,
    required,
)

RATED: Final = ("concurrency", "offline")
"""Loads of which a faster service serves more; of the others it serves the same sooner."""


@dataclass(frozen=True)
class ServiceComparison:
    """A service compared with the first one.

    Attributes
    ----------
    before : name of the first service
    after : name of the other service
    finding : the result in a sentence
    gain : how many times better the measure `by` is: a rate after over before, a time before over
        after; null where one of them does not fit
    inputs : values of the scenarios that differ
    differences : measures by name: times are means [s], rates in a second; empty where one of the
        services does not fit
    parts : change of each part of `attribution`; they add up to that of the time per token [s]
    ttft_parts : change of each part of `ttft_attribution` [s]
    limiting : `before` and `after`: the largest cause of the time per token
    memory : `before` and `after`: as in `memory` of `serve --json`
    """

    before: str
    after: str
    finding: str
    gain: float | None
    inputs: tuple[Input, ...]
    differences: Mapping[str, Difference]
    parts: Mapping[str, float]
    ttft_parts: Mapping[str, float]
    limiting: BeforeAfter[str | None]
    memory: BeforeAfter[ServeMemory]


@dataclass(frozen=True)
class ComparedService:
    """A service that is compared.

    Attributes
    ----------
    name : name of the service in this comparison
    scenario : its scenario, a file or a shipped name
    settings : changes of the scenario
    answer : what `serve --json` prints
    """

    name: str
    scenario: str
    settings: tuple[str, ...]
    answer: ServeAnswer


@dataclass(frozen=True)
class CompareServicesAnswer:
    """Services, each but the first compared with the first.

    Attributes
    ----------
    by : measure that findings state
    services : in the order in which they are given
    comparisons : one for each service after the first
    """

    by: str
    services: tuple[ComparedService, ...]
    comparisons: tuple[ServiceComparison, ...]


def compare_services(
    scenarios: Sequence[str],
    *,
    by: str | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> CompareServicesAnswer:
    """Compare services, each with the first one: inputs, results and causes.

    Parameters
    ----------
    scenarios : two or more files or names of shipped serving scenarios; ``"A precision=fp8"`` is A
        with a change
    by : measure that findings state, one of `SERVICE_MEASURES`; tokens/s per device of users and of
        offline requests, else the latency, if None
    settings, store, jobs, executor, on_progress : as of `clustersim.compare`

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is invalid, before any is simulated.
    SimulationError
        when clustersim itself is at fault.
    """
    compared = read_compared(
        scenarios, settings, Variant.load_service, ("llama3-70b-h100-serving", "precision=fp8")
    )
    if by is not None:
        check_measure("--by", by)
    runs = compared.run(store=store, jobs=jobs, executor=executor, on_progress=on_progress)
    names, first = compared.names, compared.loaded[0]
    answers = [required(name, run.service, run) for name, run in zip(names, runs, strict=True)]
    measure = by or usual_measure(first, answers[0])
    return CompareServicesAnswer(
        by=measure,
        services=tuple(
            ComparedService(name, variant.scenario, settings_of(variant.settings), answer)
            for name, variant, answer in zip(names, compared.variants, answers, strict=True)
        ),
        comparisons=tuple(
            compare_two((names[0], name), answers[0], answer, measure, changed_inputs(first, other))
            for name, answer, other in zip(names[1:], answers[1:], compared.loaded[1:], strict=True)
        ),
    )


def usual_measure(loaded: LoadedService, answer: ServeAnswer) -> str:
    """Return the measure that describes a load: the rate of a device, or the latency."""
    if loaded.scenario.load.kind not in RATED:
        return "latency"
    prompts_only = answer.tpot_s is None and answer.ttft_s is not None
    return "total_tokens_per_s_per_device" if prompts_only else "tokens_per_s_per_device"


def compare_two(
    names: tuple[str, str],
    before: ServeAnswer,
    after: ServeAnswer,
    by: str,
    inputs: Sequence[Input] = (),
) -> ServiceComparison:
    """Return what differs between two services, and why."""
    old, new = service_measures(before), service_measures(after)
    parts = difference_of_all(before.attribution, after.attribution)
    ratio = gain_of(by, old, new)
    return ServiceComparison(
        before=names[0],
        after=names[1],
        finding=_finding(names, (before, after), by, ratio, parts),
        gain=ratio,
        inputs=tuple(inputs),
        differences={
            name: Difference(old[name], new[name], new[name] - old[name])
            for name in old
            if name in new
        },
        parts=parts,
        ttft_parts=difference_of_all(before.ttft_attribution, after.ttft_attribution),
        limiting=BeforeAfter(before.limiting, after.limiting),
        memory=BeforeAfter(before.memory, after.memory),
    )


def gain_of(by: str, before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """Return how many times better a measure is; None where one of the services does not run.

    >>> gain_of("tpot", {"tpot": 0.02}, {"tpot": 0.01}), gain_of("tokens_per_s", {}, {})
    (2.0, None)
    """
    old, new = before.get(by), after.get(by)
    if not old or not new:
        return None
    return new / old if SERVICE_MEASURES[by] else old / new


def difference_of_all(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return `after` less `before`, part by part; a part that one of them lacks is 0 there.

    >>> difference_of_all({"weights": 2.0}, {"weights": 1.0, "tensor": 0.5})
    {'weights': -1.0, 'tensor': 0.5}
    """
    if not before or not after:
        return {}
    return {part: after.get(part, 0.0) - before.get(part, 0.0) for part in {**before, **after}}


def _finding(
    names: tuple[str, str],
    answers: tuple[ServeAnswer, ServeAnswer],
    by: str,
    ratio: float | None,
    parts: Mapping[str, float],
) -> str:
    """Return the result in a sentence: how much better the other service is, and by which parts."""
    unfit = [
        f"{name} {answer.memory.verdict}"
        for name, answer in zip(names, answers, strict=True)
        if not answer.memory.fits
    ]
    if unfit or ratio is None:
        return "; ".join(unfit) or f"{by} is not known of one of the services"
    old, new = (service_measures(answer)[by] for answer in answers)
    return f"{names[1]}: {format_gain(by, ratio, old, new)}{causes_text(parts)}"
