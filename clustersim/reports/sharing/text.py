"""A shared machine as text: the finding, then each job, its blame, and the links."""

from collections.abc import Iterator
from math import fsum

from clustersim.memory.room import FITS, outcome_of
from clustersim.render.tables import Row, percent
from clustersim.reports.measures import expectation_rows
from clustersim.simulation.sharing.answer import (
    JobAnswer,
    NeighbourCost,
    PlaceCandidate,
    PlaceChoice,
    ShareAnswer,
    SharedLink,
    SlowdownSpread,
)
from clustersim.units import counted, format_number, format_seconds

SAME = 5e-4
"""Slowdown below which a job is as fast as alone."""

UNITS = {
    "training step": "step",
    "service": "mean step",
    "trace": "step",
    "traffic": "pause and traffic",
}
"""What each kind of job repeats."""

MOST_USERS = 4
"""Jobs that the line of a link names."""

MOST_CAUSES = 24
"""Causes that the text has of all jobs, but for two of each."""

MOST_LINKS = 5
"""Links that the text has."""


def finding(answer: ShareAnswer) -> str:
    """Return the finding in a sentence."""
    slowed = [job for job in answer.jobs if job.slowdown > 1 + SAME]
    if not slowed:
        return f"{counted(len(answer.jobs), 'job')} share {answer.cluster}: none is slowed"
    worst = max(slowed, key=lambda job: job.slowdown)
    return (
        f"{counted(len(answer.jobs), 'job')} share {answer.cluster}: {worst.name} takes"
        f" {factor(worst.slowdown)} as long as alone"
    )


def factor(slowdown: float) -> str:
    """Return a slowdown in words.

    >>> factor(1.4429), factor(1.00001)
    ('1.443 times', 'just')
    """
    return "just" if abs(slowdown - 1) < SAME else f"{slowdown:.3f} times"


