"""Scenario files of a study are read once, and give the scenarios that reading each again gives."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest

from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.runs.scenario_files import ScenarioFiles
from clustersim.scenario.load import load

SCENARIO = "korthikanti-175b-seqsel"

VALID = (
    (),
    ("plan.tensor=4",),
    ("batch.micro=2", "cluster.nodes=16", "plan.data=2"),
    ("model.layers=48", "framework.dispatch=8 us", "plan.zero=1"),
    ("cluster.nic.bandwidth=x2", "cluster.nic.bandwidth=x2"),
    ("plan.zero=1", "cluster=frontier", "cluster.nodes=64"),
    ("recompute={mode: full, every: 2}", "published=[]"),
    ("plan={tensor: 8, pipeline: 8}", "batch.global=64"),
)
INVALID = (
    ("plan.tensor=none",),
    ("cluster.nodes=0", "plan.tensor=0"),
    ("plan.zero=1", "model=no-such-model"),
    ("plan.tensors=8",),
    ("tensor=8",),
    ("batch.micro=x2.5",),
)


@pytest.fixture
def files():
    return ScenarioFiles()


@pytest.mark.parametrize("settings", VALID, ids=str)
def test_a_variant_is_the_scenario_that_is_read_again(files, settings):
    """Scenario, changes, departures, places of values and cache key are those of a new load."""
    for _ in range(2):  # the second is derived from what the first has read
        here, anew = files.load(SCENARIO, settings), load(SCENARIO, settings)

        assert here.scenario == anew.scenario
        assert here.changes == anew.changes
        assert here.departures == anew.departures
        assert here.tree.data == anew.tree.data
        assert here.where("plan", "tensor") == anew.where("plan", "tensor")
        assert key_of(here) == key_of(anew)


@pytest.mark.parametrize("settings", INVALID, ids=str)
def test_an_invalid_variant_has_the_message_of_a_scenario_that_is_read_again(files, settings):
    """Both name the same settings with the same reasons."""
    with pytest.raises((ScenarioError, CatalogError)) as anew:
        load(SCENARIO, settings)
    for _ in range(2):
        with pytest.raises((ScenarioError, CatalogError)) as here:
            files.load(SCENARIO, settings)

        assert str(here.value) == str(anew.value)


def test_variants_do_not_change_the_scenario_that_they_share_values_with():
    """Its values and the places of these are the same after its variants are made."""
    base = load(SCENARIO)
    data, places = deepcopy(base.tree.data), dict(base.tree.places)
    for settings in VALID:
        base.changed(settings).changed(("plan.chunks=2", "framework.dispatch=9 us"))

    assert base.tree.data == data
    assert base.tree.places == places


def test_a_file_that_needs_settings_is_read_with_them(files, tmp_path):
    """A scenario without the number of nodes is valid with it, for each variant."""
    file = tmp_path / "incomplete.yaml"
    text = load(SCENARIO).origin.document.data
    text["cluster"] = {"name": text["cluster"]["name"]}
    file.write_text(repr(text))  # YAML contains the notation of these values

    for nodes in (64, 32):
        loaded = files.load(str(file), (f"cluster.nodes={nodes}", "plan.zero=1"))

        assert loaded.scenario.cluster.nodes == nodes


def test_a_process_has_one_object_for_each_study(files):
    """Objects of one study that arrive in a process are the same, those of two studies are not."""
    sent = pickle.dumps(files)

    assert pickle.loads(sent) is pickle.loads(sent)
    assert pickle.loads(sent) is not pickle.loads(pickle.dumps(ScenarioFiles()))


def test_threads_share_the_files_of_a_study(files):
    """Loaded by several threads at once, more scenarios than are kept are what they are alone."""
    settings = [(f"cluster.nodes={nodes}", "plan.zero=1") for nodes in range(1, 41)]
    with ThreadPoolExecutor(4) as executor:
        found = [*executor.map(lambda changes: files.load(SCENARIO, changes), settings)]
        keys = [*executor.map(key_of, found)]

    assert [loaded.scenario.cluster.nodes for loaded in found] == [*range(1, 41)]
    assert keys == [key_of(loaded) for loaded in found]


def test_few_scenarios_are_kept(files):
    """A sweep over many values of a machine does not keep a scenario for each."""
    for nodes in range(1, 40):
        files.load(SCENARIO, (f"cluster.nodes={nodes}",))

    assert len(files._bases) <= 16
