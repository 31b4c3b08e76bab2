"""The page of a whole training run: the result, its calendar, its checkpoints, its parts."""

from collections.abc import Iterator

from clustersim.render.page.page import Block, Card, Cards, Column, Page, Section, Table
from clustersim.render.plotly import page_chart
from clustersim.render.run_words import format_duration
from clustersim.render.tables import percent
from clustersim.simulation.long_run_answer import TrainAnswer
from clustersim.studies.train.charts import charts_of
from clustersim.studies.train.text import rows, run_metric_text
from clustersim.units import format_number


def page(answer: TrainAnswer, command: str = "") -> Page:
    """Return the page of an answer; `command` is what made it."""
    charts = {name: page_chart(chart) for name, chart in charts_of(answer).items()}
    time = [charts[name] for name in ("accounting", "calendar", "replications") if name in charts]
    saves = [charts[name] for name in ("intervals", "contention") if name in charts]
    sizes = [charts[name] for name in ("sizes",) if name in charts]
    sections = (
        Section("Results", "answer", (), (Cards(tuple(_cards(answer))), _lines(answer))),
        Section("Time", "time", (), (*time, _accounting(answer))),
        Section("Checkpoints", "checkpoints", (), tuple(saves)) if saves else None,
        Section("Failures", "failures", (), (*sizes, _causes(answer))) if answer.causes else None,
        Section("Steps and published numbers", "steps", (), tuple(_details(answer))),
    )
    return Page(
        title=answer.title,
        subtitle="A whole training run: days, failures and checkpoints",
        sections=tuple(section for section in sections if section is not None),
        command=command,
    )


def _cards(answer: TrainAnswer) -> Iterator[Card]:
    days = "no bound" if answer.days is None else f"{format_number(answer.days)} days"
    yield Card("duration", days, f"{answer.devices:,} devices", answer.days is None)
    yield Card(
        "goodput", percent(answer.goodput), "useful over elapsed time", bool(answer.warnings)
    )
    yield Card("interruptions", f"{answer.interruptions:,.0f}", "failures and planned stops")
    given = answer.checkpoint
    yield Card("checkpoint", run_metric_text("checkpoint_bytes", given.bytes), given.mode)
    yield Card(
        "interval", format_duration(given.every_s), f"save: {format_duration(given.block_s)}"
    )
    for check in answer.published:
        value = run_metric_text(check.metric, check.value)
        yield Card(f"published {check.metric.partition('_')[0]}", value, check.source)


def _lines(answer: TrainAnswer) -> Table:
    cells = tuple((row.label, row.text) for row in rows(answer))
    return Table("The run in lines", (Column("about"), Column("result")), cells)


def _accounting(answer: TrainAnswer) -> Table:
    elapsed = answer.accounting.elapsed
    cells = tuple(
        (name, format_duration(seconds), percent(seconds / elapsed))
        for name, seconds in vars(answer.accounting).items()
    )
    columns = (Column("part"), Column("time", True), Column("share", True))
    return Table("Elapsed time by part, mean of the replications", columns, cells)


def _causes(answer: TrainAnswer) -> Table:
    cells = tuple(
        (cause.name, f"{cause.count:,.1f}", format_duration(cause.restart_s))
        for cause in answer.causes
    )
    columns = (Column("cause"), Column("failures", True), Column("restart", True))
    return Table("Causes of failures", columns, cells)


def _details(answer: TrainAnswer) -> Iterator[Block]:
    names = ("tokens", "steps", "step time [s]", "batch", "sequence", "tokens/s", "MFU")
    cells = tuple(
        (
            f"{stage.tokens:,.0f}",
            f"{stage.steps:,}",
            format_number(stage.step_time_s),
            f"{stage.batch:,}",
            f"{stage.sequence:,}",
            f"{stage.tokens_per_s:,.0f}",
            percent(stage.mfu),
        )
        for stage in answer.stages
    )
    yield Table("Parts of the run", tuple(Column(name, True) for name in names), cells)
    if answer.published:
        columns = tuple(map(Column, ("metric", "published", "predicted", "error", "source")))
        yield Table("Published numbers", columns, tuple(_published(answer)))
    if answer.assumed:
        reasons = tuple(answer.assumed.items())
        yield Table("Assumptions", (Column("key"), Column("reason")), reasons)


def _published(answer: TrainAnswer) -> Iterator[tuple[str, ...]]:
    for check in answer.published:
        error = "" if check.error is None else percent(check.error, "+")
        if check.bound is not None:
            error = (
                f"{check.bound.replace('-', ' ')}: {'holds' if check.holds else 'does not hold'}"
            )
        value, predicted = (
            run_metric_text(check.metric, number) for number in (check.value, check.predicted)
        )
        yield check.metric, value, predicted, error, check.source


__all__ = ["page"]
