"""The answer of a whole training run: what `clustersim train --json` prints.

Keys are added, never changed.
"""

from collections.abc import Mapping
from typing import Final

from clustersim.answers import Presentable, record
from clustersim.memory.verdict import MemoryRoom
from clustersim.metrics.bill import Bill
from clustersim.simulation.expectations import Expectation
from clustersim.simulation.measures import Account
from clustersim.simulation.published import PublishedCheck
from clustersim.units import format_bytes, format_duration

DAY: Final = 86_400.0


@record
class Accounting:
    """Where the time of the run goes, mean of all replications; the parts add up to it.

    Attributes
    ----------
    useful : steps whose results are kept [s]
    lost : steps whose results a failure discards [s]
    saving : saves, with the time by which drains slow steps down [s]
    restarting : from failures until work resumes [s]
    waiting : waiting for nodes [s]
    planned : warm-up, evaluations and planned stops [s]
    """

    useful: float
    lost: float
    saving: float
    restarting: float
    waiting: float
    planned: float

    @property
    def elapsed(self) -> float:
        """Sum of all parts [s]."""
        return float(sum(vars(self).values()))


@record
class CheckpointAnswer:
    """Checkpoints: their size, their times, and the interval.

    Attributes
    ----------
    bytes : of a checkpoint [B]
    mode : as in the scenario
    block_s : time for which a save blocks the work [s]
    durable_s : time from the start of a save until it is durable [s]
    load_s : time to load one [s]
    every_s : work between two saves [s]
    every_steps : the same in steps of the mean step time
    best_s : interval with the highest goodput; null without failures [s]
    flat_s : shortest and longest interval within 0.1 point of the best goodput; null without
        failures [s]
    storage : name of the storage, assumed where the cluster states none; null without one
    limit : what limits the rate of writing
    bandwidth : bytes of a checkpoint over the time of writing them [B/s]
    step_slowdown : time of a step with a concurrent drain over its time without; 1 without drains
    drain_slowdown : time of a drain with concurrent steps over its time without
    """

    bytes: float
    mode: str
    block_s: float
    durable_s: float
    load_s: float
    every_s: float
    every_steps: int
    best_s: float | None
    flat_s: tuple[float, float] | None
    storage: str | None
    limit: str
    bandwidth: float | None
    step_slowdown: float
    drain_slowdown: float

    @property
    def text(self) -> str:
        """Size, mode and times in words."""
        text = f"{format_bytes(self.bytes)} {self.mode}, blocks {format_duration(self.block_s)}"
        if self.durable_s > self.block_s:
            text += f", durable after {format_duration(self.durable_s)}"
        return text


@record
class StageAnswer:
    """A part of the run, with one batch.

    Attributes
    ----------
    tokens : of this part
    steps : number of its steps
    step_time_s : time of a step [s]
    batch : sequences of a step
    sequence : tokens of a sequence
    tokens_per_s : tokens of the whole job in a second
    mfu : model FLOPs over peak
    """

    tokens: float
    steps: int
    step_time_s: float
    batch: int
    sequence: int
    tokens_per_s: float
    mfu: float


@record
class DaysByStep:
    """Elapsed days at both ends of the interval of the predicted steps.

    Attributes
    ----------
    low_days, high_days : if all steps take the times at the ends of their intervals, and all else
        as much longer; null without evidence [days]
    level : share of measured runs that are expected between them
    why : which measured runs these are, or why there is no interval
    """

    low_days: float | None
    high_days: float | None
    level: float
    why: str


@record
class CauseAnswer:
    """A cause of failures.

    Attributes
    ----------
    name : of the cause
    count : mean number of failures of the run
    restart_s : time until work resumes, without waiting for a node [s]
    """

    name: str
    count: float
    restart_s: float


@record
class ClosedForm:
    """The expected run without replications.

    Attributes
    ----------
    goodput : useful over elapsed time, without planned stops and waiting for nodes
    days : elapsed time at that goodput; null where it has no bound [days]
    exact : whether it is exact for this run, apart from its end
    why : why it is not exact; null where it is
    """

    goodput: float
    days: float | None
    exact: bool
    why: str | None


@record
class RunSpread:
    """Days and goodput over the replications.

    Attributes
    ----------
    count : replications; 0 where failures are too frequent to replicate the run
    seed : of their random numbers
    error_days : standard error of the mean; null for one replication [days]
    deviation_days : standard deviation; null for one replication [days]
    p10_days : 10th percentile [days]
    p50_days : median [days]
    p90_days : 90th percentile [days]
    p99_days : 99th percentile [days]
    p10_goodput : 10th percentile of the goodput
    p90_goodput : 90th percentile of the goodput
    quantiles_days : of 0 to 100 % of the replications, one for each percent [days]
    """

    count: int
    seed: int
    error_days: float | None
    deviation_days: float | None
    p10_days: float
    p50_days: float
    p90_days: float
    p99_days: float
    p10_goodput: float
    p90_goodput: float
    quantiles_days: tuple[float, ...]


@record
class CurvePoint:
    """A point of a curve of goodput.

    Attributes
    ----------
    x : checkpoint interval [s], or number of nodes
    goodput : expected, without planned stops and waiting for nodes
    """

    x: float
    goodput: float


@record
class MeanAndPeak:
    """Power of the whole job.

    Attributes
    ----------
    mean : over the run [W]
    peak : in a step [W]
    """

    mean: float
    peak: float


