"""The answer of `clustersim validate` as text: tables for a terminal, and a page of Markdown."""

from collections.abc import Iterator, Sequence
from typing import Final

from clustersim.validation.answer import Validation
from clustersim.validation.explanation.text import explanation_tables
from clustersim.validation.fitted_coefficients import FITTED
from clustersim.validation.result_tables import (
    CASES,
    CLAIMS,
    COVERAGE,
    CURVES,
    GROUPS,
    LAYOUTS,
    MEMORY,
    METRICS,
    MISSED,
    REASONS,
    UNGRADABLE,
    Table,
    coverage_line,
)
from clustersim.validation.token_tables import TOKENS

INTRODUCTION: Final = """# Validation

Measured training runs and the predictions of clustersim for them, printed by `clustersim validate`.
Errors are those of the metric that the source prints.
A bias of +5 % means that predicted steps take 5 % longer.
The mode is the value around which these errors are densest; a few slow runs hardly change it.
Numbers in brackets are those of a best-constant baseline: one throughput for all devices.
The constant is the best one for the runs of a group; a group of one run has none.
Some jobs were measured in several layouts: a tau of 1 means that their order is predicted.
The loss is the throughput lost by running the layout that is predicted fastest.
Measured memory is compared separately, and so are runs that are predicted not to fit.
Each missed accuracy target has its likely cause and the measurement that would decide it.
A claim holds if each of its numbers is within its tolerance.
Collectives are compared with curves measured by size and by number of devices.
The predicted time of a token of inference is divided by cause, for each group.
Cases that are *not scored* are of low confidence, or lack settings that had to be assumed.
A table has the fitted coefficients of devices and software, with the data of each fit.
All others have it in their files in `topologies/`.
"""
"""The text above the tables; one sentence a line."""

_OF_THE_PAGE: Final = (
    GROUPS, METRICS, TOKENS, MISSED, FITTED, LAYOUTS, MEMORY, CLAIMS, CURVES, REASONS, CASES,
    UNGRADABLE,
)  # fmt: skip

_OF_THE_TERMINAL: Final = (
    CASES, UNGRADABLE, CURVES, CLAIMS, MEMORY, LAYOUTS, TOKENS, METRICS, GROUPS, REASONS,
)  # fmt: skip

FEW: Final = 30
"""Most cases without a grade that are listed on a terminal."""


def validation_tables(answer: Validation) -> Iterator[tuple[Table, list[tuple[str, ...]]]]:
    """Yield the tables that have rows, the shortest last, then those of explanations."""
    for table in _OF_THE_TERMINAL:
        rows = list(table.rows(answer))
        if rows and (table is not UNGRADABLE or len(rows) <= FEW):
            yield table, rows
    for explanation in answer.explanations:
        yield from explanation_tables(explanation)


def to_markdown(answer: Validation) -> str:
    """Return all tables as a page of Markdown, the shortest first."""
    sections = [INTRODUCTION]
    for table in _OF_THE_PAGE:
        rows = list(table.rows(answer))
        if rows:
            sections.append(f"## {table.title}\n\n{_markdown(table.headings, rows)}")
    for explanation in answer.explanations:
        for table, rows in explanation_tables(explanation):
            sections.append(f"## {table.title}\n\n{_markdown(table.headings, rows)}")
    intervals = _markdown(COVERAGE.headings, list(COVERAGE.rows(answer)))
    sections.append(f"## {COVERAGE.title}\n\n{coverage_line(answer.coverage)}\n\n{intervals}")
    return "\n".join(sections)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if heading.startswith(">") else "---" for heading in headings]
    lines = [[heading.lstrip(">") for heading in headings], rule]
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
