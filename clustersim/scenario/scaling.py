"""The scaling curves of a scenario: points, reference of efficiency, published numbers.

weak      the batch grows with the devices
strong    the batch is constant
"""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.facts import Count, Nodes, Positive, Strict

Axis = Literal["tensor", "pipeline", "data", "context", "expert"]
"""Parallel axes that may grow with the devices; experts share the ranks of the data axis."""

Value = str | int | float | bool | list[int] | list[str]

MAX_POINTS: Final = 1_000
"""Maximum number of points of a curve."""

EFFICIENCY: Final = "efficiency"
COUNTED: Final = ("tflops_per_device",)
"""Metrics that need a convention of counting FLOPs."""


class PublishedPoint(Strict):
    """A published measurement of a point of the curve."""

    devices: Nodes = Field(description="number of devices of the point")
    metric: Literal[
        "efficiency",
        "step_time_s",
        "tokens_per_s",
        "tokens_per_s_per_device",
        "tflops_per_device",
        "mfu",
        "hfu",
    ] = Field(
        description="measured metric; an efficiency is relative to the first point of its source"
    )
    value: Positive = Field(
        description="in the unit of the metric; efficiency, mfu and hfu as fractions"
    )
    convention: Literal["model", "hardware"] | None = Field(
        None, description="how FLOPs are counted: `hardware` with recomputation"
    )
    source: str = Field(description="publication and the place in it")

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if (self.convention is not None) != (self.metric in COUNTED):
            needs = "needs" if self.metric in COUNTED else "has no"
            raise ValueError(f"metric: {self.metric} {needs} convention (model or hardware)")
        return self


class PointFile(Strict):
    """A point that differs from the others in more than the axis."""

    devices: Nodes | None = Field(None, description="number of devices of this point")
    scenario: str | None = Field(
        None, description="another scenario, shipped or in the same folder, as a point"
    )
    set: dict[str, Value] = Field({}, description="keys that differ at this point, by dotted path")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.devices is None) == (self.scenario is None):
            raise ValueError("needs either 'devices' or 'scenario', and not both")
        return self


class CurveFile(Strict):
    """Points of a curve, by number of devices."""

    devices: Annotated[list[Nodes], Field(max_length=MAX_POINTS)] = Field(
        [], description="numbers of devices, in any order"
    )
    points: Annotated[list[PointFile], Field(max_length=MAX_POINTS)] = Field(
        [], description="points that differ in more than the axis"
    )
    axis: Axis = Field("data", description="parallel axis that grows with the number of devices")
    against: Count | None = Field(
        None, description="devices of the point with efficiency 1; the smallest if missing"
    )
    set: dict[str, Value] = Field({}, description="keys that differ at every point")
    published: list[PublishedPoint] = Field([], description="published numbers of the curve")

    @model_validator(mode="after")
    def _has_points(self) -> Self:
        counts = [*self.devices, *(p.devices for p in self.points if p.devices is not None)]
        if not self.devices and not self.points:
            raise ValueError("has no points (give devices, a list of numbers, or points)")
        twice = [n for index, n in enumerate(counts) if n in counts[:index]]
        if twice:
            raise ValueError(f"names {twice[0]:,} devices twice (each number once)")
        return self


class Scaling(Strict):
    """The scaling curves that belong to this scenario."""

    weak: Annotated[CurveFile | None, Field(description="the batch grows with the devices")] = None
    strong: Annotated[CurveFile | None, Field(description="the batch is constant")] = None
