"""A trace next to the prediction of its scenario, as text."""

from collections.abc import Iterator
from typing import Final

from clustersim.render.tables import Row, percent
from clustersim.studies.check_trace.answer import CommunicationCheck, PartCheck, TraceCheckAnswer
from clustersim.units import format_bytes, format_number, format_seconds

WORDS: Final = ("part", "communication")
"""Columns that are words."""


def finding(answer: TraceCheckAnswer) -> str:
    """Return where the run differs most from its prediction, in a sentence."""
    change = percent(answer.measured_s / answer.predicted_s - 1, "+")
    widest = max(answer.parts, key=_difference)
    seconds = widest.measured_s - widest.predicted_s
    sign = "+" if seconds >= 0 else "-"
    return (
        f"a step of {format_seconds(answer.measured_s)} ({change} on the predicted"
        f" {format_seconds(answer.predicted_s)}); most of the difference: {widest.part},"
        f" {sign}{format_seconds(abs(seconds))}"
    )


def _difference(part: PartCheck) -> float:
    return abs(part.measured_s - part.predicted_s)


def part_table(answer: TraceCheckAnswer) -> list[list[str]]:
    """Return the parts of the step, the headings first."""
    rows = [("step", answer.measured_s, answer.predicted_s)]
    rows += [(each.part, each.measured_s, each.predicted_s) for each in answer.parts]
    lines = [["part", "measured", "predicted", "difference"]]
    for name, measured, predicted in rows:
        change = percent(measured / predicted - 1, "+") if predicted else "-"
        lines.append([name, format_seconds(measured), format_seconds(predicted), change])
    return lines


def communication_table(answer: TraceCheckAnswer) -> list[list[str]]:
    """Return the communications by kind, the headings first."""
    lines = [["communication", "calls", "predicted", "bytes", "predicted", "time", "predicted",
              "waited"]]  # fmt: skip
    lines += [_cells(each) for each in answer.communications]
    return lines if answer.communications else []


def _cells(each: CommunicationCheck) -> list[str]:
    name = "send" if each.operation == "send" else f"{each.operation} of {each.ranks} ranks"
    calls, nbytes, seconds = each.predicted_calls, each.predicted_bytes, each.predicted_s
    return [
        name,
        format_number(each.measured_calls),
        "-" if calls is None else format_number(calls),
        format_bytes(each.measured_bytes),
        "-" if nbytes is None else format_bytes(nbytes),
        format_seconds(each.measured_s),
        "-" if seconds is None else format_seconds(seconds),
        format_seconds(each.waited_s),
    ]


def rows(answer: TraceCheckAnswer) -> Iterator[Row]:
    """Return what is missing, and how the trace was read."""
    for number, line in enumerate(answer.missing):
        yield Row("" if number else "not in trace", line)
    for number, line in enumerate(answer.notes):
        yield Row("" if number else "notes", line)
