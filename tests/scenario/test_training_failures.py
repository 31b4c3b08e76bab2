"""Failures of a training run: its own, those that its cluster names, or none."""

import pytest

from clustersim.scenario.load import load

RUN = "training.steps=1000"
META = "llama3-405b-16k"


@pytest.mark.parametrize(
    ("scenario", "settings", "name"),
    [
        (META, [RUN], "llama3-54-days"),
        (META, [RUN, "training.failures=rsc-1"], "rsc-1"),
        (META, [RUN, "training.failures=null"], None),
        ("llama3-405b-54-days", ["training.failures=null"], None),
        ("llama3-405b-54-days", ["training.failures=none"], None),
        (META, ["training={steps: 1000, failures: none}"], None),
        ("frontier-22b", [RUN], None),
        (META, [RUN, "cluster.name=dgx-h100", "cluster.nodes=2048"], None),
    ],
)
def test_a_run_has_its_own_failures_or_those_that_its_cluster_names(scenario, settings, name):
    """A name wins over that of the cluster; none, null, or a cluster without them means none."""
    failures = load(scenario, settings).scenario.training.failures

    assert (failures and failures.name) == name
