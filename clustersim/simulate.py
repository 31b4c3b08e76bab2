"""A scenario in, a result out: the whole pipeline on one page.

Loaded scenario -> Job (cluster, model, plan) -> Program -> Timeline -> Result
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim.engine.replay import replay
from clustersim.errors import PlanError, SimulationError
from clustersim.metrics.attribution import BUBBLES, average, recomputed
from clustersim.metrics.utilisation import HotLink, hottest
from clustersim.plan.fit import StageMemory, Verdict, peak_activations
from clustersim.plan.parallelism import Plan, check_plan
from clustersim.program.check import check_program
from clustersim.program.compile import Job, compile_program
from clustersim.program.ops import Program
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.schema import Scenario
from clustersim.timeline import Timeline
from clustersim.topology.cluster import build_cluster
from clustersim.workload import memory
from clustersim.workload.flops import hardware_flops, model_flops
from clustersim.workload.model import build_model

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PublishedCheck:
    """A published number beside ours; `error` is predicted over published, less one."""

    metric: str
    convention: str | None
    value: float
    predicted: float
    source: str

    @property
    def error(self) -> float:
        """Relative error of the prediction [unitless]."""
        return self.predicted / self.value - 1


@dataclass(frozen=True)
class Result:
    """The answer, with everything that explains it.

    Attributes
    ----------
    step_time : [s]
    model_flops, hardware_flops : of the whole step, without and with recomputation [FLOP]
    attribution : mean seconds of a rank by part, adding up to `step_time`
    recomputed : of these, seconds that blocks spend computing a second time
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
        }
        return values[name]()

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values; the keys are stable and documented."""
        fullest = self.memory.fullest
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
            "memory": {
                "peak_bytes": fullest.peak,
                "capacity_bytes": self.memory.capacity,
                "fits": self.memory.fits,
                "verdict": self.memory.reason,
                "stage": fullest.stage,
                "parts": fullest.parts,
            },
            "links": [link._asdict() for link in self.links],
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
    loaded = scenario if isinstance(scenario, Loaded) else load(scenario, settings)
    given = loaded.scenario
    job = build_job(loaded)
    program = compile_program(job, together=given.fold, fusion_bound=given.fusion_bound)
    check_program(program)
    timeline, network = replay(program)
    sequences = given.batch.global_
    result = Result(
        name=loaded.name,
        scenario=given,
        program=program,
        timeline=timeline,
        memory=weigh(job, program),
        step_time=timeline.duration,
        model_flops=model_flops(job.model, sequences),
        hardware_flops=hardware_flops(job.model, sequences, job.recompute),
        attribution=average(timeline, program.actors),
        recomputed=recomputed(program),
        links=hottest(program.carried, timeline.duration),
        activities=network.started,
        wall=time.perf_counter() - began,
        peak=job.cluster.accelerator.peak_rate(job.precision),
    )
    check_result(result)
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
    layout = Plan(
        tensor=plan.tensor,
        data=plan.data,
        pipeline=plan.pipeline,
        chunks=plan.chunks,
        schedule=plan.schedule,
        zero=plan.zero,
        micro=batch.micro,
        microbatches=max(1, batch.global_ // (plan.data * batch.micro)),
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
    return Job(
        cluster=build_cluster(given.cluster, given.cluster.nodes),
        model=model,
        plan=layout,
        framework=given.framework,
        precision=given.precision,
        recompute=given.recompute,
    )


def weigh(job: Job, program: Program) -> Verdict:
    """Return what every stage holds at its peak, and whether it fits."""
    recipe = job.framework.state[job.precision]
    plan = job.plan
    stages = []
    for actor in program.actors[:: program.parts][: plan.pipeline]:
        stage = actor.position.stage
        held = job.parameters(stage)
        kept = [_kept(job, stage, chunk) for chunk in range(plan.chunks)]
        peak = peak_activations(actor.steps, kept)
        shards = plan.data if plan.zero else 1
        parts = {
            "weights": held * recipe.weights.value,
            "gradients": held * recipe.gradients.value,
            "optimiser": held * recipe.optimiser.value / shards,
            "activations": peak.nbytes,
            "workspace": _workspace(job),
            "runtime": job.framework.runtime_memory.value,
        }
        stages.append(StageMemory(stage, parts, peak.microbatches))
    return Verdict(tuple(stages), job.cluster.accelerator.memory_capacity)


def _kept(job: Job, stage: int, chunk: int) -> float:
    """Return what one microbatch keeps in a chunk from forward to backward [B]."""
    first, last = job.ends(stage, chunk)
    full = job.recompute == "full"
    each = memory.checkpoint(job.part) if full else memory.layer_activations(job.part)
    kept = job.plan.layers_of(job.model, stage, chunk) * each
    kept += memory.embedding_activations(job.part) if first else 0.0
    return kept + (memory.head_activations(job.part) if last else 0.0)


def _workspace(job: Job) -> float:
    """Return what is alive inside a block: the layer at work, and two transfers [B]."""
    again = memory.layer_activations(job.part) if job.recompute == "full" else 0.0
    return again + 4 * memory.checkpoint(job.part)


def check_result(result: Result) -> None:
    """Refuse a result that contradicts what no step can break.

    Raises
    ------
    SimulationError
        when the step is shorter than the work of its busiest rank or than a link needs for its
        bytes, when blocks overlap on a stream, or when the attribution does not add up.
    """
    step, slack = result.step_time, 1 + 1e-9
    for track, actor in zip(result.timeline.tracks, result.program.actors, strict=True):
        once = sum(block.seconds.compute for block in actor.blocks.values())
        busy = once * result.program.microbatches
        if busy > step * slack:
            raise SimulationError(f"{actor.position} computes {busy:g} s in a step of {step:g} s")
        if (track.start[1:] < track.end[:-1]).any() or (track.end < track.start).any():
            raise SimulationError(f"{actor.position} runs two blocks at once")
    for link in result.links[:1]:
        if link.utilisation > slack:
            raise SimulationError(
                f"link {link.name} carries {link.nbytes:g} B in {step:g} s, more than its"
                f" {link.capacity:g} B/s"
            )
    total = math.fsum(result.attribution.values())
    if not math.isclose(total, step, rel_tol=1e-9):
        raise SimulationError(f"attribution adds up to {total:g} s, not the step's {step:g} s")
