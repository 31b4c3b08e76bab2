"""A scenario in, a result out: the whole pipeline on one page.

Loaded scenario -> Job (cluster, model, plan) -> Program -> Timeline -> Result
"""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim.catalog.tree import nearest
from clustersim.engine.replay import replay
from clustersim.errors import PlanError, ScenarioError
from clustersim.metrics.attribution import BUBBLES, average, recomputed
from clustersim.metrics.bounds import check_step
from clustersim.metrics.groups import LinksOfGroup, links_of_groups
from clustersim.metrics.utilisation import HotLink, hottest
from clustersim.plan.fit import Verdict
from clustersim.plan.parallelism import Plan, check_plan, even_layers, with_ends
from clustersim.plan.placement import place
from clustersim.program.check import check_program
from clustersim.program.collectives.communicator import Prescribed
from clustersim.program.compile import compile_program
from clustersim.program.job import Job
from clustersim.program.ops import Program
from clustersim.program.weigh import weigh
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.schema import Scenario
from clustersim.timeline import Timeline
from clustersim.topology.cluster import build_cluster
from clustersim.workload.finetune import Finetune, tuned_flops
from clustersim.workload.flops import hardware_flops, model_flops
from clustersim.workload.model import build_model
from clustersim.workload.offload import Offload
from clustersim.workload.recompute import Recompute

if TYPE_CHECKING:
    import pandas as pd


MOST_BLOCKS = 20_000_000
"""Blocks of a replica that a replay takes on: a hundred times the trillion-parameter step."""


@dataclass(frozen=True)
class PublishedCheck:
    """A published number beside ours; whether a run fits its devices is 1 or 0."""

    metric: str
    convention: str | None
    value: float
    predicted: float
    source: str

    @property
    def error(self) -> float | None:
        """Predicted over published, less one [unitless]; None for what is 1 or 0."""
        return None if self.metric == "fits" else self.predicted / self.value - 1


@dataclass(frozen=True)
class Result:
    """The answer, with everything that explains it.

    Attributes
    ----------
    step_time : [s]
    model_flops, hardware_flops : of the whole step, without and with recomputation [FLOP]
    attribution : mean seconds of a rank by part, adding up to `step_time`
    recomputed : of these, seconds that blocks spend computing a second time
    groups : the links between the members of each kind of group
    wall : seconds that the simulation itself took
    """

    name: str
    scenario: Scenario
    program: Program
    timeline: Timeline
    memory: Verdict
    step_time: float
    model_flops: float
    hardware_flops: float
    attribution: dict[str, float]
    recomputed: float
    links: list[HotLink]
    groups: list[LinksOfGroup]
    activities: int
    wall: float
    peak: float = field(repr=False)

    @property
    def devices(self) -> int:
        """Devices of the job."""
        return self.scenario.devices

    @property
    def tokens_per_s(self) -> float:
        """Tokens of the whole job in a second."""
        batch = self.scenario.batch
        return batch.global_ * batch.sequence / self.step_time

    @property
    def samples_per_s(self) -> float:
        """Sequences of the whole job in a second."""
        return self.scenario.batch.global_ / self.step_time

    def flops_per_device(self, convention: str) -> float:
        """Return the rate of one device, counting ``model`` or ``hardware`` FLOPs [FLOP/s]."""
        flops = self.model_flops if convention == "model" else self.hardware_flops
        return flops / self.step_time / self.devices

    @property
    def mfu(self) -> float:
        """Model FLOPs over peak [unitless]."""
        return self.flops_per_device("model") / self.peak

    @property
    def hfu(self) -> float:
        """Hardware FLOPs, recomputation counted, over peak [unitless]."""
        return self.flops_per_device("hardware") / self.peak

    @property
    def bubble(self) -> float:
        """Seconds that a rank waits for others, on average."""
        return sum(self.attribution[part] for part in BUBBLES)

    @property
    def bubble_fraction(self) -> float:
        """Bubble over step time [unitless]."""
        return self.bubble / self.step_time

    @property
    def bubble_overhead(self) -> float:
        """Bubble over the time without it [unitless]."""
        return self.bubble / (self.step_time - self.bubble)

    @cached_property
    def published(self) -> list[PublishedCheck]:
        """Each published number beside the predicted one, in its own convention."""
        return [
            PublishedCheck(
                given.metric,
                given.convention,
                given.value,
                self.metric(given.metric, given.convention),
                given.source,
            )
            for given in self.scenario.published
        ]

    def metric(self, name: str, convention: str | None = None) -> float:
        """Return a metric by its published name, in the units of that name."""
        values = {
            "step_time_s": lambda: self.step_time,
            "tokens_per_s": lambda: self.tokens_per_s,
            "tokens_per_s_per_device": lambda: self.tokens_per_s / self.devices,
            "tflops_per_device": lambda: self.flops_per_device(convention or "model") / 1e12,
            "mfu": lambda: self.mfu,
            "hfu": lambda: self.hfu,
            "memory_bytes": lambda: self.memory.fullest.peak,
            "fits": lambda: float(self.memory.fits),
        }
        return values[name]()

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values; the keys are stable and documented."""
        return {
            "name": self.name,
            "title": self.scenario.title,
            "step_time_s": self.step_time,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_device": self.tokens_per_s / self.devices,
            "samples_per_s": self.samples_per_s,
            "tflops_per_device": {
                "model": self.flops_per_device("model") / 1e12,
                "hardware": self.flops_per_device("hardware") / 1e12,
            },
            "mfu": self.mfu,
            "hfu": self.hfu,
            "bubble_fraction": self.bubble_fraction,
            "bubble_overhead": self.bubble_overhead,
            "attribution": self.attribution,
            "recomputed_s": self.recomputed,
            "memory": self.memory.to_json(),
            "links": [link._asdict() for link in self.links],
            "limits": {part: limit._asdict() for part, limit in self.program.limits.items()},
            "groups": [group.to_json() for group in self.groups],
            "published": [
                {
                    "metric": check.metric,
                    "convention": check.convention,
                    "value": check.value,
                    "predicted": check.predicted,
                    "error": check.error,
                    "source": check.source,
                }
                for check in self.published
            ],
            "fusion": {
                "fused": self.program.fused.whole,
                "bound": self.program.fused.bound,
                "allowed": self.scenario.fusion_bound,
            },
            "counts": {
                "devices": self.devices,
                "replica_classes": self.program.classes,
                "actors": len(self.program.actors),
                "blocks": self.timeline.blocks,
                "activities": self.activities,
            },
            "assumed": self.scenario.assumed,
            "wall_s": self.wall,
        }

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Every block of the replay as a table: who, what, when [s]."""
        import pandas as pd  # 0.3 s that a run without tables need not pay

        return pd.DataFrame(self.timeline.columns())

    @cached_property
    def memory_frame(self) -> "pd.DataFrame":
        """Memory by stage and part [B]."""
        import pandas as pd

        rows = [{"stage": stage.stage, **stage.parts} for stage in self.memory.stages]
        return pd.DataFrame(rows).set_index("stage")


