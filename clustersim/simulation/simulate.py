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
from typing import TYPE_CHECKING

from clustersim.catalog.measured_errors import shipped_interval_data, size_of
from clustersim.engine.replay import replay
from clustersim.memory.curves import MemoryCurve, memory_curves
from clustersim.memory.peak import weigh
from clustersim.memory.verdict import Verdict
from clustersim.metrics.attribution import BUBBLES, average, recomputed
from clustersim.metrics.bounds import check_step
from clustersim.metrics.exposed import Exposed, exposed
from clustersim.metrics.groups import GroupLinks, links_of_groups
from clustersim.metrics.prediction_interval import Interval, interval, reach_of
from clustersim.metrics.stages import SlowestStage, slowest_stage
from clustersim.metrics.utilisation import HotLink, hottest
from clustersim.program.check import check_program
from clustersim.program.compile import compile_program
from clustersim.program.job import Job
from clustersim.program.program import Program
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.schema import Published, Scenario
from clustersim.simulation.answer import (
    Counts,
    DeviceTflops,
    ExpertBalance,
    ExposedCommunication,
    Fusion,
    PublishedCheck,
    RunAnswer,
)
from clustersim.simulation.build import build_job
from clustersim.timeline import Timeline
from clustersim.workload.finetune import tuned_flops
from clustersim.workload.flops import hardware_flops, model_flops
from clustersim.workload.routing import Routing

if TYPE_CHECKING:
    import pandas as pd


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
    routing : what ranks get of the tokens of layers with experts; None where there are none
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
    groups: list[GroupLinks]
    routing: Routing | None
    activities: int
    wall: float
    peak: float = field(repr=False)

    @property
    def devices(self) -> int:
        """Devices of the job."""
        return self.scenario.devices

    @cached_property
    def interval(self) -> Interval:
        """The step times that are to be expected, by measured runs on the same accelerator."""
        cluster = self.scenario.cluster
        accelerator, nodes = cluster.node.accelerator.name, size_of(cluster.nodes)
        return interval(self.step_time, reach_of(shipped_interval_data(), accelerator, nodes))

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

    @property
    def exposed(self) -> list[Exposed]:
        """Communication that nothing hides, by kind and by the link that sets its pace."""
        return exposed(self.attribution, self.program.limits)

    @cached_property
    def published(self) -> list[PublishedCheck]:
        """Each published number with the predicted one, in its own convention."""
        return [self._check(given) for given in self.scenario.published]

    def _check(self, given: Published) -> PublishedCheck:
        predicted = self.metric(given.metric, given.convention)
        error = None if given.metric == "fits" else predicted / given.value - 1
        return PublishedCheck(
            given.metric, given.convention, given.value, predicted, error, given.source
        )

    @cached_property
    def slowest_stage(self) -> SlowestStage:
        """The stage that is at its blocks the longest."""
        return slowest_stage(self.timeline.tracks)

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

    @cached_property
    def answer(self) -> RunAnswer:
        """The result in the keys of ``run --json``."""
        program, routing = self.program, self.routing
        return RunAnswer(
            name=self.name,
            title=self.scenario.title,
            step_time_s=self.step_time,
            interval=self.interval,
            tokens_per_s=self.tokens_per_s,
            tokens_per_s_per_device=self.tokens_per_s / self.devices,
            samples_per_s=self.samples_per_s,
            tflops_per_device=DeviceTflops(
                self.flops_per_device("model") / 1e12, self.flops_per_device("hardware") / 1e12
            ),
            mfu=self.mfu,
            hfu=self.hfu,
            bubble_fraction=self.bubble_fraction,
            bubble_overhead=self.bubble_overhead,
            attribution=self.attribution,
            recomputed_s=self.recomputed,
            exposed=tuple(
                ExposedCommunication(
                    component.part,
                    component.seconds,
                    component.limit.link if component.limit else None,
                    component.limit.kind if component.limit else None,
                )
                for component in self.exposed
            ),
            slowest_stage=self.slowest_stage,
            memory=self.memory.answer,
            links=tuple(self.links),
            limits=program.limits,
            groups=tuple(self.groups),
            experts=routing and ExpertBalance(routing.skew, 1 - routing.kept),
            published=tuple(self.published),
            fusion=Fusion(program.fused.whole, program.fused.bound, self.scenario.fusion_bound),
            counts=Counts(
                devices=self.devices,
                replica_classes=program.classes,
                actors=len(program.actors),
                blocks=self.timeline.blocks,
                activities=self.activities,
            ),
            assumed=self.scenario.assumed,
            wall_s=self.wall,
        )

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Every block of the replay as a table: who, what, when [s]."""
        import pandas as pd  # 0.3 s that a run without tables need not pay

        return pd.DataFrame(self.timeline.columns())

    @cached_property
    def memory_curves(self) -> list[MemoryCurve]:
        """What each stage holds in time."""
        return memory_curves(self.memory, self.timeline)

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
        job = build_job(loaded)
        return _simulated(loaded, job, weigh(job), began)


def simulate_if_it_fits(loaded: Loaded) -> Result | Verdict:
    """Return the result of a scenario that fits in memory; of another one, what it would need.

    Weighing takes some 20 ms where a replay takes half a second, and nobody can have the step time
    of a job that does not fit.

    Raises
    ------
    PlanError, ProgramError, SimulationError
        as `simulate` does.
    """
    began = time.perf_counter()
    with _uncollected():
        job = build_job(loaded)
        memory = weigh(job)
        return _simulated(loaded, job, memory, began) if memory.fits else memory


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


def _simulated(loaded: Loaded, job: Job, memory: Verdict, began: float) -> Result:
    """Return the result of a job that has been weighed; `began` is when the work on it did."""
    given = loaded.scenario
    program = compile_program(job, fold_replicas=given.fold, fusion_bound=given.fusion_bound)
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
        memory=memory,
        step_time=timeline.duration,
        model_flops=model_flops(job.model, sequences) + tuned,
        hardware_flops=hardware_flops(job.model, sequences, job.layers.recomputed) + tuned,
        attribution=average(timeline, program.actors),
        recomputed=recomputed(program),
        links=hottest(
            (link for link in program.carried if link.name in program.crossings), timeline.duration
        ),
        groups=links_of_groups(job.cluster, job.placement),
        routing=job.routing if job.model.experts else None,
        activities=replayed.activities,
        wall=time.perf_counter() - began,
        peak=job.cluster.accelerator.peak_rate(job.shard.precision.peak),
    )
    check_step(program, timeline, result.links, result.attribution)
    return result
