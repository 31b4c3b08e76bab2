"""Points of a scaling curve: a scenario laid out on other numbers of devices.

    scenario --devices n--> nodes = n / devices of a node, axis x n / devices of the scenario
             --weak-------> batch x n / devices of the scenario
             --strong-----> the same batch

A number of devices that is invalid is a point with a reason; it is skipped, the others are run.
"""

from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm
from pathlib import Path
from typing import Literal

from clustersim.catalog.finding import shipped
from clustersim.catalog.text_files import is_file
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.runs.arguments import settings_of
from clustersim.runs.cache_key import key_of
from clustersim.runs.variants import Value, Variant, in_a_line
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.scaling import PointFile
from clustersim.simulation.step.build import build_job

Kind = Literal["weak", "strong"]


@dataclass(frozen=True)
class PlannedPoint:
    """A point of a curve: what is run, and on how many devices.

    Attributes
    ----------
    batch : sequences of a step
    model : model and sequence length of this point
    own : whether it is its scenario without changes, so that its published numbers count
    """

    variant: Variant
    devices: int
    nodes: int = 0
    batch: int = 0
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
    base: Loaded
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
            loaded = load(self.name, settings)
        except (ScenarioError, CatalogError) as problem:
            raise ScenarioError(
                f"{self.base.where('scaling', self.kind)}: {devices:,} devices:"
                f" {in_a_line(problem)}"
            ) from None
        variant = self._variant(devices, settings, _layout_problem(loaded))
        return _planned(variant, loaded, own=key_of(loaded) == self._key)

    @cached_property
    def _key(self) -> str:
        return key_of(load(self.name))

    def _variant(self, devices: int, settings: tuple[str, ...], problem: str | None) -> Variant:
        point: dict[str, Value] = {"scaling": self.kind, "scenario": self.base.name}
        return Variant(self.name, settings, {**point, "devices": devices}, problem)

    def _layout(self, devices: int) -> tuple[str, ...]:
        """Return the changes that lay the scenario out on a number of devices."""
        given, growth = self.base.scenario, devices / self.base.scenario.devices
        changes = {"cluster.nodes": devices // given.cluster.node.devices.value}
        for axis in ("expert", "data") if self.axis == "expert" else (self.axis,):
            changes[f"plan.{axis}"] = round(getattr(given.plan, axis) * growth)
        if self.kind == "weak":
            changes["batch.global"] = round(given.batch.global_ * growth)
        return settings_of(changes)

    def _obstacle(self, devices: int) -> str | None:
        """Return the reason why the scenario has no layout on a number of devices."""
        given, own = self.base.scenario, self.base.scenario.devices
        node, degree = given.cluster.node.devices.value, getattr(given.plan, self.axis)
        if devices % node:
            return f"a node has {node} devices{_nearest(devices, node)}"
        if degree * devices % own:
            step = lcm(node, own // gcd(degree, own))
            degrees = f"{self.axis} {degree} on {own:,} devices would be"
            return f"{degrees} {degree * devices / own:.4g}{_nearest(devices, step)}"
        if self.kind == "weak" and given.batch.global_ * devices % own:
            step = own // gcd(given.batch.global_, own)
            batch = f"the batch of {given.batch.global_:,} on {own:,} devices would be"
            return f"{batch} {given.batch.global_ * devices / own:,.4g}{_nearest(devices, step)}"
        return None


def _nearest(devices: int, step: int) -> str:
    """Return the multiples of `step` around a number of devices, in words."""
    below, above = devices // step * step, (devices // step + 1) * step
    around = [f"{count:,}" for count in (below, above) if count > 0]
    return f" (nearest: {' or '.join(around)} devices)"


def _planned(variant: Variant, loaded: Loaded, *, own: bool) -> PlannedPoint:
    given = loaded.scenario
    model = (given.model.model_dump_json(), given.batch.sequence)
    return PlannedPoint(
        variant, given.devices, given.cluster.nodes, given.batch.global_, model, own
    )


def _layout_problem(loaded: Loaded) -> str | None:
    """Return what is invalid about a layout; None where it is valid."""
    try:
        build_job(loaded)
    except PlanError as problem:
        return in_a_line(problem)
    return None


def point_of_file(
    plain: Loaded, kind: Kind, place: int, given: PointFile, settings: tuple[str, ...], name: str
) -> PlannedPoint:
    """Return another scenario as a point."""
    assert given.scenario is not None, "this point is a scenario"
    file = _neighbour(name, given.scenario)
    try:
        loaded = load(file, settings)
        own = key_of(loaded) == key_of(load(file))
    except (ScenarioError, CatalogError) as problem:
        where = plain.where("scaling", kind, "points", place, "scenario")
        raise ScenarioError(f"{where}: {in_a_line(problem)}") from None
    devices = loaded.scenario.devices
    point: dict[str, Value] = {"scaling": kind, "scenario": loaded.name, "devices": devices}
    return _planned(Variant(file, settings, point, _layout_problem(loaded)), loaded, own=own)


def _neighbour(name: str, other: str) -> str:
    """Return the file of a scenario that another one names, in its folder, or a shipped one."""
    folder = Path(name).parent if is_file(Path(name)) else shipped("scenario")
    file = folder / (other if other.endswith((".yaml", ".yml")) else f"{other}.yaml")
    return str(file) if is_file(file) else other
