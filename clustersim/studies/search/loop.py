"""Best first: replay layouts in the order of their bounds until no other can be better.

layouts, the best bound first --memory, replay--> runs that fit, within limits --> incumbents
          `--bound beyond the incumbents--> proven: all others are at most as good

The cost of a layout is the objective where less is better, else its inverse.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import field
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.arrays import Booleans, Floats
from clustersim.errors import ScenarioError, SimulationError
from clustersim.records import dataclass
from clustersim.runs.execution import CachedRuns
from clustersim.runs.variants import FAILED, INVALID, Run, ScenarioAnswer, Variant
from clustersim.scenario.load import LoadedScenario
from clustersim.simulation.limits import excess_of, missed_limits
from clustersim.simulation.measures import Kind, Measure, measures_of

POLL: Final = 1.0
"""Time between two looks at the clock while runs are computed [s]."""


MORE_TIME: Final = "allow more time, or fix keys of the layout with --set"
"""What helps where the time of a search was over before it had an answer."""


class TimeOverError(ScenarioError):
    """The time of a search is over before anything is known."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layouts(ABC):
    """Valid layouts of some scenarios that can fit, by their bounds.

    Attributes
    ----------
    kinds : of the answers of the scenarios
    measure : the objective
    limits : worst values of measures
    loaded : the scenarios that are searched
    costs : lower bound of the cost of each layout, in ascending order
    roomy : whether each can have room for the errors of predicted memory; None where these are none
    own_places : of the scenarios' own layouts, which are replayed before all others
    hopeful : layouts to replay next: those that are most likely to meet the limits
    possible : layouts before any of them is excluded [count]
    memory : layouts that memory excludes [count]
    limited : layouts that a bound excludes by a limit [count]
    unbounded : layouts whose bounds were not known in time [count]
    rules : invalid layouts by their reason [count]
    """

    kinds: tuple[Kind, ...]
    measure: Measure
    limits: Mapping[str, float]
    loaded: Sequence[LoadedScenario]
    costs: Floats
    roomy: Booleans | None = None
    own_places: Sequence[int] = ()
    hopeful: Sequence[int] = ()
    possible: int
    memory: int
    limited: int
    rules: Mapping[str, int]
    unbounded: int = 0

    @abstractmethod
    def variant(self, at: int) -> Variant:
        """Return a layout as a scenario with changes."""

    @abstractmethod
    def settings(self, at: int) -> dict[str, Any]:
        """Return the values of a layout by dotted key, with those of other keys that are free."""

    @abstractmethod
    def fits(self, at: int, run: Run) -> bool:
        """Return whether a replay fits in the memory that may be used."""

    def excess(self, numbers: Mapping[str, float]) -> tuple[float, str | None]:
        """Return the largest ratio by which measures miss a limit, and in words which."""
        table = measures_of(self.kinds)
        missed = missed_limits(numbers, self.limits, table)
        return excess_of(numbers, self.limits, table), missed


def cost_of(measure: Measure, value: float) -> float:
    """Return the cost of a value of an objective: its inverse where more is better."""
    if not measure.more_is_better:
        return value
    return 1 / value if value else inf


class Incumbent(NamedTuple):
    """A layout that was replayed and fits.

    Attributes
    ----------
    cost : of its replay
    tie : decides between equal costs: memory of training, devices and then latency of a service
    at : among the layouts
    bound : of its cost
    """

    cost: float
    tie: tuple[float, float]
    at: int
    bound: float
    settings: Mapping[str, Any]
    answer: ScenarioAnswer


class Missed(NamedTuple):
    """A layout whose replay misses a limit: by which ratio, and in words which."""

    excess: float
    incumbent: Incumbent
    words: str


@dataclass
class Progress:
    """How far a search is.

    Attributes
    ----------
    examined : layouts that were replayed or exceed the memory [count]
    ahead : layouts whose bound is better than the incumbents [count]
    computed : runs that the run cache did not have [count]
    best : objective of the best replay so far, in words
    gap : by how much another layout can be better than the best, share of it
    bounded : whether the bounds of all layouts are known; before, the counts above are of bounds
    """

    examined: int
    ahead: int
    computed: int = 0
    best: str = ""
    gap: float | None = None
    bounded: bool = True


