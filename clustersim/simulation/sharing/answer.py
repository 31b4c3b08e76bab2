"""The answer of a shared machine: each job alone and together, and what each costs the others."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from math import fsum
from typing import ClassVar, Self

from clustersim.answers import Presentable, record
from clustersim.memory.verdict import MemoryAnswer
from clustersim.simulation.expectations import Expectation
from clustersim.simulation.measures import Account, Kind
from clustersim.simulation.sharing.recording import Recording


@record
class NeighbourCost:
    """What another job costs a job at links that both use.

    Attributes
    ----------
    job : the other job
    link : the link that both need at the same time; one of several that are alike; null where
        they share none, and the cost comes by a third job
    links : number of such links
    seconds : of each step [s]
    error : its standard error, as some sets of jobs are drawn; null where all are replayed [s]
    """

    job: str
    link: str | None
    links: int
    seconds: float
    error: float | None = None


@record
class SlowdownSpread:
    """The slowdown of a job over draws of places and phases, each with a seed of its own.

    Attributes
    ----------
    draws : number of them
    mean : over all
    least : of all
    median : the slowdown that half of them do not exceed
    p90 : the slowdown that nine of ten do not exceed
    most : of all
    """

    draws: int
    mean: float
    least: float
    median: float
    p90: float
    most: float


@record
class JobAnswer:
    """A job on a shared machine.

    Attributes
    ----------
    name : of the job
    kind : `training step`, `service`, `trace` or `traffic`
    nodes : its nodes, as numbers and ranges
    devices : its devices
    alone_s : time of a step with the machine to itself [s]
    shared_s : mean time of a step next to the others [s]
    least_s, most_s : shortest and longest of these steps [s]
    slowdown : shared over alone
    steps : steps that the mean is of, those of a period where there is one
    memory : the peak of its fullest stage, and whether it fits; null of services, which fit, of
        traces and of plain traffic
    tokens_per_s : training throughput next to the others; null of other jobs
    spread : slowdown over all draws of places and phases; null where there is one
    blame : what each other job costs it, the most first, which add up to `shared_s - alone_s`
    """

    name: str
    kind: str
    nodes: str
    devices: int
    alone_s: float
    shared_s: float
    least_s: float
    most_s: float
    slowdown: float
    steps: int
    memory: MemoryAnswer | None
    tokens_per_s: float | None
    spread: SlowdownSpread | None
    blame: tuple[NeighbourCost, ...]


@record
class SharedLink:
    """A link that two jobs or more use.

    Attributes
    ----------
    link : its name, of one of several that are alike
    links : number of such links
    capacity : payload in a second [B/s]
    load : share of its capacity in use by each job, over the time of all
    contended : whether traffic ever waited for it
    """

    link: str
    links: int
    capacity: float
    load: dict[str, float]
    contended: bool


@record
class SteadyPeriod:
    """Whether the steps of all jobs repeat, each at the same instants of a period.

    Attributes
    ----------
    period_s : after which all steps begin at the same offsets again; null if they do not [s]
    steps : by job, its steps in a period, of which times are the mean; empty without a period
    reason : why there is no period; null with one
    """

    period_s: float | None
    steps: dict[str, int]
    reason: str | None


@record
class PlaceCandidate:
    """Nodes of the jobs that are to have the best ones.

    Attributes
    ----------
    rule : by which they are taken: `by leaves`, `contiguous`, ...; `mixed`, of a rule for each job
    places : the same with the first node, the seed and the order of jobs
    nodes : by job, as numbers and ranges
    bound : no replay on these nodes has a smaller slowdown
    demand : of the fullest link, over its capacity, were all jobs as fast as alone
    link : its name; null without traffic on links
    slowdown : by the objective, each job over its shortest time alone in any candidate; null where
        it was not replayed
    slowdowns : the same of each job; empty where it was not replayed
    """

    rule: str
    places: str
    nodes: Mapping[str, str]
    bound: float
    demand: float
    link: str | None
    slowdown: float | None
    slowdowns: Mapping[str, float]


@record
class PlaceChoice:
    """How the nodes of jobs with `nodes: best` were chosen.

    Attributes
    ----------
    objective : `mean` or `largest`: the slowdown that is the smallest
    candidates : what was tried: those that were replayed, the best first, then the others by
        their bounds; the first is chosen
    replayed : candidates that were replayed
    gap : by how much another candidate can be better at most, share of the slowdown
    """

    objective: str
    candidates: tuple[PlaceCandidate, ...]
    replayed: int
    gap: float


@record
class JobsMemory:
    """Whether all jobs of a machine fit in memory.

    Attributes
    ----------
    fits : whether all of them do
    tight : whether one of them fits with less room than the errors of predictions
    verdict : that of the job with the least room, in words
    """

    fits: bool
    tight: bool
    verdict: str


@record
class ShareAnswer(Presentable):
    """Several jobs on one machine; `share --json` prints its keys.

    Attributes
    ----------
    name : of the scenario
    title : its title
    cluster : name of the machine
    nodes : nodes of the machine
    jobs : each job
    links : links that two jobs or more use, the fullest first
    fairness : Jain's index of the jobs' speeds, each as a share of that alone: 1 where all are
        slowed alike
    steady : the period with which all steps repeat, of the first draw
    settled : whether they repeat, or the mean times of the first and second half of the counted
        steps of each job agree to one percent
    slowdowns : slowdown of the job that is slowed most, of each draw of places and phases
    choice : how nodes were chosen that are to be the best, of the first draw; null without any
    expectations : limits of the section `expect` of the scenario, and whether each is held
    assumed : keys that are assumed, with the reason
    """

    name: str
    title: str
    cluster: str
    nodes: int
    jobs: tuple[JobAnswer, ...]
    links: tuple[SharedLink, ...]
    fairness: float
    steady: SteadyPeriod
    settled: bool
    slowdowns: tuple[float, ...]
    choice: PlaceChoice | None = None
    expectations: tuple[Expectation, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)
    recording: ClassVar[Recording | None] = None
    """What figures show of the replay, where the answer was simulated in this process; no key."""

    def with_recording(self, recording: Recording) -> Self:
        """Keep what figures show of the replay."""
        vars(self)["recording"] = recording
        return self

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of its measures."""
        return ("shared machine",)

    @property
    def memory(self) -> JobsMemory:
        """The memory of the job with the least room."""
        held = [(job.memory, job.name) for job in self.jobs if job.memory is not None]
        if not held:
            return JobsMemory(True, False, "fits: plain traffic holds nothing")
        worst, name = max(held, key=lambda pair: (not pair[0].fits, pair[0].tight))
        tight = any(memory.tight for memory, _ in held)
        return JobsMemory(worst.fits, worst.fits and tight, f"{worst.verdict} ({name})")

    def measures(self) -> dict[str, float]:
        """Return its measures by name."""
        rates = [job.tokens_per_s for job in self.jobs if job.tokens_per_s is not None]
        loads = [fsum(link.load.values()) for link in self.links]
        return {
            "slowdown": _mean(self.slowdowns),
            **({"slowdown_most": max(self.slowdowns)} if len(self.slowdowns) > 1 else {}),
            "slowdown_mean": _mean(
                job.slowdown if job.spread is None else job.spread.mean for job in self.jobs
            ),
            "fairness": self.fairness,
            "lost_devices": fsum(job.devices * (1 - 1 / job.slowdown) for job in self.jobs),
            **({"tokens_per_s": fsum(rates)} if rates else {}),
            **({"busiest_link": max(loads)} if loads else {}),
            "devices": float(sum(job.devices for job in self.jobs)),
        }

    def accounts(self) -> tuple[Account, ...]:
        """Return the step of each job: its time alone, and what each other job costs it.

        The last is the step of a mean device: all of them over the steps that they do in a second.
        """
        slowest = sorted(self.jobs, key=lambda job: -job.slowdown)
        alone, shared = (
            fsum(job.devices for job in self.jobs)
            / fsum(job.devices / getattr(job, time) for job in self.jobs)
            for time in ("alone_s", "shared_s")
        )
        mean = {"alone": alone, "waiting for other jobs": shared - alone}
        return (
            *(
                Account(f"step of {job.name}", f"step of {job.name}", "s", _parts(job))
                for job in slowest
            ),
            Account("device", "step of a mean device", "s", mean),
        )

    def facts(self) -> dict[str, str]:
        """Return which job is slowed most, where, and whether all fit."""
        worst = max(self.jobs, key=lambda job: job.slowdown)
        waits = [link.link for link in self.links if link.contended]
        return {
            "slowed most": worst.name,
            "bottleneck": waits[0] if waits else "none",
            "memory": self.memory.verdict,
        }

    def why_missing(self, name: str) -> str:
        """Return why a measure is not known."""
        reasons = {
            "tokens_per_s": "no job is training",
            "busiest_link": "no two jobs use the same link",
            "slowdown_most": "places and phases are drawn once (replications)",
        }
        return reasons.get(name, f"{name} is not known")


def _parts(job: JobAnswer) -> dict[str, float]:
    """Return the time alone, and what each other job costs, which add up to the step [s]."""
    parts = {"alone": job.alone_s}
    for cost in job.blame:
        parts[f"waiting for {cost.job}"] = parts.get(f"waiting for {cost.job}", 0.0) + cost.seconds
    return parts


def _mean(values: Iterable[float]) -> float:
    known = [*values]
    return fsum(known) / len(known)
