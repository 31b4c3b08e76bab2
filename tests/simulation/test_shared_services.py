"""Services next to other jobs: their steps alone, their bytes, and the KV caches between pools."""

import pytest

import clustersim
from clustersim.errors import ScenarioError
from clustersim.scenario.load import load_sharing
from clustersim.simulation.sharing.machine import SharedMachine

DECODE = {"name": "decode", "scenario": "deepseek-v3-h800-decode"}
NARROW = {"nodes_per_leaf": 8, "leaf_uplinks": 1, "leaves_per_pod": 4, "pod_uplinks": 4}
EXCHANGE = {"name": "exchange", "nodes": "interleaved",
            "traffic": {"collective": "all-to-all", "bytes": "64 MiB", "nodes": 16}}  # fmt: skip


def machine(*jobs, nodes=32, fabric=NARROW, name="deepseek-h800", **keys):
    """Return the keys of a machine on whose leaves one cable serves all nodes."""
    cluster = {"name": name, "nodes": nodes, **({"fabric": fabric} if fabric else {})}
    return {"title": "t", "cluster": cluster, "jobs": [*jobs], **keys}


@pytest.fixture(scope="module")
def alone():
    """The service alone, on a machine with room."""
    return clustersim.serve("deepseek-v3-h800-decode")


@pytest.mark.large
def test_a_service_alone_takes_its_mean_step(alone):
    """The graph of a step has the time of the engine's step, also where messages overlap."""
    answer = clustersim.share(machine(DECODE, fabric=None))
    pool, batch = alone.pools[-1], None
    (job,) = SharedMachine(load_sharing(machine(DECODE, fabric=None))).placed().jobs
    batch = job._batch

    assert answer.jobs[0].kind == "service"
    assert answer.jobs[0].alone_s == pytest.approx(pool.costs.step(batch).seconds, rel=1e-9)
    assert answer.jobs[0].alone_s == pytest.approx(alone.tpot.mean, rel=0.05)


@pytest.mark.large
def test_a_step_carries_what_its_exchange_sends(alone):
    """Each of 128 devices sends to 15/16 of the others by its NIC, twice in each layer."""
    (job,) = SharedMachine(load_sharing(machine(DECODE, fabric=None))).placed().jobs
    (sent,) = job._pool.costs.sent(job._batch)
    table = job._cluster.links
    ups = {table.up(nic) for nic in range(8)}
    links, nbytes = job.carried
    of_nics = [float(b) for link, b in zip(links, nbytes, strict=True)
               if link < table.of_nodes and link % table.of_node in ups]  # fmt: skip

    assert (sent.part, sent.repeats, sent.overlapped) == ("expert", 58, True)
    assert of_nics == pytest.approx([15 / 16 * sent.nbytes * sent.repeats] * 128, rel=1e-9)


@pytest.mark.large
def test_a_service_and_its_neighbour_slow_each_other_on_narrow_leaves():
    """And neither where there is a cable for each node."""
    jobs = [{**DECODE, "nodes": "interleaved"}, EXCHANGE]
    narrow = clustersim.share(machine(*jobs, steps=4))
    wide = clustersim.share(machine(*jobs, fabric=None, steps=4))

    assert min(job.slowdown for job in narrow.jobs) > 1.05
    assert [job.slowdown for job in wide.jobs] == pytest.approx([1, 1], rel=1e-9)
    for job in narrow.jobs:
        assert sum(cost.seconds for cost in job.blame) == pytest.approx(
            job.shared_s - job.alone_s, rel=1e-9
        )


@pytest.mark.large
def test_kv_caches_between_pools_cross_the_fabric():
    """As many bytes in a second as prompts have keys and values."""
    pools = {
        "scenario": "llama3-70b-h100-serving",
        "set": {"plan": {"prefill": {"tensor": 8, "replicas": 1},
                         "decode": {"tensor": 8, "replicas": 1}}},
    }  # fmt: skip
    placed = SharedMachine(
        load_sharing(machine(pools, name="dgx-h100", nodes=2, fabric=None))
    ).placed()
    (job,) = placed.jobs
    result = job._result
    (moved,) = job._joint.values()
    each = result.pools[-1].costs.memory.token
    prompts = result.rates["total_tokens_per_s"] - result.rates["output_tokens_per_s"]

    assert float(moved.nbytes[0]) * 8 == pytest.approx(prompts * each * job._seconds, rel=1e-9)
    assert not job._own


def test_a_service_that_serves_nothing_is_rejected():
    """With its verdict of memory."""
    big = {"scenario": "llama3-70b-h100-serving", "set": {"plan.tensor": 1, "precision": "bf16"}}
    with pytest.raises(ScenarioError, match=r"serves nothing: does not fit"):
        clustersim.share(machine(big, name="dgx-h100", nodes=8, fabric=None))
    with pytest.raises(ScenarioError, match="save_every: a service has no checkpoint"):
        clustersim.share(machine({**DECODE, "save_every": 5}))