@record
class PowerLevels:
    """Power of the job over a step of the last part of the run, before the cooling of the site.

    Attributes
    ----------
    time_s : begin of each level, and the end of the last one [s]
    watts : levels, each the mean of its interval [W]
    """

    time_s: tuple[float, ...]
    watts: tuple[float, ...]


@record
class RunMeasures:
    """Numbers of the whole training run that a step is of.

    Attributes
    ----------
    days : mean elapsed time of the run [days]
    goodput : useful over elapsed time
    energy_kwh : energy of the run; null where power is not stated [kWh]
    cost : price of the run; null where no price is stated [USD]
    co2e_kg : emissions of the run; null where no carbon intensity is stated [kg]
    unavailable : why values are null, by key
    tokens : tokens of the run
    interruptions : mean number of failures and planned stops
    accounting : where the time goes, as in `train --json`; the parts add up to the elapsed time
    checkpoint : size, times and interval of checkpoints, as in `train --json`
    rate : price of a device with its quotes; null where none is known
    """

    days: float
    goodput: float
    energy_kwh: float | None
    cost: float | None
    co2e_kg: float | None
    unavailable: Mapping[str, str]
    tokens: float
    interruptions: float
    accounting: Accounting
    checkpoint: CheckpointAnswer
    rate: str | None = None

    def facts(self) -> dict[str, str]:
        """Return checkpoints and price in words, which comparisons show."""
        rate = {} if self.rate is None else {"rate": self.rate}
        return {"checkpoint": self.checkpoint.text, **rate}

    def measures(self) -> dict[str, float]:
        """Return the measures of the whole run, as far as they are known."""
        saves = self.checkpoint
        numbers = {
            "days": self.days,
            "goodput": self.goodput,
            "energy": self.energy_kwh,
            "cost": self.cost,
            "co2e_kg": self.co2e_kg,
            "interruptions": self.interruptions,
            "run_tokens": self.tokens,
            **{f"run_{part}_s": seconds for part, seconds in vars(self.accounting).items()},
            "checkpoint_bytes": saves.bytes,
            "checkpoint_block_s": saves.block_s,
            "checkpoint_durable_s": saves.durable_s,
            "checkpoint_every_s": saves.every_s,
        }
        return {name: value for name, value in numbers.items() if value is not None}

    def account(self) -> Account:
        """Return where the elapsed time goes [d]."""
        parts = {part: seconds / DAY for part, seconds in vars(self.accounting).items()}
        return Account("run", "elapsed time", "d", parts)


@record
class TrainAnswer(Presentable):
    """A whole training run: days, failures, checkpoints.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    days : mean elapsed time of the run [days]
    goodput : useful over elapsed time
    interruptions : mean number of failures and planned stops
    accounting : where the time goes; the parts add up to the elapsed time
    checkpoint : size, times and interval of checkpoints
    energy_kwh : energy of the run; null where power is not stated [kWh]
    power_w : power of the job; null where it is not stated [W]
    cost : price of the run; null where no price is stated [USD]
    co2e_kg : emissions of the run; null where no carbon intensity is stated [kg]
    unavailable : why values are null, by key
    devices : devices of the job
    nodes : nodes of the job
    cluster : name of the machine
    accelerator : name of its devices
    tokens : tokens of the run
    mean_time_between_failures_s : of the job; null without failures [s]
    restart_s : time from a failure until work resumes, without waiting for a node [s]
    stages : parts of the run, in order
    causes : causes of failures, the most frequent first
    closed_form : the expected run without replications
    replications : days and goodput over the replications
    by_step : days at both ends of the interval of the predicted steps, which replications leave out
    intervals : goodput over checkpoint intervals
    sizes : goodput over numbers of nodes, with the same checkpoint times
    calendar : hours of each part of `accounting` in each day of the first replication
    warnings : reasons of a low goodput
    published : published numbers of the run and the predicted ones
    assumed : keys that no source states, with the reason
    memory : whether a step fits, in words
    fits : whether it fits
    room : need, reserve and capacity of a device of the fullest stage
    wall_s : time that the simulation took [s]
    power_levels : power over a step; null where power is not stated
    bill : what energy, emissions and price are made of; null where power is not stated
    expectations : limits of the section `expect` of the scenario, and whether each is held; those
        of a step are of the last part of the run
    """

    name: str
    title: str
    days: float
    goodput: float
    interruptions: float
    accounting: Accounting
    checkpoint: CheckpointAnswer
    energy_kwh: float | None
    power_w: MeanAndPeak | None
    cost: float | None
    co2e_kg: float | None
    unavailable: Mapping[str, str]
    devices: int
    nodes: int
    cluster: str
    accelerator: str
    tokens: float
    mean_time_between_failures_s: float | None
    restart_s: float
    stages: tuple[StageAnswer, ...]
    causes: tuple[CauseAnswer, ...]
    closed_form: ClosedForm
    replications: RunSpread
    by_step: DaysByStep
    intervals: tuple[CurvePoint, ...]
    sizes: tuple[CurvePoint, ...]
    calendar: tuple[tuple[float, ...], ...]
    warnings: tuple[str, ...]
    published: tuple[PublishedCheck, ...]
    assumed: Mapping[str, str]
    memory: str
    fits: bool
    room: MemoryRoom
    wall_s: float
    power_levels: PowerLevels | None = None
    bill: Bill | None = None
    expectations: tuple[Expectation, ...] = ()