def simulate(scenario: str | Path | Loaded, settings: Sequence[str] = ()) -> Result:
    """Replay one training step of a scenario.

    Parameters
    ----------
    scenario : path of a scenario file, the bare name of a shipped one, or one already loaded
    settings : changes of the form ``dotted.path=value`` (also ``=x2`` and ``=/2``)

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        for bad input, one line for each problem.
    ProgramError, SimulationError
        when clustersim itself is at fault.
    """
    began = time.perf_counter()
    with _uncollected():
        loaded = scenario if isinstance(scenario, Loaded) else load(scenario, settings)
        return _simulated(loaded, began)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from walking a growing record that holds no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _simulated(loaded: Loaded, began: float) -> Result:
    """Return the result of a loaded scenario; `began` is when the work on it did."""
    given = loaded.scenario
    job = build_job(loaded)
    program = compile_program(job, together=given.fold, fusion_bound=given.fusion_bound)
    check_program(program)
    replayed = replay(program)
    timeline = replayed.timeline
    sequences = given.batch.global_
    tuned = tuned_flops(job.model, job.finetune, sequences)
    result = Result(
        name=loaded.name,
        scenario=given,
        program=program,
        timeline=timeline,
        memory=weigh(job, program),
        step_time=timeline.duration,
        model_flops=model_flops(job.model, sequences) + tuned,
        hardware_flops=hardware_flops(job.model, sequences, job.again) + tuned,
        attribution=average(timeline, program.actors),
        recomputed=recomputed(program),
        links=hottest(program.carried, timeline.duration),
        groups=links_of_groups(job.cluster, job.placement),
        activities=replayed.activities,
        wall=time.perf_counter() - began,
        peak=job.cluster.accelerator.peak_rate(job.part.precision.peak),
    )
    check_step(program, timeline, result.links, result.attribution)
    return result


