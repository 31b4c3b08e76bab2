"""The cost of a step of a replica: its model, layout, number formats and engine, built once.

    batch --tokens, rows, keys--> parts of each stage --> sum of stages, and the slowest

Steps are looked up in tables; `Service.step` computes one exactly, with its parts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from math import ceil
from typing import Any

from clustersim.catalog.engines import EngineRecord
from clustersim.catalog.facts import Fact
from clustersim.inference.batch import Batch, Prompt, StepTime
from clustersim.inference.drafting import NONE, Drafting
from clustersim.inference.experts import ExpertLoads
from clustersim.inference.formats import Formats, check_formats
from clustersim.inference.kernels import Kernels
from clustersim.inference.layer_work import HALF
from clustersim.inference.layout import Layout, check_replica
from clustersim.inference.links import Links
from clustersim.inference.memory import ReplicaMemory, replica_memory
from clustersim.inference.stage import Replica, Stage
from clustersim.inference.stage_tables import (
    MOST_TOKENS,
    StageTables,
    attention_seconds,
    only,
    single,
)
from clustersim.inference.tables import Line, knots, tabulate
from clustersim.topology.cluster import Cluster
from clustersim.workload.model import Layer, Transformer


class Service:
    """A replica that serves a model.

    Parameters
    ----------
    cluster : the machine, of which the replica has the devices `first` and after
    shares : of each expert in the tokens of a layer, in any unit; None for equal ones
    drafting : how tokens are drafted that the step verifies
    most_tokens : of the largest step, which its activations are held for; the engine's limit if
        None

    Raises
    ------
    PlanError
        when the layout does not fit model or machine, or the engine lacks a number format.
    """

    def __init__(
        self,
        cluster: Cluster,
        model: Transformer,
        layout: Layout,
        formats: Formats,
        engine: EngineRecord,
        shares: list[float] | None = None,
        first: int = 0,
        drafting: Drafting = NONE,
        most_tokens: int | None = None,
    ) -> None:
        check_replica(layout, model, cluster.devices - first)
        facts = engine.formats
        allowed: dict[str, Fact[Any]] = {
            "weights": facts.weights, "attention": facts.weights, "experts": facts.weights,
            "activations": facts.activations, "kv": facts.kv,
        }  # fmt: skip
        check_formats(
            formats, {part: (*fact.value,) for part, fact in allowed.items()}, engine.name
        )
        kernels = Kernels(
            cluster.accelerator,
            cast_fused=engine.kernels.cast.value,
            experts_alone=engine.kernels.experts_alone.value,
            prepared=engine.kernels.rotary_attended.value,
        )
        links = Links(cluster, layout, engine.collectives, kernels, first)
        loads = _loads(model, layout, shares)
        self.model, self.layout, self.engine = model, layout, engine
        self.formats, self.kernels, self.drafting = formats, kernels, drafting
        self._most_tokens = most_tokens
        self.replica = Replica(model, layout, formats, engine, kernels, links, loads)
        self.stages = [*_stages(self.replica)]
        graphs = engine.graphs
        self._mixed = graphs is not None and graphs.mixed.value
        self._padded = _padding([] if graphs is None else graphs.sizes.value)

    # --- memory ----------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> ReplicaMemory:
        """What the fullest device holds, and the tokens that its KV cache has room for."""
        draft = self.drafting.model
        extra = None if draft is None else draft.replica
        return replica_memory(self.replica, self._most_tokens, extra)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of a cached token on all devices of the replica [B]."""
        return self.memory.token

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache of the replica has room for."""
        return self.memory.tokens

    # --- exact ------------------------------------------------------------------------------------

    def step(self, batch: Batch) -> StepTime:
        """Return the time of a step by cause, without tables."""
        stages = [self._stage_parts(stage, batch) for stage, _ in self._kinds]
        parts: defaultdict[str, float] = defaultdict(float)
        for (_, count), of_stage in zip(self._kinds, stages, strict=True):
            for name, seconds in of_stage.items():
                parts[name] += count * seconds
        slowest = max(sum(of_stage.values()) for of_stage in stages)
        sent = self._sent(batch)
        parts["pipeline"] += sent
        drafted = self._drafted(batch, sum(parts.values()))
        parts["draft"] += drafted
        host = self._host(batch, sum(parts.values()))
        parts["host"] += host
        shown = {name: seconds for name, seconds in parts.items() if seconds}
        total = sum(shown.values())
        alone = len(self.stages) == 1
        paced = slowest + drafted + host + sent / self._hops
        return StepTime(total, shown, total if alone else paced)

    def products(self, batch: Batch) -> dict[tuple[str, str], float]:
        """Return the times of the products of a step by part and shape, of all layers [s]."""
        found: defaultdict[tuple[str, str], float] = defaultdict(float)
        each = self._tokens(batch)[0]
        for stage, count in self._kinds:
            for key, seconds in stage.products(each).items():
                found[key] += count * seconds
        return dict(found)

    def _stage_parts(self, stage: Stage, batch: Batch) -> dict[str, float]:
        """Return the parts of a step on one stage; two halves of a batch may overlap."""
        if not self._overlaps:
            return self._parts(stage, batch, 1.0)
        half = {name: 2 * seconds for name, seconds in self._parts(stage, batch, 0.5).items()}
        others = sum(half.values()) - half["expert"]
        overlapped = {**half, "expert": max(0.0, half["expert"] - others)}
        whole = self._parts(stage, batch, 1.0)
        return min(overlapped, whole, key=lambda parts: sum(parts.values()))

    def _parts(self, stage: Stage, batch: Batch, share: float) -> dict[str, float]:
        """Return the parts of a stage for a share of the batch, without overlap."""
        each, whole, rows = self._tokens(batch)
        parts = {name: only(found) for name, found in stage.dense(single(each * share)).items()}
        parts["experts"] = only(stage.routed(single(whole * share)))
        prompts = bool(batch.prompts)
        parts["expert"] = only(stage.exchange(single(each * share), prompts=prompts))
        parts["sampling"] = only(stage.head(single(rows * share)))
        if batch.sequences:
            sequences = batch.sequences / self.layout.attention_data * share
            keys = batch.context / batch.sequences
            own = single(max(1.0, sequences))
            together = prompts and stage.together
            decoded = stage.decode(own, single(keys), self._verified, together=together)
            parts["kv"] = only(decoded)
            parts["context"] = only(stage.context_combine(own * self._verified))
        if prompts:
            seconds = partial(attention_seconds, stage)
            attended = self._attended(batch.prompts, stage.prefill_launch, seconds)
            parts["prefill"] = share * attended
            gathered = only(stage.context_gather(single(self._context(batch))))
            parts["context"] = parts.get("context", 0.0) + share * gathered
        return parts

    def _context(self, batch: Batch) -> float:
        """Return the tokens whose keys prompts of a step attend to."""
        return self._of_groups([prompt.tokens + prompt.before for prompt in batch.prompts])

    def _attended(
        self, prompts: tuple[Prompt, ...], launch: float, seconds: Callable[[Prompt, int], float]
    ) -> float:
        """Return the time of attention of the prompts of a step, which one kernel a layer runs [s].

        Parameters
        ----------
        launch : the part of `seconds` that all prompts share [s]
        seconds : of some prompts of the same lengths
        """
        if len(prompts) == 1:
            return seconds(prompts[0], 1)
        amounts: list[float] = []
        for prompt, count in Counter(prompts).items():
            amounts += [(seconds(prompt, count) - launch) / count] * count
        return launch + self._of_groups(amounts)

    # --- what a step is ------------------------------------------------------------------------

    def _tokens(self, batch: Batch) -> tuple[float, float, float]:
        """Return the tokens of a device, of the replica, and the rows of logits of a device.

        Sequences are even over groups of attention; a prompt belongs to one of them.
        """
        groups, verified = self.layout.attention_data, self._verified
        own = ceil(batch.sequences / groups) * verified
        rows = own + ceil(len(batch.prompts) / groups)
        lengths = [prompt.tokens for prompt in batch.prompts]
        each = own + self._of_groups(lengths) / self.layout.context
        whole = batch.sequences * verified + sum(lengths)
        if each <= len(self._padded) - 1 and (self._mixed or not lengths):
            padded = self._padded[ceil(each)]
            whole, each = max(whole, padded * groups), padded
        return each, whole, rows

    def _of_groups(self, amounts: list[float] | list[int]) -> float:
        """Return the amount of the group of attention with most of it."""
        if not amounts:
            return 0.0
        return max(max(amounts), sum(amounts) / self.layout.attention_data)

    def _host(self, batch: Batch, device: float) -> float:
        """Return how long the devices wait for the host [s]; each group has a host of its own.

        Parameters
        ----------
        device : time of the devices in the step [s]
        """
        engine, groups = self.engine, self.layout.attention_data
        count = ceil((batch.sequences + len(batch.prompts)) / groups)
        others = (len(self.stages) - 1) * engine.in_flight.value
        scheduled = count * (engine.sequence.value + others)
        if engine.scheduler.ahead.value:
            scheduled = max(0.0, scheduled - device)
        gap = engine.step.value + scheduled
        tokens = batch.sequences * self._verified + sum(p.tokens for p in batch.prompts)
        each = tokens / groups
        captured = each <= len(self._padded) - 1 and (self._mixed or not batch.prompts)
        if captured:
            return gap
        issued = self._launches * engine.dispatch.value
        return gap + max(0.0, issued - device)

    def _sent(self, batch: Batch) -> float:
        """Return the time of all messages between stages [s]."""
        if len(self.stages) == 1:
            return 0.0
        return self._send(self._tokens(batch)[0])

    @property
    def _verified(self) -> int:
        """Tokens of a decoding sequence in a step."""
        return 1 + self.drafting.tokens

    @cached_property
    def _hops(self) -> int:
        return max(1, len(self.stages) - 1)

    @cached_property
    def _launches(self) -> float:
        return sum(stage.launches for stage in self.stages)

    @cached_property
    def _overlaps(self) -> bool:
        overlapped = self.engine.collectives.overlapped.value
        return overlapped and self.layout.attention_data > 1 and self.model.experts is not None

    @cached_property
    def _kinds(self) -> list[tuple[Stage, int]]:
        """Stages that differ, and how many of each there are."""
        kinds: dict[tuple[object, bool], list[Stage]] = {}
        for stage in self.stages:
            key = (frozenset(stage.layers.items()), stage.last)
            kinds.setdefault(key, []).append(stage)
        return [(same[0], len(same)) for same in kinds.values()]

    # --- tables ---------------------------------------------------------------------------------

    def seconds(self, batch: Batch) -> float:
        """Return the time of a step from tables [s]: exact at their knots, linear between them."""
        device = self.device_seconds(batch)
        if self.drafting.tokens:
            device += self._drafted(batch, device)
        return device + self._host(batch, device)

    def device_seconds(self, batch: Batch) -> float:
        """Return the time of the devices in a step from tables, without drafting and host [s]."""
        device = sum(count * self._tabled(place, batch) for place, count in self._places)
        return device + self._sent(batch) if len(self.stages) > 1 else device

    def _drafted(self, batch: Batch, device: float) -> float:
        """Return the time of drafting, of a step whose devices take `device` to verify [s]."""
        if batch.prompts and batch.sequences:
            device = self.device_seconds(batch._replace(prompts=()))
        return self.drafting.seconds(batch, device)

    def slowest(self, batch: Batch) -> float:
        """Return the time of the slowest stage from tables [s]."""
        if len(self.stages) == 1:
            return self.seconds(batch)
        stages = [self._tabled(place, batch) for place, _ in self._places]
        device = sum(count * stages[place] for place, count in self._places)
        sent = self._sent(batch)
        drafted = self._drafted(batch, device + sent)
        host = self._host(batch, device + sent + drafted)
        return max(stages) + drafted + host + sent / self._hops

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        return [(place, count) for place, (_, count) in enumerate(self._kinds)]

    @cached_property
    def _tables(self) -> list[StageTables]:
        return [StageTables(stage, self._verified) for stage, _ in self._kinds]

    @cached_property
    def _send(self) -> Line:
        width = HALF * self.model.hidden
        return tabulate(knots(MOST_TOKENS), lambda tokens: self.replica.links.send(width * tokens))

    def _tabled(self, place: int, batch: Batch) -> float:
        """Return the time of a stage; two halves of a batch may overlap."""
        exchanged, others = self._tabled_share(place, batch, 1.0)
        if not self._overlaps:
            return exchanged + others
        half = max(self._tabled_share(place, batch, 0.5))
        return min(2 * half, exchanged + others)

    def _tabled_share(self, place: int, batch: Batch, share: float) -> tuple[float, float]:
        """Return the times of exchanges and of all else of a stage, for a share of the batch."""
        tables, prompts, sequences = self._tables[place], batch.prompts, batch.sequences
        known = None if prompts else self._decoding.get((place, sequences, share))
        if known is None:
            known = self._tabled_tokens(tables, batch, share)
            if not prompts:
                self._decoding[place, sequences, share] = known
        exchanged, seconds = known
        if sequences:
            own = max(1.0, sequences / self.layout.attention_data * share)
            decode = tables.decode_together if prompts else tables.decode
            seconds += decode(own, batch.context / sequences)
            if self.layout.context > 1:
                seconds += tables.combined(own * self._verified)
        if prompts:
            attended = self._attended(prompts, tables.prefill_launch, tables.prefill)
            seconds += share * attended
            if self.layout.context > 1:
                seconds += share * tables.gathered(self._context(batch))
        return exchanged, seconds

    def _tabled_tokens(
        self, tables: StageTables, batch: Batch, share: float
    ) -> tuple[float, float]:
        """Return the times of a stage that depend on tokens alone: of exchanges, and of others."""
        each, whole, rows = self._tokens(batch)
        exchanged = 0.0
        seconds = tables.dense(each * share) + tables.head(rows * share)
        if self.model.experts is not None:
            seconds += tables.routed(whole * share)
            if self.layout.attention_data > 1:
                exchange = tables.prompted if batch.prompts else tables.exchanged
                exchanged = exchange(each * share)
        return exchanged, seconds

    @cached_property
    def _decoding(self) -> dict[tuple[int, int, float], tuple[float, float]]:
        """What `_tabled_tokens` returns without prompts, by stage, sequences and share."""
        return {}


def _stages(replica: Replica) -> Iterator[Stage]:
    """Yield the stages of a replica in order."""
    first, stack = 0, replica.model.stack
    shares = replica.layout.layers(replica.model)
    for place, count in enumerate(shares):
        layers: Counter[Layer] = Counter(stack[first : first + count])
        yield Stage(replica, layers, last=place == len(shares) - 1)
        first += count


def _loads(model: Transformer, layout: Layout, shares: list[float] | None) -> ExpertLoads | None:
    if model.experts is None:
        return None
    given = [1.0] * model.experts.count if shares is None else shares
    return ExpertLoads(given, model.experts.top_k, layout.expert)


def _padding(sizes: list[int]) -> list[int]:
    """Return for each number of tokens the captured number that it is padded to."""
    padded, low = [], 0
    for size in sizes:
        padded += [size] * (size - low + (not low))
        low = size
    return padded
