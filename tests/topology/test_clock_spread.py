"""The slowest of many devices: kernels that compute limits take its time, others do not."""

import pytest

from clustersim.cost.kernels.products import gemm_seconds, stream_seconds
from clustersim.scenario.entries import entry
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.accelerator import build_accelerator, normal_maximum, slowest_of
from clustersim.workload.kernels import Gemm

MI250X = build_accelerator(entry("accelerator", "mi250x-gcd").record)


@pytest.mark.parametrize(
    ("devices", "maximum"),
    [(1, 0), (8, 1.424), (64, 2.344), (384, 2.956), (1024, 3.248), (16384, 3.971)],
)
def test_the_maximum_of_normal_numbers_is_that_of_order_statistics(devices, maximum):
    """Exact values are integrals of the density of the largest of n."""
    assert normal_maximum(devices) == pytest.approx(maximum, rel=0.01, abs=1e-12)


def with_spread(spread):
    """Return the GCD with a spread of clocks, which its own file does not state."""
    record = entry("accelerator", "mi250x-gcd").record
    return build_accelerator(record.model_copy(update={"clock_spread": spread}))


def test_products_take_the_time_of_the_slowest_device_and_passes_that_of_any():
    """A large product stretches by 1 + s m(n), but for its memory traffic; bytes do not."""
    device, large = with_spread(0.04), Gemm("gemm", 8192, 8192, 8192)
    slowest = slowest_of(device, 64)
    launch = device.launch_overhead
    ratio = (gemm_seconds(large, slowest) - launch) / (gemm_seconds(large, device) - launch)

    assert ratio == pytest.approx(1 + 0.04 * normal_maximum(64), rel=1e-3)
    assert stream_seconds(1e9, slowest) == stream_seconds(1e9, device)
    assert slowest.memory_capacity == device.memory_capacity


def test_one_device_waits_for_none():
    """Neither one device of a kind with a spread, nor many without one, are any slower."""
    device = with_spread(0.04)

    assert slowest_of(device, 1) is device
    assert slowest_of(MI250X, 4096) is MI250X


def test_a_step_slows_down_with_the_number_of_devices_alone():
    """Replicas without gradients to exchange: the same work of each, on 1, 8 and 64 devices."""
    settings = ["cluster.node.accelerator.clock_spread=0.03", "batch.micro=1"]

    def products(name, *changes):
        return simulate(name, [*settings, *changes]).attribution["matmul"]

    one = products("frontier-22b", "plan.data=1", "batch.global=8", "cluster.nodes=1")
    more = products("frontier-22b", "plan.data=8", "batch.global=64", "cluster.nodes=8")
    ratio = (1 + 0.03 * normal_maximum(64)) / (1 + 0.03 * normal_maximum(8))

    assert more / one == pytest.approx(ratio, rel=0.002)
