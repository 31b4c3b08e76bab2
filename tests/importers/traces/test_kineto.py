"""Traces of PyTorch's profiler: a real one of two gloo ranks, and NCCL's arguments by stream."""

import gzip
import json
from pathlib import Path

import pytest

from clustersim.errors import CatalogError
from clustersim.importers.traces.kineto import operation_of, part_of, read_kineto
from clustersim.importers.traces.trace import COLLECTIVE, COMPUTE, RECEIVE, SEND

GLOO = Path("tests/data/traces/gloo")
"""Two ranks on one CPU with PyTorch 2.13: two products, backward, two all-reduces, an all-gather, a
message and a barrier; without strides and numbers of events."""


def kernel(name, stream, ts, dur, correlation=0, **args):
    """Return a kernel as Kineto writes it."""
    args = {"device": 0, "context": 1, "stream": stream, "correlation": correlation, **args}
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


def nccl(name, ts, dur, given, received=None, ranks="[0, 1]", correlation=0, **args):
    """Return a kernel of NCCL with the arguments that PyTorch records."""
    return kernel(
        "ncclDevKernel_Sum_bf16_RING_LL(ncclDevKernelArgs<4096ul>)", 20, ts, dur, correlation,
        **{
            "Collective name": name, "In msg nelems": given, "Out msg nelems": received or given,
            "Group size": 2, "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]",
            "Process Group Name": "7", "Process Group Description": "mesh_dp",
            "Process Group Ranks": ranks, **args,
        },
    )  # fmt: skip


GEMM = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT"
STEP = [
    kernel(GEMM, 7, 100.0, 50.0, 1),
    nccl("allreduce", 152.0, 40.0, 1000, correlation=2),
    kernel("vectorized_elementwise_kernel", 7, 150.0, 10.0, 3),
    kernel(GEMM, 7, 195.0, 20.0, 5),
]


def files(folder, *ranks, info=True, ending=".json"):
    """Write the files of ranks; return the folder."""
    for rank, events in enumerate(ranks):
        stated = {"rank": rank, "world_size": len(ranks), "backend": "nccl"} if info else {}
        data = {"schemaVersion": 1, "distributedInfo": stated, "traceEvents": events}
        content = json.dumps(data).encode()
        (folder / f"rank{rank}{ending}").write_bytes(
            gzip.compress(content) if ending.endswith("gz") else content
        )
    return folder


def test_two_ranks_of_gloo_are_read_whole():
    """Each product, collective and message of a step that PyTorch recorded."""
    trace = read_kineto(GLOO)
    kinds = [node.operation or node.kind for node in trace.ranks[0] if node.kind != COMPUTE]

    assert not trace.not_placed
    assert kinds == ["all-reduce", "all-reduce", "all-gather", "send", "barrier"]
    assert sorted(meeting.nbytes for meeting in trace.meetings()) == [
        0, 4096, 2 * 64 * 256 * 4, 256 * 1024 * 4, 256 * 1024 * 4,
    ]  # fmt: skip
    assert [node.kind for node in trace.ranks[1] if node.kind in (SEND, RECEIVE)] == [RECEIVE]
    assert {"gemm", "elementwise"} <= {node.part for node in trace.ranks[0]}


def test_the_main_thread_waits_for_the_collectives_of_other_threads():
    """What follows an all-reduce in time, on a thread that was idle, follows it in the graph."""
    nodes = read_kineto(GLOO).ranks[1]
    all_reduces = [node.id for node in nodes if node.operation == "all-reduce"]
    by_id = {node.id: node for node in nodes}
    before = {node.id: {*node.after} for node in nodes}
    update = next(n for n in nodes if n.name == "aten::mul" and n.id > all_reduces[1])
    gap = by_id[update.after[0]]

    assert gap.part == "idle"
    assert all_reduces[1] in before[gap.id]
    assert all_reduces[0] in before[by_id[all_reduces[1]].after[0]]


def test_kernels_follow_their_stream_and_the_collective_they_waited_for(tmp_path):
    """The second product begins 3 us after the all-reduce, 35 us after its stream was idle."""
    trace = read_kineto(files(tmp_path, STEP, STEP))
    product, elementwise, all_reduce, second = (
        node for node in trace.ranks[0] if node.part != "idle"
    )
    gaps = {node.id: node for node in trace.ranks[0] if node.part == "idle"}

    assert (product.part, elementwise.part, second.part) == ("gemm", "elementwise", "gemm")
    assert elementwise.after == (product.id,)
    assert gaps[all_reduce.after[0]].after == (product.id,)
    assert gaps[all_reduce.after[0]].seconds == pytest.approx(2e-6)
    assert {*gaps[second.after[0]].after} == {elementwise.id, all_reduce.id}
    assert gaps[second.after[0]].seconds == pytest.approx(3e-6)
    assert (all_reduce.kind, all_reduce.nbytes, all_reduce.ranks) == (COLLECTIVE, 2000, (0, 1))


