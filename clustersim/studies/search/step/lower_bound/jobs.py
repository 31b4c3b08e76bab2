"""The jobs of many layouts of one scenario, which share its machine and its model."""

from dataclasses import replace

from clustersim.arrays import Integers
from clustersim.plan.parallelism import Plan
from clustersim.plan.placement import Placement, place
from clustersim.program.job import Job
from clustersim.program.schedules import SCHEDULES, Schedule
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import (
    assembled_job,
    cluster_of,
    layers_of,
    schedule_named,
    schedule_of,
)
from clustersim.studies.search.step.lower_bound.layout_values import ANY_SHAPE, Cell, Layout, Mesh
from clustersim.workload.model import Transformer, build_model
from clustersim.workload.routing import Routing


class LayoutJobs:
    """Makes the jobs of layouts, unchecked.

    Attributes
    ----------
    given : the scenario whose layout is replaced
    cluster : its machine
    """

    def __init__(self, loaded: Loaded) -> None:
        self.loaded, self.given = loaded, loaded.scenario
        self.cluster = cluster_of(loaded)
        self._models: dict[int, Transformer] = {}
        self._devices: dict[Mesh, Integers] = {}
        self._routings: dict[Mesh, Routing] = {}
        self._first: dict[tuple[Cell, Routing], Cell] = {}
        self._alike: dict[Cell, Cell] = {}
        self._cells: dict[Cell, Job] = {}

    def model(self, tensor: int) -> Transformer:
        """Return the model, its vocabulary padded for some tensor ranks."""
        if tensor not in self._models:
            given = self.given
            batch, multiple = given.batch, given.framework.vocab_multiple
            self._models[tensor] = build_model(
                given.model, batch.sequence, multiple, tensor, batch.sample
            )
        return self._models[tensor]

    def schedule(self, name: str) -> Schedule:
        """Return a schedule by its name, or that of the scenario's own file."""
        if name in SCHEDULES:
            return schedule_named(name, self.given.framework)
        return schedule_of(self.loaded)

    def plan(self, layout: Layout) -> Plan:
        """Return a layout as the plan of a job."""
        (mesh, micro, sequence_parallel), shape, sharding = layout
        schedule = self.schedule(shape.schedule)
        parts = schedule.wired(mesh.pipeline, shape.chunks).virtual_stages
        return Plan(
            tensor=mesh.tensor,
            data=mesh.data,
            pipeline=mesh.pipeline,
            chunks=shape.chunks,
            schedule=schedule.name,
            wiring=schedule.wiring,
            zero=sharding.zero,
            reshard=self.given.plan.reshard,
            micro=micro,
            microbatches=self.microbatches(layout.cell),
            layers=layers_of(shape.layers, self.model(mesh.tensor), parts),
            sequence_parallel=sequence_parallel,
            context=mesh.context,
            context_method=mesh.context_method,
            expert=mesh.expert,
            expert_tensor=mesh.expert_tensor,
            shard=sharding.shard,
        )

    def job(self, layout: Layout) -> Job:
        """Return the job of a layout."""
        plan = self.plan(layout)
        model = self.model(plan.tensor)
        placement = self._placement(layout.cell.mesh, plan)
        schedule = self.schedule(layout.shape.schedule)
        job = assembled_job(self.loaded, placement, self.cluster, model, schedule)
        return replace(job, recompute=layout.shape.recompute)

    def microbatches(self, cell: Cell) -> int:
        """Return the microbatches of a replica."""
        return max(1, self.given.batch.global_ // (cell.mesh.data * cell.micro))

    def alike(self, cell: Cell) -> Cell:
        """Return the first of the cells that run the same kernels, wherever their ranks are."""
        if cell not in self._alike:
            mesh = cell.mesh
            if mesh not in self._routings:
                self._routings[mesh] = self.job(Layout(cell, ANY_SHAPE)).routing
            alone = cell._replace(mesh=mesh._replace(data=1, pipeline=1, order=()))
            key = alone, self._routings[mesh]
            self._alike[cell] = self._first.setdefault(key, cell)
        return self._alike[cell]

    def of_cell(self, alike: Cell) -> Job:
        """Return a job of the first of the cells that run the same kernels, as `alike`."""
        if alike not in self._cells:
            self._cells[alike] = self.job(Layout(alike, ANY_SHAPE))
        return self._cells[alike]

    def _placement(self, mesh: Mesh, plan: Plan) -> Placement:
        placed = mesh.placed
        if placed not in self._devices:
            wish, where = self.given.plan.placement, self.loaded.where
            order = mesh.order or wish.order
            placement = place(plan, self.cluster, order, wish.boxes, wish.devices, where)
            self._devices[placed] = placement.devices
        return Placement(plan, self._devices[placed])
