"""Measured runs: what each takes with other coefficients of its accelerator and its framework.

A run is graded once as `validate` does it, which tells its measured time.  Then only the replay is
done again: the scenario, the machine with its routes and the layout do not depend on coefficients,
and each process keeps those of the runs that it has seen.
"""

import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from clustersim.calibration.coefficients import (
    FLASH,
    Coefficient,
    of_flash,
    of_framework,
    with_values,
)
from clustersim.catalog.facts import Record, facts
from clustersim.catalog.records import AcceleratorRecord
from clustersim.engine.replay import replay
from clustersim.errors import ClustersimError
from clustersim.memory.peak import estimate_memory
from clustersim.program.compile import compile_program
from clustersim.program.job import Job
from clustersim.scenario.load import Loaded
from clustersim.simulation.build import build_job
from clustersim.topology.accelerator import build_accelerator
from clustersim.validation.cases.cases import Case, Entry, Measured
from clustersim.validation.cases.machines import default_framework, framework_of, machine_of
from clustersim.validation.cases.obstacles import obstacles
from clustersim.validation.cases.reasons import Ungradable, joined
from clustersim.validation.cases.scenario import FUSED, scenario_of
from clustersim.validation.cases.settings import CHEAPEST, RECOMPUTE, settings_of
from clustersim.validation.grading import SINGLE_LAYER
from clustersim.validation.single_layer import LayerTimes, layer_times_of
from clustersim.validation.validate import run as graded
from clustersim.workload.kernels import Flash, Gemm, flat

Values = Mapping[str, float]
"""Values of coefficients, by their path in a record."""

HELD: Final = 1000
"""Runs whose machine and layout a process keeps."""


@dataclass(frozen=True)
class Run:
    """A measured run.

    Attributes
    ----------
    case : its row of the file, as JSON, which processes pass on and know again
    measured : the time of what was timed of it [s]
    framework : name of the profile that it ran with
    coefficients : of that, but for those that the table of cases sets
    unused : coefficients of the accelerator that none of its kernels depends on
    """

    id: str
    group: str
    case: str
    measured: float
    framework: str
    coefficients: tuple[Coefficient, ...]
    unused: frozenset[str] = frozenset()


class Look(NamedTuple):
    """What a look at a case finds: a run, or why it is none; neither if it is of another chip."""

    run: Run | None = None
    why: str | None = None


def read_runs(
    entries: Sequence[Entry], accelerator: str, executor: Executor
) -> tuple[list[Run], dict[str, str]]:
    """Return the runs on an accelerator, and why other cases of it are none, by id."""
    futures = [executor.submit(look, entry, accelerator) for entry in entries]
    found = {entry.id: future.result() for entry, future in zip(entries, futures, strict=True)}
    runs = [seen.run for seen in found.values() if seen.run is not None]
    return runs, {name: seen.why for name, seen in found.items() if seen.why is not None}


def look(entry: Entry, accelerator: str) -> Look:
    """Grade one case if it ran on an accelerator."""
    if entry.case is None:
        return Look(why=joined([entry.trouble]) if entry.trouble else "cannot be read")
    text = entry.case.model_dump_json(by_alias=True)
    try:
        held = _held(text)
    except (Ungradable, ClustersimError):
        return Look()  # `validate` says what it lacks
    if held.record.name != accelerator:
        return Look()
    outcome = graded(entry)
    if outcome.grade is None or outcome.grade.time_error is None:
        return Look(why=joined(outcome.reasons) or "only its memory was measured")
    measured = run_seconds(text, {}, {}) / (1 + outcome.grade.time_error)
    return Look(
        Run(
            id=entry.id,
            group=entry.group,
            case=text,
            measured=measured,
            framework=held.job.framework.name,
            coefficients=tuple(
                each
                for each in of_framework(held.job.framework)
                if f"framework.{each.path}" not in held.fixed
            ),
            unused=_unused(held.job),
        )
    )


