"""Chakra traces: what is read of them, and each line about a trace that is damaged."""

import gzip
import json

import pytest

from clustersim.errors import CatalogError
from clustersim.importers.traces import files
from clustersim.importers.traces.chakra import read_chakra
from clustersim.importers.traces.trace import COLLECTIVE, COMPUTE, RECEIVE, SEND
from clustersim.importers.traces.wire import WireError, delimited, fields, to_field, to_varint
from tests.chakra_files import chakra, collective, node, varint, write_traces

MB = 1_000_000


def two_ranks(folder, first, second):
    """Return the trace of two ranks."""
    return read_chakra(write_traces(folder / "t", first, second))


def test_a_microbenchmark_of_eight_ranks_is_read_whole(tmp_path):
    """ASTRA-sim's all-reduce of 1 MB: one node a rank, all dimensions, no group."""
    ranks = [[collective(1, 0, MB, involved_dim=[True] * 8)] for _ in range(8)]
    trace = read_chakra(write_traces(tmp_path / "t", *ranks, name="all_reduce"))
    (meeting,) = trace.meetings()

    assert trace.nodes == 8
    assert not trace.not_placed
    assert meeting.first.operation == "all-reduce"
    assert meeting.groups == [tuple(range(8))]
    assert meeting.nbytes == MB


def test_a_rank_gives_a_share_of_what_it_gathers(tmp_path):
    """`comm_size` is what a rank gives: a buffer of an all-gather is that times its ranks."""
    trace = two_ranks(tmp_path, [collective(0, 2, MB)], [collective(0, 2, MB)])

    assert trace.ranks[0][0].nbytes == 2 * MB


def test_nodes_are_read_with_their_types_times_and_dependencies(tmp_path):
    """The number 0 is left out of a message; dependencies may be packed."""
    first = [
        node(0, "COMP", micros=5, is_cpu_op=False),
        node(7, "COMM_SEND", [0], comm_dst=1, comm_size=64, comm_tag=3, packed=True),
    ]
    second = [node(4, "COMM_RECV", comm_src=0, comm_size=64, comm_tag=3)]
    trace = two_ranks(tmp_path, first, second)
    compute, send = trace.ranks[0]
    (receive,) = trace.ranks[1]

    assert [each.kind for each in (compute, send, receive)] == [COMPUTE, SEND, RECEIVE]
    assert compute.seconds == pytest.approx(5e-6)
    assert (send.after, send.ranks, send.tag, send.nbytes) == ((0,), (0, 1), 3, 64)
    assert receive.ranks == (0, 1)


def test_groups_are_those_of_the_file_next_to_the_traces(tmp_path):
    """A group by number, as ASTRA-sim reads it; 0 and no group are all ranks."""
    nodes = [collective(0, 0, 8, pg_name="2"), collective(1, 0, 8, [0], pg_name="0")]
    place = write_traces(tmp_path / "t", nodes, [collective(1, 0, 8)], nodes)
    (place / "comm_group.json").write_text(json.dumps({"2": [0, 2]}))
    trace = read_chakra(place)

    assert {node.ranks for nodes in trace.ranks for node in nodes} == {(0, 2), (0, 1, 2)}


def test_compressed_files_are_the_same_trace(tmp_path):
    """Whether gzip or not."""
    place = write_traces(tmp_path / "t", [node(1, "COMP", micros=3)])
    plain = read_chakra(place)
    content = (place / "job.0.et").read_bytes()
    (place / "job.0.et").unlink()
    (place / "job.0.et.gz").write_bytes(gzip.compress(content))

    assert read_chakra(place).ranks == plain.ranks


