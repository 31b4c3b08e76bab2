"""The result of a run: one simulated training step, and everything that explains it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from clustersim.answers import Presentable, answer_from
from clustersim.catalog.facts import STATED, stated_keys
from clustersim.cost.power import machine_power, missing_power
from clustersim.errors import CatalogError
from clustersim.memory.levels import MemoryCurve, memory_curves
from clustersim.memory.room import outcome_of
from clustersim.memory.verdict import Verdict
from clustersim.metrics.attribution import BUBBLES, SlowestStage, slowest_stage
from clustersim.metrics.communication import ExposedCommunication, GroupLinks, HotLink, exposed
from clustersim.metrics.energy import PowerTrace, StepEnergy, power_trace, step_energy
from clustersim.metrics.prediction_interval import Bounds, Interval, NearRun, shipped_nearest
from clustersim.program.program import Program
from clustersim.records import dataclass
from clustersim.scenario.costs import rate_of, rate_text, site_watts, usd_per_hour
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.scenario.traits import step_traits
from clustersim.simulation.expectations import Expected, compare_with
from clustersim.simulation.measures import MONEY
from clustersim.simulation.published import PublishedCheck, compared
from clustersim.simulation.step.answer import (
    DeviceTflops,
    DisturbanceAnswer,
    ExpertBalance,
    Fusion,
    PowerAnswer,
    Replications,
    RunAnswer,
    RunCounts,
)
from clustersim.simulation.training_run.answer import RunMeasures
from clustersim.timeline import Timeline
from clustersim.units import format_seconds
from clustersim.workload.routing import Routing

if TYPE_CHECKING:
    import pandas as pd


NO_PRICE: Final = dict.fromkeys(("usd_per_hour", "rate", "quotes"))
"""Keys of the price of an answer that has none."""


@dataclass(frozen=True, repr=False)
class Result(Presentable):
    """One simulated training step, with everything that explains it.

    Attributes
    ----------
    name : stem of the scenario file
    loaded : the checked scenario with the sources of its values
    program : rank classes with their steps, work and traffic
    timeline : start and end of every step [s]
    memory : peaks by stage, whether they fit, and changes with which they would
    step_time : time of the step [s]
    interval : step times between which most measured runs are expected
    model_flops, hardware_flops : of the whole step, without and with recomputation; both count
        attention without its causal mask, as published numbers do [FLOP]
    executed_flops : FLOPs that run: hardware FLOPs without the masked pairs of tokens that fused
        attention skips [FLOP]
    masked_flops : the pairs that it skips; 0 where attention is not fused [FLOP]
    attribution : mean seconds of a rank by component, adding up to `step_time`
    recomputed : seconds of recomputation among these
    links : the links with the highest utilisation
    groups : the links between the members of each kind of group
    routing : share of the tokens that ranks with experts get; None without experts
    activities : transfers and collectives that ran next to blocks [count]
    wall : time that the simulation took [s]
    peak : FLOP rate of a device at the precision of the scenario [FLOP/s]
    departures : keys whose values differ from those of the scenario file, so that its published
        numbers belong to another run
    disturbances : what makes ranks differ
    replications : the step time over several steps; None where one was simulated
    training : numbers of the whole run, where one was predicted
    expected : expectations of the scenario
    """

    name: str
    loaded: Loaded
    program: Program
    timeline: Timeline
    memory: Verdict
    step_time: float
    interval: Interval
    model_flops: float
    hardware_flops: float
    executed_flops: float
    masked_flops: float
    attribution: dict[str, float]
    recomputed: float
    links: tuple[HotLink, ...]
    groups: tuple[GroupLinks, ...]
    routing: Routing | None
    activities: int
    wall: float
    peak: float
    departures: tuple[str, ...] = ()
    disturbances: tuple[DisturbanceAnswer, ...] = ()
    replications: Replications | None = None
    training: RunMeasures | None = None
    expected: tuple[Expected, ...] = ()

    def __repr__(self) -> str:
        """Return the result in one line."""
        fits = outcome_of(self.memory.reason)
        return (
            f"<Result {self.name}: {format_seconds(self.step_time)} on {self.devices:,} devices,"
            f" MFU {100 * self.mfu:.1f} %, {fits}>"
        )

    @property
    def scenario(self) -> Scenario:
        """The checked scenario."""
        return self.loaded.scenario

    @property
    def devices(self) -> int:
        """Devices of the job."""
        return self.scenario.devices

    @property
    def tokens_per_s(self) -> float:
        """Tokens of the whole job in a second [1/s]."""
        return self.scenario.batch.tokens / self.step_time

    @property
    def tokens_per_s_per_device(self) -> float:
        """Tokens of a device in a second [1/s]."""
        return self.tokens_per_s / self.devices

    @property
    def samples_per_s(self) -> float:
        """Sequences of the whole job in a second [1/s]."""
        return self.scenario.batch.global_ / self.step_time

    def flops_per_device(self, convention: str) -> float:
        """Return the rate of one device, ``model``, ``hardware`` or ``executed`` FLOPs [FLOP/s]."""
        flops = {
            "model": self.model_flops,
            "hardware": self.hardware_flops,
            "executed": self.executed_flops,
        }
        return flops[convention] / self.step_time / self.devices

    @property
    def mfu(self) -> float:
        """Model FLOPs over peak [unitless].

        Attention is counted without its causal mask, as in published numbers: with long sequences
        the ratio can exceed 1 where fused kernels skip the masked half.
        """
        return self.flops_per_device("model") / self.peak

    @property
    def hfu(self) -> float:
        """Executed FLOPs, recomputation included, over peak [unitless]; never above 1."""
        return self.flops_per_device("executed") / self.peak

    @property
    def bubble(self) -> float:
        """Time that a rank waits for other stages, mean of all ranks [s]."""
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
    def exposed(self) -> tuple[ExposedCommunication, ...]:
        """Communication that no computation hides, by kind, with the link that limits its rate."""
        return exposed(self.attribution, self.program.limits)

    @cached_property
    def energy(self) -> StepEnergy | None:
        """Energy of the step; None where the catalogue has no power of the machine."""
        cluster = self.scenario.cluster
        machine = machine_power(cluster, cluster.nodes)
        return None if machine is None else step_energy(self.attribution, machine)

    @cached_property
    def site_watts(self) -> float | None:
        """Mean power with the PUE of the site; None without one, or without `energy` [W]."""
        if self.energy is None:
            return None
        where = f"{self.loaded.where('costs', 'site')}: "
        return site_watts(self.scenario.costs, self.energy.mean.total, where)

    @cached_property
    def power(self) -> PowerTrace | None:
        """Power of the job over the step; None where `energy` is."""
        if self.energy is None:
            return None
        return power_trace(self.timeline, self.program.actors, self.energy.machine)

    @cached_property
    def published(self) -> tuple[PublishedCheck, ...]:
        """Each published number with the predicted one, in its own convention."""
        return tuple(
            compared(number, self.metric(number.metric, number.convention), self.departures)
            for number in self.scenario.published
        )

    @property
    def nearest(self) -> tuple[NearRun, ...]:
        """Measured runs that are most like this one, the nearest first."""
        return shipped_nearest(step_traits(self.scenario))

    @property
    def intervals(self) -> dict[str, Bounds]:
        """Interval of the step time, by key as those of services."""
        return {"step_time_s": self.interval.bounds}

    @cached_property
    def slowest_stage(self) -> SlowestStage:
        """The stage whose ranks run their blocks the longest."""
        return slowest_stage(self.timeline.tracks)

    def metric(self, name: str, convention: str | None = None) -> float:
        """Return a metric by its published name, in the units of that name.

        A published HFU counts attention without its causal mask, so that it is compared with the
        hardware FLOPs of the formulas; it is `hfu` where attention is not fused.
        """
        values: dict[str, Callable[[], float]] = {
            "step_time_s": lambda: self.step_time,
            "tokens_per_s": lambda: self.tokens_per_s,
            "tokens_per_s_per_device": lambda: self.tokens_per_s_per_device,
            "tflops_per_device": lambda: self.flops_per_device(convention or "model") / 1e12,
            "mfu": lambda: self.mfu,
            "hfu": lambda: self.flops_per_device("hardware") / self.peak,
            "memory_bytes": lambda: self.memory.fullest.peak,
            "power_w": self._mean_power,
            "fits": lambda: float(self.memory.fits),
        }
        return values[name]()

    def _mean_power(self) -> float:
        """Return the mean power of the machine [W]."""
        if self.energy is None:
            raise CatalogError(
                f"published: power_w: {missing_power(self.scenario.cluster)} (add it, or remove"
                " the published value)"
            )
        return self.energy.mean.total

    @cached_property
    def stated(self) -> list[str]:
        """Keys of own files whose plain values are taken as stated by the user."""
        names = ("cluster", "model", "framework")
        return [key for name in names for key in stated_keys(getattr(self.scenario, name), name)]

    @property
    def assumed(self) -> dict[str, str]:
        """Keys without a source, with the reason: of the scenario, and those that are `stated`."""
        experts = self.scenario.experts
        defaults = {} if experts is None else experts.assumed
        return {**defaults, **dict.fromkeys(self.stated, STATED), **self.scenario.assumed}

    @cached_property
    def answer(self) -> RunAnswer:
        """The result in the keys of ``run --json``, with its expectations."""
        answer = self._answer()
        return replace(answer, expectations=compare_with(self.expected, answer))

    def _answer(self) -> RunAnswer:
        program, routing, energy, trace = self.program, self.routing, self.energy, self.power
        rates = (self.flops_per_device(kind) / 1e12 for kind in ("model", "hardware", "executed"))
        power = None
        if energy is not None and trace is not None:
            power = PowerAnswer(
                energy.mean.total, trace.peak, energy.mean._asdict(), self.site_watts
            )
        return answer_from(
            RunAnswer,
            self,
            title=self.scenario.title,
            step_time_s=self.step_time,
            tflops_per_device=DeviceTflops(*rates),
            recomputed_s=self.recomputed,
            memory=self.memory.answer,
            limits=program.limits,
            experts=routing and ExpertBalance(routing.skew, 1 - routing.kept),
            power_w=power,
            energy_per_step_j=None if energy is None else energy.joules,
            **self._expected_price(),
            expectations=(),
            fusion=Fusion(program.fused.whole, program.fused.bound, self.scenario.fusion_bound),
            counts=RunCounts(
                devices=self.devices,
                replica_classes=program.classes,
                actors=len(program.actors),
                blocks=self.timeline.blocks,
                activities=self.activities,
            ),
            wall_s=self.wall,
        )

    @property
    def usd_per_hour(self) -> float | str:
        """Price of an hour of the job, with electricity if purchased; or why it is not known."""
        energy, cluster = self.energy, self.scenario.cluster
        watts = missing_power(cluster) if energy is None else energy.mean.total
        return usd_per_hour(
            self.scenario.costs,
            cluster.node.accelerator.name,
            self.scenario.devices,
            watts,
            f"{self.loaded.where('costs', 'site')}: ",
        )

    @property
    def priced(self) -> dict[str, Any]:
        """Price of an hour with its quotes, or why it has none, by key of the answer."""
        price, costs = self.usd_per_hour, self.scenario.costs
        if isinstance(price, str):
            return {**NO_PRICE, "unavailable": {"usd_per_hour": price}}
        name = self.scenario.cluster.node.accelerator.name
        text, rate = rate_text(costs, name), rate_of(costs, name)
        quotes = None if isinstance(rate, str) else rate.quotes
        return {"usd_per_hour": price, "rate": text, "quotes": quotes, "unavailable": {}}

    def _expected_price(self) -> dict[str, Any]:
        """Return the price of the devices, or why it has none, where an expectation is about it."""
        if any(line.measure and line.measure.name in MONEY for line in self.expected):
            return self.priced
        return {**NO_PRICE, "unavailable": {}}

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Every block of the replay as a table: rank class, step, start and end [s]."""
        import pandas as pd  # 0.3 s, only for tables

        return pd.DataFrame(self.timeline.columns())

    @cached_property
    def memory_curves(self) -> list[MemoryCurve]:
        """Memory of each stage over time."""
        return memory_curves(self.memory, self.timeline)

    @cached_property
    def memory_frame(self) -> "pd.DataFrame":
        """Memory by stage and part [B]."""
        import pandas as pd

        rows = [{"stage": stage.stage, **stage.parts} for stage in self.memory.stages]
        return pd.DataFrame(rows).set_index("stage")
