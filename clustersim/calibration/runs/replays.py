"""Measured runs: the time of each with other coefficients of its accelerator and its framework.

Each run is graded once as `validate` does, which gives its measured time.  Then only the replay is
repeated: the scenario, the machine with its routes and the layout do not depend on coefficients,
and each process keeps those of its runs.
"""

import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from clustersim.calibration.runs.coefficients import (
    FLASH,
    Coefficient,
    flash_facts,
    framework_coefficients,
    with_values,
)
from clustersim.catalog.facts import Record, facts
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.errors import ClustersimError
from clustersim.memory.peak import estimate_memory
from clustersim.program.job import Job
from clustersim.records import dataclass
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import replay_step
from clustersim.topology.accelerator import build_accelerator
from clustersim.validation.case_runs import run_case
from clustersim.validation.cases.case import case_of
from clustersim.validation.cases.reasons import Ungradable, join_reasons
from clustersim.validation.cases.rows import Entry, Measured, Row
from clustersim.validation.cases.scenario import FUSED, scenario_of
from clustersim.validation.cases.settings import CHEAPEST, RECOMPUTE
from clustersim.validation.grading import SINGLE_LAYER, LayerTimes, layer_times_of
from clustersim.workload.kernels import Flash, Gemm, flat

Values = Mapping[str, float]
"""Values of coefficients, by their path in a record."""

HELD: Final = 1000
"""Runs with a machine and a layout that a process keeps."""


@dataclass(frozen=True)
class MeasuredRun:
    """A measured run of the accelerator.

    Attributes
    ----------
    row : its row of the file, as JSON, by which processes identify it
    measured : the measured time, of the step or of a layer [s]
    framework : name of its framework profile
    coefficients : of the framework, without those that the table of frameworks sets
    unused : coefficients of the accelerator that no kernel of the run depends on
    """

    id: str
    group: str
    row: str
    measured: float
    framework: str
    coefficients: tuple[Coefficient, ...]
    unused: frozenset[str] = frozenset()


class _Inspected(NamedTuple):
    """A case as a run, or the reason why it is none; neither if it is of another accelerator."""

    run: MeasuredRun | None = None
    why: str | None = None


def read_runs(
    entries: Sequence[Entry], accelerator: str, executor: Executor
) -> tuple[list[MeasuredRun], dict[str, str]]:
    """Return the runs on an accelerator, and why other cases of it are left out, by id."""
    futures = [executor.submit(_inspect, entry, accelerator) for entry in entries]
    cases = {entry.id: future.result() for entry, future in zip(entries, futures, strict=True)}
    runs = [case.run for case in cases.values() if case.run is not None]
    return runs, {name: case.why for name, case in cases.items() if case.why is not None}


def _inspect(entry: Entry, accelerator: str) -> _Inspected:
    """Grade one case if it ran on an accelerator."""
    if entry.row is None:
        return _Inspected(why=join_reasons([entry.problem]) if entry.problem else "unreadable")
    text = entry.row.model_dump_json(by_alias=True)
    try:
        prepared = _prepared(text)
    except (Ungradable, ClustersimError):
        return _Inspected()  # `validate` lists the reasons
    if prepared.record.name != accelerator:
        return _Inspected()
    outcome = run_case(entry)
    if outcome.grade is None or outcome.grade.time_error is None:
        return _Inspected(why=join_reasons(outcome.reasons) or "only its memory was measured")
    measured = run_seconds(text, {}, {}) / (1 + outcome.grade.time_error)
    return _Inspected(
        MeasuredRun(
            id=entry.id,
            group=entry.group,
            row=text,
            measured=measured,
            framework=prepared.job.framework.name,
            coefficients=tuple(
                coefficient
                for coefficient in framework_coefficients(prepared.job.framework)
                if f"framework.{coefficient.path}" not in prepared.fixed
            ),
            unused=_unused(prepared.job),
        )
    )


