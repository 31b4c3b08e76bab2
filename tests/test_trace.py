"""`trace.json`: what the Perfetto viewer needs, and that it says what it leaves out."""

import json
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise

import pytest

from clustersim.report.trace import events, sample, write_trace
from clustersim.simulate import simulate

SMALL = ("frontier-22b", ["batch.global=32"])
CHUNKED = ("megatron21-t1-145b", ["batch.global=768"])


@pytest.fixture(scope="module", params=[SMALL, CHUNKED], ids=["1f1b", "interleaved-1f1b"])
def result(request):
    return simulate(*request.param)


@pytest.fixture(scope="module")
def trace(result, tmp_path_factory):
    """The file as a viewer reads it."""
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    write_trace(result, path)
    return json.loads(path.read_text())


def kinds(trace):
    """Return the events by phase: X, s, f, M."""
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        found[event["ph"]].append(event)
    return found


def ns(event, key="ts"):
    """Return an instant or a duration in whole nanoseconds."""
    return round(1000 * event[key])


def threads(trace):
    """Return the timed events of each thread in the order of the file."""
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        if "ts" in event:
            found[event["pid"], event["tid"]].append(event)
    return found


def test_every_block_is_an_event_at_its_instants(result, trace):
    """A small trace is complete: times in microseconds, to the nanosecond."""
    blocks = [e for e in kinds(trace)["X"] if e["cat"] != "tail"]
    first, track = threads(trace)[0, 0][0], result.timeline.tracks[0]

    assert trace["otherData"]["complete"] == (len(blocks) == result.timeline.blocks)
    assert first["name"] == "F0"
    assert first["args"] == {"microbatch": 0, "chunk": 0}
    assert first["dur"] == pytest.approx(1e6 * (track.end[0] - track.start[0]), abs=2e-3)


def test_time_does_not_go_back_on_a_thread(trace):
    """Events of a thread come in the order of time, and its blocks do not overlap."""
    for thread in threads(trace).values():
        times = [ns(event) for event in thread]
        blocks = [event for event in thread if event["ph"] == "X"]

        assert times == sorted(times)
        for before, after in pairwise(blocks):
            assert ns(before) + ns(before, "dur") <= ns(after)


def test_arrows_join_a_block_to_the_one_that_waited_for_it(result, trace):
    """Each arrow leaves inside a block and ends at a later one of the same microbatch."""
    found, block_at = kinds(trace), finder(trace)
    ends = {event["id"]: block_at(event) for event in found["f"]}
    starts = {event["id"]: block_at(event) for event in found["s"]}
    stages = result.program.stages

    assert len(starts) == len(found["s"]) > 0
    assert starts.keys() == ends.keys()
    for number, source in starts.items():
        target = ends[number]
        assert source["args"]["microbatch"] == target["args"]["microbatch"]
        assert source["cat"] == target["cat"]
        assert (source["tid"] - target["tid"]) % stages in (1, stages - 1)
        assert ns(source) + ns(source, "dur") <= ns(target)


def finder(trace):
    """Return a function from an arrow's end to the block around it."""
    blocks = {name: [e for e in t if e["ph"] == "X"] for name, t in threads(trace).items()}
    starts = {name: [ns(block) for block in own] for name, own in blocks.items()}

    def block_at(arrow):
        name = arrow["pid"], arrow["tid"]
        block = blocks[name][bisect_right(starts[name], ns(arrow)) - 1]
        assert ns(block) <= ns(arrow) < ns(block) + ns(block, "dur")
        return block

    return block_at


def test_a_stage_ends_with_its_tail(trace):
    """What follows the last block is there by name."""
    for thread in threads(trace).values():
        assert "optimiser" in {event["name"] for event in thread}


def test_processes_and_threads_have_names(result, trace):
    """A process is a replica class, a thread a stage."""
    names = {e["args"]["name"] for e in kinds(trace)["M"] if "name" in e["args"]}

    assert f"replica class 0 ({len(result.program.actors[0].replicas)} replicas)" in names
    assert {f"stage {stage}" for stage in range(result.program.stages)} <= names


def test_a_large_step_is_cut_to_its_ends_and_says_so(result):
    """The sample stays below the bound and names the microbatches that are left."""
    chosen = sample(result.program, most=1_000)

    assert len(list(events(result, chosen))) <= 1_000
    assert not chosen.whole
    last = result.program.microbatches - 1
    assert str(chosen).startswith(f"microbatches 0-{chosen.ends - 1} and {last - chosen.ends + 1}-")
