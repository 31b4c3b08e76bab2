"""Layouts of a scenario as plain values, made by the hundred thousand.

Cell        ranks and devices, microbatch          decides the time of a layer
Shape       schedule, chunks, layers, recomputation    divides the layers and orders the steps
Sharding    ZeRO stage, ranks that share a shard   decides what is reduced and gathered
"""

from typing import Any, Final, NamedTuple

from clustersim.plan.parallelism import AXES
from clustersim.simulation.step.build import recompute_value
from clustersim.workload.ops import NONE, Recompute


class Mesh(NamedTuple):
    """Degrees of parallelism, and the order of the axes on the devices.

    Attributes
    ----------
    order : axes of a degree above 1, innermost first; empty for the placement of the scenario
    """

    tensor: int
    context: int
    data: int
    pipeline: int
    context_method: str = "ring"
    expert: int = 1
    expert_tensor: int = 1
    order: tuple[str, ...] = ()

    @property
    def degrees(self) -> dict[str, int]:
        """Ranks along each axis, innermost first."""
        return dict(zip(AXES, (self.tensor, self.context, self.data, self.pipeline), strict=True))

    @property
    def placed(self) -> "Mesh":
        """The same without what does not decide which device a rank has."""
        return self._replace(context_method="", expert=1, expert_tensor=1)


class Cell(NamedTuple):
    """A mesh, and the microbatch of its cells."""

    mesh: Mesh
    micro: int
    sequence_parallel: bool = False


class Shape(NamedTuple):
    """How the layers are divided over the stages, and in which order stages run their steps.

    Attributes
    ----------
    layers : rule or list, as ``plan.layers``
    """

    schedule: str
    chunks: int = 1
    layers: str | tuple[int, ...] = "even"
    recompute: Recompute = NONE


ANY_SHAPE: Final = Shape("1f1b", 1, "with-ends")
"""The shape of jobs of which only the cell or the paths are read."""


class Sharding(NamedTuple):
    """What ZeRO shards, and over how many ranks; 0 for all ranks with the same weights."""

    zero: int = 0
    shard: int = 0


class Column(NamedTuple):
    """A cell with its sharding."""

    cell: Cell
    sharding: Sharding = Sharding()


class Layout(NamedTuple):
    """A complete layout."""

    cell: Cell
    shape: Shape
    sharding: Sharding = Sharding()

    @property
    def settings(self) -> dict[str, Any]:
        """The layout as values of a scenario by dotted key."""
        mesh, shape, zero = self.cell.mesh, self.shape, self.sharding
        values: dict[str, Any] = {f"plan.{axis}": degree for axis, degree in mesh.degrees.items()}
        if mesh.context > 1:
            values["plan.context_method"] = mesh.context_method
        values |= {
            "plan.expert": mesh.expert,
            "plan.expert_tensor": mesh.expert_tensor,
            "plan.sequence_parallel": self.cell.sequence_parallel,
            "plan.schedule": shape.schedule,
            "plan.chunks": shape.chunks,
            "plan.layers": shape.layers if isinstance(shape.layers, str) else [*shape.layers],
            "plan.zero": zero.zero,
            "plan.shard": zero.shard,
            "batch.micro": self.cell.micro,
            "recompute": recompute_value(shape.recompute),
        }
        if mesh.order:
            rest = [axis for axis in AXES if axis not in mesh.order]
            values["plan.placement.order"] = [*mesh.order, *rest]
        return values
