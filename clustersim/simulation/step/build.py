"""From a scenario to a job: model, layout, machine, and where each rank runs."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import local
from typing import Any, Final

from clustersim.answers import answer_from
from clustersim.bounded_cache import BoundedCache
from clustersim.catalog.files import is_file
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.models import ModelRecord
from clustersim.cost.kernels.products import gemm_seconds
from clustersim.disturbance import Draw
from clustersim.errors import PlanError
from clustersim.plan.parallelism import Plan, by_work, even_layers, filled, with_ends
from clustersim.plan.placement import Placement, place
from clustersim.program.collectives.communicator import Prescribed
from clustersim.program.job import Job
from clustersim.program.schedules import SCHEDULES, Schedule
from clustersim.program.schedules.written import read_schedule
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import ClusterUse, RecomputeFile, Scenario
from clustersim.simulation.step.check import check_layout
from clustersim.simulation.step.disturbed import DRAWN, causes_of, faults_of
from clustersim.suggestions import nearest
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.workload.finetune import Finetune
from clustersim.workload.model import Transformer, build_model
from clustersim.workload.ops import MODULES, SELECTIVE, Offload, Recompute
from clustersim.workload.optimisers import OPTIMISERS, with_optimiser
from clustersim.workload.parameters import multiplied
from clustersim.workload.routing import (
    BALANCED,
    Routing,
    nodes_of_token,
    route,
    task_shares,
    zipf_shares,
)

BIG_PRODUCT: Final = 1 << 14
"""Sides of the matrices of a product that reaches the highest rate."""


def build_job(loaded: Loaded, draw: Draw = DRAWN) -> Job:
    """Return the machine, the model and the layout of a scenario.

    Parameters
    ----------
    draw : which step is drawn where ranks differ at random, and which causes are removed

    Raises
    ------
    PlanError
        one line for each problem of the layout.
    ScenarioError, CatalogError
        when a file of steps or a file of cables is wrong.
    """
    scenario, schedule = loaded.scenario, schedule_of(loaded)
    model = model_of(scenario)
    layout = layout_of(scenario, schedule, model)
    check_layout(loaded, schedule, layout, model)

    cluster, placing = cluster_of(loaded, draw), scenario.plan.placement
    placement = place(layout, cluster, placing.order, placing.boxes, placing.devices, loaded.where)
    job = assembled_job(loaded, placement, cluster, model, schedule, draw)
    _check_recomputed(job, loaded)
    _check_products(job, loaded)
    return job


def model_of(scenario: Scenario) -> Transformer:
    """Return the model of a scenario as its framework pads it; one object for equal ones."""
    record, batch, multiple = scenario.model, scenario.batch, scenario.framework.vocab_multiple
    fixed = batch.sequence, multiple, scenario.plan.tensor, batch.sample

    def compute() -> tuple[ModelRecord, Transformer]:
        return record, build_model(record, *fixed)

    made: Transformer = _LATEST_RECORDS.get((id(record), *fixed), 1, compute)[1]
    return made


def framework_of(scenario: Scenario) -> FrameworkRecord:
    """Return the framework of a scenario with its optimiser; the same object for the same ones."""
    framework, name, precision = scenario.framework, scenario.optimiser, scenario.precision

    def compute() -> tuple[FrameworkRecord, FrameworkRecord]:
        return framework, with_optimiser(framework, precision, OPTIMISERS[name])

    made: FrameworkRecord = _LATEST_RECORDS.get((id(framework), precision, name), 1, compute)[1]
    return made


_LATEST_RECORDS: Final = BoundedCache(64, 1)
"""The latest models and frameworks with their records; a kept record has its number to itself."""


def cluster_of(loaded: Loaded, draw: Draw = DRAWN) -> Cluster:
    """Return the machine of a scenario as its framework uses it, with its faults.

    The layouts of a study that differ in nothing of it share it, and what is kept about it.
    """
    scenario = loaded.scenario
    passes = scenario.framework.passes
    faults = faults_of(loaded, draw)
    if faults:
        return build_cluster(
            scenario.cluster, scenario.cluster.nodes, passes, faults, issuer="training"
        )
    return _LATEST.machine(scenario.cluster, passes)


class _LatestMachines(local):
    """The machines of the latest scenarios of a thread."""

    MOST: Final = 2

    def __init__(self) -> None:
        self._built: dict[tuple[int, float | None], tuple[ClusterUse, Cluster]] = {}

    def machine(self, record: ClusterUse, passes: float | None) -> Cluster:
        """Return the machine of a record; another one where its links have numbers by now.

        Links that are numbered in the order of their use would have other numbers in a later
        layout, and equal ones are listed in that order.
        """
        known = self._built.pop(self._key_of(record, passes), None)
        if known is None or known[1].links.in_order_of_use:
            known = record, build_cluster(record, record.nodes, passes, issuer="training")
        self._built[id(known[0]), passes] = known
        while len(self._built) > self.MOST:
            self._built.pop(next(iter(self._built)))
        return known[1]

    def _key_of(self, record: ClusterUse, passes: float | None) -> tuple[int, float | None]:
        """Return the key of a record, or that of an equal one, as read for another model."""
        key = id(record), passes  # a record that is kept has its number to itself
        if key in self._built:
            return key
        alike = (
            one for one, (known, _) in self._built.items() if one[1] == passes and known == record
        )
        return next(alike, key)


_LATEST: Final = _LatestMachines()


def assembled_job(
    loaded: Loaded,
    placement: Placement,
    cluster: Cluster,
    model: Transformer,
    schedule: Schedule,
    draw: Draw = DRAWN,
) -> Job:
    """Return the job of a layout that has been placed; unchecked.

    All that is no part of the layout is that of the scenario, and so is its recomputation.
    """
    scenario = loaded.scenario
    return Job(
        cluster=cluster,
        model=model,
        plan=placement.plan,
        placement=placement,
        schedule=schedule,
        framework=framework_of(scenario),
        precision=scenario.precision,
        recompute=recompute_of(scenario.recompute),
        offload=Offload(**scenario.offload.model_dump()),
        finetune=_finetune(scenario),
        frozen_ends=frozenset(() if scenario.finetune is None else scenario.finetune.frozen),
        routing=_routing(scenario, model, placement),
        algorithms={
            operation: Prescribed(algorithm, loaded.where("collectives", operation))
            for operation, algorithm in scenario.collectives.items()
        },
        causes=causes_of(loaded, placement, draw),
        replication=draw.replication,
    )


def _check_products(job: Job, loaded: Loaded) -> None:
    """Reject a share of the device's own rate with which large products exceed its peak."""
    device, share = job.cluster.accelerator, job.shard.kernels.products_share
    if share <= 1:
        return
    product = job.shard.gemm("large", BIG_PRODUCT, BIG_PRODUCT, BIG_PRODUCT)._replace(share=1.0)
    at_peak = product.flops / device.peak_rate(product.peak)
    most = gemm_seconds(product, device) / at_peak
    if share > most:
        raise PlanError(
            f"{loaded.where('framework', 'kernels', 'products_share')}: {share:g} times the rate of"
            f" '{device.name}', at which large products reach {100 / most:.0f} % of its peak, is"
            f" above the peak (at most {most:.3g})"
        )


