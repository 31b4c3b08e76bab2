"""Steps of a replica, recorded as runs of steps that differ in their contexts alone.

    run    start, steps, sequences, context, prompts, waiting requests    of the first step
    step   end, KV blocks

A record grows up to a number of steps.  Then the steps of half of the runs, in blocks that are even
over time, are replaced by their sums: all sums stay exact, what is sampled is one of the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from math import inf
from operator import add
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.answers import in_brief
from clustersim.arrays import Booleans, Floats, Integers, ranges
from clustersim.engine.requests.columns import ROOM, Columns
from clustersim.engine.requests.scheduling import later
from clustersim.inference.batch import Batch, Prompt, Stretch, ends_of
from clustersim.records import dataclass

MOST_STEPS: Final = 1_500_000
"""Steps of a record, of all replicas: those of 100,000 requests that 64 users send."""

LEAST_STEPS: Final = 65_536
"""Steps of the record of one replica at least: some blocks of runs of 64 steps."""

BLOCK: Final = 64
"""Runs that are dropped together: prompts and decoding alternate."""

PENDING: Final = 1_024
"""Runs that are recorded together."""

AT_ONCE: Final = 16_384
"""Runs whose steps are summed at once."""


class StepTable(NamedTuple):
    """Steps one by one.

    Attributes
    ----------
    start, end : of each step [s]
    sequences, context : decoding sequences, and the sum of their cached tokens
    prompt_tokens : tokens of prompts
    blocks : KV blocks in use
    waiting : requests without KV blocks, of the batch in flight
    """

    start: Floats
    end: Floats
    sequences: Integers
    context: Integers
    prompt_tokens: Integers
    blocks: Integers
    waiting: Integers

    @property
    def seconds(self) -> Floats:
        """Time of each step [s]."""
        return self.end - self.start

    def of(self, chosen: Booleans) -> "StepTable":
        """Return the steps that a mask chooses."""
        columns: Sequence[Any] = [column[chosen] for column in self]
        return StepTable(*columns)


class StepSums(NamedTuple):
    """Sums over steps.

    Attributes
    ----------
    steps, decoding : steps, and those of them that decode [count]
    seconds : of all steps [s]
    block_seconds, sequence_seconds : the same times KV blocks, and times sequences [s]
    sequences, context, waiting : sums of these
    most_waiting : the most requests that wait
    """

    steps: int = 0
    decoding: int = 0
    seconds: float = 0.0
    block_seconds: float = 0.0
    sequence_seconds: float = 0.0
    sequences: int = 0
    context: int = 0
    waiting: int = 0
    most_waiting: int = 0

    @classmethod
    def of(cls, table: StepTable) -> "StepSums":
        """Return the sums over a table."""
        return cls(
            steps=len(table.end),
            decoding=int(np.count_nonzero(table.sequences)),
            seconds=float(table.seconds.sum()),
            block_seconds=float((table.seconds * table.blocks).sum()),
            sequence_seconds=float((table.seconds * table.sequences).sum()),
            sequences=int(table.sequences.sum()),
            context=int(table.context.sum()),
            waiting=int(table.waiting.sum()),
            most_waiting=int(table.waiting.max(initial=0)),
        )

    def plus(self, other: "StepSums") -> "StepSums":
        """Return the sums over the steps of both."""
        names: Sequence[str] = self._fields
        sums: dict[str, Any] = dict(zip(names, map(add, self, other), strict=True))
        sums["most_waiting"] = max(self.most_waiting, other.most_waiting)
        return StepSums(**sums)


NO_STEPS: Final = StepSums()
"""Sums over no steps."""


@dataclass(frozen=True, eq=False, repr=False)
class Steps:
    """Steps of one replica, in the order of their ends, as runs of steps one after another.

    Attributes
    ----------
    number : of each run
    start : when it begins [s]
    count : its steps
    sequences, prompt_tokens, waiting : of each of its steps, as of `StepTable`
    context : sum of the cached tokens in its first step
    prompts : that each of its steps processes [count]
    tokens, before : of each prompt in the first step, as of `Prompt`
    ends, blocks : of each step [s]: when it ends, and its KV blocks
    gain : tokens that a sequence gains in a step
    dropped : sums over steps that are not recorded
    """

    number: Integers
    start: Floats
    count: Integers
    sequences: Integers
    context: Floats
    prompt_tokens: Integers
    waiting: Integers
    prompts: Integers
    tokens: Integers
    before: Integers
    ends: Floats
    blocks: Integers
    gain: float
    dropped: StepSums = NO_STEPS

    __repr__ = in_brief

    def __len__(self) -> int:
        return len(self.ends) + self.dropped.steps

    @cached_property
    def _first(self) -> Integers:
        """The first step of each run."""
        return _first(self.count)

    def table(self, runs: slice = slice(None)) -> StepTable:
        """Return the recorded steps, or those of some runs."""
        count, first = self.count[runs], self._first[runs]
        if not len(count):
            return StepTable(*np.zeros((2, 0)), *np.zeros((5, 0), np.int64))
        steps = slice(first[0], first[-1] + count[-1])
        ends, first = self.ends[steps], first - first[0]
        starts = np.concatenate([[0.0], ends[:-1]])
        starts[first] = self.start[runs]
        run = np.repeat(np.arange(len(count)), count)
        sequences = self.sequences[runs][run]
        grown = self.gain * sequences * (np.arange(len(run)) - first[run])
        return StepTable(
            start=starts,
            end=ends,
            sequences=sequences,
            context=np.rint(self.context[runs][run] + grown).astype(np.int64),
            prompt_tokens=self.prompt_tokens[runs][run],
            blocks=self.blocks[steps],
            waiting=self.waiting[runs][run],
        )

    def batch(self, run: int, step: int = 0) -> Batch:
        """Return what a step of a run processes."""
        sequences = int(self.sequences[run])
        first = int(_first(self.prompts)[run])
        own = slice(first, first + int(self.prompts[run]))
        prompts = map(Prompt, self.tokens[own].tolist(), self.before[own].tolist())
        begun = Batch(sequences, 0, tuple(prompts))
        return later(begun, float(self.context[run]), self.gain, step)

    @cached_property
    def sums(self) -> StepSums:
        """Sums over all steps, also those that are not recorded."""
        return self.sums_of_runs(np.ones(len(self.count), np.bool_)).plus(self.dropped)

    def sums_of_runs(self, chosen: Booleans) -> StepSums:
        """Return the sums over the recorded steps of the runs that a mask chooses."""
        sums = NO_STEPS
        for first in range(0, len(chosen), AT_ONCE):
            runs = slice(first, first + AT_ONCE)
            steps = np.repeat(chosen[runs], self.count[runs])
            sums = sums.plus(StepSums.of(self.table(runs).of(steps)))
        return sums

    def seconds_within(self, begin: float, end: float) -> float:
        """Return the time of all steps within a time [s]; others are like those recorded."""
        last = self.ends[self._first + self.count - 1]
        recorded = float((last - self.start).sum())
        inside = float((last.clip(begin, end) - self.start.clip(begin, end)).sum())
        return inside * self.sums.seconds / recorded if recorded else 0.0

    def within(self, begin: float, end: float) -> "Steps":
        """Return the recorded steps of which some part lies within a time [s]."""
        table = self.table()
        inside = np.flatnonzero((table.end > begin) & (table.start < end))
        runs, at, count = np.unique(
            np.repeat(np.arange(len(self.count)), self.count)[inside],
            return_index=True, return_counts=True,
        )  # fmt: skip
        first = inside[at]
        skipped = first - self._first[runs]
        chosen = self._chosen(runs, inside)
        return replace(
            chosen,
            start=table.start[first],
            count=count,
            context=chosen.context + skipped * self.gain * chosen.sequences,
            before=chosen.before + chosen.tokens * np.repeat(skipped, chosen.prompts),
            dropped=NO_STEPS,
        )

    def _chosen(self, runs: Integers, steps: Integers) -> "Steps":
        prompts = ranges(_first(self.prompts)[runs], self.prompts[runs])
        items = dict.fromkeys(_RUN, runs) | dict.fromkeys(_PROMPT, prompts)
        items |= dict.fromkeys(_STEP, steps)
        return replace(self, **{name: getattr(self, name)[at] for name, at in items.items()})


def _first(counts: Integers) -> Integers:
    """Return the first item of each run of items."""
    first: Integers = np.cumsum(counts) - counts
    return first


def sums_of(steps: Iterable[Steps]) -> StepSums:
    """Return the sums over the steps of some replicas."""
    return reduce(StepSums.plus, (each.sums for each in steps), NO_STEPS)


_RUN: Final = {
    "number": "i", "start": "d", "count": "i", "sequences": "i", "context": "d",
    "prompt_tokens": "i", "waiting": "i", "prompts": "i",
}  # fmt: skip
_GIVEN: Final = ("start", "count", "sequences", "context", "waiting", "prompts")
_STEP: Final = {"ends": "d", "blocks": "i"}
_PROMPT: Final = {"tokens": "i", "before": "i"}
"""Columns of runs, those of them that are given, of steps and of prompts, with the types of their
numbers."""


class StepRecord:
    """Records the steps of one replica.

    Parameters
    ----------
    gain : tokens that a sequence gains in a step
    most : steps beyond which half of them are dropped
    """

    def __init__(self, gain: float, most: float = inf) -> None:
        self._gain, self._most = gain, most
        self._number, self._spacing = 0, 1
        self._dropped = NO_STEPS
        room = ROOM if most == inf else int(most)
        self._runs, self._steps = Columns(_RUN, room), Columns(_STEP, room)
        self._prompts = Columns(_PROMPT)
        self._forget()

    def _forget(self) -> None:
        """Forget the pending runs."""
        self._recorded = len(self._steps)
        self._pending: list[tuple[float | int, ...]] = []
        self._stretches: list[Stretch] = []
        self._growth: list[int] = []
        self._pending_prompts: list[Prompt] = []

    def add(
        self, start: float, stretches: Sequence[Stretch], used: int, growth: Sequence[int],
        waiting: int, sequences: int, context: float, prompts: tuple[Prompt, ...] = (),
    ) -> None:  # fmt: skip
        """Record a run of steps.

        Parameters
        ----------
        start : when it begins, also with copies of KV blocks before the first step [s]
        used : KV blocks of the first step
        growth : those that each later step needs
        context : of the first step
        """
        steps = 1 + len(growth)
        self._pending.append((start, steps, sequences, context, waiting, len(prompts)))
        self._stretches += stretches
        self._growth.append(used)
        self._growth += growth
        self._pending_prompts += prompts
        self._recorded += steps
        if self._recorded > self._most:
            self._thin()
        elif len(self._pending) == PENDING:
            self._flush()

    def _flush(self) -> None:
        """Move pending runs to columns."""
        if not self._pending:
            return
        given = zip(*self._pending, strict=True)
        runs = {name: np.array(values) for name, values in zip(_GIVEN, given, strict=True)}
        prompts = np.array(self._pending_prompts, np.int64).reshape(-1, 2).T
        tokens, last = np.array([0, *prompts[0].cumsum()]), runs["prompts"].cumsum()
        runs["prompt_tokens"] = tokens[last] - tokens[last - runs["prompts"]]
        runs["number"] = np.arange(self._number, self._number + len(last))
        growth = np.fromiter(self._growth, np.int64, len(self._growth))
        first, blocks = _first(runs["count"]), growth.cumsum()
        blocks -= np.repeat(blocks[first] - growth[first], runs["count"])
        self._runs.extend(runs.items())
        self._steps.extend([("ends", ends_of(self._stretches)), ("blocks", blocks)])
        self._prompts.extend(zip(_PROMPT, prompts, strict=True))
        self._number += len(last)
        self._forget()

    def steps(self) -> Steps:
        """Return the steps so far."""
        self._flush()
        columns: dict[str, Any] = {
            **self._runs.filled(), **self._steps.filled(), **self._prompts.filled()
        }  # fmt: skip
        return Steps(**columns, gain=self._gain, dropped=self._dropped)

    def _thin(self) -> None:
        """Drop every other block of runs until half of the steps remain."""
        steps = self.steps()
        block, recorded = steps.number // BLOCK, np.ones(len(steps.number), np.bool_)
        while steps.count[recorded].sum() > self._most / 2 and self._spacing <= block[-1]:
            self._spacing *= 2
            recorded = block % self._spacing == 0
        self._dropped = self._dropped.plus(steps.sums_of_runs(~recorded))
        of_steps, of_prompts = (recorded.repeat(each) for each in (steps.count, steps.prompts))
        del steps, block  # each column that is copied next is the last reference to its memory
        self._runs.choose(recorded)
        self._steps.choose(of_steps)
        self._prompts.choose(of_prompts)
        self._forget()
