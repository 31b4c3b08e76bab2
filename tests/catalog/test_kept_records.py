"""Records that have been checked before, and places that are looked up when they are asked for."""

import pytest

from clustersim.catalog.finding import entry_names
from clustersim.errors import ScenarioError
from clustersim.scenario.load import load_any

NAMES = ["frontier-1t", "llama3-405b-16k", "llama3-70b-h100-serving", "llama3-405b-54-days"]


def test_equal_values_are_checked_once():
    first, again = load_any("frontier-1t"), load_any("frontier-22b")
    assert again.scenario.cluster.node is first.scenario.cluster.node
    assert again.scenario.model is not first.scenario.model


def test_other_values_are_checked_again():
    """A change inside a record of a file, and one that is not valid, which is named as ever."""
    first = load_any("frontier-1t")
    other = load_any("frontier-1t", ["cluster.node.accelerator.memory.capacity=32 GB"])
    assert other.scenario.cluster.node.accelerator.memory.capacity == 32e9
    assert first.scenario.cluster.node.accelerator.memory.capacity == 64e9
    assert load_any("frontier-1t").scenario == first.scenario
    with pytest.raises(
        ScenarioError, match=r"--set cluster\.node\.accelerator\.memory\.capacity=-1 GB: "
    ):
        load_any("frontier-1t", ["cluster.node.accelerator.memory.capacity=-1 GB"])


def test_equal_numbers_of_other_types_are_other_values():
    with pytest.raises(ScenarioError, match="must be a whole number"):
        load_any("frontier-1t", {"model.layers": 128.0})


@pytest.mark.parametrize("name", NAMES)
def test_a_place_is_the_same_looked_up_and_written_out(name):
    """Also below a change, which has a place of its own."""
    for settings in (
        [],
        ["cluster.node.accelerator.memory.capacity=16 GB"],
        ["cluster.nic.latency=3 us"],
    ):
        asked, written = load_any(name, settings).tree, load_any(name, settings).tree
        places = {**written.places}
        assert len(places) > 300
        assert {path: asked.place_of(path) for path in places} == places


@pytest.mark.parametrize("name", entry_names("scenario")[::5])
def test_a_scenario_read_again_is_the_same(name):
    first, again = load_any(name), load_any(name)
    assert again.scenario == first.scenario
    assert again.tree.data == first.tree.data
