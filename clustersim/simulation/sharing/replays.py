"""Replays of jobs on their nodes: each alone, all together, and subsets of them for the blame.

machine --folded together--> graphs of operations --one clock, one network--> times of steps

All jobs repeat their steps until each has done as many as are counted, so that each has its
neighbours all the time.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Final

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.network.network import Network
from clustersim.engine.operation_replay import Repeated
from clustersim.errors import ScenarioError
from clustersim.program.fold import Folded, ReplicaTraffic
from clustersim.program.links.in_use import kind_of
from clustersim.records import dataclass
from clustersim.simulation.sharing.answer import (
    JobAnswer,
    NeighbourCost,
    SharedLink,
    SlowdownSpread,
    SteadyPeriod,
)
from clustersim.simulation.sharing.blame import (
    MOST_EXACT,
    Cost,
    drawn_sets,
    estimated_values,
    shapley_values,
)
from clustersim.simulation.sharing.machine import PlacedJobs
from clustersim.simulation.sharing.nodes import ranges
from clustersim.simulation.sharing.period import Period, find_period
from clustersim.simulation.sharing.recording import JobRecord, Recording

WARM_UP: Final = 0.25
"""Share of the steps that are not counted: the jobs do not start as they go on."""

SETTLED: Final = 0.01
"""Relative difference of the means of both halves of the counted steps up to which they are
settled, beyond three standard errors."""

ROUNDING: Final = 1e-9
"""Share of a step below which a cost is rounding."""

MOST_REPETITIONS: Final = 1_000_000
"""Steps of a job while the longest one does its own; those of plain traffic take some 20 us."""

ATTEMPTS: Final = 8
"""Times that replicas are folded by contended links before they are by all links."""


@dataclass(frozen=True)
class Together:
    """Some jobs of a machine, replayed together.

    Attributes
    ----------
    times : by job, time of each counted step; of one period where there is one [s]
    contended : links of the machine that traffic waited for
    period : with which all steps repeat; None if they do not
    """

    times: dict[int, Floats]
    contended: Integers
    period: Period | None

    def mean(self, job: int) -> float:
        """Return the mean time of a step of a job [s]."""
        return float(self.times[job].mean())


class Replays:
    """The replays of the jobs of a machine."""

    def __init__(self, machine: PlacedJobs, steps: int) -> None:
        self.machine, self.jobs, self.steps = machine, machine.jobs, steps
        self._replayed: dict[tuple[int, ...], Together] = {}
        self._running: Mapping[int, Repeated] = {}
        self.starts = [0.0] * len(self.jobs)
        self.alone = [self._alone(number) for number in range(len(self.jobs))]
        self.starts = [
            job.start + job.phase * alone for job, alone in zip(self.jobs, self.alone, strict=True)
        ]
        self._check_size()

    def _alone(self, number: int) -> float:
        """Return the time of a step of a job with the machine to itself [s]."""
        alone = self.jobs[number].alone
        return self.of((number,)).mean(number) if alone is None else alone

    @property
    def rates(self) -> Floats:
        """By job and link, the share of its capacity that a step takes in one second."""
        table = self.machine.cluster.links
        rates = np.zeros((len(self.jobs), len(table)))
        for number, job in enumerate(self.jobs):
            links, nbytes = job.carried
            rates[number, links] = nbytes / table.capacities[links]
        return rates

    def slowdowns(self) -> Floats:
        """Return the slowdown of each job; 1 where it is that but for rounding."""
        times = np.array([self.together.mean(number) for number in range(len(self.jobs))])
        slowdowns = times / self.alone
        return np.where(np.abs(slowdowns - 1) < ROUNDING, 1.0, slowdowns)

    def steady(self) -> SteadyPeriod:
        """Return the period with which all steps repeat, or why there is none."""
        period = self.together.period
        if period is None:
            reason = (
                f"steps do not repeat within {self.steps} of each job (more steps, or they drift)"
            )
            return SteadyPeriod(None, {}, reason)
        each = enumerate(self.jobs)
        steps = {job.name: len(period.times[number]) * job.steps for number, job in each}
        return SteadyPeriod(period.seconds, steps, None)

    def settled(self) -> bool:
        """Return whether the steps of all jobs take as long as before."""
        return self.together.period is not None or all(map(_settled, self.together.times.values()))

    def job_answer(self, number: int, slowdowns: Floats) -> JobAnswer:
        """Return the answer of a job, with its slowdown of each draw."""
        job, times = self.jobs[number], self.together.times[number]
        mean, devices = float(times.mean()), len(job.nodes) * self.machine.cluster.node.devices
        return JobAnswer(
            name=job.name,
            kind=job.kind,
            nodes=ranges(job.nodes),
            devices=devices,
            alone_s=self.alone[number],
            shared_s=mean,
            least_s=float(times.min()),
            most_s=float(times.max()),
            slowdown=float(slowdowns[0]),
            steps=len(times) * job.steps,
            memory=job.memory,
            tokens_per_s=None if job.tokens is None else job.tokens / mean,
            spread=_spread(slowdowns) if len(slowdowns) > 1 else None,
            blame=self._blame(number),
        )

    def _check_size(self) -> None:
        """Reject jobs of which one repeats too often while the others do their steps."""
        longest = max(self.alone) * self.steps
        for job, alone in zip(self.jobs, self.alone, strict=True):
            if longest > MOST_REPETITIONS * alone:
                times = f"{longest / alone:,.0f} times" if alone else "without end"
                raise ScenarioError(
                    f"jobs: '{job.name}' takes {alone:g} s and would be repeated {times} in"
                    f" {self.steps} steps of the longest job (fewer steps, more bytes, or a pause)"
                )

    # --- together ---------------------------------------------------------------------------------

    @cached_property
    def together(self) -> Together:
        """All jobs."""
        return self.of(tuple(range(len(self.jobs))))

    def of(self, numbers: tuple[int, ...]) -> Together:
        """Return some of the jobs, replayed together once."""
        if numbers not in self._replayed:
            self._replayed[numbers] = self._replay(numbers)
        return self._replayed[numbers]

    def _replay(self, numbers: Sequence[int]) -> Together:
        """Fold the jobs as if no link were contended; again by the links that were."""
        links = self.machine.cluster.links
        jobs = [self.jobs[number] for number in numbers]
        replicas = ReplicaTraffic([job.traffic for job in jobs], links.capacities, links.names)
        shared = np.zeros(0, dtype=np.int64)
        for attempt in range(ATTEMPTS + 1):
            folded = replicas.folded(None if attempt == ATTEMPTS else shared)
            running, contended = self._run(numbers, folded)
            filled = np.unique(np.concatenate([contended, *(each.crowded() for each in folded)]))
            if attempt == ATTEMPTS or not replicas.differ(folded, filled):
                break
            shared = np.union1d(shared, filled)
        each = dict(zip(numbers, running, strict=True))
        return self._together(each, contended, folded)

    def _together(
        self, running: Mapping[int, Repeated], contended: Integers, folded: Sequence[Folded]
    ) -> Together:
        """Return the times of one period, or of the counted steps where there is none."""
        until = min(job.ends[-1] for job in running.values())
        period = find_period({
            number: np.array([end for end in job.ends if end <= until])
            for number, job in running.items()
        })  # fmt: skip
        if period is None:
            times = {number: self._counted(number, job) for number, job in running.items()}
        else:
            times = {number: of / self.jobs[number].steps for number, of in period.times.items()}
        if len(running) == len(self.jobs):
            self._running, self._colours = running, folded[0].links
        return Together(times, contended, period)

    def recording(self) -> Recording:
        """Return what figures show of the replay of all jobs."""
        jobs = tuple(
            JobRecord(
                job.name, job.nodes, self._running[number].graph, self._colours,
                tuple((each.begin, each.end) for each in self._running[number].last),
            )
            for number, job in enumerate(self.jobs)
        )  # fmt: skip
        return Recording(self.machine.cluster, jobs, self._loads())

    def _loads(self) -> Floats:
        """Return by job and link of the machine the share of its capacity in use."""
        means = np.array([self.together.mean(number) for number in range(len(self.jobs))])
        loads: Floats = self.rates / means[:, None]
        return loads

    def _run(
        self, numbers: Sequence[int], folded: Sequence[Folded]
    ) -> tuple[list[Repeated], Integers]:
        """Repeat all jobs until each has its steps; return them, and the contended links."""
        clock, links = Clock(CONTINUOUS), folded[0].links
        network = Network(clock, links.capacities)
        running: list[Repeated] = []

        def more(_: Repeated) -> bool:
            return any(
                len(job.ends) < self._passes(number)
                for number, job in zip(numbers, running, strict=True)
            )

        for number, of_job in zip(numbers, folded, strict=True):
            graph = self.jobs[number].operations(of_job)
            running.append(Repeated(graph, clock, network, self.starts[number], more))
        clock.run_all()
        for repeated in running:
            repeated.check()
        network.check()
        return running, links.of_colours(network.contended)

    def _passes(self, number: int) -> int:
        """Return how often a job repeats its graph at least, for the steps that are counted."""
        return max(2, -(-self.steps // self.jobs[number].steps))

    def _counted(self, number: int, job: Repeated) -> Floats:
        """Return the times of the steps after the warm-up, as many of each job as it has [s].

        Of a job with saves they are means over the steps from one to the next.
        """
        times = job.times[: max(self._passes(number), len(job.times) - 1)]
        return times[int(WARM_UP * len(times)) :] / self.jobs[number].steps

    # --- blame ------------------------------------------------------------------------------------

    @cached_property
    def _players(self) -> tuple[int, ...]:
        """Jobs that use a contended link: no other slows any, or is slowed."""
        return tuple(
            number
            for number, job in enumerate(self.jobs)
            if np.isin(job.carried[0], self.together.contended).any()
        )

    def _blame(self, number: int) -> tuple[NeighbourCost, ...]:
        """Return what each other job costs a job, by link."""
        costs = self._costs(number) if number in self._players else {}
        blame = [
            part for other, cost in costs.items() for part in self._at_links(number, other, cost)
        ]
        return tuple(sorted(blame, key=lambda part: -abs(part.seconds)))

    def _costs(self, number: int) -> dict[int, Cost]:
        """Return what each other job costs a job."""
        time = partial(self._next_to, number)
        others = [other for other in self._players if other != number]
        if len(self._players) <= MOST_EXACT:
            return shapley_values(others, time)
        return estimated_values(number, others, self._drawn, time)

    @cached_property
    def _drawn(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return drawn_sets(self._players, self.machine.seed)

    def _next_to(self, number: int, others: Sequence[int]) -> float:
        """Return the mean time of a job next to some others [s]."""
        if not others:
            return self.alone[number]
        if len(others) == len(self._players) - 1:
            return self.together.mean(number)
        return self.of(tuple(sorted((number, *others)))).mean(number)

    def _at_links(self, number: int, other: int, cost: Cost) -> list[NeighbourCost]:
        """Divide the cost of another job among the contended links that both use, by its bytes."""
        (own, _), (used, nbytes) = (self.jobs[each].carried for each in (number, other))
        both = np.isin(used, own) & np.isin(used, self.together.contended)
        name = self.jobs[other].name
        seconds, error = cost
        if abs(seconds) < ROUNDING * self.alone[number]:
            return []
        if not both.any():
            return [NeighbourCost(name, None, 0, seconds, error)]
        links = used[both]
        times = nbytes[both] / self.machine.cluster.links.capacities[links]
        return [
            NeighbourCost(
                name, self._name(links[places[0]]), len(places), seconds * share,
                None if error is None else error * share,
            )
            for places in self._kinds(links, times)
            for share in [float(times[places].sum() / times.sum())]
        ]  # fmt: skip

    def _name(self, link: int) -> str:
        return self.machine.cluster.links.names[int(link)]

    def _kinds(
        self, links: Integers, order: Floats, users: Sequence[object] | None = None
    ) -> list[list[int]]:
        """Return the places of links by kind, the one with the largest number first.

        Links are of one kind where their names differ in numbers only, and the same jobs use them.
        """
        kinds: dict[object, list[int]] = {}
        for place in np.argsort(-order, kind="stable").tolist():
            user = None if users is None else users[place]
            kinds.setdefault((kind_of(self._name(links[place])), user), []).append(place)
        return [*kinds.values()]

    # --- links ------------------------------------------------------------------------------------

    def shared_links(self) -> list[SharedLink]:
        """Return the links that two jobs or more use, those that are alike once."""
        table = self.machine.cluster.links
        loads = self._loads()
        (shared,) = np.nonzero((loads > 0).sum(axis=0) > 1)
        loads = loads[:, shared]
        users = [tuple(each) for each in (loads > 0).T.tolist()]
        found = []
        for places in self._kinds(shared, loads.sum(axis=0), users):
            first = places[0]
            load = {
                job.name: float(share)
                for job, share in zip(self.jobs, loads[:, first], strict=True)
                if share
            }
            contended = bool(np.isin(shared[places], self.together.contended).any())
            capacity = float(table.capacities[shared[first]])
            link = self._name(shared[first])
            found.append(SharedLink(link, len(places), capacity, load, contended))
        return found


def _settled(times: Floats) -> bool:
    """Return whether the steps of a job took as long in their first half as in their second."""
    first, second = np.array_split(times, 2)
    error = np.sqrt(first.var() / len(first) + second.var() / len(second))
    return bool(abs(first.mean() - second.mean()) <= SETTLED * times.mean() + 3 * error)


def _spread(slowdowns: Floats) -> SlowdownSpread:
    median, p90 = np.quantile(slowdowns, (0.5, 0.9), method="inverted_cdf").tolist()
    least, mean, most = slowdowns.min(), slowdowns.mean(), slowdowns.max()
    return SlowdownSpread(len(slowdowns), float(mean), float(least), median, p90, float(most))