OnProgress = Callable[[Progress], None]


def never() -> bool:
    """Return that a search has not been stopped."""
    return False


@dataclass(frozen=True)
class Deadline:
    """When the time of a search is over.

    Attributes
    ----------
    seconds : that it may take; None without an end [s]
    began : when it began [s]
    stopped : whether the search has been stopped, whatever time remains
    """

    seconds: float | None = None
    began: float = field(default_factory=time.perf_counter)
    stopped: Callable[[], bool] = never

    @property
    def remaining(self) -> float:
        """Time that remains [s]."""
        if self.stopped():
            return 0.0
        if self.seconds is None:
            return inf
        return max(0.0, self.began + self.seconds - time.perf_counter())

    @property
    def patience(self) -> float | None:
        """The same, as long as a thread can wait; None without an end [s]."""
        return None if self.seconds is None else min(self.remaining, threading.TIMEOUT_MAX)

    def part(self, share: float) -> "Deadline":
        """Return the deadline of the first part of the time that remains."""
        if self.seconds is None:
            return self
        return Deadline(share * self.remaining, time.perf_counter(), self.stopped)

    def check(self) -> None:
        """Reject a time in which no bounds of layouts are known.

        Raises
        ------
        TimeOverError
            in one line.
        """
        if self.stopped():
            raise TimeOverError("the search was stopped before any layout was replayed")
        if not self.remaining:
            raise TimeOverError(
                "--seconds: the bounds of the first layouts take longer, so that none was replayed"
                f" ({MORE_TIME})"
            )


NO_DEADLINE: Final = Deadline()
"""Of a search that ends with its proof."""


def progress_note(progress: Progress) -> str:
    """Return the best so far as the end of a line; empty before there is one."""
    if not progress.best or progress.gap is None:
        return ""
    return f", best {progress.best}, gap {100 * progress.gap:.1f} %"


