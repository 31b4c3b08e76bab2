"""Traces on machines: hand-computed cases, operations of a device, jobs of a shared machine."""

import pytest

import clustersim
from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.network.network import Network
from clustersim.engine.operation_replay import OperationReplay
from clustersim.errors import CatalogError, ScenarioError
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.operations import Operations
from clustersim.scenario.load import load_traced
from clustersim.topology.cluster import build_cluster
from tests.chakra_files import collective, node, write_traces

MB = 1_000_000
DGX = {"name": "dgx-h100", "nodes": 1}


def replayed(place, **keys):
    """Return the answer of a trace on one node."""
    return clustersim.replay({"cluster": DGX, "trace": {"files": str(place), **keys}})


def computing(*micros):
    """Return operations of a rank that follow each other."""
    nodes = [node(1, "COMP", micros=micros[0], is_cpu_op=False)]
    for number, each in enumerate(micros[1:], 2):
        nodes.append(node(number, "COMP", [number - 1], micros=each, is_cpu_op=False))
    return nodes


# --- time -----------------------------------------------------------------------------------------


def test_eight_ranks_of_a_microbenchmark_take_the_time_of_their_collective(tmp_path):
    """ASTRA-sim's all-reduce of 1 MB: the closed form of the library for the same buffer."""
    ranks = [[collective(1, 0, MB, involved_dim=[True] * 8)] for _ in range(8)]
    answer = replayed(write_traces(tmp_path / "t", *ranks, name="all_reduce"))
    use = load_traced({"cluster": DGX, "trace": {"files": "t"}}).scenario.cluster
    machine = build_cluster(use, 1, issuer="training")
    cost = Communicator(machine, [[*range(8)]]).cost("all-reduce", MB)
    (all_reduce,) = answer.communications

    assert answer.step_time_s == pytest.approx(cost.seconds, rel=1e-12)
    assert all_reduce.nbytes == MB
    assert not answer.not_placed
    assert all(rank.exposed_s == pytest.approx(answer.step_time_s) for rank in answer.ranks)


def test_a_rank_waits_for_the_slower_one_before_their_collective(tmp_path):
    """3 ms and 5 ms of compute, then a barrier: the first one waits 2 ms."""
    ranks = [[*computing(ms * 1000), collective(9, 9, 0, [1])] for ms in (3, 5)]
    answer = replayed(write_traces(tmp_path / "t", *ranks))
    fast, slow = answer.ranks

    assert fast.waiting_s == pytest.approx(2e-3)
    assert slow.waiting_s == pytest.approx(0.0, abs=1e-12)
    assert answer.slowest == (1, 0)
    assert answer.step_time_s == pytest.approx(5e-3 + slow.exposed_s)
    parts = answer.compute_s + answer.exposed_s + answer.waiting_s
    assert parts == pytest.approx(answer.step_time_s)


def test_a_send_begins_before_its_receive(tmp_path):
    """While the receiver computes for 9 ms, 1 MB arrives: it takes none of its time."""
    first = [node(1, "COMM_SEND", comm_dst=1, comm_size=MB)]
    second = [*computing(9000), node(5, "COMM_RECV", [1], comm_src=0, comm_size=MB)]
    answer = replayed(write_traces(tmp_path / "t", first, second))

    assert answer.step_time_s == pytest.approx(9e-3)
    assert answer.communications[0].operation == "send"
    assert answer.ranks[0].communication_s > 0


def test_a_device_runs_one_operation_at_a_time_and_its_host_another(tmp_path):
    """Two operations of 2 ms that follow nothing: 4 ms on the device, 2 ms on device and host."""
    on_device = [node(i, "COMP", micros=2000, is_cpu_op=False) for i in (1, 2)]
    of_both = [on_device[0], node(2, "COMP", micros=2000, is_cpu_op=True)]

    assert replayed(write_traces(tmp_path / "a", on_device)).step_time_s == pytest.approx(4e-3)
    assert replayed(write_traces(tmp_path / "b", of_both)).step_time_s == pytest.approx(2e-3)


def test_operations_of_a_unit_run_in_the_order_in_which_they_could_begin():
    """The second could begin first, at 1 s: it runs until 4 s, and the first one after it."""
    graph, clock = Operations(), Clock(CONTINUOUS)
    late, early = (graph.add(name, seconds=seconds) for name, seconds in (("b", 2.0), ("a", 1.0)))
    first = graph.add("first", [late], seconds=3.0, unit="device")
    second = graph.add("second", [early], seconds=3.0, unit="device")
    passed = OperationReplay(graph, clock, Network(clock, [1.0]))
    passed.start()
    clock.run_all()

    assert passed.begin[second], passed.end[second] == (1.0, 4.0)
    assert (passed.begin[first], passed.end[first]) == (4.0, 7.0)


