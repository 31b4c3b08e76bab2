"""Measured curves of collectives: the targets are reached, and all metrics become times."""

from types import SimpleNamespace

import pytest

from clustersim.errors import CatalogError
from clustersim.validation.curves import (
    METRICS,
    CurveErrors,
    CurvePoint,
    MeasuredCurve,
    grade_curves,
    read_curves,
)
from clustersim.validation.text import curve_rows

CURVES = {curve.id: curve for curve in read_curves()}


def error(name):
    """Return the mean absolute error of a curve."""
    return grade_curves([CURVES[name]])[0].mean_abs_error


@pytest.mark.parametrize("name", [name for name, curve in CURVES.items() if curve.bar is not None])
def test_a_curve_with_a_target_reaches_it(name):
    """The mean absolute error of the time over the sizes is at most the target of the file."""
    assert error(name) <= CURVES[name].bar


def test_the_targets_are_those_of_the_documentation():
    """15 % over all sizes, 8 % for large buffers in an A100 node, 5 % by number of devices."""
    bars = {curve.id: curve.bar for curve in CURVES.values() if curve.bar is not None}

    assert bars.pop("a100-node-large") == 0.08
    by_devices = {name: bar for name, bar in bars.items() if "by-devices" in name}
    assert set(by_devices.values()) == {0.05}
    assert {bar for name, bar in bars.items() if name not in by_devices} == {0.15}
    assert len(by_devices) == 4
    assert len(bars) == 18


@pytest.mark.parametrize("metric", METRICS)
def test_a_measured_value_is_turned_into_a_time(metric):
    """1 GB in 10 ms over 8 devices is 10,000 us, 100 GB/s of algorithm and 175 of bus bandwidth."""
    value = {"time_us": 10_000, "algbw_gbs": 100, "busbw_gbs": 175}[metric]
    curve = MeasuredCurve(
        id="test", title="", cluster="dgx-a100", devices=8, operation="all-reduce", metric=metric,
        points={"1 GB": value}, source="a test"
    )  # fmt: skip
    (graded,) = grade_curves([curve])

    assert graded.points[0].measured_s == pytest.approx(0.01)
    assert graded.holds is None


def test_a_prescribed_algorithm_is_the_one_that_is_graded():
    """The curve without NVLS is predicted by rings, and the one with it by NVLS from 5 devices."""
    ring, free = grade_curves([CURVES["h200-by-devices-ring"], CURVES["h200-by-devices"]])

    assert {point.algorithm.split()[0] for point in ring.points} == {"ring"}
    assert {point.algorithm.split()[0] for point in free.points if point.devices > 4} == {"nvls"}


def test_nvls_replaces_ll_at_the_measured_size():
    """On 8 H200 the library was measured to use rings up to 1 MiB and NVLS from 2 MiB."""
    (graded,) = grade_curves([CURVES["h200-node"]])
    taken = {point.bytes: point.algorithm for point in graded.points}

    assert taken[2**20] == "ring ll"
    assert taken[2**21] == "nvls simple"


def test_a_table_of_curves_has_targets_and_misses():
    """A row has the curve, its error, the target, and whether it is missed."""
    point = CurvePoint(8, 2**25, 1.0, 0.7, -0.3, "ring simple")
    curve = CurveErrors("x", "y", "c", "all-reduce", "z", 0.3, 0.1, False, (point,))
    (row,) = curve_rows(SimpleNamespace(curves=[curve]))

    assert row == (
        "x", "y", "1", "30.0 %", "at most 10.0 %, missed", "-30.0 % at 32 MiB on 8 devices", "z"
    )  # fmt: skip


def test_a_cluster_that_does_not_exist_is_reported_with_the_curve():
    """A wrong name in a curve is one line that names the curve."""
    wrong = CURVES["h100-node"].model_copy(update={"cluster": "dgx-h10"})

    with pytest.raises(CatalogError, match=r"curve h100-node: .*no cluster named 'dgx-h10'"):
        grade_curves([wrong])