def _check_recomputed(job: Job, loaded: Loaded) -> None:
    """Check the names of operations to be recomputed, which follow from the whole job."""
    table = loaded.scenario.recompute
    if isinstance(table, str):
        return
    known = [op.name for layer in job.model.kinds for op in job.layers.ops(layer)]
    allowed = ", ".join(dict.fromkeys(known))
    problems = [
        f"{loaded.where('recompute', 'ops')}: no operation '{name}'{nearest(name, known)}"
        f" (operations of a layer: {allowed})"
        for name in sorted({*table.ops} - {*known})
    ]
    problems += [
        f"{loaded.where('recompute', 'modules')}: no layer has the module '{module}'"
        for module in table.modules
        if MODULES[module].isdisjoint(known)
    ]
    if problems:
        raise PlanError("\n".join(problems))


def _finetune(scenario: Scenario) -> Finetune | None:
    """Return the adapters that are trained; None where the layers themselves are."""
    finetune, merged = scenario.finetune, scenario.framework.kernels.adapters_merged
    if finetune is None or finetune.method == "full":
        return None
    return Finetune(
        finetune.method,
        finetune.rank,
        frozenset(finetune.targets),
        finetune.bits,
        finetune.quantiser,
        finetune.dropout,
        bool(merged),
    )


# --- tokens on experts ----------------------------------------------------------------------------


