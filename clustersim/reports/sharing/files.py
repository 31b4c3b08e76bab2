"""The files of a shared machine: jobs, blame and links as tables, slowdowns as figures, a page."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import fsum
from typing import Any

from clustersim.render.charts.bars import Bar, Bars, Step, Waterfall
from clustersim.render.charts.picture import Axis, Drawn, stacked, text_table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import percent
from clustersim.reports.measures import expectation_cards
from clustersim.reports.sharing.machine import machine_maps
from clustersim.reports.sharing.phases import phases
from clustersim.reports.sharing.text import (
    cause,
    factor,
    finding,
    least_of,
    link_text,
    places_by_rule,
    rows,
)
from clustersim.reports.sharing.trace import write_trace
from clustersim.simulation.sharing.answer import JobAnswer, PlaceChoice, ShareAnswer
from clustersim.units import counted, format_number, format_seconds

MOST_BARS = 24
"""Jobs that a figure shows, the slowest first."""


def files_of(answer: ShareAnswer, command: str = "") -> StudyFiles:
    """Return the files of a shared machine; `command` is what made it."""
    tables = {"jobs.csv": _jobs(answer), "blame.csv": _blame(answer), "links.csv": _links(answer)}
    if answer.choice is not None:
        tables["places.csv"] = _places(answer.choice)
    recording = answer.recording
    others = {} if recording is None else {"trace.json": partial(write_trace, answer, recording)}
    return StudyFiles(answer, partial(page, answer, command), tables, charts(answer), others=others)


def charts(answer: ShareAnswer) -> dict[str, Drawn]:
    """Return the figures by name: slowdowns, the blame of the slowest job, machine and phases."""
    worst = max(answer.jobs, key=lambda job: job.slowdown)
    pictures: dict[str, Drawn] = {"slowdown": _slowdowns(answer)}
    if worst.blame:
        pictures["blame"] = _causes(worst)
    if answer.choice is not None and len(answer.choice.candidates) > 1:
        pictures["places"] = _place_bars(answer.choice)
    if (recording := answer.recording) is not None:
        pictures["machine"] = machine_maps(answer, recording)
        pictures["phases"] = phases(answer, recording)
    return pictures


def _slowdowns(answer: ShareAnswer) -> Bars:
    jobs = sorted(answer.jobs, key=lambda job: -job.slowdown)[:MOST_BARS]
    return Bars(
        title=finding(answer),
        caption="time of a step next to the others over that alone",
        description=f"A bar for each of {len(jobs)} jobs.",
        contents="slowdown of each job",
        names="job",
        measure=Axis("slowdown", "times", zero=True),
        bars=tuple(Bar(job.name, job.slowdown, f"{job.slowdown:.3f}") for job in jobs),
    )


def _place_bars(choice: PlaceChoice) -> Bars:
    shown = places_by_rule(choice)
    return Bars(
        title=f"{shown[0].places}: {choice.objective} slowdown {least_of(shown[0]):.3f}, the least"
        f" of {counted(len(choice.candidates), 'candidate')}",
        caption="each job over its shortest time alone on any of these nodes; a candidate that was"
        " not replayed has at least this slowdown",
        description=f"A bar for the best of each of {counted(len(shown), 'rule')}.",
        contents="slowdown by the rule for nodes",
        names="nodes",
        measure=Axis(f"{choice.objective} slowdown", "times", zero=True),
        bars=tuple(
            Bar(
                each.places,
                least_of(each),
                ("" if each.slowdown else "≥ ") + f"{least_of(each):.3f}",
            )
            for each in shown
        ),
    )


def _causes(job: JobAnswer) -> Waterfall:
    steps = tuple(Step(cause(part), "communication", part.seconds) for part in job.blame)
    chart = Waterfall(
        title=f"{job.name}: {factor(job.slowdown)} as long as alone",
        caption="what each other job costs a step, at the links that both use",
        description=f"{len(steps)} causes lead from the time alone to the time next to the others.",
        note="Each bar begins where the one above ends.",
        contents="what each neighbour costs",
        measure=Axis("step time", "s"),
        first="alone",
        last="shared",
        start=job.alone_s,
        steps=steps,
    )
    return chart.in_unit()


# --- tables ---------------------------------------------------------------------------------------

_OF_JOB = (
    "name", "kind", "nodes", "devices", "alone_s", "shared_s", "least_s", "most_s", "slowdown",
    "steps", "tokens_per_s",
)  # fmt: skip


def _jobs(answer: ShareAnswer) -> Iterator[Sequence[Any]]:
    yield [*_OF_JOB, "memory"]
    for job in answer.jobs:
        memory = None if job.memory is None else job.memory.verdict
        yield [*(getattr(job, name) for name in _OF_JOB), memory]


def _blame(answer: ShareAnswer) -> Iterator[Sequence[Any]]:
    yield ["job", "by", "link", "links", "seconds", "error"]
    for job in answer.jobs:
        for part in job.blame:
            yield [job.name, part.job, part.link, part.links, part.seconds, part.error]


def _links(answer: ShareAnswer) -> Iterator[Sequence[Any]]:
    yield ["link", "links", "capacity", "job", "load", "contended"]
    for link in answer.links:
        for job, load in link.load.items():
            yield [link.link, link.links, link.capacity, job, load, link.contended]


def _places(choice: PlaceChoice) -> Iterator[Sequence[Any]]:
    names = [*choice.candidates[0].nodes]
    jobs = [*choice.candidates[0].slowdowns]
    yield [
        *("places", "slowdown", "bound", "demand", "link"),
        *(f"slowdown of {job}" for job in jobs),
        *(f"nodes of {name}" for name in names),
    ]
    for each in choice.candidates:
        yield [
            *(each.places, each.slowdown, each.bound, each.demand, each.link),
            *(each.slowdowns.get(job) for job in jobs),
            *(each.nodes[name] for name in names),
        ]


# --- page -----------------------------------------------------------------------------------------


def page(answer: ShareAnswer, command: str = "") -> Page:
    """Return the page of a shared machine; `command` is what made it."""
    return Page(answer.title, finding(answer), tuple(_sections(answer)), command)


def _sections(answer: ShareAnswer) -> Iterator[Section]:
    lines = ((row.label, row.text) for row in rows(answer))
    table = text_table("All results", ("item", "result"), lines)
    yield Section("Summary", "answer", (), (Cards(tuple(_cards(answer)), equal=True), table))
    drawn = {
        name: [page_chart(picture) for picture in stacked(shown).pictures]
        for name, shown in charts(answer).items()
    }
    text = "A job is slowed where its traffic waits for that of others on a link that both use."
    costs = [*drawn["slowdown"], *drawn.get("blame", ())]
    yield Section("Jobs", "jobs", (text,), (*costs, _jobs_table(answer)))
    if answer.choice is not None:
        text = (
            "Candidates are replayed in the order of their bounds: the least slowdown with which"
            " no link carries more than its capacity."
        )
        candidates = _places_table(answer.choice)
        yield Section("Places", "places", (text,), (*drawn.get("places", ()), candidates))
    if "phases" in drawn:
        yield Section("Phases", "phases", (), tuple(drawn["phases"]))
    yield Section(
        "Machine and links", "links", (), (*drawn.get("machine", ()), _links_table(answer))
    )


def _cards(answer: ShareAnswer) -> Iterator[Card]:
    for job in sorted(answer.jobs, key=lambda job: -job.slowdown)[:4]:
        note = f"{format_seconds(job.alone_s)} alone, {format_seconds(job.shared_s)} shared"
        yield Card(f"slowdown of {job.name}", f"{job.slowdown:.3f}", note, job.slowdown > 1.1)
    yield from expectation_cards(answer.expectations)
    yield Card("Fairness", f"{answer.fairness:.3f}", "Jain's index of the jobs' speeds")


def _jobs_table(answer: ShareAnswer) -> Block:
    names = (">devices", ">alone", ">shared", ">slowdown", ">steps", ">tokens/s", "memory", "nodes")
    lines = (
        (
            job.name,
            job.kind,
            f"{job.devices:,}",
            format_seconds(job.alone_s),
            format_seconds(job.shared_s),
            f"{job.slowdown:.4f}",
            f"{job.steps:,}",
            "" if job.tokens_per_s is None else format_number(job.tokens_per_s),
            "" if job.memory is None else job.memory.verdict,
            job.nodes.replace(",", ", "),
        )
        for job in answer.jobs
    )
    return text_table("Jobs", ("job", "kind", *names), lines)


def _places_table(choice: PlaceChoice) -> Block:
    lines = (
        (
            each.places,
            "" if each.slowdown is None else f"{each.slowdown:.4f}",
            f"{each.bound:.4f}",
            percent(each.demand),
            each.link or "",
        )
        for each in choice.candidates
    )
    names = (">slowdown", ">bound", ">in use at the speed alone", "fullest link")
    return text_table("Candidates", ("nodes", *names), lines)


def _links_table(answer: ShareAnswer) -> Block:
    lines = (
        (
            link_text(link.link, link.links),
            f"{link.capacity / 1e9:.4g} GB/s",
            percent(fsum(link.load.values())),
            ", ".join(f"{job} {percent(load)}" for job, load in link.load.items()),
            "yes" if link.contended else "no",
        )
        for link in answer.links
    )
    names = ("link", ">capacity", ">in use", "by", "traffic waits")
    return text_table("Links that several jobs use", names, lines)