def test_what_has_no_time_is_counted_by_type_and_reason(tmp_path):
    """Nothing is left out in silence."""
    nodes = [
        node(0, "COMP"),
        node(1, "COMP", [0]),
        node(2, "MEM_LOAD", tensor_size=8),
        collective(3, 3, 8),
        collective(4, 0, 8, involved_dim=[True, False]),
        node(5, 8),
        node(6, "METADATA"),
    ]
    trace = read_chakra(write_traces(tmp_path / "t", nodes))

    assert {(each.type, count) for each, count in trace.not_placed.items()} == {
        ("COMP", 2),
        ("MEM_LOAD", 1),
        ("COMM_COLL gather", 1),
        ("COMM_COLL all-reduce", 1),
        ("STORAGE", 1),
    }
    assert len(trace.ranks[0]) == len(nodes)


def test_a_number_takes_as_many_bytes_as_it_needs():
    """To bytes and back, negative ones as their complement."""
    for value in (0, 1, 127, 128, 300, 2**32, 2**64 - 1):
        (found,) = fields(to_field(1, value))

        assert found == (1, 0, value)
    assert len(to_varint(-1)) == 10


# --- damaged --------------------------------------------------------------------------------------

SEND_ONE = node(1, "COMM_SEND", name="s", comm_dst=1, comm_size=8, comm_tag=5)

DAMAGED = {
    "a cycle": (
        [node(1, "COMP", [2], name="a", micros=1), node(2, "COMP", [1], name="b", micros=1)],
        [],
        "t: rank 0: operations wait for each other: 1 'a' <- 2 'b'",
    ),
    "an operation that is not there": (
        [node(1, "COMP", [9], name="a", micros=1)],
        [],
        "t: rank 0: operation 1 'a': follows operation 9, which the trace does not have",
    ),
    "a number twice": (
        [node(1, "COMP", micros=1), node(1, "COMP", micros=1)],
        [],
        "t: rank 0: has two operations 1",
    ),
    "no receive": (
        [SEND_ONE],
        [],
        "t: rank 0: operation 1 's': has no receive on rank 1 from rank 0 with tag 5",
    ),
    "no send": (
        [],
        [node(1, "COMM_RECV", name="r", comm_src=0, comm_size=8)],
        "t: rank 1: operation 1 'r': has no send on rank 0 to rank 1 with tag 0",
    ),
    "a rank that does not run a collective": (
        [collective(1, 0, 8)],
        [],
        "t: rank 0: operation 1 'n': all-reduce of ranks 0, 1, which rank 1 does not run",
    ),
    "different collectives": (
        [collective(1, 0, 8)],
        [collective(1, 2, 8)],
        "t: rank 1: operation 1 'n': all-gather, while rank 0 of the same group runs all-reduce",
    ),
    "a peer outside": (
        [node(1, "COMM_SEND", name="s", comm_dst=5, comm_size=8)],
        [],
        "t: rank 0: operation 1 's': needs rank 5, and the trace has 2 ranks: 0 to 1",
    ),
    "a group that is not there": (
        [collective(1, 0, 8, pg_name="3")],
        [],
        "t/job.0.et: operation 1 'n' is of the unknown group '3' (groups: none, as there is no"
        " comm_group.json)",
    ),
    "no size": (
        [node(1, "COMM_SEND", name="s", comm_dst=1)],
        [],
        "t/job.0.et: operation 1 's' has no attribute comm_size",
    ),
    "no type of a collective": (
        [node(1, "COMM_COLL", name="c", comm_size=8)],
        [],
        "t/job.0.et: operation 1 'c' has no attribute comm_type",
    ),
    "a negative size": (
        [node(1, "COMM_SEND", name="s", comm_dst=1, comm_size=-8.0)],
        [],
        "t/job.0.et: operation 1 's' has comm_size -8.0, which must be a number from 0 up",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_each_damage_has_a_line(name, tmp_path, monkeypatch):
    """The file, the rank, the operation, and what is wrong."""
    first, second, line = DAMAGED[name]
    monkeypatch.chdir(tmp_path)
    write_traces(tmp_path / "t", first, second)

    with pytest.raises(CatalogError) as problem:
        read_chakra((tmp_path / "t").relative_to(tmp_path))
    assert str(problem.value) == line


def test_a_group_without_the_rank_that_runs_it_is_named(tmp_path, monkeypatch):
    """Of a group of ranks 0 and 1, rank 2 is none."""
    monkeypatch.chdir(tmp_path)
    place = write_traces(tmp_path / "t", [], [], [collective(1, 0, 8, pg_name="1")])
    (place / "comm_group.json").write_text('{"1": [0, 1]}')

    with pytest.raises(CatalogError, match="is of ranks 0, 1, and not its own"):
        read_chakra(place)


@pytest.mark.parametrize("text", ["[1]", '{"1": 3}', '{"1": ["a"]}', "{"])
def test_groups_must_be_lists_of_ranks(text, tmp_path):
    """Of a file that is no such table, the name is given."""
    place = write_traces(tmp_path / "t", [node(1, "COMP", micros=1)])
    (place / "comm_group.json").write_text(text)

    with pytest.raises(CatalogError, match=r"comm_group\.json"):
        read_chakra(place)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "t/job.0.et: is empty"),
        (chakra(node(1, "COMP"))[:-3], "t/job.0.et: ends inside a message: "),
        (b"\x80", "t/job.0.et: ends inside a number, at byte 1"),
        (b"\xff" * 12, "t/job.0.et: has a number of more than 64 bits, at byte 10"),
        (varint(2) + b"\x08\x01", "t/job.0.et: begins with a node: "),
        (chakra(b"\x0b"), "t/job.0.et: has a field of the unknown wire type 3, at byte 1"),
        (chakra(b"\x12\x01\xff"), "t/job.0.et: has a text that is not UTF-8"),
        (gzip.compress(chakra(), mtime=0)[:-6], "t/job.0.et: ends inside its gzip data"),
        (b"\x1f\x8b" + bytes(20), "t/job.0.et: is not valid gzip "),
    ],
)
def test_bytes_that_are_no_trace_have_a_line(content, line, tmp_path, monkeypatch):
    """What is cut off, at which byte."""
    monkeypatch.chdir(tmp_path)
    place = write_traces(tmp_path / "t", [])
    (place / "job.0.et").write_bytes(content)

    with pytest.raises(CatalogError) as problem:
        read_chakra(place.relative_to(tmp_path))
    assert str(problem.value).startswith(line)


