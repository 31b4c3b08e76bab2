"""Points of a scaling curve: a scenario laid out on other numbers of devices.

    scenario --devices n--> nodes = n / devices of a node, axis x n / devices of the scenario
             --weak-------> batch, users, arrivals or requests x n / devices of the scenario
             --strong-----> the same batch or load
    jobs     --weak-------> nodes, and copies of each job, x n / devices of the machine

A number of devices that is invalid is a point with a reason; it is skipped, the others are run.
"""

from dataclasses import replace
from functools import cached_property
from math import gcd, lcm
from pathlib import Path
from typing import Any, Final, Literal

from clustersim.catalog.files import is_file
from clustersim.catalog.finding import shipped
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.records import dataclass
from clustersim.runs.arguments import settings_of
from clustersim.runs.cache_key import key_of
from clustersim.runs.variants import Value, Variant, in_a_line
from clustersim.scenario.load import Loaded, LoadedService, LoadedSharing, LoadedWork, load_work
from clustersim.scenario.scaling import PointFile
from clustersim.simulation.service.serve import check_service
from clustersim.simulation.sharing.machine import SharedMachine
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.disturbed import is_random

Kind = Literal["weak", "strong"]

REPLICATIONS: Final = 8
"""Steps with random numbers of their own at each point that has random disturbances."""

SIZED: Final = ("concurrency", "rate", "offline", "batch")
"""Loads of a service that can grow."""


@dataclass(frozen=True)
class PlannedPoint:
    """A point of a curve: what is run, and on how many devices.

    Attributes
    ----------
    load : sequences of a step; users, requests in a second, or requests of a service
    model : model and sequence length of this point
    own : whether it is its scenario without changes, so that its published numbers count
    """

    variant: Variant
    devices: int
    nodes: int = 0
    load: float | None = None
    model: tuple[str, int] = ("", 0)
    own: bool = False

    @property
    def problem(self) -> str | None:
        """The reason why it is invalid, where that is known before the run."""
        return self.variant.problem


