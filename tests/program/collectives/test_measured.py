"""Collectives in a node have the price of their measured tables, in training and in engines."""

import pytest

from boxes import fixed, machine
from clustersim.cost.closed_form import bus_factor
from clustersim.program.collectives.communicator import Communicator

MIB = 2**20

GRAPHS = [
    ("dgx-a100", "all-reduce", 2, 16384, 12.8e-6),
    ("dgx-h100", "all-reduce", 2, 16384, 7.3e-6),
    ("dgx-b200", "all-reduce", 2, 16384, 11e-6),
    ("dgx-a100", "all-reduce", 8, 128 * MIB, 1169e-6),
    ("dgx-a100", "all-gather", 2, 128 * MIB, 496e-6),
    ("dgx-a100", "reduce-scatter", 8, 128 * MIB, 624e-6),
    ("dgx-h100", "all-reduce", 8, 128 * MIB, 579e-6),
    ("dgx-h100", "all-gather", 8, 128 * MIB, 393e-6),
    ("dgx-a100", "all-to-all", 8, 128 * MIB, 640e-6),
    ("dgx-h100", "all-to-all", 8, 128 * MIB, 402e-6),
]
"""Collectives of NCCL in CUDA graphs (ai-dynamo/aiconfigurator, commit 095f58a)."""


def seconds(name, issuer, operation, devices, nbytes):
    """Return the time of a collective on the first devices of a node."""
    communicator = Communicator(machine(name, 1, issuer=issuer), [range(devices)])
    return communicator.cost(operation, nbytes).seconds


@pytest.mark.parametrize(("name", "operation", "devices", "nbytes", "measured"), GRAPHS)
def test_training_and_engines_price_a_collective_in_a_node_by_one_table(
    name, operation, devices, nbytes, measured
):
    """An all-gather on two A100 took 0.81 of its table in training, on eight H100 1.21 times it.

    A step of training waits for the events of two streams besides, 5 us.
    """
    trained, served = (
        seconds(name, issuer, operation, devices, nbytes) for issuer in ("training", "engine")
    )

    assert served == pytest.approx(measured, rel=0.17)
    if operation != "all-to-all":
        assert trained - served == pytest.approx(5e-6)
    assert trained == pytest.approx(measured + 5e-6, rel=0.17)


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "dgx-b200"])
def test_a_call_timed_alone_includes_its_launch(name):
    """The host of a benchmark waits for each call: 17 us more than behind other kernels."""
    alone, behind = (
        seconds(name, issuer, "all-reduce", 2, 16384) for issuer in ("benchmark", "training")
    )

    assert alone - behind == pytest.approx(17e-6, rel=0.35)


@pytest.mark.parametrize(
    ("operation", "bandwidth", "near"),
    [("all-reduce", 436, 0.07), ("all-gather", 250, 0.03), ("reduce-scatter", 250, 0.03)],
)
def test_gathers_on_the_node_of_a_cloud_reach_what_its_users_measured(operation, bandwidth, near):
    """256 MB on 8 H100 of a p5.48xlarge: Ultra-Scale Playbook; gathers had 300 GB/s.

    An all-reduce in the switch has more there than the tables, which end at 128 MiB.
    """
    taken = seconds("aws-p5", "training", operation, 8, 256e6)

    assert bus_factor(operation, 8) * 256e6 / taken == pytest.approx(bandwidth * 1e9, rel=near)


def test_devices_of_a_node_without_a_switch_use_all_their_links():
    """Four A100 of Perlmutter have a link to each other: rings over two of three, 157 GB/s.

    Engines had the rate of one link, 78 GB/s, a third of that of a switched node.
    """
    meshed, switched = (
        seconds(name, "engine", "all-gather", 4, 1e9) for name in ("perlmutter", "dgx-a100")
    )

    assert meshed / switched == pytest.approx(235 / 157, rel=0.05)


def test_no_buffer_moves_faster_than_the_links_carry_it():
    """Continued to 16 GiB, the table of eight A100 has 280 GB/s on links of 235."""
    nbytes = 2**34
    taken = seconds("dgx-a100", "training", "reduce-scatter", 8, nbytes)

    assert bus_factor("reduce-scatter", 8) * nbytes / taken <= 234.91e9


def test_a_prescribed_algorithm_has_its_own_time():
    """The table does not state the algorithm, so a prescribed one has the closed form."""
    cluster = machine("dgx-h100", 1, issuer="training")
    ring = fixed(cluster, "ring", "all-reduce", range(8)).cost("all-reduce", 1e9)
    free = Communicator(cluster, [range(8)]).cost("all-reduce", 1e9)

    assert ring.seconds > 1.1 * free.seconds


def test_the_network_replays_a_collective_of_a_table_in_its_time():
    """Its flows have the rate of the table, below that of the links."""
    communicator = Communicator(machine("dgx-h100", 1, issuer="training"), [range(8)])
    cost = communicator.cost("all-gather", 64 * MIB)
    traffic = communicator.traffic("gather", "all-gather", 64 * MIB)
    rate = traffic.uncontended_rate(communicator.cluster.links.capacities.tolist())

    assert traffic.latency + traffic.nbytes / rate == pytest.approx(cost.seconds)