def _unused(job: Job) -> frozenset[str]:
    """Return the coefficients of kinds of kernels that a job has none of."""
    ops = [op for layer in dict.fromkeys(job.model.stack) for op in job.layers.ops(layer)]
    ops += [*job.layers.embedding, *job.layers.head]
    kernels = flat([kernel for op in ops for kernel in (*op.forward, *op.backward)])
    fused = [kernel for kernel in kernels if isinstance(kernel, Flash)]
    ragged = any(isinstance(kernel, Gemm) and kernel.ragged for kernel in kernels)
    unused = set() if ragged else {"gemm.ragged"}
    for back, way in ((False, "forward"), (True, "backward")):
        libraries = {_library(job, kernel) for kernel in fused if kernel.backward == back}
        for owner in FLASH:
            unused |= set() if owner in libraries else {*of_flash(owner, way)}
    return frozenset(unused)


def _library(job: Job, kernel: Flash) -> str:
    """Return where the facts of a fused kernel stand."""
    ours, cudnn = FLASH
    return cudnn if kernel.cudnn and job.cluster.accelerator.cudnn is not None else ours


def run_seconds(text: str, accelerator: Values, framework: Values) -> float:
    """Return what a case takes with some coefficients changed [s]."""
    held = _held(text)
    job = held.with_values(accelerator, framework)
    if held.timed is not None:
        return _layer_seconds(held.timed, layer_times_of(job))
    program = compile_program(job, fold_replicas=held.fold, fusion_bound=FUSED)
    return replay(program).timeline.duration


def _layer_seconds(timed: Measured, times: LayerTimes) -> float:
    """Return the time of what was timed of a layer: all of it, backward or forward."""
    back = times.backward + times.recompute
    if timed.layer_total_ms is not None:
        return times.forward + back
    return times.forward if timed.layer_backward_ms is None else back


@dataclass(frozen=True)
class Held:
    """What of a run does not depend on coefficients.

    Attributes
    ----------
    record : of its accelerator, as its scenario has it
    fixed : dotted paths that the tables of machines and frameworks set for it
    fold : whether ranks that behave alike are replayed as one
    timed : what was measured of one layer; None of a whole step
    """

    job: Job
    record: AcceleratorRecord
    fixed: frozenset[str]
    fold: bool
    timed: Measured | None

    def with_values(self, accelerator: Values, framework: Values) -> Job:
        """Return the job with other coefficients, but for those that are fixed."""
        record = with_values(self.record, self._open("cluster.node.accelerator.", accelerator))
        profile = with_values(self.job.framework, self._open("framework.", framework))
        passes = None if profile.passes is None else profile.passes.value
        cluster = copy.copy(self.job.cluster)  # its routes stay: no coefficient is of a link
        cluster.accelerator = build_accelerator(record, passes)
        return replace(self.job, cluster=cluster, framework=profile)

    def _open(self, owner: str, values: Values) -> Values:
        return {path: value for path, value in values.items() if owner + path not in self.fixed}


@lru_cache(HELD)
def _held(text: str) -> Held:
    """Return what of a case does not depend on coefficients.

    Raises
    ------
    Ungradable, ClustersimError
        when no job can be made of it.
    """
    case = Case.model_validate_json(text)
    choice, machine = framework_of(case.group, case.source.title), machine_of(case)
    settings = settings_of(case, choice.usual if choice else None)
    choice = choice or default_framework(settings.zero or 0, settings.context)
    if reasons := obstacles(case, settings):
        raise Ungradable(*reasons)
    modes = RECOMPUTE if settings.recompute == CHEAPEST else (settings.recompute,)
    for mode in modes:
        loaded = scenario_of(case, machine, choice, replace(settings, recompute=mode))
        job = build_job(loaded)
        if len(modes) > 1 and estimate_memory(job).fits:
            break
    return Held(
        job=job,
        record=loaded.scenario.cluster.node.accelerator,
        fixed=frozenset(_set(loaded)),
        fold=loaded.scenario.fold,
        timed=case.measured if case.scope == SINGLE_LAYER else None,
    )


def _set(loaded: Loaded) -> list[str]:
    """Return the paths of facts that settings were laid on, of accelerator and framework."""
    given = loaded.scenario
    owners: dict[str, Record] = {
        "cluster.node.accelerator.": given.cluster.node.accelerator,
        "framework.": given.framework,
    }
    return [
        owner + path
        for owner, record in owners.items()
        for path, fact in facts(record)
        if (fact.assumed or "").startswith("--set ")
    ]
