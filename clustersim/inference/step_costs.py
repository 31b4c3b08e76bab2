"""The cost of a step of a replica, built once.

    batch --tokens, rows, keys--> parts of each stage --> sum of stages, and the slowest

Steps are looked up in tables; `StepCosts.step` computes one exactly, with its parts.  A static
batch has a closed form: prompts, then a step for each further token.  Requests in time, with
queues and uneven lengths, belong to `engine.requests`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from math import ceil
from operator import mul
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats
from clustersim.inference.batch import Batch, Prompt, Shape, StepTime, Stretch, stretches_of
from clustersim.inference.layer_work import HALF
from clustersim.inference.memory import ReplicaMemory, replica_memory
from clustersim.inference.replica import Replica
from clustersim.inference.stage import Stage
from clustersim.inference.tables import MOST_TOKENS, Line, StageTimes, knots

Parts = dict[str, float]
"""Times by cause [s]."""


class Drafting(NamedTuple):
    """Drafting of tokens that a step verifies: by a small model on the same devices, or by heads.

        step = d drafted tokens, one after another + verification of 1 + d tokens of each sequence

    A small model also processes the prompts, for its own KV cache.

    Attributes
    ----------
    tokens : of a sequence in a step; 0 without speculative decoding
    model : the small model; None where heads of the model draft, or a look-up
    share : time of a drafted token, over that of the step that verifies [unitless]
    """

    tokens: int = 0
    model: "StepCosts | None" = None
    share: float = 0.0

    def seconds(self, batch: Batch, verifying: float) -> float:
        """Return the time of drafting in a step [s].

        Parameters
        ----------
        verifying : time of the devices for the sequences of the batch, without prompts [s]
        """
        if self.model is None:
            return self.tokens * self.share * verifying if batch.sequences else 0.0
        seconds = 0.0
        if batch.prompts:
            seconds += self.model.device_seconds(Batch(0, 0, batch.prompts))
        if batch.sequences:
            decoding = Batch(batch.sequences, batch.context)
            seconds += self.tokens * self.model.device_seconds(decoding)
        return seconds


NO_DRAFTING: Final = Drafting()
"""No speculative decoding."""


class Sent(NamedTuple):
    """The messages of one kind of a step.

    Attributes
    ----------
    part : of the time of a step that they take
    operation : of the devices that send together
    nbytes : of one message [B]
    repeats : of them, one after another [count]
    seconds : of all [s]
    overlapped : whether one half of the batch computes while the other sends
    """

    part: str
    operation: str
    nbytes: float
    repeats: int
    seconds: float = 0.0
    overlapped: bool = False


SHAPES: Final = 2**14
"""Shapes of batches whose times that depend on tokens alone are known."""


class StepCosts:
    """The cost of the steps of a replica.

    Parameters
    ----------
    drafting : how tokens are drafted that the step verifies
    most_tokens : of the largest step, which its activations are held for; the engine's limit if
        None
    """

    def __init__(
        self,
        replica: Replica,
        drafting: Drafting = NO_DRAFTING,
        most_tokens: int | None = None,
    ) -> None:
        self.replica, self.drafting, self._most_tokens = replica, drafting, most_tokens
        stacks = replica.stacks
        self.stages = [
            Stage(replica, Counter(layers), last=number == len(stacks))
            for number, layers in enumerate(stacks, 1)
        ]
        graphs = replica.engine.graphs
        self._mixed = graphs is not None and graphs.mixed
        self._padded = _padding([] if graphs is None else graphs.sizes)
        self._groups, self._context = replica.layout.attention_data, replica.layout.context
        self._verified = 1 + drafting.tokens
        self._hops = max(1, len(self.stages) - 1)
        self._lines: dict[int, Line] = {}
        self._priced: tuple[Batch | None, tuple[float, float]] = (None, (0.0, 0.0))
        self._host_work = lru_cache(SHAPES)(self._work_of_host)
        self._token_parts = lru_cache(SHAPES)(self._parts_of_tokens)
        self._of_shape = lru_cache(SHAPES)(self._without_prompts)

    @cached_property
    def memory(self) -> ReplicaMemory:
        """What the fullest device holds, and the tokens that its KV cache has room for."""
        draft = self.drafting.model
        return replica_memory(
            self.replica, self._most_tokens, None if draft is None else draft.replica
        )

    # --- exact ------------------------------------------------------------------------------------

    def step(self, batch: Batch) -> StepTime:
        """Return the time of a step by cause, without tables."""
        parts: defaultdict[str, float] = defaultdict(float)
        slowest = 0.0
        for times, count in self._exact:
            of_stage = self._stage_parts(times, batch)
            slowest = max(slowest, sum(of_stage.values()))
            for name, seconds in of_stage.items():
                parts[name] += count * seconds
        parts["pipeline"] += (sent := self._sent(batch))
        parts["draft"] += (drafted := self._drafted(batch, sum(parts.values())))
        parts["host"] += (host := self._host(batch.shape, sum(parts.values())))
        shown = {name: seconds for name, seconds in parts.items() if seconds}
        total = sum(shown.values())
        if len(self.stages) == 1:
            return StepTime(total, shown, total)
        return StepTime(total, shown, slowest + drafted + host + sent / self._hops)

    def sent(self, batch: Batch) -> list[Sent]:
        """Return the messages of a step between devices, by the part of its time.

        Those from stage to stage are of one hop.
        """
        parts, each = self.step(batch).parts, self._tokens(batch.shape)[0]
        width, stages = HALF * self.replica.model.hidden * each, self.stages
        exchanged = max(stage.exchanged(each) for stage in stages)
        every = (
            Sent("tensor", "all-reduce", width, sum(stage.reduces for stage in stages)),
            Sent("expert", "all-to-all", exchanged, sum(stage.with_experts for stage in stages)),
            Sent("pipeline", "send", width, 1),
        )
        if self._overlaps:
            parts = {**parts, "expert": self._exchanging(batch)}
        hops = {"pipeline": self._hops}
        return [
            sent._replace(
                seconds=parts[sent.part] / hops.get(sent.part, 1),
                overlapped=self._overlaps and sent.part == "expert",
            )
            for sent in every
            if sent.part in parts
        ]

    def _exchanging(self, batch: Batch) -> float:
        """Return the time of the exchange with experts, whether or not it is overlapped [s]."""
        return sum(
            count * self._parts(times, batch, 1.0).get("expert", 0.0)
            for times, count in self._exact
        )

    def products(self, batch: Batch) -> dict[tuple[str, str], float]:
        """Return the times of the products of a step by part and shape, of all layers [s]."""
        products: defaultdict[tuple[str, str], float] = defaultdict(float)
        each = self._tokens(batch.shape)[0]
        for times, count in self._exact:
            for key, seconds in times.stage.products(each).items():
                products[key] += count * seconds
        return dict(products)

    # --- from tables ----------------------------------------------------------------------------

    def seconds(self, batch: Batch) -> float:
        """Return the time of a step from tables [s]: exact at their knots, linear between them."""
        if self._pipelined:
            return self._whole_and_slowest(batch)[0]
        shape = batch.shape
        device = self._stage_seconds(self._tables[0][0], batch, shape)
        if self.drafting.tokens:
            device += self._drafted(batch, device)
        return device + self._host(shape, device)

    def slowest(self, batch: Batch) -> float:
        """Return the time of the slowest stage from tables [s]."""
        return self._whole_and_slowest(batch)[1] if self._pipelined else self.seconds(batch)

    def _whole_and_slowest(self, batch: Batch) -> tuple[float, float]:
        """Return the times of a step and of its slowest stage [s], which are requested together."""
        if self._priced[0] is batch:
            return self._priced[1]
        shape, sent = batch.shape, self._sent(batch)
        stages = [self._stage_seconds(times, batch, shape) for times, _ in self._tables]
        device = sum(map(mul, self._counts, stages)) + sent
        added = self._drafted(batch, device) if self.drafting.tokens else 0.0
        added += self._host(shape, device + added)
        self._priced = batch, (device + added, max(stages) + added + sent / self._hops)
        return self._priced[1]

    def device_seconds(self, batch: Batch) -> float:
        """Return the time of the devices in a step from tables, without drafting and host [s]."""
        shape = batch.shape
        stages = (self._stage_seconds(times, batch, shape) for times, _ in self._tables)
        seconds: float = sum(map(mul, self._counts, stages))
        return seconds + self._sent(batch)

    def _stage_seconds(self, times: StageTimes, batch: Batch, shape: Shape) -> float:
        if self._overlaps:
            return sum(self._stage_parts(times, batch).values())
        seconds, decode = self._of_shape(times, shape)
        if decode is not None:
            seconds += decode(batch.context / batch.sequences)
        if batch.prompts:
            seconds += self._attended(batch.prompts, times) + self._gathered(batch.prompts, times)
        return seconds

    @property
    def linear(self) -> bool:
        """Whether steps are sums of constants and of parts that depend on contexts alone."""
        return len(self.stages) == 1 and not self._overlaps and not self.drafting.tokens

    def alike(self, start: float, batch: Batch, context: float, steps: int) -> list[Stretch]:
        """Return from tables steps that differ in their contexts alone.

        In each step a sequence has a token more, and a prompt the tokens of its chunk.

        Parameters
        ----------
        start : of the first step [s]
        batch : what it processes, without prompts or with one
        context : cached tokens of all sequences in it
        """
        sequences = batch.sequences
        if batch.prompts:
            seconds = self._chunks(batch, context, np.arange(float(steps)))
            return stretches_of((start + np.cumsum(seconds)).tolist())
        line = self._lines.get(sequences)
        if line is None:
            line = self._lines[sequences] = self._decoding_line(sequences)
        return line.stretches(start, context / sequences, 1.0, steps)

    def _chunks(self, batch: Batch, context: float, step: Floats) -> Floats:
        """Return the times of steps that process successive chunks of a prompt [s]."""
        ((times, _),), ((tokens, before),) = self._tables, batch.prompts
        fixed, decode = self._of_shape(times, batch.shape)
        keys = before + tokens * (step + 1)
        queries = np.full_like(keys, tokens)
        device: Floats = times.stage.prefill(queries, keys) + fixed
        device += times.stage.choice(queries, keys - queries / 2)
        device += self._scanned(batch.prompts, times)
        if decode is not None:
            device += decode.many(context / batch.sequences + step)
        if self._context > 1:
            device += [times.gathered(each) for each in keys]
        gap, scheduled, launched = self._host_work(batch.shape)
        waits = (scheduled - device).clip(0.0) + (launched - device).clip(0.0)
        return np.asarray(device + gap + waits)

    def _decoding_line(self, sequences: int) -> Line:
        """Return the time of steps that only decode by the cached tokens of a sequence [s]."""
        assert self.linear, "their times are no sum of a table and of constants"
        ((times, _),) = self._tables
        shape: Shape = sequences, ()
        device, decode = self._of_shape(times, shape)
        assert decode is not None, "sequences decode"
        gap, scheduled, launched = self._host_work(shape)

        def whole(attention: Floats) -> Floats:
            devices = device + attention
            waits = (scheduled - devices).clip(0.0) + (launched - devices).clip(0.0)
            seconds: Floats = devices + gap + waits
            return seconds

        return decode.bent(whole, [scheduled - device, launched - device])

    @cached_property
    def _counts(self) -> list[int]:
        return [count for _, count in self._tables]

    @cached_property
    def _pipelined(self) -> bool:
        return len(self.stages) > 1

    @cached_property
    def _exact(self) -> list[tuple[StageTimes, int]]:
        return [*self._times(tabled=False)]

    @cached_property
    def _tables(self) -> list[tuple[StageTimes, int]]:
        return [*self._times(tabled=True)]

    def _times(self, *, tabled: bool) -> Iterator[tuple[StageTimes, int]]:
        """Yield the times of stages that differ, and how many of each there are."""
        kinds: dict[tuple[object, bool], list[Stage]] = {}
        for stage in self.stages:
            key = (frozenset(stage.layers.items()), stage.last)
            kinds.setdefault(key, []).append(stage)
        for same in kinds.values():
            yield StageTimes(same[0], self._verified, tabled=tabled), len(same)

    # --- parts of a stage -------------------------------------------------------------------------

    def _stage_parts(self, times: StageTimes, batch: Batch) -> Parts:
        """Return the parts of a step on one stage; two halves of a batch may overlap."""
        whole = self._parts(times, batch, 1.0)
        if not self._overlaps:
            return whole
        half = {name: 2 * seconds for name, seconds in self._parts(times, batch, 0.5).items()}
        exchanged = half.pop("expert", 0.0)
        half["expert"] = max(0.0, exchanged - sum(half.values()))
        return min(half, whole, key=lambda parts: sum(parts.values()))

    @cached_property
    def _overlaps(self) -> bool:
        """Whether two halves of a batch overlap the exchange with experts."""
        overlapped = self.replica.engine.collectives.overlapped
        return overlapped and self._groups > 1 and self.replica.model.experts is not None

    def _parts(self, times: StageTimes, batch: Batch, share: float) -> Parts:
        """Return the parts of a stage for a share of the batch, without overlap."""
        sequences, context, prompts = batch
        parts = {**self._token_parts(times, batch.shape, share), "kv": 0.0, "context": 0.0}
        if sequences:
            own = self._own(sequences, share)
            parts["kv"] = times.decode(own, context / sequences, prompts=bool(prompts))
            parts["context"] = self._combined(own, times)
        if prompts:
            parts["prefill"] = share * self._attended(prompts, times)
            parts["context"] += share * self._gathered(prompts, times)
        return parts

    def _own(self, sequences: int, share: float = 1.0) -> float:
        """Return the sequences of a group of attention."""
        return max(1.0, sequences / self._groups * share)

    def _combined(self, own: float, times: StageTimes) -> float:
        """Return the time to combine the results of decoded tokens over a context group [s]."""
        return times.combined(own * self._verified) if self._context > 1 else 0.0

    def _parts_of_tokens(self, times: StageTimes, shape: Shape, share: float) -> Parts:
        """Return the parts of a stage that depend on tokens alone, for a share of the batch."""
        each, whole, rows = (share * tokens for tokens in self._tokens(shape))
        return times.tokens(each, whole, rows, prompts=bool(shape[1]))

    def _without_prompts(self, times: StageTimes, shape: Shape) -> tuple[float, Line | None]:
        """Return the time of a stage that depends on tokens alone, and that of decoded ones [s].

        The latter is by the cached tokens of a sequence; None where no sequence decodes.
        """
        seconds, (sequences, prompts) = sum(self._token_parts(times, shape, 1.0).values()), shape
        if not sequences:
            return seconds, None
        own = self._own(sequences)
        return seconds + self._combined(own, times), times.decodes(own, prompts=bool(prompts))

    def _gathered(self, prompts: Sequence[Prompt], times: StageTimes) -> float:
        """Return the time to gather keys and values of prompts over a context group [s]."""
        if self._context == 1:
            return 0.0
        return times.gathered(self._largest([prompt.tokens + prompt.before for prompt in prompts]))

    def _attended(self, prompts: Sequence[Prompt], times: StageTimes) -> float:
        """Return the time of attention of prompts, which kernels of a layer run for all [s]."""
        more = self._scanned(prompts, times) + self._chosen(prompts, times)
        if len(prompts) == 1:
            return times.prefill(prompts[0], 1) + more
        launch = times.prefill_launch
        amounts: list[float] = []
        for prompt, count in Counter(prompts).items():
            amounts += [(times.prefill(prompt, count) - launch) / count] * count
        return launch + self._largest(amounts) + more

    def _scanned(self, prompts: Sequence[Prompt], times: StageTimes) -> float:
        """Return the time of layers of Mamba-2 to scan prompts, each in whole chunks [s]."""
        shape = self.replica.model.mamba
        if shape is None:
            return 0.0
        return times.scan(self._largest([-(-n // shape.chunk) * shape.chunk for n, _ in prompts]))

    def _chosen(self, prompts: Sequence[Prompt], times: StageTimes) -> float:
        """Return the time of an indexer to choose the tokens that prompts attend to [s]."""
        if times.stage.indexer is None:
            return 0.0
        queries = self._largest([n for n, _ in prompts])
        pairs = self._largest([n * (before + n / 2) for n, before in prompts])
        return float(times.stage.choice(np.array([queries]), np.array([pairs / queries]))[0])

    # --- what a step is ------------------------------------------------------------------------

    def _tokens(self, shape: Shape) -> tuple[float, float, float]:
        """Return the tokens of a device, of the replica, and the rows of logits of a device.

        Sequences are even over groups of attention; a prompt belongs to one of them.
        """
        sequences, prompts = shape
        groups, verified = self._groups, self._verified
        each: float = ceil(sequences / groups) * verified
        whole, rows = sequences * verified, each
        if prompts:
            rows += ceil(len(prompts) / groups)
            each += self._largest(prompts) / self._context
            whole += sum(prompts)
        if self._captured(each, shape):
            padded = self._padded[ceil(each)]
            whole, each = max(whole, padded * groups), padded
        return each, whole, rows

    def _captured(self, tokens: float, shape: Shape) -> bool:
        """Whether a graph issues the kernels of a step with some tokens of a device."""
        return tokens <= len(self._padded) - 1 and (self._mixed or not shape[1])

    def _largest(self, amounts: Sequence[float]) -> float:
        """Return the amount of the group of attention with most of it."""
        if len(amounts) == 1:
            return amounts[0]
        return max(max(amounts), sum(amounts) / self._groups)

    def _host(self, shape: Shape, device: float) -> float:
        """Return how long the devices wait for the host [s].

        Parameters
        ----------
        device : time of the devices in the step [s]
        """
        gap, scheduled, launched = self._host_work(shape)
        if scheduled > device:
            gap += scheduled - device
        if launched > device:
            gap += launched - device
        return gap

    def _work_of_host(self, shape: Shape) -> tuple[float, float, float]:
        """Return times of the host: between steps, and of scheduling and launching during one [s].

        Each group has a host of its own.  With pipeline stages none of its work is hidden: engines
        have a loop without overlap for these (TensorRT-LLM `_executor_loop_pp`, SGLang
        `event_loop_pp`, vLLM before asynchronous pipelines).
        """
        step, sequence, launches, hidden = self._of_host
        sequences, prompts = shape
        scheduled = ceil((sequences + len(prompts)) / self._groups) * sequence
        tokens = sequences * self._verified + sum(prompts)
        launches *= not self._captured(tokens / self._groups, shape)
        if hidden:
            return step, scheduled, launches
        return step + scheduled, 0.0, launches

    @cached_property
    def _of_host(self) -> tuple[float, float, float, bool]:
        """Times of the host for a step, a sequence and launches [s]; whether it works ahead."""
        engine = self.replica.engine
        rules, others = engine.scheduler, (len(self.stages) - 1) * engine.in_flight
        launches = engine.dispatch * sum(stage.launches for stage in self.stages)
        hidden = rules.ahead if rules.hidden is None else rules.hidden
        return engine.step, engine.sequence + others, launches, hidden and len(self.stages) == 1

    def _drafted(self, batch: Batch, device: float) -> float:
        """Return the time of drafting, of a step whose devices take `device` to verify [s]."""
        if batch.prompts and batch.sequences:
            device = self.device_seconds(batch._replace(prompts=()))
        return self.drafting.seconds(batch, device)

    def _sent(self, batch: Batch) -> float:
        """Return the time of all messages between stages [s]."""
        return self._send(self._tokens(batch.shape)[0]) if self._pipelined else 0.0

    @cached_property
    def _send(self) -> Line:
        width = HALF * self.replica.model.hidden
        return Line(knots(MOST_TOKENS), lambda tokens: self.replica.links.send(width * tokens))


def _padding(sizes: Sequence[int]) -> list[int]:
    """Return for each number of tokens the captured number that it is padded to."""
    padded, low = [], 0
    for size in sizes:
        padded += [size] * (size - low + (not low))
        low = size
    return padded


# --- static batches -------------------------------------------------------------------------------


class StaticTimes(NamedTuple):
    """Times of a static batch: to the first token, between tokens, and in all [s]."""

    first: float
    token: float
    latency: float


def prompt_seconds(costs: StepCosts, sequences: int, length: int) -> float:
    """Return the time to process equal prompts, in steps of as many tokens as the engine takes."""
    scheduler, remaining, seconds = costs.replica.engine.scheduler, sequences, 0.0
    most = scheduler.tokens
    at_once = max(1, most // length * costs.replica.layout.attention_data)
    if length > most and scheduler.chunked:
        done = 0
        while done < length:
            size = min(most, length - done)
            seconds += sequences * costs.seconds(Batch(0, 0, (Prompt(size, done),)))
            done += size
        return seconds
    while remaining:
        count = min(remaining, at_once)
        seconds += costs.seconds(Batch(0, 0, (Prompt(length),) * count))
        remaining -= count
    return seconds


def static_times(costs: StepCosts, sequences: int, prompt: int, output: int) -> StaticTimes:
    """Return the times of a batch whose requests begin and end at the same time.

    The sum over steps is Simpson's rule: steps are nearly linear in the context.
    """
    first = costs.replica.engine.first + prompt_seconds(costs, sequences, prompt)
    if output == 1:
        return StaticTimes(first, 0.0, first)
    low, middle, high = (
        costs.seconds(Batch(sequences, round(sequences * (prompt + share * output))))
        for share in (0.0, 0.5, 1.0)
    )
    token = (low + 4 * middle + high) / 6
    return StaticTimes(first, token, first + (output - 1) * token)