@dataclass
class Search:
    """State of a search.

    Attributes
    ----------
    top : incumbents that are proven
    accepted : by how much another layout may be better, share of the best
    deadline : after which the best so far is returned
    missed : layouts that miss a limit
    """

    layouts: Layouts
    runs: CachedRuns
    top: int
    accepted: float = 0.0
    deadline: Deadline = NO_DEADLINE
    incumbents: list[Incumbent] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    replayed: int = 0
    memory: int = 0
    invalid: dict[str, int] = field(default_factory=dict)
    _next: int = 0
    _running: dict[Future[Run], int] = field(default_factory=dict)
    _early: set[int] = field(default_factory=set)

    def run(self, on_progress: OnProgress) -> None:
        """Replay layouts until the incumbents are proven, or the time is over."""
        for own in self.layouts.own_places[:1]:  # which began before the layouts were known
            self._early.add(own)
            self._start(own)
        while self.deadline.remaining:
            capacity = self.runs.capacity
            while len(self._running) < capacity and (at := self._following()) is not None:
                self._start(at)
            if not self._running:
                break
            self._collect_done(min(POLL, self.deadline.remaining))
            on_progress(self.progress)
        if self._running:
            self._collect_done(0)

    def _start(self, at: int) -> None:
        self._running[self.runs.submit(self.layouts.variant(at))] = at

    def _collect_done(self, patience: float) -> None:
        for future in wait(self._running, patience, FIRST_COMPLETED).done:
            self._collect(self._running.pop(future), self.runs.result(future))

    def _following(self) -> int | None:
        """Return the layout to replay next; None if there is none that could be better."""
        for at in (*self.layouts.own_places, *self.layouts.hopeful):
            if at not in self._early and self._next <= at < self._ahead:
                self._early.add(at)
                return at
        while self._next < self._ahead:
            self._next += 1
            if self._next - 1 not in self._early:
                return self._next - 1
        further = None if self._running else next(self._roomy_ahead, None)
        if further is not None:
            self._early.add(further)
        return further

    @property
    def roomy(self) -> Incumbent | None:
        """The best incumbent with room for the errors of predicted memory."""
        return next((each for each in self.incumbents if not each.answer.memory.tight), None)

    @property
    def roomy_is_proven(self) -> bool:
        """Whether no other layout with such room is better."""
        return not self.open and not self._running and next(self._roomy_ahead, None) is None

    @property
    def _roomy_ahead(self) -> Iterator[int]:
        """Layouts that may be the best with such room, where the best of all has it not."""
        allowed, best = self.layouts.roomy, self.roomy
        if allowed is None or not self.incumbents or best is self.incumbents[0]:
            return
        most = inf if best is None else best.cost * (1 - self.accepted)
        end = int(self.layouts.costs.searchsorted(most))
        for at in np.flatnonzero(allowed[self._next : end]):
            if self._next + int(at) not in self._early:
                yield self._next + int(at)

    def replay(self, variant: Variant) -> Run | None:
        """Return the run of a variant; None where it takes longer than the time that remains."""
        future = self.runs.submit(variant)
        if not wait([future], self.deadline.patience).done:
            return None
        return self.runs.result(future)

    @property
    def _ahead(self) -> int:
        """Layouts whose bound is better than the incumbents [count]."""
        limit = inf
        if len(self.incumbents) >= self.top:
            limit = self.incumbents[self.top - 1].cost
        if self.accepted and self.incumbents:
            limit = min(limit, self.incumbents[0].cost * (1 - self.accepted))
        return int(self.layouts.costs.searchsorted(limit))

    @property
    def progress(self) -> Progress:
        """How far the search is."""
        best = ""
        if self.incumbents:
            measure = self.layouts.measure
            best = measure.text(self.incumbents[0].answer.measures()[measure.name])
        examined = self._next + sum(at >= self._next for at in self._early) - len(self._running)
        ahead = max(self._ahead, self._next)
        return Progress(examined, ahead, self.runs.computed, best, self.gap)

    @property
    def open(self) -> int:
        """Layouts that could be better, but were not examined because the time was over."""
        ahead = self._ahead
        waiting = sum(at not in self._early for at in range(self._next, ahead))
        running = sum(at < ahead for at in self._running.values())
        return waiting + running + self.layouts.unbounded

    @property
    def gap(self) -> float | None:
        """By how much another layout can be better, share of the best.

        None without a best, and with layouts that have no bound.
        """
        if not self.incumbents or self.layouts.unbounded:
            return None
        costs = self.layouts.costs
        ahead = [*self._running.values(), self._next]
        least = min((float(costs[at]) for at in ahead if at < len(costs)), default=inf)
        best = self.incumbents[0].cost
        return max(0.0, 1 - least / best) if best else 0.0

    def _collect(self, at: int, run: Run) -> None:
        """Take a replay: an incumbent, or a layout that does not fit or misses a limit."""
        if run.verdict == FAILED:
            raise SimulationError(f"{self.layouts.variant(at).scenario}: {run.why}")
        if run.verdict == INVALID:
            self.invalid[run.why or ""] = self.invalid.get(run.why or "", 0) + 1
            return
        numbers = {} if run.answer is None else run.answer.measures()
        if run.answer is None or not numbers:
            self.memory += 1
            return
        self.replayed += 1
        if not self.layouts.fits(at, run):
            return
        measure = self.layouts.measure
        found = Incumbent(
            cost=cost_of(measure, numbers[measure.name]) if measure.name in numbers else inf,
            tie=(
                numbers.get("memory_peak_bytes", numbers["devices"]),
                numbers.get("latency", 0.0),
            ),
            at=at,
            bound=float(self.layouts.costs[at]),
            settings=self.layouts.settings(at),
            answer=run.answer,
        )
        excess, words = self.layouts.excess(numbers)
        if words is not None:
            self.missed.append(Missed(excess, found, words))
            self.missed.sort(key=lambda missed: (missed.excess, missed.incumbent.at))
            return
        self.incumbents.append(found)
        self.incumbents.sort(key=lambda incumbent: incumbent[:3])