def _unused(job: Job) -> frozenset[str]:
    """Return the coefficients of kinds of kernels that a job does not have."""
    ops = [op for layer in job.model.kinds for op in job.layers.ops(layer)]
    ops += [*job.layers.embedding, *job.layers.head]
    kernels = flat([kernel for op in ops for kernel in (*op.forward, *op.backward)])
    fused = [kernel for kernel in kernels if isinstance(kernel, Flash)]
    ragged = any(isinstance(kernel, Gemm) and kernel.ragged for kernel in kernels)
    unused = set() if ragged else {"gemm.ragged"}
    for back, direction in ((False, "forward"), (True, "backward")):
        libraries = {_library(job, kernel) for kernel in fused if kernel.backward == back}
        for owner in FLASH:
            unused |= set() if owner in libraries else {*flash_facts(owner, direction)}
    return frozenset(unused)


def _library(job: Job, kernel: Flash) -> str:
    """Return the place of the facts of a fused attention kernel."""
    own, cudnn = FLASH
    return cudnn if kernel.cudnn and job.cluster.accelerator.cudnn is not None else own


def run_seconds(row: str, accelerator: Values, framework: Values) -> float:
    """Return the predicted time of a run with some coefficients changed [s]."""
    prepared = _prepared(row)
    job = prepared.with_values(accelerator, framework)
    if prepared.layer is not None:
        return _layer_seconds(prepared.layer, layer_times_of(job))
    _, replayed = replay_step(job, fold_replicas=prepared.fold, fusion_bound=FUSED)
    return replayed.timeline.duration


def _layer_seconds(measured: Measured, times: LayerTimes) -> float:
    """Return the time of the measured passes of a layer: both, backward or forward."""
    back = times.backward + times.recompute
    if measured.layer_total_ms is not None:
        return times.forward + back
    return times.forward if measured.layer_backward_ms is None else back


@dataclass(frozen=True)
class _Prepared:
    """All of a run that does not depend on coefficients.

    Attributes
    ----------
    record : of its accelerator, as in its scenario
    fixed : dotted paths that the tables of machines and frameworks set for it
    fold : whether equivalent ranks are replayed as one
    layer : the measured numbers of a single layer; None of a whole step
    """

    job: Job
    record: AcceleratorRecord
    fixed: frozenset[str]
    fold: bool
    layer: Measured | None

    def with_values(self, accelerator: Values, framework: Values) -> Job:
        """Return the job with other coefficients, but for those that are fixed."""
        record = with_values(self.record, self._free("cluster.node.accelerator.", accelerator))
        profile = with_values(self.job.framework, self._free("framework.", framework))
        passes = profile.passes
        cluster = copy.copy(self.job.cluster)  # its routes stay: no coefficient is of a link
        cluster.accelerator = build_accelerator(record, passes)
        return replace(self.job, cluster=cluster, framework=profile)

    def _free(self, owner: str, values: Values) -> Values:
        return {path: value for path, value in values.items() if owner + path not in self.fixed}


@lru_cache(HELD)
def _prepared(row: str) -> _Prepared:
    """Return all of a run that does not depend on coefficients.

    Raises
    ------
    Ungradable, ClustersimError
        when the row cannot be run.
    """
    case = case_of(Row.model_validate_json(row))
    modes = RECOMPUTE if case.settings.recompute == CHEAPEST else (case.settings.recompute,)
    for mode in modes:
        loaded = scenario_of(case, mode)
        job = build_job(loaded)
        if len(modes) > 1 and estimate_memory(job).fits:
            break
    return _Prepared(
        job=job,
        record=loaded.scenario.cluster.node.accelerator,
        fixed=frozenset(_set(loaded)),
        fold=loaded.scenario.fold,
        layer=case.row.measured if case.row.scope == SINGLE_LAYER else None,
    )


def _set(loaded: Loaded) -> list[str]:
    """Return the paths of facts of accelerator and framework that settings have changed."""
    scenario = loaded.scenario
    owners: dict[str, Record] = {
        "cluster.node.accelerator.": scenario.cluster.node.accelerator,
        "framework.": scenario.framework,
    }
    return [
        owner + path
        for owner, record in owners.items()
        for path, fact in facts(record)
        if (fact.assumed or "").startswith("--set ")
    ]