def rows(answer: ShareAnswer) -> Iterator[Row]:
    """Return the lines of an answer."""
    yield Row("machine", f"{counted(answer.nodes, 'node')} of {answer.cluster}")
    if answer.choice is not None:
        yield from place_rows(answer.choice)
    for job in answer.jobs:
        yield Row(job.name, described(job))
        if job.spread is not None:
            yield Row("", spread_text(job.spread))
        if job.memory is not None and outcome_of(job.memory.verdict) != FITS:
            yield Row("", job.memory.verdict, not job.memory.fits, job.memory.tight)
        yield from causes(job, max(2, MOST_CAUSES // len(answer.jobs)))
    for number, link in enumerate(answer.links[:MOST_LINKS]):
        yield Row("" if number else "links", described_link(link))
    if len(answer.links) > MOST_LINKS:
        yield Row("", f"and {len(answer.links) - MOST_LINKS} more kinds of links")
    if not answer.links:
        yield Row("links", "no two jobs use the same one")
    yield Row("fairness", f"{answer.fairness:.3f} (Jain's index; 1: all are slowed alike)")
    yield from expectation_rows(answer.expectations)
    for key, why in answer.assumed.items():
        yield Row("assumed", f"{key}: {why}")
    yield Row("steady", steady_text(answer), False, not answer.settled)


def place_rows(choice: PlaceChoice) -> Iterator[Row]:
    """Return which nodes were chosen and why, and what others of each kind cost."""
    best, *others = places_by_rule(choice)
    better = f"another one is at most {percent(choice.gap)} better (best.replays)"
    yield Row("places", f"{best.places}: {place_text(best, choice)}")
    yield Row(
        "",
        f"best of {counted(len(choice.candidates), 'candidate')}, {choice.replayed} replayed;"
        f" {better if choice.gap else 'none is better'}",
    )
    for number, each in enumerate(others):
        yield Row("" if number else "instead of", f"{each.places}: {place_text(each, choice)}")


def places_by_rule(choice: PlaceChoice) -> list[PlaceCandidate]:
    """Return the chosen candidate, and of each other rule the best one."""
    first, *others = choice.candidates
    rules = {first.rule: first}
    for each in others:
        rules.setdefault(each.rule, each)
    return [*rules.values()]


def least_of(candidate: PlaceCandidate) -> float:
    """Return the slowdown of a candidate, or its bound where it was not replayed."""
    return candidate.bound if candidate.slowdown is None else candidate.slowdown


def place_text(candidate: PlaceCandidate, choice: PlaceChoice) -> str:
    """Return the slowdown of a candidate, and what is requested of its fullest link."""
    bound = "" if candidate.slowdown is not None else "at least "
    text = f"{choice.objective} slowdown {bound}{least_of(candidate):.3f}"
    if candidate.link is None:
        return text
    full = f"{percent(candidate.demand)} of {candidate.link} in use, were all as fast as alone"
    return f"{text}; {full}"


def causes(job: JobAnswer, most: int) -> Iterator[Row]:
    """Return what each other job costs a job that is slowed, the largest first."""
    if abs(job.slowdown - 1) < SAME:
        return
    for blame in job.blame[:most]:
        yield Row("", f"{seconds_text(blame)} {cause(blame)}")
    if rest := job.blame[most:]:
        seconds = fsum(blame.seconds for blame in rest)
        yield Row("", f"{signed(seconds)} by {counted(len(rest), 'further cause')}")


def described(job: JobAnswer) -> str:
    """Return a job in a line."""
    step = UNITS[job.kind]
    spread = ""
    if job.most_s > job.least_s * (1 + SAME):
        spread = f" ({format_seconds(job.least_s)} to {format_seconds(job.most_s)})"
    rate = "" if job.tokens_per_s is None else f", {format_number(job.tokens_per_s)} tokens/s"
    return (
        f"{step} {format_seconds(job.alone_s)} alone, {format_seconds(job.shared_s)} shared"
        f"{spread}: {factor(job.slowdown)} as long{rate};"
        f" {counted(job.devices, 'device')} on nodes {shortened(job.nodes)}"
    )


def spread_text(spread: SlowdownSpread) -> str:
    """Return the slowdowns of all draws in a line.

    >>> spread_text(SlowdownSpread(20, 1.25, 1.0, 1.2, 1.4, 1.5))
    'over 20 draws 1.000 to 1.500 times, mean 1.250, nine of ten below 1.400'
    """
    return (
        f"over {spread.draws} draws {spread.least:.3f} to {spread.most:.3f} times, mean"
        f" {spread.mean:.3f}, nine of ten below {spread.p90:.3f}"
    )


def shortened(nodes: str, most: int = 5) -> str:
    """Return numbers and ranges of nodes, the first of many.

    >>> shortened("0,2,4,6,8,10,12")
    '0,2,4,6,8,...'
    """
    parts = nodes.split(",")
    return nodes if len(parts) <= most else f"{','.join(parts[:most])},..."


def seconds_text(blame: NeighbourCost) -> str:
    """Return a cost with its sign, and its standard error where sets of jobs were drawn."""
    error = "" if blame.error is None else f" (+- {format_seconds(blame.error, 2)})"
    return f"{signed(blame.seconds)}{error}"


def signed(seconds: float) -> str:
    """Return a time with its sign.

    >>> signed(-0.5)
    '-500 ms'
    """
    return f"{'-' if seconds < 0 else '+'}{format_seconds(abs(seconds))}"


def steady_text(answer: ShareAnswer) -> str:
    """Return the period of all steps, or that there is none."""
    steady = answer.steady
    if steady.period_s is None:
        drift = "" if answer.settled else "; their times still drift"
        return f"no: {steady.reason}{drift}"
    steps = sorted({*steady.steps.values()})
    each = f"{counted(steps[0], 'step')} of each job" if len(steps) == 1 else ", ".join(
        f"{counted(count, 'step')} of {name}" for name, count in steady.steps.items()
    )  # fmt: skip
    return f"all steps repeat after {format_seconds(steady.period_s)}: {each}"


def cause(blame: NeighbourCost) -> str:
    """Return the job and the links of a cost."""
    if blame.link is None:
        return f"by {blame.job}, through other jobs"
    return f"by {blame.job} at {link_text(blame.link, blame.links)}"


def link_text(link: str, count: int) -> str:
    """Return a link, and how many are like it."""
    return link if count == 1 else f"{link} and {count - 1:,} like it"


def described_link(link: SharedLink) -> str:
    """Return the load of a link by job."""
    total = percent(fsum(link.load.values()))
    by_load = sorted(link.load.items(), key=lambda pair: -pair[1])
    named = [f"{job} {percent(share)}" for job, share in by_load[:MOST_USERS]]
    more = [f"and {len(by_load) - MOST_USERS} more"] if len(by_load) > MOST_USERS else []
    parts = ", ".join([*named, *more])
    waits = "; traffic waits" if link.contended else ""
    return f"{link_text(link.link, link.links)}: {total} in use ({parts}){waits}"
