"""The files of a checked trace: parts and communications as tables, a figure, a page."""

from functools import partial

from clustersim.render.charts.bars import Step, Waterfall
from clustersim.render.charts.picture import Axis, text_table
from clustersim.render.page.page import Block, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.studies.check_trace.answer import EXPOSED, TraceCheckAnswer
from clustersim.studies.check_trace.text import (
    WORDS,
    communication_table,
    finding,
    part_table,
    rows,
)


def files_of(answer: TraceCheckAnswer, command: str = "") -> StudyFiles:
    """Return the files of a checked trace; `command` is what made it."""
    tables = {"parts.csv": part_table(answer), "communication.csv": communication_table(answer)}
    figures = {"parts": parts_chart(answer)}
    return StudyFiles(answer, partial(page, answer, command), tables, figures)


def parts_chart(answer: TraceCheckAnswer) -> Waterfall:
    """Return how the parts lead from the predicted step to the measured one."""
    steps = tuple(
        Step(
            each.part,
            "communication" if each.part == EXPOSED else "compute",
            each.measured_s - each.predicted_s,
        )
        for each in answer.parts
    )
    chart = Waterfall(
        title=finding(answer).partition(" (")[0],
        caption=f"{answer.file} next to {answer.title}",
        description="The parts of the step lead from the predicted time to the measured one.",
        note="Each bar begins where the one above ends.",
        contents="differences by part",
        measure=Axis("step time", "s"),
        first="predicted",
        last="measured",
        start=answer.predicted_s,
        steps=steps,
    )
    return chart.in_unit()


def page(answer: TraceCheckAnswer, command: str = "") -> Page:
    """Return the page of a checked trace."""
    blocks: list[Block] = [_table("measured and predicted", part_table(answer))]
    blocks.append(page_chart(parts_chart(answer)))
    if cells := communication_table(answer):
        blocks.append(_table("communications", cells))
    if remarks := [(row.label, row.text) for row in rows(answer)]:
        blocks.append(text_table("remarks", ("about", "remark"), remarks))
    sections = (Section("Results", "answer", (), tuple(blocks)),)
    return Page(f"Check: {answer.title}", finding(answer), sections, command)


def _table(caption: str, cells: list[list[str]]) -> Block:
    head, *lines = cells
    return text_table(caption, [name if name in WORDS else f">{name}" for name in head], lines)
