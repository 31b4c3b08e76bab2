"""Measured cases, run as scenarios and graded.

    Entry --case_of--> Case --scenario_of, simulate--> Result --grade--> Outcome

Nothing is fitted.  A case that the model cannot express, or that leaves out required settings, is
*not gradable*, with the reasons.  Many cases run in one `concurrent.futures.Executor`.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from functools import partial
from typing import Any, Final

from clustersim.errors import CatalogError, ClustersimError, PlanError, ScenarioError
from clustersim.memory.room import outcome_of
from clustersim.memory.verdict import Verdict
from clustersim.runs.executors import run_alone
from clustersim.runs.workers import InProcess
from clustersim.scenario.load import Loaded
from clustersim.scenario.traits import step_traits
from clustersim.simulation.garbage import garbage_collection_off
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate
from clustersim.suggestions import nearest
from clustersim.validation.cases.case import Case, case_of
from clustersim.validation.cases.machines import matches
from clustersim.validation.cases.reasons import Reason, Ungradable
from clustersim.validation.cases.rows import Entry, Row
from clustersim.validation.cases.scenario import scenario_of
from clustersim.validation.cases.settings import CHEAPEST, RECOMPUTE
from clustersim.validation.cases.texts import HARDWARE, MODEL, MeasuredPeak
from clustersim.validation.families import durations, energy, goodput, sharing, stragglers
from clustersim.validation.grading import (
    SINGLE_LAYER,
    Grade,
    Graded,
    Measure,
    grade,
    grade_layer,
    layer_flops,
    layer_times,
    measure_of,
    measured_memory,
    measured_metric,
)
from clustersim.validation.inference.cases import FAMILY as INFERENCE
from clustersim.validation.inference.grading import inference_outcome
from clustersim.validation.outcome import Outcome
from clustersim.workload.slice import PRECISIONS

Observer = Callable[[Loaded, Result], Any]
"""What else is computed from the step of a case, in the process that replays it."""

MOST_BLOCKS: Final = 2_000_000
"""Blocks of the largest replay of one case: some 15 s."""


def select_groups(
    entries: Sequence[Entry], groups: Sequence[str], option: str = "--group"
) -> list[Entry]:
    """Return the cases of some groups, by names or patterns (``vtrain-*``); all without any.

    Parameters
    ----------
    option : where the groups were given, as errors quote it

    Raises
    ------
    ScenarioError
        when no case is of a requested group.
    """
    names = sorted({entry.group for entry in entries})
    for pattern in groups:
        if not any(matches(pattern, name) for name in names):
            hint = nearest(pattern, names) or f" (groups: {', '.join(names)})"
            raise ScenarioError(f"{option}: no case is of group '{pattern}'{hint}")
    if not groups:
        return list(entries)
    return [e for e in entries if any(matches(pattern, e.group) for pattern in groups)]


def run_cases(
    entries: Sequence[Entry],
    executor: Executor | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    observe: Observer | None = None,
) -> list[Outcome]:
    """Run cases and grade them, in their order.

    Parameters
    ----------
    executor : where scenarios run; in this process, one after another, without it
    on_progress : is called after each case with the number of finished cases, and of all
    observe : is called with each step of training; the outcome has what it returns
    """
    executor, finished = executor or InProcess(), 0

    def report(_: Future[Outcome]) -> None:
        nonlocal finished
        finished += 1
        if on_progress is not None:
            on_progress(finished, len(entries))

    futures = []
    for entry in entries:
        future = executor.submit(run_case, entry, observe)
        future.add_done_callback(report)
        futures.append(future)
    return [_outcome(*each, observe) for each in zip(entries, futures, strict=True)]


def _outcome(entry: Entry, future: Future[Outcome], observe: Observer | None) -> Outcome:
    """Return an outcome; a case whose worker process died is run again in one of its own."""
    try:
        try:
            return future.result()
        except BrokenExecutor:
            return run_alone(partial(run_case, observe=observe), entry)
    except BrokenExecutor as error:
        detail = f"its worker process died ({error})"
        return Outcome(entry.id, entry.group, (Reason("its worker process died", detail),))


@garbage_collection_off()  # until the result, of which only numbers are kept, is freed
def run_case(entry: Entry, observe: Observer | None = None) -> Outcome:
    """Run one case and grade it; any error becomes its reason."""
    try:
        return _run(entry, observe)
    except Exception as error:  # one case must not end the others: it is listed with the error
        detail = f"clustersim failed: {type(error).__name__}: {_one_line(str(error))}"
        return Outcome(entry.id, entry.group, (Reason("clustersim failed", detail),))


def _run(entry: Entry, observe: Observer | None) -> Outcome:
    if entry.row is None:
        assert entry.problem is not None, "an entry has a row or a problem"
        return Outcome(entry.id, entry.group, (entry.problem,))
    if entry.row.family in _EFFECTS:
        return _effect_outcome(entry.row)
    if entry.row.family == INFERENCE:
        return inference_outcome(entry.row)
    case = case_of(entry.row)
    outcome = Outcome(
        id=case.row.id,
        group=case.row.group,
        confidence=case.row.source.confidence,
        framework=case.framework.framework,
        framework_assumed=case.framework.assumed,
        assumed=case.settings.assumed,
        memory_measured=measured_memory(case),
        devices=case.settings.devices,
        job=case.job,
        layout=case.layout,
        model=case.row.model.name or "",
    )
    try:
        _check(case)
        graded, rates, loaded, result = _graded(case)
    except Ungradable as problem:
        return replace(outcome, reasons=problem.reasons)
    except (ScenarioError, CatalogError) as problem:
        kind = "invalid layout" if isinstance(problem, PlanError) else "invalid scenario"
        return replace(outcome, reasons=(Reason(kind, _message(problem, case)),))
    assert case.machine is not None, "a case that ran has a machine"
    outcome = replace(
        outcome,
        grade=graded,
        scored=case.complete,
        cluster=case.machine.cluster,
        machine_assumed=case.machine.assumed,
        rates=rates,
    )
    if result is None:
        return outcome
    return replace(
        outcome,
        accelerator=result.scenario.cluster.node.accelerator.name,
        nodes=result.scenario.cluster.nodes,
        memory_predicted=_measured_memory(result.memory, case.peak),
        memory_verdict=outcome_of(result.memory.reason),
        wall=result.wall,
        observed=None if observe is None else observe(loaded, result),
        traits=step_traits(result.scenario),
    )


_EFFECTS: Final[Mapping[str, Callable[[Row], Graded]]] = {
    stragglers.FAMILY: stragglers.grade_straggler_case,
    energy.FAMILY: energy.grade_energy_case,
    goodput.FAMILY: goodput.grade_goodput_case,
    durations.FAMILY: durations.grade_duration_case,
    sharing.FAMILY: sharing.grade_sharing_case,
}
"""What grades rows of a family that are no steps."""


def _effect_outcome(row: Row) -> Outcome:
    """Return the outcome of a row that is no step, scored where nothing is assumed."""
    outcome = Outcome(row.id, row.group, confidence=row.source.confidence)
    try:
        [graded, *others], assumed = _EFFECTS[row.family or ""](row)
    except Ungradable as problem:
        return replace(outcome, reasons=problem.reasons)
    sure = row.source.confidence in ("high", "medium")
    outcome = replace(outcome, grade=graded, others=tuple(others))
    return replace(outcome, assumed=assumed, scored=sure and not assumed)


def _measured_memory(memory: Verdict, peak: MeasuredPeak) -> float:
    """Return the peak that a source measured, of its stage and of what it counts [B]."""
    ends = {"first": memory.stages[0], "last": memory.stages[-1]}
    stage = ends.get(peak.stage) or max(memory.stages, key=lambda stage: stage.peak)
    counted = stage.need if peak.tensors else stage.peak
    return counted - (0.0 if peak.runtime else stage.parts["runtime"])


def _check(case: Case) -> None:
    """Raise `Ungradable` with all reasons against grading a case."""
    reasons: list[Reason] = []
    try:
        measured_metric(case)
    except Ungradable as problem:
        reasons += problem.reasons
    reasons += case.reasons
    if reasons:
        raise Ungradable(*reasons)


def _graded(case: Case) -> tuple[Grade, dict[str, float], Loaded, Result | None]:
    """Return the grade, the rates of a device, the scenario, and its result unless of a layer."""
    if case.row.scope == SINGLE_LAYER:
        loaded = scenario_of(case)
        ahead, back, recomputed = layer_times(loaded)
        graded = grade_layer(_measure(case, loaded), ahead, back + recomputed)
        flops = layer_flops(loaded, graded.metric)
        return graded, {kind: 1e3 * flops[kind] / graded.predicted for kind in flops}, loaded, None
    modes = RECOMPUTE if case.settings.recompute == CHEAPEST else (case.settings.recompute,)
    for mode in modes:
        loaded = scenario_of(case, mode)
        measure = _measure(case, loaded)
        result = _simulated(loaded)
        if result.memory.fits:
            break
    rates = {kind: result.flops_per_device(kind) for kind in (MODEL, HARDWARE)}
    return grade(measure, result, case), rates, loaded, result


def _measure(case: Case, loaded: Loaded) -> Measure:
    """Return the measured number that grades a case."""
    scenario = loaded.scenario
    peak = scenario.cluster.node.accelerator.peak.get(PRECISIONS[scenario.precision].peak)
    if peak is None:
        detail = f"'{scenario.cluster.node.accelerator.name}' has no peak in {scenario.precision}"
        raise Ungradable.because("no peak in its precision", detail)
    recompute = scenario.recompute
    return measure_of(case, recompute if isinstance(recompute, str) else recompute.mode, peak)


def _simulated(loaded: Loaded) -> Result:
    scenario = loaded.scenario
    blocks = 2 * scenario.batch.global_ * scenario.plan.pipeline * (scenario.plan.chunks or 1)
    blocks //= scenario.plan.data * scenario.batch.micro
    if blocks > MOST_BLOCKS:
        detail = f"{blocks:,} blocks a step, more than {MOST_BLOCKS:,}"
        raise Ungradable.because("too large to replay here", detail)
    return simulate(loaded)


def _message(problem: ClustersimError, case: Case) -> str:
    """Return the message without its place: it is about the case, not about a file."""
    lines = [line.removeprefix(f"{case.row.id}: ") for line in str(problem).splitlines()]
    return _one_line("\n".join(lines))


def _one_line(message: str) -> str:
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())