def _routing(scenario: Scenario, model: Transformer, placement: Placement) -> Routing:
    """Return the share of the tokens of a layer with experts that each rank gets."""
    shape, sent, facts = model.experts, None, scenario.framework.experts
    if shape is None:
        return BALANCED
    if facts is not None and facts.once_per_node:
        devices = scenario.cluster.node.devices
        nodes = [{*group} for group in (placement.expert_groups()[0] // devices).tolist()]
        among = max(map(len, nodes))
        sent = nodes_of_token(shape, among if among > 1 else placement.plan.expert)
    shares = _shares(scenario, shape.count, placement)
    return route(shares, placement.plan.expert, shape.capacity, sent)


def _shares(scenario: Scenario, experts: int, placement: Placement) -> list[float]:
    """Return the shares of the experts in the tokens."""
    load, plan = scenario.experts, placement.plan
    if load is None or load.load == "balanced":
        return [1.0] * experts
    if load.load == "zipf":
        return zipf_shares(experts, load.exponent, plan.expert)
    if load.load == "histogram":
        return load.histogram
    ranks = plan.expert * plan.expert_tensor
    return task_shares(load.tasks, experts, max(1, plan.micro * ranks // plan.cell))


# --- layout ---------------------------------------------------------------------------------------


def layout_of(scenario: Scenario, schedule: Schedule, model: Transformer) -> Plan:
    """Return the layout of a scenario; unchecked."""
    plan, batch = scenario.plan, scenario.batch
    chunks = plan.chunks or schedule.chunks[0]
    parts = schedule.wired(plan.pipeline, chunks).virtual_stages
    return answer_from(
        Plan,
        plan,
        chunks=chunks,
        schedule=schedule.name,
        wiring=schedule.wiring,
        micro=batch.micro,
        microbatches=max(1, batch.global_ // (plan.data * batch.micro)),
        layers=layers_of(plan.layers, model, parts),
    )


def schedule_of(loaded: Loaded) -> Schedule:
    """Return the schedule that a scenario names, or reads from a file next to it.

    Raises
    ------
    ScenarioError
        when there is no such file, or it is not a schedule.
    """
    file = schedule_file(loaded)
    if file is None:
        return schedule_named(loaded.scenario.plan.schedule, loaded.scenario.framework)
    return read_schedule(file, loaded.where("plan", "schedule"))


def schedule_named(name: str, framework: FrameworkRecord) -> Schedule:
    """Return a schedule by its name, as a framework runs it."""
    facts = framework.pipeline
    return _as_run(name, facts.forwards_first, facts.head_deferred)


@lru_cache(maxsize=256)  # one object for all layouts of a search
def _as_run(name: str, forwards_first: bool, deferred: int) -> Schedule:
    return SCHEDULES[name].as_run(forwards_first=forwards_first, deferred=deferred)


def schedule_file(loaded: Loaded) -> Path | None:
    """Return the file of steps that a scenario names; None for a schedule by name."""
    name = loaded.scenario.plan.schedule
    if name in SCHEDULES:
        return None
    neighbour = Path(loaded.place("plan", "schedule").file).parent / name
    return neighbour if is_file(neighbour) else Path(name)


def layers_of(rule: str | Sequence[int], model: Transformer, parts: int) -> tuple[int, ...]:
    """Return the layers of each part of the model; none where it cannot be divided evenly.

    Parameters
    ----------
    rule : ``plan.layers`` of a scenario: a rule by name, or the layers themselves
    """
    layers = model.layers
    if not isinstance(rule, str):
        return tuple(rule)
    if rule == "by-work":
        work = {layer: multiplied(model, layer) for layer in model.kinds}
        return by_work([work[layer] for layer in model.stack], model.vocab * model.hidden, parts)
    if rule == "even":
        return even_layers(layers, parts) if layers % parts == 0 else ()
    return {"with-ends": with_ends, "filled": filled}[rule](layers, parts)


def recompute_of(table: str | RecomputeFile) -> Recompute:
    """Return what the backward recomputes, from the key of a scenario."""
    if not isinstance(table, RecomputeFile):
        return Recompute(table)
    stages = None if table.stages is None else frozenset(table.stages)
    if table.listed == SELECTIVE and not table.ops:
        return Recompute("selective", every=table.every, stages=stages)
    mode = "ops" if table.listed else table.mode
    return Recompute(mode, table.listed, table.every, stages)


def recompute_value(recompute: Recompute) -> str | dict[str, Any]:
    """Return a setting of recomputation as the key of a scenario has it.

    >>> recompute_value(Recompute("full")), recompute_value(Recompute("full", every=2))
    ('full', {'mode': 'full', 'every': 2})
    """
    if recompute.every == 1 and recompute.stages is None and not recompute.ops:
        return recompute.mode
    value: dict[str, Any] = {"mode": recompute.mode}
    if recompute.ops:
        value = {"ops": sorted(recompute.ops)}
    if recompute.every > 1:
        value["every"] = recompute.every
    if recompute.stages is not None:
        value["stages"] = sorted(recompute.stages)
    return value
