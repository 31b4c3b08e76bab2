"""Saves of jobs that share the storage of a machine, against what each takes alone."""

import json
from math import inf

import pytest

import clustersim
from clustersim.errors import ScenarioError
from clustersim.program.operations import Operations
from clustersim.scenario.machine import load_cluster
from clustersim.simulation.training_run.checkpoint_flows import storage_of
from tests.commands import rejected

JOB = {
    "name": "job",
    "scenario": "korthikanti-22b-full",
    "set": {"plan.data": 1, "batch.global": 4},
}
ALL = {"value": 1, "assumed": "a test"}
STORAGE = {
    "name": "servers",
    "network": {"value": "separate", "assumed": "a test"},
    "write": {"bandwidth": {"value": "10 GB/s", "assumed": "a test"}, "efficiency": ALL},
    "read": {"bandwidth": {"value": "20 GB/s", "assumed": "a test"}, "efficiency": ALL},
    "client": {"write": {"value": "8 GB/s", "assumed": "a test"},
               "read": {"value": "8 GB/s", "assumed": "a test"}},
}  # fmt: skip


def shared(*jobs, nodes=8, storage=STORAGE, **keys):
    """Return the answer of jobs on a machine with a storage."""
    name = "selene" if storage else "superpod-a100"
    cluster = {"name": name, "nodes": nodes, **({"storage": storage} if storage else {})}
    return clustersim.share({"title": "t", "cluster": cluster, "jobs": [*jobs], **keys})


def traffic(kind, nodes, **keys):
    """Return a job that writes or reads 80 GB at a time."""
    return {"traffic": {"storage": kind, "bytes": "80 GB", "nodes": nodes}, **keys}


@pytest.mark.parametrize(
    ("kind", "nodes", "rate"),
    [("write", 1, 8e9), ("write", 4, 10e9), ("read", 1, 8e9), ("read", 2, 16e9), ("read", 4, 20e9)],
)
def test_a_save_alone_takes_its_bytes_at_the_rate_of_clients_or_servers(kind, nodes, rate):
    """The slower of both."""
    assert shared(traffic(kind, nodes)).jobs[0].alone_s == pytest.approx(80e9 / rate, rel=1e-12)


def test_saves_at_the_same_time_share_the_servers():
    """Two nodes that write at 8 GB/s each get 5 of 10 GB/s; reads meet no writes."""
    two = shared(traffic("write", 1, copies=2))
    both = shared(traffic("write", 1), traffic("read", 1))

    assert [job.slowdown for job in two.jobs] == pytest.approx([1.6, 1.6], rel=1e-9)
    assert [(link.link, link.capacity) for link in two.links] == [("fabric>storage", 10e9)]
    assert [job.slowdown for job in both.jobs] == [1, 1]


def test_a_job_that_saves_waits_for_what_it_saves():
    """Synchronous saves: all steps and one save, by the same states as those of a whole run."""
    plain, saving = shared(JOB), shared({**JOB, "save_every": 5})
    step, alone = plain.jobs[0].alone_s, saving.jobs[0].alone_s
    keys = {"training": {"steps": 100, "checkpoint": {"every": "5 steps"}}}
    run = clustersim.train("korthikanti-22b-full", settings=JOB["set"] | keys)

    assert (alone - step) * 5 == pytest.approx(run.checkpoint.bytes / 8e9, rel=1e-9)
    assert saving.jobs[0].slowdown == pytest.approx(1, rel=1e-9)
    assert saving.jobs[0].steps == 5  # those of a period, from one save to the next


def test_copies_to_the_host_are_written_while_steps_run():
    """Only the copy waits, as long as the steps until the next save suffice for the servers."""
    copied = {"training": {"steps": 100, "checkpoint": {"mode": "asynchronous"}}}
    plain = shared(JOB).jobs[0].alone_s
    waiting = shared({**JOB, "save_every": 30}).jobs[0].alone_s - plain
    copying = shared({**JOB, "set": JOB["set"] | copied, "save_every": 30}).jobs[0].alone_s - plain

    assert 0 < copying < 0.5 * waiting


def test_jobs_that_save_in_phase_slow_each_other():
    """Eight at once share the servers; blame adds up where all subsets are replayed."""
    saving = {**JOB, "save_every": 5}
    two, eight = shared({**saving, "copies": 2}), shared({**saving, "copies": 8})

    assert eight.jobs[0].slowdown > two.jobs[0].slowdown > 1.01
    for job in two.jobs:
        assert sum(cost.seconds for cost in job.blame) == pytest.approx(
            job.shared_s - job.alone_s, rel=1e-9
        )
        assert {cost.link for cost in job.blame} == {"fabric>storage"}


def test_an_assumed_storage_is_stated():
    """Where the cluster states none; and not where no job uses it."""
    assert "cluster.storage" in shared(traffic("write", 1), storage=None).assumed
    assert not shared(JOB, storage=None).assumed


def test_a_rack_had_the_assumed_storage_of_one_node():
    """72 devices are nine nodes of the architecture; they had the client of one."""
    machines = ("gb200-nvl72", 4), ("dgx-h100", 36)
    rack, nodes = (storage_of(load_cluster(*machine))[0] for machine in machines)

    assert rack.write.bandwidth == nodes.write.bandwidth
    assert rack.client.write == pytest.approx(9 * nodes.client.write)


def test_appended_graphs_run_one_after_another():
    """An end joins the last operations of each."""
    step = Operations()
    step.add("a", seconds=1.0)
    step.add("b", seconds=2.0)
    graph = Operations()
    last = graph.append(step)
    last = graph.append(step, [last])

    assert graph.names == ["a", "b", "end", "a", "b", "end"]
    assert graph.after == [[], [], [0, 1], [2], [2], [3, 4]]
    assert graph.seconds[last] == 0 < inf


def test_saves_that_leave_the_storage_alone_are_rejected(tmp_path, capsys):
    """In one line with the place of the key."""
    memory = {"training": {"steps": 100, "checkpoint": {"mode": "memory"}}}
    with pytest.raises(ScenarioError, match="save_every: mode 'memory' does not write to the"):
        shared({**JOB, "set": JOB["set"] | memory, "save_every": 5})
    file = tmp_path / "shared.json"
    job = {"traffic": {"bytes": "1 GB", "nodes": 1}}
    file.write_text(json.dumps({"title": "t", "cluster": {"name": "selene", "nodes": 8},
                                "jobs": [job]}))  # fmt: skip
    assert "needs a collective, storage or a halo, and only one" in rejected(capsys, "share", file)
