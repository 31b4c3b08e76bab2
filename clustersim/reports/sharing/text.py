"""A shared machine as text: the finding, then each job, its blame, and the links."""

from collections.abc import Iterator
from math import fsum

from clustersim.memory.room import FITS, outcome_of
from clustersim.render.tables import Row, percent
from clustersim.reports.measures import expectation_rows
from clustersim.simulation.sharing.answer import (
    JobAnswer,
    NeighbourCost,
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
    for job in answer.jobs:
        yield Row(job.name, described(job))
        if job.spread is not None:
            yield Row("", spread_text(job.spread))
        if job.memory is not None and outcome_of(job.memory.verdict) != FITS:
            yield Row("", job.memory.verdict, not job.memory.fits, job.memory.tight)
        for blame in job.blame or ():
            yield Row("", f"{seconds_text(blame)} {cause(blame)}")
    if any(job.blame is None for job in answer.jobs):
        yield Row("blame", "not divided: more jobs than all subsets can be replayed of")
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
    if not answer.settled:
        yield Row("steady", "no: the times of steps still drift (more steps)")


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
    """Return a cost with its sign."""
    sign = "-" if blame.seconds < 0 else "+"
    return f"{sign}{format_seconds(abs(blame.seconds))}"


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
