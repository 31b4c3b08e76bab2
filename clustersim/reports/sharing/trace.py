"""A timeline of a shared machine for the Perfetto viewer, as that of a step is written.

    process   a job
    thread    when any of its devices computes, and a thread for each kind of its traffic
    C         the load of each link that several jobs use, by job; a process below the jobs

Phases of one thread do not overlap: what devices of a job do at the same time is one event.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from clustersim import __version__
from clustersim.reports.step.counters import FEWEST, MOST_LEVELS, Counter, load_counter
from clustersim.reports.step.trace import (
    MOST_EVENTS,
    counter_events,
    event,
    levels_text,
    metadata_event,
    write_events,
)
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.sharing.recording import JobRecord, Recording, Spans, joined

MOST_LINKS: Final = 10
"""Links that have counters, the fullest ones."""

MOST_KINDS: Final = 11
"""Kinds of traffic of a job that have a thread of their own; others have one together."""


def write_trace(answer: ShareAnswer, recording: Recording, path: Path) -> None:
    """Write a trace that https://ui.perfetto.dev opens."""
    counters = link_counters(answer, recording)
    begin, end = recording.window
    most = MOST_EVENTS // len(recording.jobs)
    lines = [
        line
        for number, job in enumerate(recording.jobs)
        for line in _job(number, job, (begin, end), most)
    ]
    titles = {"links": "links that several jobs use"}
    lines += counter_events({"links": counters}, len(recording.jobs), titles)
    about = {
        "scenario": answer.name,
        "title": answer.title,
        "version": __version__,
        "begins_s": begin,
        "seconds": end - begin,
        "counters": {"links": levels_text(counters)},
    }
    write_events(path, about, lines)


def _job(number: int, job: JobRecord, window: tuple[float, float], most: int) -> Iterator[str]:
    """Yield the names of a job and its threads, then the phases of each."""
    yield metadata_event("process_name", number, 0, "name", job.name)
    yield metadata_event("process_sort_index", number, 0, "sort_index", number)
    threads = {"compute": job.computing, **_kinds(job)}
    for thread, (name, spans) in enumerate(threads.items()):
        yield metadata_event("thread_name", number, thread, "name", name)
        yield metadata_event("thread_sort_index", number, thread, "sort_index", thread)
        category = "communication" if thread else "compute"
        for begin, end in list(_within(spans, window))[: most // len(threads)]:
            yield event(name, category, number, thread, begin, end)


def _within(spans: Spans, window: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Yield the parts of spans in the window, from its begin on [s]."""
    first, last = window
    some = (spans[1] > first) & (spans[0] < last)
    begins, ends = spans[0][some].clip(first, last), spans[1][some].clip(first, last)
    yield from zip((begins - first).tolist(), (ends - first).tolist(), strict=True)


def _kinds(job: JobRecord) -> dict[str, Spans]:
    """Return when traffic of each name is under way, that with the most time first."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, traffic in enumerate(job.graph.traffic):
        if traffic is not None:
            numbers[traffic.name].append(number)
    spans = {name: _spans(job, of_kind) for name, of_kind in numbers.items()}
    order = sorted(spans, key=lambda name: -float((spans[name][1] - spans[name][0]).sum()))
    rest = [number for name in order[MOST_KINDS:] for number in numbers[name]]
    named = {name: spans[name] for name in order[:MOST_KINDS]}
    return {**named, **({"other traffic": _spans(job, rest)} if rest else {})}


def _spans(job: JobRecord, numbers: list[int]) -> Spans:
    begin = np.concatenate([begins[numbers] for begins, _ in job.passes])
    return joined(begin, np.concatenate([ends[numbers] for _, ends in job.passes]))


def link_counters(answer: ShareAnswer, recording: Recording) -> list[Counter]:
    """Return the load of links that several jobs use, those that can be full, by job."""
    first, last = recording.window
    table = recording.cluster.links
    shared = {link.link: link.capacity for link in answer.links[:MOST_LINKS]}
    loaded = np.flatnonzero((recording.loads > 0).sum(axis=0) > 1).tolist()
    numbers = {table.names[number]: number for number in loaded}
    flows = {
        (link, job.name): [
            (begin[some].clip(first) - first, end[some].clip(None, last) - first, rate[some])
            for begin, end, rate in job.flows(numbers[link])
            for some in [(end > first) & (begin < last)]
        ]
        for link in shared
        for job in recording.jobs
    }
    used = {key: parts for key, parts in flows.items() if any(len(each[0]) for each in parts)}
    most = max(FEWEST, MOST_LEVELS // max(1, len(used)))
    return [
        load_counter(link, shared[link], parts, last - first, most, job)
        for (link, job), parts in used.items()
    ]