def test_a_file_that_decompresses_to_too_much_is_not_read(tmp_path, monkeypatch):
    """A megabyte of gzip may be a gigabyte."""
    monkeypatch.setattr(files, "MOST_BYTES", 1_000_000)
    place = write_traces(tmp_path / "t", [])
    (place / "job.0.et").write_bytes(gzip.compress(bytes(2_000_000)))

    with pytest.raises(CatalogError, match="decompresses to more than 1 MB"):
        read_chakra(place)


def test_the_file_of_each_rank_must_be_there(tmp_path):
    """Of ranks 0 and 2, rank 1 is missing; two traces in a folder are not one."""
    place = write_traces(tmp_path / "t", [], [], [])
    (place / "job.1.et").unlink()

    with pytest.raises(CatalogError, match="has no file of rank 1"):
        read_chakra(place)
    write_traces(place, [], name="other")
    with pytest.raises(CatalogError, match="has 2 traces"):
        read_chakra(place)
    with pytest.raises(CatalogError, match="no such file or folder"):
        read_chakra(tmp_path / "none")


def test_a_truncated_message_is_an_error_of_the_format():
    """Whatever is cut off of a valid file, nothing but `WireError` comes of it."""
    whole = chakra(
        node(1, "COMP", [0], micros=3, is_cpu_op=False),
        collective(2, 0, 8, [1], pg_name="1", share=0.5, involved_dim=[True]),
    )
    for size in range(len(whole)):
        try:
            for message in delimited(whole[:size]):
                [*fields(message)]
        except WireError:
            continue


def test_kinds_of_operations_are_counted(tmp_path):
    """Of a trace with one of each."""
    trace = two_ranks(tmp_path, [collective(0, 9, 0)], [collective(0, 9, 0)])

    assert [node.kind for nodes in trace.ranks for node in nodes] == [COLLECTIVE, COLLECTIVE]
