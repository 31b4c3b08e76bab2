"""Measured curves of collectives beside what the closed forms of the same machine give.

validation/curves.yaml --points--> communicator on a cluster --cost--> error of the time
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from clustersim import units
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Bytes, Count, Fraction, Positive, Strict
from clustersim.catalog.finding import find
from clustersim.catalog.libraries import Algorithm, Operation
from clustersim.catalog.tree import Tree
from clustersim.cost.communication import bus_factor
from clustersim.errors import CatalogError
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.scenario.load import load_cluster
from clustersim.topology.cluster import build_cluster

METRICS: Final = ("time_us", "algbw_gbs", "busbw_gbs")
"""What a curve may have measured: time [us], algorithm or bus bandwidth [GB/s]."""


class Curve(Strict):
    """One collective, measured by size of the buffer or by number of devices."""

    id: str
    title: str
    cluster: str
    settings: list[str] = Field([])
    devices: Count | None = None
    bytes: Bytes | None = None
    operation: Operation
    algorithm: Algorithm | None = None
    metric: Literal[METRICS]  # type: ignore[valid-type]
    bar: Fraction | None = None
    points: Annotated[dict[str | int, Positive], Field(min_length=1)]
    source: str


class CurvesFile(Strict):
    """``validation/curves.yaml``."""

    kind: Literal["curves"]
    curves: list[Curve]


@dataclass(frozen=True)
class Point:
    """One measured point: how many devices, which buffer [B], times [s] and the algorithm."""

    devices: int
    nbytes: float
    measured: float
    predicted: float
    algorithm: str

    @property
    def error(self) -> float:
        """Predicted time over measured, less one."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Graded:
    """A curve with its points."""

    curve: Curve
    points: tuple[Point, ...]

    @property
    def mean_abs_error(self) -> float:
        """Mean of the absolute errors of the time."""
        return sum(abs(point.error) for point in self.points) / len(self.points)

    @property
    def worst(self) -> Point:
        """The point with the largest error."""
        return max(self.points, key=lambda point: abs(point.error))

    @property
    def holds(self) -> bool | None:
        """Whether the promise is kept; None where none is given."""
        return None if self.curve.bar is None else self.mean_abs_error <= self.curve.bar

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "id": self.curve.id,
            "title": self.curve.title,
            "cluster": self.curve.cluster,
            "operation": self.curve.operation,
            "source": self.curve.source,
            "mean_abs_error": self.mean_abs_error,
            "bar": self.curve.bar,
            "holds": self.holds,
            "points": [
                {
                    "devices": point.devices,
                    "bytes": point.nbytes,
                    "measured_s": point.measured,
                    "predicted_s": point.predicted,
                    "error": point.error,
                    "algorithm": point.algorithm,
                }
                for point in self.points
            ],
        }


def read_curves() -> list[Curve]:
    """Return the shipped curves.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    return checked(CurvesFile, Tree.of(find("validation", "curves")), CatalogError).curves


def grade_curves(curves: Sequence[Curve]) -> list[Graded]:
    """Return every curve with what is predicted for its points."""
    return [Graded(curve, tuple(_points(curve))) for curve in curves]


def _points(curve: Curve) -> Iterator[Point]:
    fixed = {}
    if curve.algorithm is not None:
        fixed[str(curve.operation)] = Prescribed(str(curve.algorithm), f"curve {curve.id}")
    communicators: dict[int, Communicator] = {}
    for key, value in curve.points.items():
        devices = curve.devices or int(key)
        nbytes = curve.bytes or units.parse(key, "bytes")
        if devices not in communicators:
            communicators[devices] = _communicator(curve, devices, fixed)
        cost = communicators[devices].cost(curve.operation, nbytes)
        measured = _seconds(curve, value, nbytes, devices)
        yield Point(devices, nbytes, measured, cost.seconds, f"{cost.algorithm} {cost.protocol}")


def _communicator(curve: Curve, devices: int, fixed: dict[str, Prescribed]) -> Communicator:
    record = load_cluster(curve.cluster, None, curve.settings, f"curve {curve.id}")
    nodes = (devices - 1) // record.node.devices.value + 1
    return Communicator(build_cluster(record, nodes), [range(devices)], fixed)


def _seconds(curve: Curve, value: float, nbytes: float, devices: int) -> float:
    """Return a measured value as a time [s]."""
    if curve.metric == "time_us":
        return value * 1e-6
    factor = bus_factor(curve.operation, devices) if curve.metric == "busbw_gbs" else 1.0
    return nbytes * factor / (value * 1e9)
