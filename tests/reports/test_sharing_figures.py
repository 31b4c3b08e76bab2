"""Figures and the trace of a shared machine: whose nodes, which phases, how full the links are."""

import json
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clustersim
from clustersim.reports.sharing.machine import machine_maps, owners
from clustersim.reports.sharing.phases import phases
from clustersim.reports.sharing.trace import link_counters, write_trace
from clustersim.scenario.ranges import numbers_of
from clustersim.simulation.sharing.recording import joined

TWO_LEAVES = {"name": "superpod-a100", "nodes": 40, "fabric": {"leaf_uplinks": 1}}


def sender(number, **keys):
    """Return a job that computes for 2 s and sends for about 2 s, from leaf to leaf."""
    traffic = {"collective": "all-to-all", "bytes": "100 GB", "pause": "2.2 s", "nodes": 2}
    return {"traffic": traffic, "nodes": f"{number},{20 + number}", **keys}


def shared(*jobs, **keys):
    """Return the answer of jobs that share a cable."""
    return clustersim.share({"cluster": TWO_LEAVES, "jobs": [*jobs], "steps": 6, **keys})


@pytest.fixture(scope="module")
def in_phase():
    """Two jobs that communicate at the same time."""
    return shared(sender(0), sender(1))


@pytest.fixture(scope="module")
def hashed():
    """Four training jobs, of which any two share a cable by chance."""
    return clustersim.share("superpod-hashed-neighbours", settings={"steps": 2})


@given(
    spans=st.lists(st.tuples(st.floats(0, 10), st.floats(0, 3)), max_size=12),
    instant=st.floats(0, 13),
)
def test_joined_spans_cover_what_the_spans_cover(spans, instant):
    """Whatever overlaps; none of them begins before the one before it has ended."""
    begin = np.array([start for start, _ in spans])
    end = begin + np.array([length for _, length in spans])
    begins, ends = joined(begin, end)
    covered = any(a < instant < b for a, b in zip(begin, end, strict=True))

    assert (begins < ends).all()
    assert (begins[1:] > ends[:-1]).all()
    if covered:
        assert any(a < instant < b for a, b in zip(begins, ends, strict=True))


@pytest.mark.parametrize("name", ["in_phase", "hashed"])
def test_every_node_is_a_cell_of_its_job(name, request):
    """Each once, in the order of numbers, with its job in the words of the cell."""
    answer = request.getfixturevalue(name)
    shown = owners(answer, answer.recording)
    cells = [cell for row in shown.grid for cell in row if cell is not None]

    assert len(cells) == answer.nodes
    for number, job in enumerate(answer.jobs):
        nodes = [node for node, cell in enumerate(cells) if cell.owner == number]
        assert nodes == [*numbers_of(job.nodes, "node")]
        assert all(cells[node].hover.endswith(f": {job.name}") for node in nodes)
    assert sum(shown.counts) == answer.nodes


def test_the_map_of_links_has_the_load_of_the_answer(hashed):
    """The fullest link of all is that of the map, by the same jobs, from 0 to 100 %."""
    _, links = machine_maps(hashed, hashed.recording)
    fullest = max(sum(link.load.values()) for link in hashed.links)
    most = max(max(row) for row in links.shares)

    assert most == pytest.approx(fullest)
    words = " ".join(word for row in links.hover for word in row)
    assert all(job.name in words for job in hashed.jobs)


def test_jobs_in_phase_communicate_together_and_interleaved_ones_do_not(in_phase):
    """The title states the share of time; phases of a job do not overlap."""
    apart = shared(sender(0), sender(1, start="2.2 s"))
    together, alternate = (phases(each, each.recording) for each in (in_phase, apart))

    assert "communicate at the same time 6" in together.title
    assert "at the same time 6" not in alternate.title
    for shown in (together, alternate):
        for lane in range(2):
            rows = shown.lane == lane
            assert (shown.start[rows][1:] >= shown.end[rows][:-1] - 1e-9).all()
        lines = [*shown.rows()][1:]
        assert [sum(line[1:]) for line in lines] == pytest.approx([100, 100])
    same = [together.start[together.lane == lane] for lane in range(2)]
    assert same[0] == pytest.approx(same[1], abs=1e-6)


def test_a_trace_has_a_process_for_each_job_and_loads_within_capacity(hashed, tmp_path):
    """Events of a thread do not overlap; what crosses a link at any instant fits."""
    write_trace(hashed, hashed.recording, tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    named = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    threads = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)

    assert named == [*(job.name for job in hashed.jobs), "links that several jobs use"]
    assert {pid for pid, _ in threads} == {0, 1, 2, 3}
    for events in threads.values():
        assert all(a["ts"] + a["dur"] <= b["ts"] + 2e-3 for a, b in pairwise(events))
    counters = link_counters(hashed, hashed.recording)
    assert counters
    for link in {counter.name.partition(" by ")[0] for counter in counters}:
        of_jobs = [counter for counter in counters if counter.name.startswith(f"{link} by ")]
        instants = np.unique(np.concatenate([counter.time for counter in of_jobs]))
        levels = [
            counter.level[np.searchsorted(counter.time, instants, side="right") - 1]
            * (instants >= counter.time[0])
            for counter in of_jobs
        ]
        assert 10 < np.sum(levels, axis=0).max() <= 100 + 1e-6


def test_an_answer_from_a_cache_has_no_recording(hashed):
    """Its page and tables are those of the numbers; equal answers do not depend on it."""
    from clustersim.answers import from_json, to_json

    stored = from_json(type(hashed), to_json(hashed))

    assert stored == hashed
    assert stored.recording is None
    assert {"machine", "phases"} == {*hashed.files().figures} - {*stored.files().figures}
    assert "trace.json" in hashed.files().names()
    assert "trace.json" not in stored.files().names()
