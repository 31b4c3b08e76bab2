"""Rules that exclude layouts, each at the level of the space at which it is decided.

    mesh       degrees divide heads, layers, experts, devices and batch
    cell       microbatches divide the share of a replica
    sharding   ZeRO stages that the framework offers and that have an effect
    shape      schedules, chunks and layers that suit the stages; recomputation with an effect

Rules of a layout are those of `plan.checks`; of layouts that run in the same way the first remains.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from clustersim.plan.checks import plan_problems
from clustersim.plan.parallelism import Plan, Wiring, by_work
from clustersim.simulation.step.build import layers_of
from clustersim.simulation.step.check import MOST_BLOCKS
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.lower_bound.layout_values import Cell, Mesh, Shape, Sharding
from clustersim.workload.ops import Recompute

SAME_LAYERS: Final = "plan.layers: the same layers as another rule"
ONE_STAGE: Final = "plan.schedule: one stage runs all schedules alike"
EVERY: Final = "recompute.every: the same layer of each stage as a smaller interval"
WHOLE: Final = "recompute: the framework captures layers in graphs, which recompute no whole layer"
BLOCKS: Final = "plan.schedule: more blocks than are replayed"
COPIED: Final = "offload.parameters: ranks would each copy all weights of their stage (zero 3)"
NO_STAGE: Final = "recompute.stages: a stage that there is not"
SAME_SHARDS: Final = "plan.shard: the same ranks as shard 0"


@lru_cache(maxsize=1024)
def _equal_stages(layers: int, stages: int) -> tuple[int, ...]:
    """Return the layers of stages of equal work; none where there are too few layers."""
    return by_work([1.0] * layers, 0.0, stages) if stages <= layers else ()


class LayoutRules:
    """The rules of the layouts of a scenario.

    Parameters
    ----------
    intervals : between recomputed layers, all that are searched
    """

    def __init__(self, jobs: LayoutJobs, intervals: Sequence[int] = ()) -> None:
        self._jobs, self._given, self._intervals = jobs, jobs.given, intervals
        offered = self._given.framework.zero
        self._zero = 0 if 0 in offered else min(offered)
        self._layers: dict[tuple[int, Any], tuple[int, ...]] = {}
        self._most: dict[tuple[Wiring, tuple[int, ...]], int] = {}

    def of_mesh(self, mesh: Mesh) -> str | None:
        """Return why no layout of a mesh is valid, or None."""
        experts = self._given.model.experts is not None
        return self._problem(mesh, 1, shared=experts and mesh.tensor > 1, zero=self._zero)

    def of_cell(self, cell: Cell) -> str | None:
        """Return why no layout of a cell is valid, or None."""
        mesh, micro, shared = cell
        return self._problem(mesh, micro, shared=shared, zero=self._zero)

    def of_sharding(self, mesh: Mesh, sharding: Sharding) -> str | None:
        """Return why no layout of a mesh has a sharding, or None."""
        copies = mesh.context * mesh.data
        if sharding.shard and sharding.shard == copies:
            return SAME_SHARDS
        if self._given.offload.parameters and copies > 1 and sharding.zero < 3:
            return COPIED
        experts = self._given.model.experts is not None
        shared = experts and mesh.tensor > 1
        return self._problem(mesh, 1, shared=shared, zero=sharding.zero, shard=sharding.shard)

    def of_shape(self, shape: Shape, stages: int, microbatches: int) -> str | None:
        """Return why a shape is not possible, has no effect, or equals another one; or None."""
        return (
            self._of_schedule(shape, stages, microbatches)
            or self._of_layers(shape, stages)
            or self._of_recompute(shape, stages)
        )

    def alike(self, shape: Shape, other: Shape, stages: int) -> bool:
        """Return whether two shapes of some number of stages run in the same way."""
        return (
            (stages == 1 or shape.schedule == other.schedule)
            and shape.chunks == other.chunks
            and self._divided(shape.layers, shape, stages)
            == self._divided(other.layers, other, stages)
            and self._recomputed(shape, stages) == self._recomputed(other, stages)
        )

    def _recomputed(self, shape: Shape, stages: int) -> Recompute:
        """Return a recomputation with the smallest interval that has the same effect."""
        every = min(shape.recompute.every, self._most_layers(shape, stages))
        return replace(shape.recompute, every=every)

    def _problem(
        self, mesh: Mesh, micro: int, *, shared: bool, zero: int, shard: int = 0
    ) -> str | None:
        """Return the first problem of a layout of equal stages, or None."""
        given, model = self._given, self._jobs.model(mesh.tensor)
        stages = mesh.pipeline
        even = _equal_stages(model.layers, stages)
        plan = Plan(
            tensor=mesh.tensor,
            context=mesh.context,
            data=mesh.data,
            pipeline=stages,
            chunks=1,
            schedule="1f1b",
            zero=zero,
            shard=shard,
            micro=micro,
            microbatches=1,
            layers=even,
            reshard=given.plan.reshard or zero < 3,
            context_method=mesh.context_method,
            sequence_parallel=shared,
            expert=mesh.expert,
            expert_tensor=mesh.expert_tensor,
        )
        problems = plan_problems(
            plan, model, given.batch.global_, given.devices, given.framework, _dotted
        )
        return problems[0] if problems else None

    def _of_schedule(self, shape: Shape, stages: int, microbatches: int) -> str | None:
        schedule = self._jobs.schedule(shape.schedule)
        if stages == 1 and shape.schedule != self._simplest:
            return ONE_STAGE
        if misfit := schedule.misfit(stages, microbatches, shape.chunks):
            return f"plan.schedule: {schedule.name} {misfit}"
        if 2 * microbatches * stages * shape.chunks > MOST_BLOCKS:
            return BLOCKS
        return None

    @property
    def _simplest(self) -> str:
        """The first schedule of the framework that one stage can run."""
        offered = self._given.framework.schedules
        single = (name for name in offered if self._jobs.schedule(name).chunks[0] == 1)
        return next(single, offered[0])

    def _of_layers(self, shape: Shape, stages: int) -> str | None:
        layers, rules = self._divided(shape.layers, shape, stages), LAYER_RULES
        if not layers:
            return f"plan.layers: {stages * shape.chunks} parts for {self._count} layers"
        if 0 in layers[1:-1]:
            return f"plan.layers: a part of {len(layers)} without layers"
        if shape.layers in rules:
            others = rules[: rules.index(shape.layers)]
            if any(self._divided(other, shape, stages) == layers for other in others):
                return SAME_LAYERS
        return None

    @property
    def _count(self) -> int:
        return self._jobs.model(1).layers

    def _divided(self, rule: str | Sequence[int], shape: Shape, stages: int) -> tuple[int, ...]:
        """Return the layers of each part by a rule; none where it cannot divide them."""
        wiring = self._jobs.schedule(shape.schedule).wired(stages, shape.chunks)
        parts = wiring.virtual_stages
        key = parts, rule if isinstance(rule, str) else tuple(rule)
        if key not in self._layers:
            most = self._count + 2  # the first and the last part may have an end of the model alone
            found = layers_of(rule, self._jobs.model(1), parts) if parts <= most else ()
            valid = sum(found) == self._count and len(found) == parts and min(found) >= 0
            self._layers[key] = found if found and valid else ()
        return self._layers[key]

    def _of_recompute(self, shape: Shape, stages: int) -> str | None:
        recompute = shape.recompute
        if recompute.stages is not None and max(recompute.stages, default=0) >= stages:
            return NO_STAGE
        if recompute.mode == "full" and self._given.framework.graphs is not None:
            return WHOLE
        most = self._most_layers(shape, stages)
        alike = [interval for interval in self._intervals if interval >= most]
        return EVERY if recompute.every >= most and recompute.every > min(alike) else None

    def _most_layers(self, shape: Shape, stages: int) -> int:
        """Return the layers of the largest stage."""
        layers = self._divided(shape.layers, shape, stages)
        wiring = self._jobs.schedule(shape.schedule).wired(stages, shape.chunks)
        if (wiring, layers) not in self._most:
            self._most[wiring, layers] = max(
                sum(layers[wiring.virtual_stage(stage, chunk)] for chunk in range(shape.chunks))
                for stage in range(stages)
            )
        return self._most[wiring, layers]


LAYER_RULES: Final = ("even", "with-ends", "by-work", "filled")
"""Rules by which layers are divided; of those with equal layers the first is searched."""


def _dotted(*path: str | int) -> str:
    """Return a key as the beginning of a problem."""
    return ".".join(map(str, path))