@dataclass(frozen=True)
class ScaledScenario:
    """A scenario that is laid out on other numbers of devices.

    Attributes
    ----------
    name : file or name of the scenario
    axis : parallel axis that grows with the number of devices
    settings : changes of all points
    """

    name: str
    base: LoadedWork
    kind: Kind
    axis: str
    settings: tuple[str, ...]

    def point(self, devices: int, more: tuple[str, ...] = ()) -> PlannedPoint:
        """Return the scenario on a number of devices, with `more` changes."""
        reason = self._obstacle(devices)
        if reason is not None:
            return PlannedPoint(self._variant(devices, (), reason), devices)
        settings = (*self.settings, *self._layout(devices), *more)
        try:
            loaded = load_work(self.name, settings)
        except (ScenarioError, CatalogError) as problem:
            where = f"{self.base.where('scaling', self.kind)}: {devices:,} devices"
            raise ScenarioError(f"{where}: {in_a_line(problem)}") from None
        variant = self._variant(devices, settings, _layout_problem(loaded))
        return _planned(variant, loaded, own=key_of(loaded) == self._key)

    @cached_property
    def _key(self) -> str:
        return key_of(load_work(self.name))

    def _variant(self, devices: int, settings: tuple[str, ...], problem: str | None) -> Variant:
        point: dict[str, Value] = {"scaling": self.kind, "scenario": self.base.name}
        return Variant(self.name, settings, {**point, "devices": devices}, problem)

    def _layout(self, devices: int) -> tuple[str, ...]:
        """Return the changes that lay the scenario out on a number of devices."""
        scenario, growth = self.base.scenario, devices / self._own
        node = scenario.cluster.node.devices
        nodes = -(-devices // node)
        if isinstance(self.base, LoadedService):
            nodes = max(nodes, scenario.cluster.nodes)
        changes: dict[str, Any] = {"cluster.nodes": nodes}
        for key, degree in self._degrees():
            changes[key] = round(degree * growth)
        if self.kind == "weak":
            for key, size in _sizes(self.base).items():
                grown = size * growth
                changes[key] = max(1, round(grown)) if isinstance(size, int) else grown
        return settings_of(changes)

    def _degrees(self) -> list[tuple[str, int]]:
        """Return the degrees that grow by their keys; those of both pools of a service, or jobs."""
        if isinstance(self.base, LoadedSharing):
            jobs = enumerate(self.base.scenario.jobs)
            return [(f"jobs.{number}.copies", job.copies) for number, job in jobs]
        pools: dict[str, Any] = {"plan": self.base.scenario.plan}
        if isinstance(self.base, LoadedService) and self.base.scenario.plan.prefill is not None:
            plan = self.base.scenario.plan
            pools = {"plan.prefill": plan.prefill, "plan.decode": plan.decode}
        axes = ("expert", "data") if self.axis == "expert" else (self.axis,)
        return [(f"{key}.{axis}", getattr(p, axis)) for key, p in pools.items() for axis in axes]

    def _obstacle(self, devices: int) -> str | None:
        """Return the reason why the scenario has no layout on a number of devices."""
        base, own = self.base, self._own
        node = base.scenario.cluster.node.devices
        service = isinstance(base, LoadedService)
        if devices % node and not service:
            return f"a node has {node} devices{_nearest(devices, self._step)}"
        for key, degree in self._degrees():
            if degree * devices % own:
                name = key if service else key.removeprefix("plan.")
                degrees = f"{name} {degree} on {own:,} devices would be"
                return f"{degrees} {degree * devices / own:.4g}{_nearest(devices, self._step)}"
        if self.kind == "strong":
            return None
        if isinstance(base, LoadedService):
            kind = base.scenario.load.kind
            grows = kind in SIZED or devices == own
            return None if grows else f"load.{kind} does not grow with the devices (use --strong)"
        if isinstance(base, LoadedSharing):
            return None
        batch = _sizes(base)["batch.global"]
        if batch * devices % own:
            text = f"the batch of {batch:,} on {own:,} devices would be"
            return f"{text} {batch * devices / own:,.4g}{_nearest(devices, self._step)}"
        return None

    @cached_property
    def _own(self) -> int:
        """Devices of the layout of the scenario itself, of which it may name another number."""
        if not isinstance(self.base, Loaded):
            return devices_of(self.base)
        plan = self.base.scenario.plan
        return plan.tensor * plan.context * plan.data * plan.pipeline

    @cached_property
    def _step(self) -> int:
        """The least number of devices whose multiples alone have whole nodes, degrees and batch."""
        base, counts = self.base, [degree for _, degree in self._degrees()]
        if self.kind == "weak" and isinstance(base, Loaded):
            counts.append(base.scenario.batch.global_)
        steps = (self._own // gcd(count, self._own) for count in counts)
        node = 1 if isinstance(base, LoadedService) else base.scenario.cluster.node.devices
        return lcm(node, *steps)


def _sizes(loaded: LoadedWork) -> dict[str, int | float]:
    """Return what grows along a weak curve: the batch, or the load and number of requests."""
    if isinstance(loaded, LoadedSharing):
        return {}
    if not isinstance(loaded, LoadedService):
        return {"batch.global": loaded.scenario.batch.global_}
    load = loaded.scenario.load
    if load.kind not in SIZED:
        return {}
    sizes = {f"load.{key}": getattr(load, key) for key in (load.kind, "requests")}
    return {key: size for key, size in sizes.items() if size is not None}


def _nearest(devices: int, step: int) -> str:
    """Return the multiples of `step` around a number of devices, in words."""
    below, above = devices // step * step, (devices // step + 1) * step
    around = [f"{count:,}" for count in (below, above) if count > 0]
    return f" (nearest: {' or '.join(around)} devices)"


def _planned(variant: Variant, loaded: LoadedWork, *, own: bool) -> PlannedPoint:
    devices, nodes = devices_of(loaded), loaded.scenario.cluster.nodes
    if isinstance(loaded, LoadedSharing):
        jobs = sum(job.copies for job in loaded.scenario.jobs)
        return PlannedPoint(variant, devices, nodes, jobs, own=own)
    sequence = 0 if isinstance(loaded, LoadedService) else loaded.scenario.batch.sequence
    model = (loaded.scenario.model.model_dump_json(), sequence)
    size = next(iter(_sizes(loaded).values()), None)
    if isinstance(loaded, Loaded) and is_random(loaded):
        variant = replace(variant, replications=REPLICATIONS)
    return PlannedPoint(variant, devices, nodes, size, model, own)


def devices_of(loaded: LoadedWork) -> int:
    """Return the devices of a job, or of a shared machine."""
    if isinstance(loaded, LoadedSharing):
        return loaded.scenario.cluster.nodes * loaded.scenario.cluster.node.devices
    return loaded.scenario.devices


def _layout_problem(loaded: LoadedWork) -> str | None:
    """Return what is invalid about a layout; None where it is valid."""
    try:
        if isinstance(loaded, LoadedService):
            check_service(loaded)
        elif isinstance(loaded, LoadedSharing):
            SharedMachine(loaded).check()
        else:
            build_job(loaded)
    except PlanError as problem:
        return in_a_line(problem)
    return None


def point_of_file(
    plain: LoadedWork,
    kind: Kind,
    place: int,
    given: PointFile,
    settings: tuple[str, ...],
    name: str,
) -> PlannedPoint:
    """Return another scenario as a point."""
    assert given.scenario is not None, "this point is a scenario"
    file = _neighbour(name, given.scenario)
    try:
        loaded = load_work(file, settings)
        own = key_of(loaded) == key_of(load_work(file))
    except (ScenarioError, CatalogError) as problem:
        where = plain.where("scaling", kind, "points", place, "scenario")
        raise ScenarioError(f"{where}: {in_a_line(problem)}") from None
    devices = devices_of(loaded)
    point: dict[str, Value] = {"scaling": kind, "scenario": loaded.name, "devices": devices}
    return _planned(Variant(file, settings, point, _layout_problem(loaded)), loaded, own=own)


def _neighbour(name: str, other: str) -> str:
    """Return the file of a scenario that another one names, in its folder, or a shipped one."""
    folder = Path(name).parent if is_file(Path(name)) else shipped("scenario")
    file = folder / (other if other.endswith((".yaml", ".yml")) else f"{other}.yaml")
    return str(file) if is_file(file) else other
