"""Bundles: the links of a node that differ only in the numbers of their names, as one."""

import numpy as np
import pytest

from clustersim.program.links.together import UnevenLinksError, together
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from clustersim.traffic import link_rows


@pytest.fixture(scope="module")
def cluster():
    """Eight nodes of eight devices with a NIC each."""
    return build_job(load("megatron21-t1-39b", {"cluster.nodes": 8, "plan.data": 4})).cluster


def test_each_link_is_in_one_bundle_of_equal_links(cluster):
    """The links of all bundles are all links, and those of one have its capacity."""
    bundles = cluster.by_bundles().bundles
    links, place = bundles.apart(np.arange(len(bundles)))

    assert sorted(links.tolist()) == [*range(len(cluster.links))]
    assert (bundles.numbers(links) == place).all()
    assert (cluster.links.capacities[links] == bundles.capacities[place]).all()
    assert (np.bincount(place) == bundles.sizes(np.arange(len(bundles)))).all()
    assert (cluster.links.bandwidths(links) == cluster.links.capacities[links]).all()
    first = [int(links[place == bundle].min()) for bundle in range(20)]
    assert first == bundles.first(np.arange(20)).tolist()


def test_loads_are_by_bundles_if_all_links_of_each_carry_the_same(cluster):
    """A link that carries more, or none, is not one with the others."""
    bundled = cluster.by_bundles()
    links, _ = bundled.bundles.apart(np.array([2]))

    def load(values):
        used = links[: len(values)]
        rows = np.zeros(len(used), dtype=np.int64)
        return together(link_rows(rows, used, np.array(values), 1), bundled)

    assert load([0.3] * len(links)).of_row(0) == {2: 0.3}
    with pytest.raises(UnevenLinksError):
        load([0.3] * (len(links) - 1))
    with pytest.raises(UnevenLinksError):
        load([0.3] * (len(links) - 1) + [0.4])


def test_nodes_that_differ_have_no_bundles():
    """A slow NIC is a link of its own."""
    slow = {"type": "slow-nic", "node": 1, "nic": 0, "bandwidth": 0.5}
    settings = {"cluster.nodes": 8, "plan.data": 4, "disturbances": [slow]}
    assert build_job(load("megatron21-t1-39b", settings)).cluster.by_bundles() is None