def test_work_has_the_roofline_of_the_accelerator(tmp_path):
    """Twice the FLOPs take twice the time, on a faster accelerator less; recorded times stay."""

    def seconds(cluster, flops, **keys):
        place = tmp_path / f"{cluster}-{flops}"
        write_traces(place, [node(1, "COMP", is_cpu_op=False, num_ops=flops, tensor_size=MB)])
        scenario = {
            "cluster": {"name": cluster, "nodes": 1},
            "trace": {"files": str(place), **keys},
        }
        return clustersim.replay(scenario).step_time_s

    once, twice = seconds("dgx-h100", 10**14), seconds("dgx-h100", 2 * 10**14)
    assert twice == pytest.approx(2 * once, rel=0.02)
    assert 10**14 / once < 989.4e12
    assert seconds("dgx-a100", 10**14) > 2 * once
    place = write_traces(
        tmp_path / "both", [node(1, "COMP", micros=7, num_ops=10**14, tensor_size=MB)]
    )
    assert replayed(place).step_time_s == pytest.approx(7e-6)
    assert replayed(place, compute="roofline").step_time_s == pytest.approx(once, rel=0.02)


def test_assumptions_and_missing_operations_are_stated(tmp_path):
    """What was priced, and what has no time, with its type, count and reason."""
    nodes = [node(1, "COMP", num_ops=10**12, tensor_size=MB), node(2, "MEM_LOAD", tensor_size=8)]
    answer = replayed(write_traces(tmp_path / "t", nodes))

    assert "1 operation by FLOPs and bytes" in answer.assumed["work"]
    assert [(each.type, each.count) for each in answer.not_placed] == [("MEM_LOAD", 1)]


# --- scenarios ------------------------------------------------------------------------------------


def test_more_ranks_than_devices_are_rejected(tmp_path):
    """With the nodes that would be enough."""
    place = write_traces(tmp_path / "t", *[[collective(1, 0, 8)]] * 9)
    with pytest.raises(ScenarioError, match=r"the trace has 9 ranks \(nodes: 2\)"):
        replayed(place)


def test_a_trace_that_is_not_there_is_named_with_its_key():
    """The scenario's key, and the path."""
    with pytest.raises(ScenarioError, match=r"trace.files: nowhere: no such file or folder"):
        replayed("nowhere")


def test_a_folder_without_a_trace_is_named(tmp_path):
    """With the names that files of a trace have."""
    with pytest.raises(CatalogError, match="is no trace"):
        replayed(tmp_path)


def test_a_trace_alone_on_a_shared_machine_takes_its_own_time(tmp_path):
    """A job of a shared machine may be a trace; next to one of other nodes it is not slowed."""
    ranks = [[*computing(2000), collective(9, 0, 64 * MB, [1])] for _ in range(16)]
    place = write_traces(tmp_path / "t", *ranks)
    cluster = {"name": "dgx-h100", "nodes": 4}
    alone = clustersim.replay({"cluster": cluster, "trace": {"files": str(place)}})
    job = {"trace": {"files": str(place)}, "copies": 2}
    shared = clustersim.share({"cluster": cluster, "jobs": [job], "steps": 4})

    assert [each.kind for each in shared.jobs] == ["trace", "trace"]
    for each in shared.jobs:
        assert each.alone_s == pytest.approx(alone.step_time_s, rel=1e-12)
        assert each.slowdown == pytest.approx(1.0, rel=1e-9)


def test_a_trace_shares_the_cables_of_its_neighbours(tmp_path):
    """Below two leaves with few cables, two interleaved traces slow each other, and add up."""
    ranks = [[*computing(2000), collective(9, 6, 256 * MB, [1])] for _ in range(320)]
    place = write_traces(tmp_path / "t", *ranks)
    cluster = {"name": "superpod-a100", "nodes": 80, "fabric": {"leaf_uplinks": 4}}
    job = {"trace": {"files": str(place)}, "nodes": "interleaved", "copies": 2}
    shared = clustersim.share({"cluster": cluster, "jobs": [job], "steps": 4})

    for each in shared.jobs:
        assert each.slowdown > 1.05
        blamed = sum(part.seconds for part in each.blame)
        assert blamed == pytest.approx(each.shared_s - each.alone_s, rel=1e-9)
