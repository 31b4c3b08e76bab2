"""Collectives of a replica take the time of the machine's links, also where they are measured."""

import numpy as np
import pytest

import clustersim
from clustersim.cost.kernels.price_list import KernelPrices
from clustersim.inference.layout import Layout
from clustersim.inference.links import Links, link_rates
from clustersim.scenario.entries import entry
from clustersim.scenario.machine import load_cluster
from clustersim.topology.accelerator import kernel_fits
from clustersim.topology.cluster import build_cluster

NAME = "llama3-70b-h100-serving"
SMALL = {"load.concurrency": 8, "load.requests": 8}


def tensor(**settings):
    """Return the seconds of tensor communication in the first token of a service."""
    return clustersim.serve(NAME, SMALL | settings).answer.ttft_attribution["tensor"]


def test_a_collective_in_a_node_depends_on_its_links():
    """Links of twice the bandwidth shorten collectives, of half of it lengthen them."""
    key = "cluster.node.interconnect.bandwidth"
    half, base, twice = (tensor(**{key: f"{rate} GB/s"}) for rate in (225, 450, 900))

    assert half > 1.3 * base
    assert twice < 0.9 * base


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        ("dgx-a100", "a100-80gb"),
        ("dgx-h100", "h100-sxm"),
        ("dgx-h200", "h200-sxm"),
        ("dgx-b200", "b200"),
        ("gb200-nvl72", "gb200"),
    ],
)
def test_the_machine_that_was_measured_has_the_measured_rate(name, accelerator):
    """The links stated with the fits are those of the shipped machine, which is not scaled."""
    cluster = build_cluster(load_cluster(name, 1), 1, issuer="engine")

    assert link_rates(cluster, range(2)).inside == pytest.approx(kernel_fits(accelerator).links)


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
def test_groups_beyond_the_measured_ones_have_no_ring_of_all_of_them(engine):
    """A switch adds up a small buffer of 64 devices in less than twice the time of that of 8.

    Hops of the measured groups of 2 to 8, continued to 64, would take six times as long.
    """
    cluster = build_cluster(load_cluster("gb200-nvl72", 1), 1, issuer="engine")
    collectives = entry("engine", engine).record.collectives
    kernels = KernelPrices(cluster.accelerator)
    [small], [large] = (
        Links(cluster, Layout(tensor=ranks), collectives, kernels).tensor_reduce(np.array([16e6]))
        for ranks in (8, 64)
    )

    assert small < 2 * large
    assert large < 2 * small
