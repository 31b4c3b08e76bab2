"""Points of a scaling curve: a scenario laid out on other numbers of devices.

    scenario --devices n--> nodes = n / devices of a node, axis x n / devices of the scenario
             --weak-------> batch x n / devices of the scenario
             --strong-----> the same batch

A number that cannot be is a point with a reason; it is skipped, the others are run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm
from pathlib import Path
from typing import Literal

from clustersim.catalog.finding import shipped
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.runs.variants import Value, Variant, in_a_line
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.scaling import PointFile
from clustersim.simulation.build import build_job

Kind = Literal["weak", "strong"]


@dataclass(frozen=True)
class Point:
    """A point of a curve: what it runs on, how, and in which order it was asked for.

    Attributes
    ----------
    batch : sequences of a step
    model : of this point
    own : whether it is its scenario as the file says it, so that what was published of that counts
    """

    variant: Variant
    devices: int
    nodes: int = 0
    batch: int = 0
    model: tuple[str, int] = ("", 0)
    own: bool = False

    @property
    def trouble(self) -> str | None:
        """Why it cannot be run, where that is known."""
        return self.variant.problem


@dataclass(frozen=True)
class Ruler:
    """A scenario that is laid out on other numbers of devices."""

    name: str
    base: Loaded
    kind: Kind
    axis: str
    settings: tuple[str, ...]

    def point(self, devices: int, more: tuple[str, ...] = ()) -> Point:
        """Return the scenario on so many devices, with more changes of its own."""
        trouble = self._trouble(devices)
        if trouble is not None:
            return Point(self._variant(devices, (), trouble), devices)
        settings = (*self.settings, *self._laid_out(devices), *more)
        try:
            loaded = load(self.name, settings)
        except (ScenarioError, CatalogError) as problem:
            raise ScenarioError(
                f"{self.base.where('scaling', self.kind)}: {devices:,} devices:"
                f" {in_a_line(problem)}"
            ) from None
        variant = self._variant(devices, settings, _unbuilt(loaded))
        return _point(variant, loaded, own=key_of(loaded) == self._key)

    @cached_property
    def _key(self) -> str:
        return key_of(load(self.name))

    def _variant(self, devices: int, settings: tuple[str, ...], trouble: str | None) -> Variant:
        point: dict[str, Value] = {"scaling": self.kind, "scenario": self.base.name}
        return Variant(self.name, settings, {**point, "devices": devices}, trouble)

    def _laid_out(self, devices: int) -> tuple[str, ...]:
        given, grown = self.base.scenario, devices / self.base.scenario.devices
        nodes = devices // given.cluster.node.devices.value
        axes = ("expert", "data") if self.axis == "expert" else (self.axis,)
        degrees = [f"plan.{axis}={round(getattr(given.plan, axis) * grown)}" for axis in axes]
        batch = round(given.batch.global_ * grown)
        batches = [f"batch.global={batch}"] if self.kind == "weak" else []
        return (f"cluster.nodes={nodes}", *degrees, *batches)

    def _trouble(self, devices: int) -> str | None:
        """Return why the scenario cannot be laid out on so many devices."""
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
            whole = f"the batch of {given.batch.global_:,} on {own:,} devices would be"
            return f"{whole} {given.batch.global_ * devices / own:,.4g}{_nearest(devices, step)}"
        return None


def _nearest(devices: int, step: int) -> str:
    """Return the numbers of devices around one that are multiples of another, in words."""
    below, above = devices // step * step, (devices // step + 1) * step
    around = [f"{count:,}" for count in (below, above) if count > 0]
    return f" (nearest: {' or '.join(around)} devices)"


def _point(variant: Variant, loaded: Loaded, *, own: bool) -> Point:
    given = loaded.scenario
    model = (given.model.model_dump_json(), given.batch.sequence)
    return Point(variant, given.devices, given.cluster.nodes, given.batch.global_, model, own)


def _unbuilt(loaded: Loaded) -> str | None:
    """Return what stands against a layout; None where it can be."""
    try:
        build_job(loaded)
    except PlanError as problem:
        return in_a_line(problem)
    return None


def other_point(
    plain: Loaded, kind: Kind, place: int, said: PointFile, settings: tuple[str, ...], name: str
) -> Point:
    """Return another scenario as a point."""
    assert said.scenario is not None, "this point is a scenario"
    file = _beside(name, said.scenario)
    try:
        loaded = load(file, settings)
        own = key_of(loaded) == key_of(load(file))
    except (ScenarioError, CatalogError) as problem:
        where = plain.where("scaling", kind, "points", place, "scenario")
        raise ScenarioError(f"{where}: {in_a_line(problem)}") from None
    devices = loaded.scenario.devices
    point: dict[str, Value] = {"scaling": kind, "scenario": loaded.name, "devices": devices}
    return _point(Variant(file, settings, point, _unbuilt(loaded)), loaded, own=own)


def _beside(name: str, other: str) -> str:
    """Return the file of a scenario that another one names: its neighbour, or a shipped one."""
    folder = Path(name).parent if Path(name).is_file() else shipped("scenario")
    file = folder / (other if other.endswith((".yaml", ".yml")) else f"{other}.yaml")
    return str(file) if file.is_file() else other


def settings_of(changes: Mapping[str, object]) -> tuple[str, ...]:
    """Return keys and values as settings.

    >>> settings_of({"batch.micro": 2, "plan.schedule": "gpipe", "plan.layers": [3, 5]})
    ('batch.micro=2', 'plan.schedule=gpipe', 'plan.layers=[3, 5]')
    """
    return tuple(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in changes.items()
    )


__all__ = ["Kind", "Point", "Ruler", "other_point", "settings_of"]
