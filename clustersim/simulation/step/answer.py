"""The answer of a run: what `clustersim run --json` prints and `summary.json` holds.

Keys are added, never changed.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from clustersim.answers import record
from clustersim.cost.prices import NO_SITE
from clustersim.memory.verdict import MemoryAnswer
from clustersim.metrics.attribution import SlowestStage
from clustersim.metrics.communication import ExposedCommunication, GroupLinks, HotLink
from clustersim.metrics.prediction_interval import Bounds, Interval, NearRun
from clustersim.program.program import Limit
from clustersim.simulation.expectations import Expectation
from clustersim.simulation.measures import QUOTES, Account, Kind
from clustersim.simulation.published import PublishedCheck
from clustersim.simulation.training_run.answer import RunMeasures
from clustersim.traffic import link_text
from clustersim.units import format_seconds

HOUR: Final = 3600.0

SMALL: Final = 0.1
"""Share of a step below which communication and bubble are no bottleneck: a choice."""

OF_POWER: Final = ("power_w", "site_power_w", "energy_per_token_j", "tokens_per_joule")
"""Measures that need the power of the machine."""

OF_INTERVAL: Final = ("step_time_low_s", "step_time_high_s")
"""Measures that need an interval of the step time."""


@record
class DeviceTflops:
    """FLOPs of a device in a second, in both published conventions, and as executed.

    Attributes
    ----------
    model : model FLOPs of a device in a second [10^12 FLOP/s]
    hardware : model FLOPs and recomputation, by the formulas of papers [10^12 FLOP/s]
    executed : FLOPs that run: hardware FLOPs without the masked pairs of tokens that fused
        attention skips, which both conventions count [10^12 FLOP/s]
    """

    model: float
    hardware: float
    executed: float


@record
class ExpertBalance:
    """How evenly tokens spread over the experts of a layer.

    Attributes
    ----------
    skew : tokens of the fullest rank over those of the mean rank
    dropped : share of the tokens that are over the capacity of their experts
    """

    skew: float
    dropped: float


@record
class PowerAnswer:
    """Electrical power of the machine that a job uses, before the cooling of its site.

    Attributes
    ----------
    mean : mean of the step [W]
    peak : highest power in the step; in a block it is the mean of its kernels [W]
    parts : mean by component: `devices`, `hosts`, `fans`, `supplies` (losses of power supplies),
        `network` [W]
    site : mean with the PUE of the site; null without `costs.site` [W]
    """

    mean: float
    peak: float
    parts: Mapping[str, float]
    site: float | None = None


@record
class Fusion:
    """Collectives that were fused into blocks, and the error that this allows.

    Attributes
    ----------
    fused : whether all collectives of blocks are fused into them
    bound : most that other traffic can lengthen a forward and backward, share of it
    allowed : `fusion_bound` of the scenario
    """

    fused: bool
    bound: float
    allowed: float


@record
class RunCounts:
    """Sizes of the job and of its replay.

    Attributes
    ----------
    devices : devices of the job
    replica_classes : classes of data-parallel replicas that differ in time
    actors : rank classes that were replayed
    blocks : blocks that they ran
    activities : transfers and collectives that ran next to blocks
    """

    devices: int
    replica_classes: int
    actors: int
    blocks: int
    activities: int


@record
class StepQuantiles:
    """Quantiles of the step time over the replications.

    Attributes
    ----------
    p10_s : 10th percentile [s]
    p50_s : median [s]
    p90_s : 90th percentile [s]
    p99_s : 99th percentile [s]
    """

    p10_s: float
    p50_s: float
    p90_s: float
    p99_s: float


@record
class Blame:
    """What one disturbance costs.

    Attributes
    ----------
    name : of the disturbance
    mean_s : mean step time without it, with all others [s]
    recovered_s : by how much this is shorter than with it [s]
    share : of the time that is recovered without all disturbances; null if that is none. Shares of
        several disturbances need not add up to 1: one hides behind another
    """

    name: str
    mean_s: float
    recovered_s: float
    share: float | None


@record
class Replications:
    """The step time over replications with random numbers of their own.

    Attributes
    ----------
    count : replications
    mean_s : mean step time [s]
    deviation_s : standard deviation of the step time [s]; null for one replication
    error_s : standard error of the mean [s]; null for one replication
    quantiles : of the step time
    steps_s : step time of each replication [s]
    undisturbed_s : mean step time without all disturbances; sequences are balanced [s]
    recovered_s : by how much this is shorter [s]
    blame : what each disturbance costs, the most expensive first
    """

    count: int
    mean_s: float
    deviation_s: float | None
    error_s: float | None
    quantiles: StepQuantiles
    steps_s: tuple[float, ...]
    undisturbed_s: float
    recovered_s: float
    blame: tuple[Blame, ...]


@record
class DisturbanceAnswer:
    """A disturbance of the scenario.

    Attributes
    ----------
    name : its name
    type : as in the scenario
    devices : number of devices that it concerns; null for one of a link or of all sequences
    """

    name: str
    type: str
    devices: int | None


@record
class RunAnswer:
    """One training step: how long it takes, where the time goes, and whether it fits.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    step_time_s : time of one training step [s]
    interval : step times between which most measured runs are expected
    tokens_per_s : tokens of the whole job in a second
    tokens_per_s_per_device : the same over the number of devices
    samples_per_s : sequences of the whole job in a second
    tflops_per_device : rate of a device in both conventions
    mfu : model FLOPs over peak; attention is counted without its causal mask, as in published
        numbers, so that it can exceed 1 with long sequences
    hfu : executed FLOPs over peak, recomputation included; never above 1, and below `mfu` where
        fused attention skips more than is recomputed
    bubble_fraction : bubble over step time
    bubble_overhead : bubble over step time without the bubble
    attribution : seconds of each component of the step time, mean of all ranks; they add up to it
        [s]
    recomputed_s : seconds of these components that are recomputation [s]
    exposed : communication that no computation hides, the longest first
    slowest_stage : the stage whose ranks compute the longest
    memory : the peak of the fullest stage
    links : the links with the highest utilisation; the first of links that are alike
    limits : for each kind of communication (`tensor`, `pipeline`, `data`, `embedding`), the link
        that limits its rate without other traffic
    groups : groups of ranks and the links between their neighbours
    experts : balance of the experts; null without experts
    published : published numbers of the scenario and the predicted ones
    fusion : what was fused into blocks
    counts : sizes of the job and of its replay
    assumed : keys that no source states, with the reason: `assumed` of the scenario, and plain
        values of the user's own files
    wall_s : time that the simulation took [s]
    power_w : electrical power of the machine; null where the catalogue states none [W]
    energy_per_step_j : its energy in a step; null where the catalogue states no power [J]
    disturbances : what makes ranks differ, in the order of the scenario
    replications : the step time over several steps with random numbers of their own, and what each
        disturbance costs; null without `--replications`
    training : numbers of the whole run of a scenario with a section `training`; else null
    usd_per_hour : price of an hour by `costs`, with electricity of the site of a purchase; null
        where none is known, and outside of studies unless the scenario expects one [USD/h]
    rate : rate of a device with the quotes that it is from; null where `usd_per_hour` is
    quotes : how many these are; null for a stated rate as well
    unavailable : why values are null, by key: `usd_per_hour` in a study
    expectations : limits of the section `expect` of the scenario, and whether each is held
    nearest : measured runs that are most like this one, with the errors of their predictions
    """

    name: str
    title: str
    step_time_s: float
    interval: Interval
    tokens_per_s: float
    tokens_per_s_per_device: float
    samples_per_s: float
    tflops_per_device: DeviceTflops
    mfu: float
    hfu: float
    bubble_fraction: float
    bubble_overhead: float
    attribution: Mapping[str, float]
    recomputed_s: float
    exposed: tuple[ExposedCommunication, ...]
    slowest_stage: SlowestStage
    memory: MemoryAnswer
    links: tuple[HotLink, ...]
    limits: Mapping[str, Limit]
    groups: tuple[GroupLinks, ...]
    experts: ExpertBalance | None
    published: tuple[PublishedCheck, ...]
    fusion: Fusion
    counts: RunCounts
    assumed: Mapping[str, str]
    wall_s: float
    power_w: PowerAnswer | None = None
    energy_per_step_j: float | None = None
    disturbances: tuple[DisturbanceAnswer, ...] = ()
    replications: Replications | None = None
    training: RunMeasures | None = None
    usd_per_hour: float | None = None
    rate: str | None = None
    quotes: int | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()
    nearest: tuple[NearRun, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of its measures: those of the whole run as well, where it is of one."""
        return ("step",) if self.training is None else ("training run", "step")

    @property
    def intervals(self) -> dict[str, Bounds]:
        """Interval of the step time, by key as those of services."""
        return {"step_time_s": self.interval.bounds}

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return round(self.tokens_per_s * self.step_time_s)

    def measures(self) -> dict[str, float]:
        """Return the measures of the step, and of the whole run if it is of one."""
        rate, step = self.tflops_per_device, self.step_time_s
        return {
            "step_time_s": step,
            **self._interval_measures(),
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_device": self.tokens_per_s_per_device,
            "samples_per_s": self.samples_per_s,
            "tflops_per_device_model": rate.model,
            "tflops_per_device_hardware": rate.hardware,
            "tflops_per_device_executed": rate.executed,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "bubble_fraction": self.bubble_fraction,
            "bubble_overhead": self.bubble_overhead,
            "exposed_fraction": sum(entry.seconds for entry in self.exposed) / step,
            **{f"{part}_s": seconds for part, seconds in self.attribution.items()},
            **memory_measures(self.memory, self.counts.devices),
            **self._energy_and_price(),
            **({} if self.training is None else self.training.measures()),
        }

    def _interval_measures(self) -> dict[str, float]:
        low, high = self.interval.low_s, self.interval.high_s
        if low is None or high is None:
            return {}
        return {"step_time_low_s": low, "step_time_high_s": high}

    def _energy_and_price(self) -> dict[str, float]:
        numbers = {}
        if self.power_w is not None and self.energy_per_step_j is not None:
            numbers["power_w"] = self.power_w.mean
            if self.power_w.site is not None:
                numbers["site_power_w"] = self.power_w.site
            numbers["energy_per_token_j"] = self.energy_per_step_j / self.tokens
            numbers["tokens_per_joule"] = self.tokens / self.energy_per_step_j
        if self.usd_per_hour is not None:
            numbers["usd_per_hour"] = self.usd_per_hour
            numbers["tokens_per_dollar"] = self.tokens_per_s * HOUR / self.usd_per_hour
        if self.quotes is not None:
            numbers[QUOTES] = self.quotes
        return numbers

    def accounts(self) -> tuple[Account, ...]:
        """Return the elapsed time of the run, the step time, and the device time of a token."""
        share = self.counts.devices / self.tokens
        per_token = {part: seconds * share for part, seconds in self.attribution.items()}
        return (
            *([] if self.training is None else [self.training.account()]),
            Account("step", "step time", "s", self.attribution, self.tokens),
            Account("token", "device time per token", "s", per_token),
        )

    def facts(self) -> dict[str, str]:
        """Return bottleneck, slowest stage and memory, and the checkpoints of a whole run."""
        stage = self.slowest_stage
        busy, mean = format_seconds(stage.seconds), format_seconds(stage.mean_s)
        rate = self.rate or self.unavailable.get("usd_per_hour")
        return {
            "bottleneck": self._bottleneck(),
            "slowest stage": f"{stage.stage} (busy for {busy}, the mean stage for {mean})",
            "memory": self.memory.verdict,
            **({} if rate is None else {"rate": rate}),
            **({} if self.training is None else self.training.facts()),
        }

    def _bottleneck(self) -> str:
        """Return the bubble or the longest exposed communication, with the link that limits it."""
        longest = self.exposed[0] if self.exposed else None
        share = 0.0 if longest is None else longest.seconds / self.step_time_s
        if round(max(share, self.bubble_fraction), 3) < SMALL:  # as it is printed: 10.0 %
            return f"none over {100 * SMALL:.0f} % of the step"
        if longest is None or share < self.bubble_fraction:
            return "pipeline bubble"
        part = longest.part.replace("_", " ")
        return f"{part} over {link_text(longest.link, longest.by)}" if longest.link else part

    def why_missing(self, name: str) -> str:
        """Return why a measure is not known."""
        run = {} if self.training is None else self.training.unavailable
        key = {"energy": "energy_kwh", "tokens_per_dollar": "usd_per_hour"}.get(name, name)
        known = {
            **dict.fromkeys(OF_POWER, "no source states the power of the machine"),
            **({} if self.power_w is None else {"site_power_w": NO_SITE}),
            **dict.fromkeys(OF_INTERVAL, self.interval.why),
            **run,
            **self.unavailable,
        }
        return known.get(key, f"{name} is not known")


def memory_measures(memory: MemoryAnswer, devices: int) -> dict[str, float]:
    """Return the measures that need no replay."""
    return {
        "memory_peak_bytes": memory.peak_bytes,
        "memory_capacity_bytes": memory.capacity_bytes,
        "devices": devices,
    }
