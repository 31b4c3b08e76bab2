"""Compare runs: what differs in their inputs and results, and which parts of the step cause it.

    before, after (what `run --json` prints) --compare_runs--> differences, parts, finding

The parts of the step time add up to it in each run, so their differences add up to the difference
of the step times.  Steps of different batches are also compared by the device time per token,
which adds up in the same way.  Where all scenarios have a section `training`, whole runs are
compared, and their steps are a cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clustersim.catalog.changes import Settings
from clustersim.metrics.attribution import SlowestStage
from clustersim.metrics.difference import difference, format_causes, format_ratio, format_speed
from clustersim.runs.arguments import settings_of
from clustersim.runs.execution import OnProgress, ignore_progress
from clustersim.runs.run_arguments import check_run_measure
from clustersim.runs.table import measures
from clustersim.runs.variants import Variant
from clustersim.simulation.step.answer import ExposedCommunication, RunAnswer
from clustersim.studies.compare.before_after import BeforeAfter, Difference
from clustersim.studies.compare.compared import read_compared, required
from clustersim.studies.compare.inputs import Input, changed_inputs
from clustersim.studies.compare.whole_runs import (
    RunComparison,
    compare_whole_runs,
    run_finding,
    run_numbers,
)


@dataclass(frozen=True)
class PeakMemory:
    """The peak of the fullest stage, and whether it fits.

    Attributes
    ----------
    fits : whether the peak is within the capacity, on device and host
    stage : number of the fullest stage
    peak_bytes : the most that a device of the fullest stage holds [B]
    verdict : the same in words, with the reason
    """

    fits: bool
    stage: int
    peak_bytes: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """A run compared with the first one.

    Attributes
    ----------
    before : name of the first run
    after : name of the other run
    finding : the result in a sentence
    speedup : tokens per second, after over before
    inputs : values of the scenarios that differ
    differences : numbers of the answers by their column in `compare.csv`: `step_time_s`,
        `tokens_per_s`, `mfu` and so on; with `power_w` [W] and `energy_per_token_j` [J] where the
        power of both machines is known; with `days`, `goodput`, `energy` [kWh], `cost` [USD] and
        other numbers of whole runs where both scenarios have a section `training`
    same_tokens : whether both steps train on the same number of tokens
    parts : change of each part of `attribution`; they add up to the change of `step_time_s` [s]
    parts_per_token : change of the device time per token by part; they add up to its change
        [device-seconds]
    bottleneck : `before` and `after`: the longest exposed communication, as in `exposed` of
        `run --json`; null where there is none
    slowest_stage : `before` and `after`: the stage whose ranks compute the longest, as in
        `run --json`
    memory : `before` and `after`: `fits`, `stage`, `peak_bytes` and `verdict`, as in `memory` of
        `run --json`
    training : the whole runs; null where one of the scenarios has no section `training`
    """

    before: str
    after: str
    finding: str
    speedup: float
    inputs: tuple[Input, ...]
    differences: Mapping[str, Difference]
    same_tokens: bool
    parts: Mapping[str, float]
    parts_per_token: Mapping[str, float]
    bottleneck: BeforeAfter[ExposedCommunication | None]
    slowest_stage: BeforeAfter[SlowestStage]
    memory: BeforeAfter[PeakMemory]
    training: RunComparison | None = None


@dataclass(frozen=True)
class ComparedRun:
    """A run that is compared.

    Attributes
    ----------
    name : name of the run in this comparison
    scenario : its scenario, a file or a shipped name
    settings : changes of the scenario
    answer : what `run --json` prints
    """

    name: str
    scenario: str
    settings: tuple[str, ...]
    answer: RunAnswer


@dataclass(frozen=True)
class CompareAnswer:
    """Runs, each but the first compared with the first.

    Attributes
    ----------
    runs : in the order in which they are given
    comparisons : one for each run after the first
    by : measure of whole runs that findings state: `days`, `goodput`, `energy` or `cost`; null
        where a scenario has no section `training`, so that steps are compared
    """

    runs: tuple[ComparedRun, ...]
    comparisons: tuple[Comparison, ...]
    by: str | None = None


def compare(
    scenarios: Sequence[str],
    *,
    by: str | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> CompareAnswer:
    """Compare runs of scenarios, each with the first one: inputs, results and causes.

    Parameters
    ----------
    scenarios : two or more files or names of shipped scenarios; ``"A plan.zero=1"`` is A with a
        change
    by : measure of whole runs that findings state: ``"days"``, ``"goodput"``, ``"energy"`` or
        ``"cost"``; days if None and all scenarios have a section `training`
    settings : changes of all scenarios, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : called with the number of runs that are done, and of all

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is invalid, before any is run.
    SimulationError
        when a run failed.

    >>> import clustersim
    >>> pair = ["frontier-22b", "frontier-22b recompute=none"]
    >>> answer = clustersim.compare(pair, settings={"batch.global": 16}, jobs=1)
    >>> [value.text for value in answer.comparisons[0].inputs]
    ['recompute full -> none']
    """
    compared = read_compared(scenarios, settings, Variant.load, ("frontier-22b", "batch.micro=2"))
    if by is not None:
        check_run_measure(by, compared.loaded)
    elif all(scenario.scenario.training is not None for scenario in compared.loaded):
        by = "days"
    runs = compared.run(store=store, jobs=jobs, executor=executor, on_progress=on_progress)
    names, loaded = compared.names, compared.loaded
    answers = [required(name, run.answer, run) for name, run in zip(names, runs, strict=True)]
    return CompareAnswer(
        runs=tuple(
            ComparedRun(name, variant.scenario, settings_of(variant.settings), answer)
            for name, variant, answer in zip(names, compared.variants, answers, strict=True)
        ),
        comparisons=tuple(
            compare_runs((names[0], name), answers[0], answer, changed_inputs(loaded[0], other), by)
            for name, answer, other in zip(names[1:], answers[1:], loaded[1:], strict=True)
        ),
        by=by,
    )


def compare_runs(
    names: tuple[str, str],
    before: RunAnswer,
    after: RunAnswer,
    inputs: Sequence[Input] = (),
    by: str | None = None,
) -> Comparison:
    """Return what differs between two runs, and why.

    Parameters
    ----------
    by : measure of whole runs that the finding states; None for the finding of steps
    """
    parts = difference(before.attribution, after.attribution)
    per_token = difference(*(device_time_per_token(answer) for answer in (before, after)))
    whole = None if by is None else compare_whole_runs(names, before, after, by)
    return Comparison(
        before=names[0],
        after=names[1],
        finding=_finding(names, before, after, parts, per_token)
        if whole is None
        else run_finding(names, before, after, whole),
        speedup=after.tokens_per_s / before.tokens_per_s,
        inputs=tuple(inputs),
        differences=_differences(before, after),
        same_tokens=tokens_of(before) == tokens_of(after),
        parts=parts,
        parts_per_token=per_token,
        bottleneck=BeforeAfter(bottleneck(before), bottleneck(after)),
        slowest_stage=BeforeAfter(before.slowest_stage, after.slowest_stage),
        memory=BeforeAfter(_memory(before), _memory(after)),
        training=whole,
    )


def _differences(before: RunAnswer, after: RunAnswer) -> dict[str, Difference]:
    """Return each number of the answers before and after, and its change."""
    old, new = (
        {**measures(answer), **_power(answer), **run_numbers(answer)} for answer in (before, after)
    )
    old = {name: value for name, value in old.items() if name in new}
    return {name: Difference(old[name], new[name], new[name] - old[name]) for name in old}


def _power(answer: RunAnswer) -> dict[str, float]:
    """Return mean power and energy per token; nothing where no power is known."""
    if answer.power_w is None or answer.energy_per_step_j is None:
        return {}
    per_token = answer.energy_per_step_j / tokens_of(answer)
    return {"power_w": answer.power_w.mean, "energy_per_token_j": per_token}


def _finding(
    names: tuple[str, str],
    before: RunAnswer,
    after: RunAnswer,
    parts: Mapping[str, float],
    per_token: Mapping[str, float],
) -> str:
    """Return the result in a sentence: how much faster the other run is, and by which parts."""
    speedup = after.tokens_per_s / before.tokens_per_s
    same_tokens = tokens_of(before) == tokens_of(after)
    sentence = format_speed(names[1], speedup)
    if sentence.endswith("long") and not same_tokens:
        sentence += " per token"
    sentence += f" as {names[0]}"
    devices = before.counts.devices, after.counts.devices
    if devices[0] != devices[1]:
        sentence += (
            f" ({format_ratio(speedup * devices[0] / devices[1])} times the tokens per device)"
        )
    if same_tokens:
        return f"{sentence}{format_causes(parts)}"
    causes = format_causes(per_token)
    return f"{sentence}{causes} of device time per token" if causes else sentence


def tokens_of(answer: RunAnswer) -> int:
    """Return the tokens of a step."""
    return round(answer.tokens_per_s * answer.step_time_s)


def device_time_per_token(answer: RunAnswer) -> dict[str, float]:
    """Return the time of all devices per token, by part [device-seconds]."""
    share = answer.counts.devices / tokens_of(answer)
    return {part: seconds * share for part, seconds in answer.attribution.items()}


def bottleneck(answer: RunAnswer) -> ExposedCommunication | None:
    """Return the longest exposed communication, with the link that limits it."""
    return answer.exposed[0] if answer.exposed else None


def _memory(answer: RunAnswer) -> PeakMemory:
    memory = answer.memory
    return PeakMemory(memory.fits, memory.stage, memory.peak_bytes, memory.verdict)
