"""Layers where they are in the pipeline, with their operations."""

from collections.abc import Collection, Hashable
from dataclasses import fields
from functools import cached_property, partial
from itertools import product
from typing import Final, NamedTuple

from clustersim.bounded_cache import BoundedCache
from clustersim.plan.parallelism import Plan
from clustersim.workload.layers import captured_ops, in_order, ops_by_part
from clustersim.workload.layers.ends import embedding_ops, head_ops
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.ops import Op, Recompute, kept
from clustersim.workload.slice import Slice


class StackedLayer(NamedTuple):
    """A layer at its place in a stage.

    Attributes
    ----------
    recomputed : operations that its backward computes again
    outputs : whether the outputs of these are kept all the same
    """

    layer: Layer
    recomputed: frozenset[str]
    outputs: bool = True


class Layers:
    """The layers of all chunks, and what a rank runs for each.

    Parameters
    ----------
    shard : share of a layer that one rank computes
    graph_parts : parts of a layer that are captured in graphs

    Attributes
    ----------
    embedding, head : the operations before the first layer and after the last one
    """

    def __init__(
        self,
        model: Transformer,
        plan: Plan,
        recompute: Recompute,
        shard: Slice,
        graph_parts: Collection[str],
    ) -> None:
        self._plan, self._recompute = plan, recompute
        self._stack = model.stack
        kinds = model.kinds
        known = _LATEST_OPS.get(_key_of(shard), 1, partial(_ops, shard))
        _, parts, self.embedding, self.head = known
        self._ops = {layer: in_order(of_layer) for layer, of_layer in parts.items()}
        repeated = {layer: recompute.of(ops) for layer, ops in self._ops.items()}
        self._captured = {
            layer: captured_ops(of_layer, graph_parts) if graph_parts else frozenset[str]()
            for layer, of_layer in parts.items()
        }
        self._followed = {layer: captured_ops(parts[layer], ("experts",)) for layer in kinds}
        outputs, nothing = recompute.outputs, frozenset[str]()
        self._places = {
            (applies, layer): StackedLayer(layer, names if applies else nothing, outputs)
            for layer, names in repeated.items()
            for applies in (False, True)
        }
        self._chunks = list(product(range(plan.pipeline), range(plan.chunks)))
        self._stacks = {chunk: self._stacked(*chunk) for chunk in self._chunks}
        numbers: dict[Hashable, int] = {}
        self._contents = {
            chunk: numbers.setdefault((stack, plan.ends(*chunk)), len(numbers))
            for chunk, stack in self._stacks.items()
        }
        self._kept: dict[StackedLayer, float] = {}

    def _stacked(self, stage: int, chunk: int) -> tuple[StackedLayer, ...]:
        first = sum(len(self._plan.layers_of(stage, c)) for c in range(chunk))
        applies, recomputed = self._recompute.applies, self._places
        return tuple(
            recomputed[applies(stage, index), self._stack[number]]
            for index, number in enumerate(self._plan.layers_of(stage, chunk), first)
        )

    def stacked(self, stage: int, chunk: int) -> tuple[StackedLayer, ...]:
        """Return the layers of a chunk of a stage, in order."""
        return self._stacks[stage, chunk]

    def content(self, stage: int, chunk: int) -> int:
        """Return a number for what a chunk consists of: its layers, embedding and logits."""
        return self._contents[stage, chunk]

    @cached_property
    def alike(self) -> list[int]:
        """For each stage, the first one whose chunks consist of the same."""
        first: dict[tuple[int, ...], int] = {}
        chunks = range(self._plan.chunks)
        contents = (
            tuple(self._contents[stage, chunk] for chunk in chunks)
            for stage in range(self._plan.pipeline)
        )
        return [first.setdefault(content, stage) for stage, content in enumerate(contents)]

    def of_stage(self, stage: int) -> list[Layer]:
        """Return the layers of all chunks of a stage."""
        chunks = range(self._plan.chunks)
        return [stacked.layer for chunk in chunks for stacked in self._stacks[stage, chunk]]

    @property
    def recomputed(self) -> list[tuple[Layer, frozenset[str]]]:
        """Every layer of the model, with the operations that its backward computes again."""
        stacks = (self._stacks[chunk] for chunk in self._chunks)
        return [(stacked.layer, stacked.recomputed) for stack in stacks for stacked in stack]

    def ops(self, layer: Layer) -> list[Op]:
        """Return the operations of a layer."""
        return self._ops[layer]

    def captured(self, layer: Layer) -> frozenset[str]:
        """Return the names of the operations of a layer that the host issues as one graph."""
        return self._captured[layer]

    def followed(self, layer: Layer) -> frozenset[str]:
        """Return the names of the operations of a layer that need the routing of its tokens."""
        return self._followed[layer]

    def kept(self, stacked: StackedLayer) -> float:
        """Return what a layer keeps of a microbatch from forward to backward [B]."""
        if stacked not in self._kept:
            ops = self._ops[stacked.layer]
            self._kept[stacked] = kept(ops, stacked.recomputed, outputs=stacked.outputs)
        return self._kept[stacked]


_LATEST_OPS: Final = BoundedCache(256, 1)
"""The operations of the latest slices, which layouts share that differ in their pipelines."""

_Ops = tuple[Slice, dict[Layer, dict[str, list[Op]]], list[Op], list[Op]]


def _ops(shard: Slice) -> _Ops:
    """Return a slice, its operations by layer and part, and those before and after all layers."""
    of_layers = {layer: ops_by_part(shard, layer) for layer in shard.model.kinds}
    return shard, of_layers, embedding_ops(shard), head_ops(shard)


def _key_of(shard: Slice) -> tuple[Hashable, ...]:
    """Return what the operations depend on; records by their numbers, since a slice keeps them."""
    values = {field.name: getattr(shard, field.name) for field in fields(shard)}
    return tuple(id(value) if name in _RECORDS else value for name, value in values.items())


_RECORDS: Final = ("model", "kernels", "expert_kernels")
