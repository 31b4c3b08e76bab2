"""What a run answers, in large letters and line by line; its groups; what was published of it."""

from typing import TYPE_CHECKING

from clustersim.metrics.attribution import BUBBLES
from clustersim.render.page.page import Card, Cards, Column, Section, Table
from clustersim.render.tables import number, percent, verdict, words
from clustersim.studies.run.text import rows
from clustersim.units import GIB, format_bandwidth, format_seconds

if TYPE_CHECKING:
    from clustersim.simulation.answer import PublishedCheck
    from clustersim.simulation.simulate import Result

CAUSES = dict(
    zip(
        BUBBLES,
        ("while the pipeline fills", "between filling and draining", "while it drains and after"),
        strict=True,
    )
)
"""When ranks wait for others, in words."""


def subtitle(result: "Result") -> str:
    """Return in one line what was run."""
    said = {row.label: row.text for row in rows(result)}
    return "; ".join(said[label] for label in ("machine", "model", "layout"))


def answer(result: "Result") -> Section:
    """Return the answer: what matters most in large letters, then what the terminal shows."""
    lines = tuple((row.label, row.text) for row in rows(result))
    told = Table("The answer line by line", (Column("about"), Column("answer")), lines)
    return Section("The answer", "answer", (), (Cards(tuple(_cards(result))), told))


def _cards(result: "Result") -> list[Card]:
    model, hardware = (result.flops_per_device(kind) / 1e12 for kind in ("model", "hardware"))
    fullest = result.memory.fullest
    waits = "of the step", longest_wait(result)
    used = f"{fullest.peak / GIB:.1f} of {result.memory.capacity / GIB:.1f} GiB"
    return [
        Card("one step takes", format_seconds(result.step_time), f"on {result.devices:,} devices"),
        _expected(result),
        *(_published(check) for check in result.published[:1]),
        Card("throughput", f"{result.tokens_per_s:,.0f} tokens/s", _samples(result)),
        Card(
            "rate of a device",
            f"{model:.1f} TFLOP/s",
            f"of model FLOPs, MFU {percent(result.mfu)}; {hardware:.1f} with recomputation,"
            f" HFU {percent(result.hfu)}",
        ),
        Card("waiting", percent(result.bubble_fraction), ", ".join(filter(None, waits))),
        Card(
            "memory",
            "fits" if result.memory.fits else "does not fit",
            f"{used} on stage {fullest.stage}",
            alarm=not result.memory.fits,
        ),
    ]


def _samples(result: "Result") -> str:
    sequence = result.scenario.batch.sequence
    return f"{number(result.samples_per_s)} sequences of {sequence:,} tokens a second"


def _expected(result: "Result") -> Card:
    known = result.interval
    if known.low_s is None or known.high_s is None:
        return Card("expected", "no interval", known.why)
    low, high = (format_seconds(seconds, 3) for seconds in (known.low_s, known.high_s))
    return Card("expected", f"{low} to {high}", f"in {10 * known.level:g} of 10 runs; {known.why}")


def _published(check: "PublishedCheck") -> Card:
    name, value, predicted, error, _ = _row(check)
    if check.error is None:
        told = "as published" if value == predicted else "not as published"
        return Card("does it fit", told, f"predicted: {predicted}; published: {value}")
    return Card("against what was published", error, f"{name} {predicted}, published {value}")


def longest_wait(result: "Result") -> str:
    """Return when ranks wait most: ``'mostly while the pipeline fills'``; nothing if never."""
    cause = max(BUBBLES, key=result.attribution.__getitem__)
    if result.bubble_fraction < 5e-4:
        return ""
    share = result.attribution[cause] / result.step_time
    return f"mostly {CAUSES[cause]} ({percent(share)})"


def groups(result: "Result") -> Section:
    """Return which ranks talk to each other over which links."""
    if not result.groups:
        return Section("Groups of ranks", "groups", ("There is one rank, and it talks to none.",))
    columns = ("group", "ranks", "groups", "nodes of one", "links between neighbours")
    lines = tuple(
        (
            words(each.group),
            f"{each.ranks:,}",
            f"{each.groups:,}",
            f"{each.nodes.fewest:,}"
            if each.nodes.fewest == each.nodes.most
            else f"{each.nodes.fewest} to {each.nodes.most}",
            ", ".join(f"{link.kind} {format_bandwidth(link.bandwidth)}" for link in each.links),
        )
        for each in result.groups
    )
    table = Table(
        "Kinds of groups and the links they cross, the narrowest first, payload each way",
        tuple(Column(name, 0 < place < 4) for place, name in enumerate(columns)),
        lines,
    )
    said = "Who talks to whom, and how far apart they are placed."
    return Section("Groups of ranks", "groups", (said,), (table,))


def published(result: "Result") -> Section:
    """Return every published number beside the predicted one."""
    if not result.published:
        said = "The scenario names no published number to compare with."
        return Section("Published numbers", "published", (said,))
    names = ("metric", "published", "predicted", "error", "source")
    columns = tuple(Column(name, 0 < place < 4) for place, name in enumerate(names))
    lines = tuple((*_row(check)[:4], check.source) for check in result.published)
    table = Table("Published beside predicted; the error is predicted over published, less one",
                  columns, lines)  # fmt: skip
    return Section("Published numbers", "published", (), (table,))


def _row(check: "PublishedCheck") -> tuple[str, str, str, str, str]:
    """Return metric, published and predicted value, error and source as text."""
    name = f"{check.metric} ({check.convention} FLOPs)" if check.convention else check.metric
    if check.error is None:
        value, predicted = verdict(check.value), verdict(check.predicted)
        return name, value, predicted, "", check.source
    error = percent(check.error, "+")
    return name, number(check.value), number(check.predicted), error, check.source


def exposed(result: "Result") -> Table:
    """Return the communication that nothing hides, and what sets its pace."""
    columns = (Column("communication"), Column("time", True), Column("share", True),
               Column("the link that sets its pace"), Column("of", True))  # fmt: skip
    lines = tuple(
        (
            words(each.part),
            format_seconds(each.seconds, 3),
            percent(each.seconds / result.step_time),
            each.limit.link if each.limit else "",
            format_bandwidth(each.limit.capacity) if each.limit else "",
        )
        for each in result.exposed
    )
    return Table("Communication that no computation hides, mean of all ranks", columns, lines)


__all__ = ["CAUSES", "answer", "exposed", "groups", "longest_wait", "published", "subtitle"]
