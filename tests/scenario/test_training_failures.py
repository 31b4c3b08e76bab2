"""Failures of a training run: its own, those that its cluster names, or none."""

import pytest

from clustersim.errors import CatalogError, ScenarioError
from clustersim.scenario.load import load

RUN = {"training.steps": 1000}
META = "llama3-405b-16k"


def failures(scenario, settings):
    found = load(scenario, settings).scenario.training.failures
    return None if found is None else found.name


def test_a_cluster_names_the_failures_of_its_runs():
    """Failures counted on the machine are those of a run that has no key of its own."""
    assert failures(META, RUN) == "llama3-54-days"
    assert failures(META, ["training.steps=1000"]) == "llama3-54-days"


def test_a_run_has_its_own_failures_or_none():
    """A name wins over that of the cluster, and null means no failures."""
    assert failures(META, [*_texts(RUN), "training.failures=rsc-1"]) == "rsc-1"
    assert failures(META, [*_texts(RUN), "training.failures=null"]) is None
    assert failures("llama3-405b-54-days", ["training.failures=null"]) is None
    with pytest.raises(ScenarioError, match=r"^--set cluster=null: cluster: "):
        load(META, ["cluster=null"])


def test_clusters_without_counted_failures_name_none():
    """A machine on which nobody counted has no failures without the key."""
    assert failures("frontier-22b", RUN) is None


def test_another_cluster_has_its_own_failures():
    """The name of another cluster brings what that cluster names."""
    moved = [*_texts(RUN), "cluster.name=dgx-h100", "cluster.nodes=2048"]

    assert failures(META, moved) is None


def test_a_cluster_that_names_no_file_of_failures_is_rejected():
    """One line names the change and the nearest file."""
    changed = [*_texts(RUN), "cluster.reliability=rsc-9"]
    with pytest.raises(
        (CatalogError, ScenarioError), match=r"^--set .*no reliability named 'rsc-9'"
    ):
        load("frontier-22b", changed)


def _texts(settings):
    return [f"{key}={value}" for key, value in settings.items()]
