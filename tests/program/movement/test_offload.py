"""Offload: copies to and from host memory, and their rates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim import simulate
from clustersim.cost.host import host_optimiser_seconds, host_rate
from clustersim.errors import CatalogError
from clustersim.program.movement.offload import HostLink, host_fetch, host_push
from clustersim.scenario.machine import load_cluster
from clustersim.simulation.step.build import build_job
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.topology.cluster import build_cluster
from clustersim.workload.ops import HostCopy

MODEST = settings(max_examples=20, deadline=None)
QLORA = {"method": "qlora", "rank": 64, "targets": ["qkv", "mlp"]}


def scenario(offload=None, *, cluster="desktop-2x3090-older", settings=(), **changes):
    """Llama 2 7B on two cards, its weights shared out, one sequence each."""
    changes = {"plan": {"data": 2, "zero": 3}, "offload": offload or {}, **changes}
    return training(
        cluster, 1, "llama2-7b", changes.pop("plan"), (2, 1, 512), "fsdp-qlora", *settings,
        recompute="full", finetune=QLORA, **changes
    )  # fmt: skip


def first_layer(offload=None):
    """Return the job of a scenario and the first layer of its stack."""
    job = build_job(scenario(offload))
    return job, job.layers.stacked(0, 0)[0]


def cluster_of(name, settings=()):
    """One node of a machine."""
    use = load_cluster(name, 1, settings)
    return build_cluster(use, use.nodes)


# --- how fast -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("workstation-2x4090", 0.825 * 31.5e9),  # sixteen lanes each, memory of 204.8 GB/s
        ("desktop-2x3090-older", 0.825 * 3.94e9),  # the card on four lanes is the slower one
        ("dgx-a100", 31.5e9),  # eight links of 31.5 GB/s, memory of 409.6 GB/s
        ("frontier", 205e9 / 8),  # eight links of 36 GB/s share a memory of 205 GB/s
    ],
)
def test_the_slowest_card_sets_the_pace_of_copies(name, rate):
    """All devices of a node copy at once: own link, shared bridge or memory, whichever is tight."""
    found = host_rate(cluster_of(name))

    assert found.from_host == pytest.approx(rate)
    assert found.to_host == pytest.approx(rate)


@MODEST
@given(st.floats(1.01, 8))
def test_wider_links_to_the_host_are_never_slower(factor):
    """Twice the lanes copy at most twice as fast, and not more slowly."""
    wide = [f"cluster.node.interconnect.kinds.pcie.bandwidth.value=x{factor}"]
    before = host_rate(cluster_of("workstation-2x4090"))
    after = host_rate(cluster_of("workstation-2x4090", wide))

    assert before.from_host <= after.from_host <= factor * before.from_host * (1 + 1e-9)


def test_optimisers_of_all_cards_share_the_host_memory():
    """Two processes that move 25.6 GB each through 51.2 GB/s take a second."""
    assert host_optimiser_seconds(cluster_of("desktop-2x3090-older"), 25.6e9) == pytest.approx(1.0)


def test_a_node_that_does_not_say_how_fast_its_memory_is_cannot_run_the_optimiser():
    """One line names the file's key and what to give."""
    bare = ["cluster.node.host={memory: {value: 64 GB, assumed: test}}"]

    with pytest.raises(CatalogError, match=r"node\.host\.bandwidth: missing"):
        host_optimiser_seconds(cluster_of("workstation-2x4090", bare), 1e9)


@MODEST
@given(st.floats(1e6, 1e10))
def test_a_copy_takes_its_bytes_over_the_rate(nbytes):
    """Latency once, then all bytes at the rate of the slowest card."""
    link = HostLink(build_job(scenario()))
    twice = link.seconds(HostCopy("x", 2 * nbytes, "to-host"))
    once = link.seconds(HostCopy("x", nbytes, "to-host"))

    assert twice - once == pytest.approx(nbytes / (0.825 * 3.94e9))


# --- what goes ------------------------------------------------------------------------------------


def test_each_card_copies_its_share_of_the_stored_weights():
    """Half of the layer's bytes, in 4 bits, come from the host in forward and backward."""
    job, stacked = first_layer({"parameters": True})
    half = job.weights.gathered_of(stacked.layer).all / 2

    for kind in (FORWARD, BACKWARD):
        copies = host_fetch(job, stacked, kind)
        assert [(copy.name, copy.direction) for copy in copies] == [("weights", "from-host")]
        assert copies[0].nbytes == pytest.approx(half)


def test_gradients_of_adapters_go_back_to_the_host():
    """Only what is trained has a gradient: rank times inputs and outputs, in two bytes, halved."""
    (copy,) = host_push(*first_layer({"parameters": True}), BACKWARD)

    adapters = 64 * (3 * (4096 + 4096) + 2 * (4096 + 11008) + (11008 + 4096))
    assert copy.direction == "to-host"
    assert copy.nbytes == pytest.approx(2 * adapters / 2)


def test_activations_go_to_the_host_and_come_back():
    """What a layer keeps is copied once each way; recomputed as a whole that is its input."""
    job, stacked = first_layer({"activations": True})
    (forth,) = host_push(job, stacked, FORWARD)
    (back,) = host_fetch(job, stacked, BACKWARD)

    assert (forth.direction, back.direction) == ("to-host", "from-host")
    assert forth.nbytes == back.nbytes == 2 * 512 * 4096


def test_nothing_is_copied_without_offload():
    """Without offload neither a fetch nor a push touches the host."""
    job, stacked = first_layer()

    for kind in (FORWARD, BACKWARD):
        assert host_fetch(job, stacked, kind) == host_push(job, stacked, kind) == []


# --- what it costs --------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["parameters", "optimiser", "activations"])
def test_offload_makes_a_step_longer(what):
    """Copies over a slow link take time that attribution shows; weights free the card."""
    plain, offloaded = simulate(scenario()), simulate(scenario({what: True}))

    assert offloaded.step_time > plain.step_time
    part = "optimiser" if what == "optimiser" else "host_transfer"
    assert offloaded.attribution[part] > plain.attribution[part]
    assert sum(offloaded.attribution.values()) == pytest.approx(offloaded.step_time)
    assert what != "parameters" or offloaded.memory.fullest.peak < plain.memory.fullest.peak


def test_a_faster_link_to_the_host_makes_offload_cheaper():
    """With sixteen lanes in the second slot the copies take a quarter, of which more is hidden."""
    offloaded = scenario({"parameters": True})
    wide = scenario(
        {"parameters": True},
        settings=["cluster.node.interconnect.kinds.narrow.bandwidth.value=15.75 GB/s"],
    )
    slow, fast = simulate(offloaded), simulate(wide)

    parts = slow.attribution["host_transfer"], fast.attribution["host_transfer"]
    assert 0.7 * parts[0] / 4 < parts[1] < parts[0] / 4
