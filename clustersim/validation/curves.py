"""Measured curves of collectives, and the times in closed form of the same machine.

validation/curves.yaml --points--> communicator on a cluster --cost--> error of the time
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from clustersim import units
from clustersim.answers import answer_from, record
from clustersim.catalog.checking import shipped_record
from clustersim.catalog.facts import Bytes, Count, Fraction, Positive, Strict
from clustersim.catalog.libraries import Algorithm, Operation
from clustersim.cost.closed_form import bus_factor
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.scenario.machine import load_cluster
from clustersim.topology.cluster import build_cluster

METRICS: Final = ("time_us", "algbw_gbs", "busbw_gbs")
"""Measured quantities of a curve: time [us], algorithm or bus bandwidth [GB/s]."""


class MeasuredCurve(Strict):
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
    curves: list[MeasuredCurve]


@record
class CurvePoint:
    """One measured point of a curve.

    Attributes
    ----------
    devices : devices of the collective
    bytes : size of the buffer [B]
    measured_s : time [s]
    predicted_s : the same, predicted [s]
    error : of the time
    algorithm : algorithm and protocol that the library is predicted to choose
    """

    devices: int
    bytes: float
    measured_s: float
    predicted_s: float
    error: float
    algorithm: str


@record
class CurveErrors:
    """A measured curve of a collective with its predictions.

    Attributes
    ----------
    id : name of the curve
    title : what was measured
    cluster : the cluster file of its machine
    operation : the collective
    source : where it was read
    mean_abs_error : mean of the absolute errors of the time
    bar : the target for it
    holds : whether the target is reached; `null` without one
    points : the points of the curve
    """

    id: str
    title: str
    cluster: str
    operation: str
    source: str
    mean_abs_error: float
    bar: float | None
    holds: bool | None
    points: tuple[CurvePoint, ...]

    @property
    def worst(self) -> CurvePoint:
        """The point with the largest error."""
        return max(self.points, key=lambda point: abs(point.error))


def read_curves() -> list[MeasuredCurve]:
    """Return the shipped curves.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    return shipped_record(CurvesFile, "validation", "curves").curves


def grade_curves(curves: Sequence[MeasuredCurve]) -> tuple[CurveErrors, ...]:
    """Return the errors of some curves."""
    return tuple(map(_grade, curves))


def _grade(curve: MeasuredCurve) -> CurveErrors:
    points = tuple(_points(curve))
    mean = sum(abs(point.error) for point in points) / len(points)
    holds = None if curve.bar is None else mean <= curve.bar
    return answer_from(CurveErrors, curve, mean_abs_error=mean, holds=holds, points=points)


def _points(curve: MeasuredCurve) -> Iterator[CurvePoint]:
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
        yield CurvePoint(
            devices=devices,
            bytes=nbytes,
            measured_s=measured,
            predicted_s=cost.seconds,
            error=cost.seconds / measured - 1,
            algorithm=f"{cost.algorithm} {cost.protocol}",
        )


def _communicator(curve: MeasuredCurve, devices: int, fixed: dict[str, Prescribed]) -> Communicator:
    record = load_cluster(curve.cluster, None, curve.settings, f"curve {curve.id}")
    nodes = (devices - 1) // record.node.devices + 1
    return Communicator(build_cluster(record, nodes), [range(devices)], fixed)


def _seconds(curve: MeasuredCurve, value: float, nbytes: float, devices: int) -> float:
    """Return a measured value as a time [s]."""
    if curve.metric == "time_us":
        return value * 1e-6
    factor = bus_factor(curve.operation, devices) if curve.metric == "busbw_gbs" else 1.0
    return nbytes * factor / (value * 1e9)
