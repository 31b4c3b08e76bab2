"""The files of a sizing: sizes and laws as tables, the loss as a figure, and a page."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from clustersim.render.charts.lines import Lines, Series
from clustersim.render.charts.picture import Axis, Table, text_table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import percent
from clustersim.studies.size.answer import SizeAnswer
from clustersim.studies.size.text import (
    count_text,
    finding,
    format_layout,
    nearest_size,
    range_text,
    rows,
)
from clustersim.units import format_days, format_kwh, format_number, format_usd
from clustersim.workload.scaling_laws import LAWS


def files_of(answer: SizeAnswer, command: str = "") -> StudyFiles:
    """Return the files of a sizing; `command` is what made it."""
    chart = loss_by_size(answer)
    tables = {"sizes.csv": _sizes(answer), "laws.csv": _laws(answer)}
    return StudyFiles(
        answer, partial(page, answer, command), tables, {} if chart is None else {"loss": chart}
    )


def _sizes(answer: SizeAnswer) -> Iterator[Sequence[Any]]:
    columns = ("model", "parameters", "tokens", "loss", "tokens_per_s", "mfu")
    layout = ("tensor", "pipeline", "data", "zero", "micro", "batch", "recompute", "step_time_s")
    yield [*columns, *layout]
    for one in answer.sizes:
        of_layout = (getattr(one.layout, name) for name in layout)
        yield [*(getattr(one, name) for name in columns), *of_layout]


def _laws(answer: SizeAnswer) -> Iterator[Sequence[Any]]:
    columns = ("law", "parameters", "tokens", "tokens_per_parameter", "loss", "extrapolated")
    yield [*columns, "source"]
    for law in answer.laws:
        yield [*(getattr(law, name) for name in columns), law.source]


def page(answer: SizeAnswer, command: str = "") -> Page:
    """Return the page of a sizing; `command` is what made it."""
    return Page(answer.title, finding(answer), tuple(_sections(answer)), command)


def _sections(answer: SizeAnswer) -> Iterator[Section]:
    lines = ((row.label, row.text) for row in rows(answer))
    table = text_table("All results", ("item", "result"), lines)
    yield Section("Summary", "answer", (), (Cards(tuple(_cards(answer))), table))
    chart = loss_by_size(answer)
    blocks: list[Block] = [] if chart is None else [page_chart(chart)]
    if len(answer.sizes) > 1:
        text = "The same machine for the same time, each size in its fastest layout."
        yield Section("Sizes", "sizes", (text,), (*blocks, _sizes_table(answer)))
    text = "Optima for the same budget. Laws disagree; each holds near the budgets of its data."
    yield Section("Laws", "laws", (text,), (_laws_table(answer),))


def _cards(answer: SizeAnswer) -> Iterator[Card]:
    model = f"{count_text(answer.tokens)} tokens, by {answer.law}"
    yield Card("Parameters", count_text(answer.parameters), model)
    if answer.loss is not None:
        ratio = f"{format_number(answer.tokens_per_parameter, 3)} tokens for each parameter"
        yield Card("Loss", f"{answer.loss:.4f}", f"nats per token, {ratio}")
    yield Card("Duration", format_days(answer.days), f"on {answer.devices:,} {answer.accelerator}")
    yield Card("Utilisation", f"MFU {percent(answer.mfu)}", format_layout(answer.layout))
    if answer.bill is not None:
        yield Card("Energy", format_kwh(answer.bill.energy_kwh), answer.bill.energy_of)
    if answer.cost is not None:
        yield Card("Cost", format_usd(answer.cost), answer.price)


def _sizes_table(answer: SizeAnswer) -> Table:
    names = (">parameters", ">tokens", ">loss", ">MFU", "layout")
    lines = (
        (
            count_text(one.parameters),
            count_text(one.tokens),
            "" if one.loss is None else f"{one.loss:.4f}",
            percent(one.mfu),
            format_layout(one.layout),
        )
        for one in answer.sizes
    )
    return text_table("Models of other sizes", names, lines)


def _laws_table(answer: SizeAnswer) -> Table:
    numbers = (">parameters", ">tokens", ">tokens a parameter", ">loss")
    lines = (
        (
            law.law,
            count_text(law.parameters),
            count_text(law.tokens),
            format_number(law.tokens_per_parameter, 3),
            "" if law.loss is None else f"{law.loss:.4f}",
            range_text(law),
            law.source,
            law.note,
        )
        for law in answer.laws
    )
    names = ("law", *numbers, "range", "source", "note")
    return text_table(f"Optima for {answer.flops:.3g} FLOP", names, lines)


def loss_by_size(answer: SizeAnswer) -> Lines | None:
    """Return the loss of each size; that of the replication where the law has none."""
    if len(answer.sizes) < 2:
        return None
    named = LAWS[answer.law].loss is not None
    law = LAWS[answer.law] if named else LAWS["replication"]
    assert law.loss is not None
    sizes = sorted(answer.sizes, key=lambda one: one.parameters)
    points = [(one.parameters, law.loss.at(one.parameters, one.tokens)) for one in sizes]
    best = (answer.parameters, law.loss.at(answer.parameters, answer.tokens))
    hover = tuple(
        f"{count_text(one.parameters)} parameters\n{count_text(one.tokens)} tokens\n"
        f"MFU {100 * one.mfu:.1f} %"
        for one in sizes
    )
    return Lines(
        title=_title(answer),
        caption=f"{answer.devices:,} x {answer.accelerator} for {format_days(answer.days)}",
        description="A curve of the loss over the size of the model, with the optimum marked.",
        note=f"Loss by {law.name}. Each point is a model of its own shape, with the tokens that it"
        " trains on in this time in its fastest layout, which was replayed.",
        contents="loss by size of the model",
        x=Axis("parameters", log=2, ticks=_ticks(points)),
        y=Axis("loss", "nats per token"),
        series=(
            Series("sizes", *_columns(points), hover=hover),
            Series(f"optimum by {answer.law}", *_columns([best]), "warning", "star", "none"),
        ),
    )


def _title(answer: SizeAnswer) -> str:
    best = f"{count_text(answer.parameters)} parameters on {count_text(answer.tokens)} tokens"
    half, twice = (nearest_size(answer, factor) for factor in (0.5, 2.0))
    if half is None or twice is None or None in (half.loss, twice.loss, answer.loss):
        return f"The best model has {best}"
    assert half.loss is not None
    assert twice.loss is not None
    assert answer.loss is not None
    lost = max(half.loss, twice.loss) - answer.loss
    return f"The best model has {best}; half or twice the size loses {lost:.3f} nats at most"


def _ticks(points: list[tuple[float, float]]) -> tuple[tuple[float, str], ...]:
    return tuple((parameters, count_text(parameters)) for parameters, _ in points)


def _columns(
    points: list[tuple[float, float]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    x, y = zip(*points, strict=True)
    return tuple(x), tuple(y)
