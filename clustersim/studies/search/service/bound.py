r"""Bounds of a service: no layout serves more, or sooner, than its steps allow without a queue.

    g s + \gamma P <= \kappa r T(s, P)        for each step of s sequences and P tokens of prompts
    W >= (D + \gamma P) / (\kappa R r)        for D tokens and P tokens of prompts on R replicas

with g tokens that a sequence gains, T the time of a step with the shortest contexts, and
r = max g s / T(s, 0) the highest rate of a replica.  For each price \kappa >= 1, \gamma is the
largest that all steps allow; the best of a few prices is taken.  With users, the sequences of all
replicas are at most their number: r is then also the concave hull of g s / T(s, 0) at s / R.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, log2
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.tables import knots
from clustersim.records import dataclass
from clustersim.simulation.measures import QUANTILES, QUEUE_GROWTH
from clustersim.studies.search.service.load_amounts import Amount, LoadAmounts

PRICES: Final = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Prices of a token of decoding, over its least one, at which tokens of prompts are priced."""

PROMPTS: Final = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Tokens of prompts of a step at which its time is computed."""

DENSE: Final = 64
EVERY: Final = 4096
"""Sequences of a group up to which each number is computed, and multiples of 8, beyond the knots of
the tables of steps."""


@dataclass(frozen=True)
class ReplicaBound:
    """What one replica can do at most, under some load.

    Parameters
    ----------
    model : the replica as requests see it
    decodes, prefills : whether it does both, or belongs to a pool of its own
    groups : of attention, over which sequences are even
    by_stage : whether batches follow each other after the slowest stage, or each after its own
        step through all stages; of a pipeline both are bounds
    """

    model: ReplicaModel
    load: LoadAmounts
    decodes: bool = True
    prefills: bool = True
    groups: int = 1
    by_stage: bool = True

    @cached_property
    def _sequences(self) -> Floats:
        """Sequences of a batch at which the time of a step is computed."""
        rules, model = self.model.scheduling, self.model
        room = model.room(max(1, self.load.shortest))
        most = max(1, min(self.load.users, rules.sequences // model.stages, room))
        each = -(-most // self.groups)  # of a group, the last of which may be incomplete
        sizes = {*range(1, DENSE + 1), *map(int, knots(each)), *range(8, min(each, EVERY), 8), each}
        found = {1, most, *(self.groups * size for size in sizes)}
        return np.array(sorted(size for size in found if size <= most), dtype=float)

    @property
    def _room(self) -> int:
        """Tokens that a replica holds."""
        return self.model.blocks * self.model.block_tokens

    def _step(self, sequences: float, prompts: tuple[Prompt, ...] = ()) -> float:
        """Return the least time that a batch occupies a replica [s]."""
        count = int(sequences)
        return self.model.seconds(Batch(count, count * self.load.shortest, prompts))

    def _occupied(self, sequences: float, prompts: tuple[Prompt, ...] = ()) -> float:
        """Return the least time between two batches of a replica [s]."""
        if self.model.stages == 1:
            return self._step(sequences, prompts)
        count = int(sequences)
        batch = Batch(count, count * self.load.shortest, prompts)
        if self.by_stage:
            return self.model.slowest(batch)
        return self.model.seconds(batch) / self.model.stages

    @cached_property
    def _times(self) -> Floats:
        return np.array([self._occupied(size) for size in self._sequences.tolist()])

    @cached_property
    def token(self) -> float:
        """Least time between two tokens of a sequence [s]."""
        every = min(self._step(size) for size in self._sequences.tolist())
        return every / self.model.gain

    @cached_property
    def first(self) -> float:
        """Least time to process a prompt [s]."""
        if not self.load.prompt_share:
            return 0.0
        most = min(self.load.shortest, self.model.scheduling.budget)
        sizes = [size for size in PROMPTS if size < self.load.shortest]
        steps = [self._step(0, (Prompt(int(n)),)) / n for n in (*sizes, most)]
        return min(min(steps) * self.load.shortest, self._step(0, (Prompt(int(most)),)))

    def rate(self, replicas: int) -> float:
        """Return the highest rate of tokens of decoding of all replicas [1/s]."""
        rates = self.model.gain * self._sequences / self._times
        share = self.load.users / replicas
        batches = self.model.stages
        return replicas * min(float(rates.max()), _hull(batches * self._sequences, rates, share))

    def seconds(self, replicas: int, amount: Amount) -> float:
        """Return the least time in which all replicas process some tokens [s]."""
        found = self._least(replicas, amount)
        if self.model.stages == 1:
            return found
        return max(found, self._stepwise._least(replicas, amount))

    @cached_property
    def _stepwise(self) -> "ReplicaBound":
        return replace(self, by_stage=False)

    def _least(self, replicas: int, amount: Amount) -> float:
        load = self.load
        if not self.decodes:
            return amount.prompts * self._alone / replicas
        tokens = max(0.0, amount.decoded - self.model.gain * load.straddled)
        found = tokens / self.rate(replicas)
        if not self.prefills or not amount.prompts:
            return found
        for price, worth in self._prices:
            found = max(found, (tokens + worth * amount.prompts) / (price * replicas))
        return found

    @cached_property
    def _prices(self) -> list[tuple[float, float]]:
        """Rates of tokens of decoding, and the tokens that one of a prompt is worth at each."""
        best = self.model.gain * float((self._sequences / self._times).max())
        return [(price * best, max(0.0, self._worth(price * best))) for price in PRICES]

    def _worth(self, rate: float) -> float:
        """Return the tokens of decoding that a token of a prompt is worth, at least."""
        sizes = self._sequences if self.model.scheduling.mixed else self._sequences[:0]
        some = np.linspace(0, max(0, len(sizes) - 1), 10).astype(int).tolist()
        counts = [0.0, *(float(sizes[at]) for at in dict.fromkeys(some) if at < len(sizes))]
        return min(
            (rate * self._occupied(count, prompts) - self.model.gain * count) / tokens
            for tokens, prompts in self._prompts
            for count in counts
        )

    @cached_property
    def _alone(self) -> float:
        """Least time of a token of a prompt in steps of prompts [s]."""
        return min(self._occupied(0, prompts) / tokens for tokens, prompts in self._prompts)

    @cached_property
    def _prompts(self) -> Sequence[tuple[int, tuple[Prompt, ...]]]:
        """Prompts of a step, with their tokens: of equal sizes, of which the quickest is taken.

        Many short prompts take longer for what each takes, few long ones for their attention.
        """
        shortest, rules = self.load.shortest, self.model.scheduling
        held = min(self._room, rules.sequences * self.load.largest)  # of which a step has all
        most = max(min(rules.budget, self.load.most.prompts, held), shortest)
        doublings = int(2 * log2(self.load.largest / shortest)) + 1
        sizes = {*(int(shortest * 2 ** (n / 2)) for n in range(doublings)), self.load.largest}
        found = []
        for tokens in sorted({*(n for n in PROMPTS if n < most), int(most)}):
            fewest = tokens / (2 * rules.sequences)  # sizes are between those that are divided
            divided = [_divided(tokens, n) for n in sizes if fewest <= n <= max(tokens, shortest)]
            found.append((tokens, min(divided, key=lambda prompts: self._occupied(0, prompts))))
        return found


def _divided(tokens: int, size: int) -> tuple[Prompt, ...]:
    """Return prompts of a size, and one of the rest."""
    whole, part = divmod(tokens, size)
    return (Prompt(size),) * whole + ((Prompt(part),) if part else ())


def _hull(at: Floats, rates: Floats, share: float) -> float:
    """Return the concave hull of rates, through 0, at a number of sequences [1/s]."""
    points: list[tuple[float, float]] = [(0.0, 0.0), *zip(at.tolist(), rates.tolist(), strict=True)]
    left = [point for point in points if point[0] <= share]
    right = [point for point in points if point[0] > share]
    best = max(rate for _, rate in left)
    for x, low in left:
        for y, high in right:
            best = max(best, low + (high - low) * (share - x) / (y - x))
    return best


def bound_measures(
    pools: Sequence[tuple[ReplicaBound, int]],
    load: LoadAmounts,
    devices: int,
    after: float,
    percentiles: Sequence[str] = (),
) -> dict[str, float]:
    """Return measures that no replay of a layout exceeds: rates at most, times at least.

    Parameters
    ----------
    pools : bound of a replica and their number, the pool that processes prompts first
    after : time of a first token after the engine, which shortens that of the others [s]
    percentiles : of times, next to those of every answer
    """
    prefill, decode = pools[0][0], pools[-1][0]
    first, further = after + prefill.first, load.output - 1
    latency = max(first, prefill.first + further * decode.token)
    token = max(0.0, decode.token - after / further) if further else 0.0
    most = _sustainable(pools, load) if load.steady else inf
    rate, requests = _steady_rates(load, most) if load.steady else _rates(pools, load)
    total = rate + requests * load.prompt_share
    numbers = {
        "tokens_per_s_per_device": rate / devices,
        "tokens_per_s": rate,
        "total_tokens_per_s": total,
        "total_tokens_per_s_per_device": total / devices,
        "tokens_per_s_per_user": 1 / token if token else inf,
        "requests_per_s": requests,
        "goodput": requests,
        "devices": float(devices),
    }
    for name, least in (("ttft", first), ("tpot", token), ("latency", latency)):
        names = (f"{name}_{each}" for each in (*QUANTILES, *percentiles))
        numbers |= dict.fromkeys((name, *names), least)
    if load.steady:
        numbers |= {"sustainable_rate": most, QUEUE_GROWTH: max(0.0, requests - most)}
    return numbers


def _rates(pools: Sequence[tuple[ReplicaBound, int]], load: LoadAmounts) -> tuple[float, float]:
    """Return the most tokens and requests in a second, in the time that is measured."""
    least, most = (
        max(load.begun, *(bound.seconds(count, amount) for bound, count in pools))
        for amount in (load.least, load.most)
    )
    if not least:
        return inf, inf
    low, high = load.least.decoded, load.most.decoded
    return max((low + load.firsts) / least, (high + load.firsts) / most), load.completed / least


def _steady_rates(load: LoadAmounts, most: float) -> tuple[float, float]:
    """Return the tokens and requests in a second of a service that sustains their rate."""
    rate = most if load.rate is None else load.rate
    return rate * (1 + load.most.decoded / load.completed), rate


def _sustainable(pools: Sequence[tuple[ReplicaBound, int]], load: LoadAmounts) -> float:
    """Return the most requests in a second that a backlog lets the replicas complete."""
    least = max(bound.seconds(count, load.most) for bound, count in pools)
    return load.completed / least if least else inf
