"""Every measured case as a scenario, run and graded.

    Entry --settings--> obstacles? --machine, framework--> scenario --simulate--> Result --> Outcome

Nothing is fitted.  What the model cannot express, or a case does not tell, makes it *not gradable*,
with the reason.  Many cases go through one `concurrent.futures.Executor`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from clustersim.catalog.tree import nearest
from clustersim.errors import CatalogError, ClustersimError, PlanError, ScenarioError
from clustersim.memory.verdict import Verdict
from clustersim.metrics.prediction_interval import MeasuredRuns, shipped_interval_data
from clustersim.runs.executors import InProcess, run_alone
from clustersim.scenario.load import Loaded
from clustersim.simulation.simulate import Result, simulate
from clustersim.validation import coverage
from clustersim.validation.cases.cases import Case, Entry
from clustersim.validation.cases.machines import (
    MachineChoice,
    alike,
    default_framework,
    framework_of,
    machine_of,
)
from clustersim.validation.cases.obstacles import obstacles
from clustersim.validation.cases.reasons import Reason, Ungradable, count_reasons
from clustersim.validation.cases.scenario import scenario_of
from clustersim.validation.cases.settings import CHEAPEST, RECOMPUTE, Settings, settings_of
from clustersim.validation.curves import Graded
from clustersim.validation.grading import (
    HARDWARE,
    MODEL,
    SINGLE_LAYER,
    Grade,
    Measure,
    grade,
    grade_layer,
    measure,
    measured_memory,
    measured_metric,
)
from clustersim.validation.missed_targets import Finding
from clustersim.validation.outcomes import Outcome
from clustersim.validation.ranking import job_of, layout_of, layout_sets
from clustersim.validation.single_layer import layer_flops, layer_times
from clustersim.validation.summary import Tally, tally
from clustersim.workload.precision import PRECISIONS

MOST_BLOCKS: Final = 2_000_000
"""Blocks of a replay that one case may cost: some 15 s."""


@dataclass(frozen=True)
class Validation:
    """All cases, in the order of their file, measured curves of collectives, and claims.

    Attributes
    ----------
    claims : verdicts as plain values, by `verdicts.Verdict.to_json`
    unreached : what was promised and is not reached, by `unreached.findings`
    runs : the evidence of the intervals; that which is shipped, if None
    """

    outcomes: tuple[Outcome, ...]
    curves: tuple[Graded, ...] = ()
    claims: tuple[dict[str, Any], ...] = ()
    unreached: tuple[Finding, ...] = ()
    runs: tuple[MeasuredRuns, ...] | None = None

    @property
    def groups(self) -> dict[str, Tally]:
        """The errors of each group, by name."""
        names = sorted({outcome.group for outcome in self.outcomes})
        return {n: tally([o for o in self.outcomes if o.group == n]) for n in names}

    @property
    def all(self) -> Tally:
        """The errors of all cases together."""
        return tally(self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "cases": [outcome.to_json() for outcome in self.outcomes],
            "groups": {name: asdict(sums) for name, sums in self.groups.items()},
            "all": asdict(self.all),
            "reasons": count_reasons(o.reasons for o in self.outcomes if not o.gradable),
            "layouts": [found.to_json() for found in layout_sets(self.outcomes)],
            "curves": [graded.to_json() for graded in self.curves],
            "claims": list(self.claims),
            "unreached": [finding.to_json() for finding in self.unreached],
            "coverage": self._coverage(),
        }

    def _coverage(self) -> dict[str, Any]:
        runs = shipped_interval_data() if self.runs is None else self.runs
        return coverage.to_json(coverage.coverage(self.outcomes, runs))


def validate(
    cases: Sequence[Entry],
    groups: Sequence[str] = (),
    executor: Executor | None = None,
    told: Callable[[], None] | None = None,
) -> Validation:
    """Run every measured case and grade it.

    Parameters
    ----------
    groups : names of groups or patterns over them (``vtrain-*``); all without any
    executor : where scenarios run; without one they run here, one after another
    told : is called whenever a case is done

    Raises
    ------
    ScenarioError
        when no case is of a group that is asked for.
    """
    chosen = select(cases, groups)
    executor = executor or InProcess()
    futures = []
    for entry in chosen:
        future = executor.submit(run, entry)
        if told is not None:
            future.add_done_callback(lambda _: told())
        futures.append(future)
    return Validation(tuple(map(_collected, chosen, futures)))


def select(cases: Sequence[Entry], groups: Sequence[str]) -> list[Entry]:
    """Return the cases of some groups; errors as in `validate`."""
    known = sorted({entry.group for entry in cases})
    for pattern in groups:
        if not any(alike(pattern, group) for group in known):
            hint = nearest(pattern, known) or f" (known: {', '.join(known)})"
            raise ScenarioError(f"--group: no case is of group '{pattern}'{hint}")
    if not groups:
        return list(cases)
    return [e for e in cases if any(alike(pattern, e.group) for pattern in groups)]


def _collected(entry: Entry, future: Future[Outcome]) -> Outcome:
    """Return an outcome; those that a dying worker took along are run again, each alone."""
    try:
        try:
            return future.result()
        except BrokenExecutor:
            return run_alone(run, entry)
    except BrokenExecutor as error:
        told = f"its worker process died ({error})"
        return Outcome(entry.id, entry.group, (Reason("its worker process died", told),))


def run(entry: Entry) -> Outcome:
    """Run one case and grade it; whatever is wrong with it becomes its reason."""
    try:
        return _run(entry)
    except Exception as error:  # one case must not end the others: it is listed with the error
        told = f"clustersim failed: {type(error).__name__}: {_one_line(str(error))}"
        return Outcome(entry.id, entry.group, (Reason("clustersim failed", told),))


def _run(entry: Entry) -> Outcome:
    case = entry.case
    if case is None:
        assert entry.trouble is not None, "an entry is a case or has a trouble"
        return Outcome(entry.id, entry.group, (entry.trouble,))
    framework = framework_of(case.group, case.source.title)
    settings = settings_of(case, framework.usual if framework else None)
    framework = framework or default_framework(settings.zero or 0, settings.context)
    outcome = Outcome(
        id=case.id,
        group=case.group,
        confidence=case.source.confidence,
        framework=framework.framework,
        framework_assumed=framework.assumed,
        assumed=settings.assumed,
        memory_measured=measured_memory(case.measured),
        devices=settings.devices,
        job=job_of(case, settings),
        layout=layout_of(case, settings),
    )
    try:
        machine = _prepared(case, settings)
        scenario = partial(scenario_of, case, machine, framework)
        graded, rates, result = _graded(case, settings, scenario)
    except Ungradable as problem:
        return replace(outcome, reasons=problem.reasons)
    except (ScenarioError, CatalogError) as problem:
        kind = "layout refused" if isinstance(problem, PlanError) else "scenario refused"
        return replace(outcome, reasons=(Reason(kind, _refusal(problem, case)),))
    sure = case.source.confidence in ("high", "medium")
    outcome = replace(
        outcome,
        grade=graded,
        gates=sure and settings.complete and framework.source is not None,
        cluster=machine.cluster,
        machine_assumed=machine.assumed,
        rates=rates,
    )
    if result is None:
        return outcome
    return replace(
        outcome,
        accelerator=result.scenario.cluster.node.accelerator.name,
        nodes=result.scenario.cluster.nodes,
        memory_predicted=_told_memory(result.memory, framework.memory),
        memory_peak=result.memory.fullest.peak,
        memory_capacity=result.memory.capacity,
        wall=result.wall,
    )


def _told_memory(memory: Verdict, stage: str) -> float:
    """Return the peak of the stage that a source tells of [B]."""
    return (memory.stages[0] if stage == "first" else memory.fullest).peak


def _prepared(case: Case, settings: Settings) -> MachineChoice:
    """Return the machine of a case that can be run; all that stands against it together."""
    reasons: list[Reason] = []
    machine = None
    try:
        measured_metric(case)
    except Ungradable as problem:
        reasons += problem.reasons
    try:
        machine = machine_of(case)
    except Ungradable as problem:
        reasons += problem.reasons
    reasons += obstacles(case, settings)
    if reasons or machine is None:
        raise Ungradable(*reasons)
    return machine


def _graded(
    case: Case, settings: Settings, scenario: Callable[[Settings], Loaded]
) -> tuple[Grade, dict[str, float], Result | None]:
    """Return the grade of a case, the rates of a device, and the result unless of a layer alone."""
    if case.scope == SINGLE_LAYER:
        loaded = scenario(settings)
        ahead, back, again = layer_times(loaded)
        graded = grade_layer(_asked(case, loaded), ahead, back + again)
        flops = layer_flops(loaded, graded.metric)
        return graded, {kind: 1e3 * flops[kind] / graded.predicted for kind in flops}, None
    modes = RECOMPUTE if settings.recompute == CHEAPEST else (settings.recompute,)
    for mode in modes:
        loaded = scenario(replace(settings, recompute=mode))
        asked = _asked(case, loaded)
        result = _simulated(loaded)
        if result.memory.fits:
            break
    rates = {kind: result.flops_per_device(kind) for kind in (MODEL, HARDWARE)}
    return grade(asked, result, case.measured), rates, result


def _asked(case: Case, loaded: Loaded) -> Measure:
    """Return what a case is graded by."""
    given = loaded.scenario
    peak = given.cluster.node.accelerator.peak.get(PRECISIONS[given.precision].peak)
    if peak is None:
        told = f"'{given.cluster.node.accelerator.name}' has no peak in {given.precision}"
        raise Ungradable(Reason("no peak in its precision", told))
    said = given.recompute if isinstance(given.recompute, str) else given.recompute.mode
    return measure(case, said, peak.value)


def _simulated(loaded: Loaded) -> Result:
    given = loaded.scenario
    blocks = 2 * given.batch.global_ * given.plan.pipeline * (given.plan.chunks or 1)
    blocks //= given.plan.data * given.batch.micro
    if blocks > MOST_BLOCKS:
        told = f"{blocks:,} blocks a step, more than {MOST_BLOCKS:,}"
        raise Ungradable(Reason("too large to replay here", told))
    return simulate(loaded)


def _refusal(problem: ClustersimError, case: Case) -> str:
    """Return the complaint without its place: it is about the case, not about a file."""
    lines = [line.removeprefix(f"{case.id}: ") for line in str(problem).splitlines()]
    return _one_line("\n".join(lines))


def _one_line(message: str) -> str:
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())