def test_recorded_waits_between_streams_win_over_the_order_in_time(tmp_path):
    """With `enable_cuda_sync_events` the second product follows the all-reduce alone."""
    wait = {
        "ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 7, "ts": 160.0,
        "dur": 0.0, "args": {
            "cuda_sync_kind": "Stream Wait Event", "stream": 7, "correlation": 4,
            "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 2,
        },
    }  # fmt: skip
    trace = read_kineto(files(tmp_path, [*STEP, wait], [*STEP, wait]))
    nodes = [node for node in trace.ranks[0] if node.part != "idle"]
    before = {node.id: {*node.after} for node in trace.ranks[0]}

    assert "2 dependencies between lanes are recorded, 0 are inferred" in trace.notes[0]
    assert nodes[2].operation == "all-reduce"
    assert nodes[2].id in before[nodes[3].after[0]]


@pytest.mark.parametrize(
    ("name", "given", "received", "nbytes"),
    [
        ("allreduce", 1000, 1000, 2000),
        ("_allgather_base", 500, 1000, 2000),
        ("_reduce_scatter_base", 1000, 500, 2000),
        ("all_to_all", 1000, 1000, 2000),
        ("broadcast", 1000, 1000, 2000),
    ],
)
def test_the_buffer_of_a_collective_is_whole(name, given, received, nbytes, tmp_path):
    """Whatever share of it a rank gives or receives."""
    events = [nccl(name, 1.0, 2.0, given, received)]
    (meeting,) = read_kineto(files(tmp_path, events, events)).meetings()

    assert meeting.nbytes == nbytes


def test_a_message_has_the_peer_that_is_recorded(tmp_path):
    """Of a send its receiver, of a receive its sender."""
    send = nccl("send", 1.0, 2.0, 10, **{"Dst Rank": 1})
    receive = nccl("recv", 1.0, 2.0, 10, **{"Src Rank": 0})
    trace = read_kineto(files(tmp_path, [send], [receive]))

    assert [node.ranks for nodes in trace.ranks for node in nodes] == [(0, 1), (0, 1)]
    assert not trace.eager


def test_groups_that_are_cut_short_are_those_of_the_configuration(tmp_path):
    """Kineto lists 30 ranks; the rest is in `pg_config`, or else the collective is not placed."""
    events = [nccl("allreduce", 1.0, 2.0, 10, ranks="[0, ..., 1]", **{"Group size": 3})]
    place = files(tmp_path, events, events)
    missing = read_kineto(place).not_placed

    assert [(each.reason, count) for each, count in missing.items()] == [
        ("the trace does not state the ranks of its group", 2)
    ]
    for path in sorted(place.iterdir()):
        data = json.loads(path.read_text())
        data["distributedInfo"]["pg_config"] = [{"pg_name": "7", "pg_size": 2, "ranks": [1, 0]}]
        path.write_text(json.dumps(data))
    assert read_kineto(place).ranks[0][0].ranks == (1, 0)


def test_kernels_of_nccl_without_arguments_are_counted(tmp_path):
    """An old PyTorch records no arguments."""
    events = [kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 20, 1.0, 2.0)]
    missing = read_kineto(files(tmp_path, events)).not_placed

    assert [(each.type, count) for each, count in missing.items()] == [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1)
    ]


def test_compressed_files_and_files_without_their_rank_are_read(tmp_path):
    """In the order of their names."""
    place = files(tmp_path, STEP, STEP, info=False, ending=".json.gz")

    assert len(read_kineto(place).ranks) == 2


def test_names_of_collectives_and_kernels_are_known():
    """Those of PyTorch and of the libraries that it calls."""
    assert operation_of("allgather_into_tensor_coalesced") == "all-gather"
    assert operation_of("gloo reduce") == "reduce"
    assert operation_of("unheard") == "unheard"
    assert part_of("flash_fwd_kernel") == "attention"
    assert part_of("autograd::engine::evaluate_function: AddmmBackward0") == "gemm"
    assert part_of("Memcpy DtoD (Device -> Device)") == "copy"


# --- damaged --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "rank0.json:1: is not valid JSON"),
        ("3", "rank0.json: has no list of traceEvents"),
        ('{"traceEvents": []}', "rank0.json: has no kernels and no operations with a time"),
        (
            json.dumps({"traceEvents": [kernel("k", 7, "now", 1.0)]}),
            "rank0.json: event 'k': ts is 'now', which is no time",
        ),
    ],
)
def test_a_file_that_is_no_trace_has_a_line(content, line, tmp_path, monkeypatch):
    """The file, the line or the event, and what is wrong."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rank0.json").write_text(content)

    with pytest.raises(CatalogError) as problem:
        read_kineto(Path("rank0.json"))
    assert str(problem.value) == line


def test_the_file_of_each_rank_must_be_there(tmp_path):
    """By the number of ranks that files state, and not two of the same rank."""
    place = files(tmp_path, STEP, STEP)
    (place / "rank1.json").unlink()
    with pytest.raises(CatalogError, match="has no file of rank 1, of 2 ranks"):
        read_kineto(place)
    (place / "rank1.json").write_text((place / "rank0.json").read_text())
    with pytest.raises(CatalogError, match="two files are of the same rank"):
        read_kineto(place)
