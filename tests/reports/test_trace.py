"""`trace.json`: what the Perfetto viewer needs, and a note on what is left out."""

import json
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise

import pytest

from clustersim.reports.step import counters
from clustersim.reports.step.counters import link_counters, memory_counters
from clustersim.reports.step.trace import events, sample, write_trace
from clustersim.simulation.step.simulate import simulate

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
    """Return the timed events of each thread in the order of the file, less counters."""
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        if "ts" in event and event["ph"] != "C":
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
    places = {e["pid"] for e in kinds(trace)["M"] if e["name"] == "process_sort_index"}

    assert f"replica class 0 ({len(result.program.actors[0].replicas)} replicas)" in names
    assert {f"stage {stage}" for stage in range(result.program.stages)} <= names
    assert {"memory of a rank, by stage", "busiest links"} <= names
    assert places == {event["pid"] for event in trace["traceEvents"]}


def test_a_large_step_is_cut_to_its_ends_and_says_so(result):
    """The sample stays below the bound and names the remaining microbatches."""
    chosen = sample(result.program, most=1_000)

    assert len(list(events(result, chosen))) <= 1_000
    assert not chosen.whole
    last = result.program.microbatches - 1
    assert str(chosen).startswith(f"microbatches 0-{chosen.ends - 1} and {last - chosen.ends + 1}-")


FIELDS = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
    "C": {"name", "cat", "pid", "tid", "ts", "args"},
    "M": {"name", "pid", "tid", "args"},
}
"""What the format requires of each phase, and nothing else."""


def test_every_event_has_the_fields_of_its_phase(result, trace):
    """Instants lie within the step, and an arrow binds to the block around its end."""
    step = round(1e9 * result.step_time)
    for event in trace["traceEvents"]:
        assert event.keys() - {"ph"} == FIELDS[event["ph"]]
        if "ts" in event:
            assert 0 <= ns(event) <= ns(event) + round(1000 * event.get("dur", 0)) <= step
    assert {event["bp"] for event in kinds(trace)["f"]} == {"e"}


def test_counters_end_at_their_base_and_never_fall_below(result, trace):
    """Memory returns to what a stage always holds, a link to nothing."""
    series = defaultdict(list)
    for event in kinds(trace)["C"]:
        (level,) = event["args"].values()
        series[event["cat"], event["name"]].append((ns(event), level))
    always = [sum(stage.steady.values()) / 2**30 for stage in result.memory.stages]
    held = [levels for (kind, _), levels in series.items() if kind == "memory"]
    carried = [levels for (kind, _), levels in series.items() if kind == "links"]

    assert len(carried) == len(result.links) > 0
    for levels, base in zip(held, always, strict=True):
        assert min(level for _, level in levels) == levels[-1][1] == pytest.approx(base, rel=1e-5)
    for levels in carried:
        assert levels[-1][1] == 0 == min(level for _, level in levels)
    for levels in series.values():
        assert [instant for instant, _ in levels] == sorted({instant for instant, _ in levels})


@pytest.mark.parametrize("most", [counters.MOST_LEVELS, 0], ids=["every change", "joined"])
def test_counters_tell_every_byte_and_the_fullest_moment(result, monkeypatch, most):
    """The load of a link over the step is what it carries; memory's highest level is its peak."""
    monkeypatch.setattr(counters, "MOST_LEVELS", most)
    for counter, link in zip(link_counters(result), result.links, strict=True):
        seconds = (counter.level[:-1] * (counter.time[1:] - counter.time[:-1])).sum() / 100

        assert seconds * link.capacity == pytest.approx(link.nbytes, rel=1e-9)
    for counter, curve in zip(memory_counters(result), result.memory_curves, strict=True):
        assert counter.level.max() * 2**30 == pytest.approx(curve.total.max())


def test_arrows_of_schedules_that_go_both_ways_carry_every_byte():
    """Transfers of one stage up and down have names of their own."""
    result = simulate("deepseek-v3-h800")
    for counter, link in zip(link_counters(result), result.links, strict=True):
        seconds = (counter.level[:-1] * (counter.time[1:] - counter.time[:-1])).sum() / 100

        assert seconds * link.capacity == pytest.approx(link.nbytes, rel=1e-9)