def build_job(loaded: Loaded) -> Job:
    """Return the machine, the model and the layout of a scenario, checked against each other."""
    given = loaded.scenario
    plan, batch = given.plan, given.batch
    if given.cluster.nodes > given.cluster.size.value:
        raise PlanError(
            f"{loaded.where('cluster', 'nodes')}: {given.cluster.nodes} nodes, but"
            f" '{given.cluster.name}' has {given.cluster.size.value}"
        )
    layout = _layout(given)
    if given.precision not in given.framework.state:
        raise ScenarioError(
            f"{loaded.where('precision')}: '{given.precision}' has no recipe of training states in"
            f" '{given.framework.name}' (it has {', '.join(given.framework.state) or 'none'})"
        )
    blocks = 2 * layout.microbatches * layout.pipeline * layout.chunks
    if blocks > MOST_BLOCKS:
        raise PlanError(
            f"{loaded.where('batch', 'global')}: {batch.global_:,} makes {blocks:,} blocks a"
            f" replica, more than the {MOST_BLOCKS:,} that are replayed (a step has fewer)"
        )
    multiple = given.framework.vocab_multiple.value
    model = build_model(given.model, batch.sequence, multiple, plan.tensor)
    check_plan(
        layout,
        model,
        batch.global_,
        given.devices,
        given.framework.zero.value,
        given.framework.schedules.value,
        loaded.where,
    )
    _check_offload(loaded, layout)
    cluster, wanted = build_cluster(given.cluster, given.cluster.nodes), plan.placement
    job = Job(
        cluster=cluster,
        model=model,
        plan=layout,
        placement=place(layout, cluster, wanted.order, wanted.boxes, wanted.devices, loaded.where),
        framework=given.framework,
        precision=given.precision,
        recompute=_recompute(loaded),
        offload=Offload(**given.offload.model_dump()),
        finetune=_finetune(loaded),
        algorithms={
            operation: Prescribed(algorithm, loaded.where("collectives", operation))
            for operation, algorithm in given.collectives.items()
        },
    )
    _check_recomputed(job, loaded)
    return job


def _check_recomputed(job: Job, loaded: Loaded) -> None:
    """Refuse operations to be run again that no layer has."""
    known = [op.name for layer in dict.fromkeys(job.model.stack) for op in job.ops(layer)]
    for name in sorted(job.recompute.ops - {*known}):
        raise PlanError(
            f"{loaded.where('recompute', 'ops')}: no operation '{name}'{nearest(name, known)}"
            f" (those of a layer: {', '.join(dict.fromkeys(known))})"
        )


def _layout(given: Scenario) -> Plan:
    """Return the layout that a scenario asks for."""
    plan, batch = given.plan, given.batch
    return Plan(
        tensor=plan.tensor,
        data=plan.data,
        pipeline=plan.pipeline,
        chunks=plan.chunks,
        schedule=plan.schedule,
        zero=plan.zero,
        reshard=plan.reshard,
        micro=batch.micro,
        microbatches=max(1, batch.global_ // (plan.data * batch.micro)),
        layers=_layers(given),
        sequence_parallel=plan.sequence_parallel,
    )


def _layers(given: Scenario) -> tuple[int, ...]:
    """Return the layers of each virtual stage; none where they cannot be shared out evenly."""
    plan, layers = given.plan, given.model.layers
    parts = plan.pipeline * plan.chunks
    if plan.layers == "with-ends":
        return with_ends(layers, parts)
    if plan.layers == "even":
        return even_layers(layers, parts) if layers % parts == 0 else ()
    return tuple(plan.layers)


def _recompute(loaded: Loaded) -> Recompute:
    """Return what is run again in the backward."""
    said, count = loaded.scenario.recompute, loaded.scenario.plan.pipeline
    if isinstance(said, str):
        return Recompute(said)
    if outside := [stage for stage in said.stages or () if stage >= count]:
        raise PlanError(
            f"{loaded.where('recompute', 'stages')}: there is no stage {outside[0]}"
            f" (0 to {count - 1})"
        )
    stages = None if said.stages is None else frozenset(said.stages)
    return Recompute("ops" if said.ops else said.mode, frozenset(said.ops), said.every, stages)


def _check_offload(loaded: Loaded, layout: Plan) -> None:
    """Refuse weights in host memory of which every rank would copy all."""
    if loaded.scenario.offload.parameters and layout.copies > 1 and layout.zero < 3:
        raise PlanError(
            f"{loaded.where('offload', 'parameters')}: {layout.copies} ranks would each copy all"
            " weights of their stage for every layer (share them out: plan.zero: 3)"
        )


def _finetune(loaded: Loaded) -> Finetune | None:
    """Return what is trained of the model; None for all of it."""
    said, model = loaded.scenario.finetune, loaded.scenario.model
    if said is None:
        return None
    kind = "experts" if model.experts else "latent attention" if model.latent else None
    if kind is not None:
        raise PlanError(
            f"{loaded.where('finetune')}: no adapters are known for {kind}, which '{model.name}'"
            " has (train all of it, or a model without)"
        )
    return Finetune(said.method, said.rank, frozenset(said.targets), said.bits, said.quantiser)
