"""A validation as tables of Markdown; `tools.validation_pages` divides them into pages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clustersim.render.tables import ResultTable, Rows, percent
from clustersim.units import counted, format_number
from clustersim.validation.answer import Coverage, Validation
from clustersim.validation.text import (
    CASES,
    CURVES,
    GROUPS,
    LAYOUTS,
    MEMORY,
    METRICS,
    REASONS,
    TOKENS,
    UNGRADABLE,
    coverage_lines,
    format_share,
    named_share,
)
from tools.claims.claims import ClaimNumber, ClaimVerdict
from tools.explanation.answer import Explanation
from tools.explanation.text import explanation_tables
from tools.fitted_coefficients import FITTED
from tools.missed_targets import ExplainedMiss, MissedTarget


@dataclass(frozen=True)
class Report:
    """A validation with what authors judge it by."""

    validation: Validation
    claims: tuple[ClaimVerdict, ...] = ()
    misses: tuple[ExplainedMiss, ...] = ()
    explanations: tuple[Explanation, ...] = ()


# --- missed targets -------------------------------------------------------------------------------

REACHED: Final = "reached: this entry is out of date"
UNEXPLAINED: Final = "unknown"
"""The cell of an entry without a miss, and of a miss without an entry; neither may be shipped."""

SHARES: Final = ("mean", "median", "p90", "regret")
"""Figures in percent."""


def missed_rows(misses: Sequence[ExplainedMiss]) -> Rows:
    """Yield a row for each entry on missed targets."""
    for entry in misses:
        yield (
            f"{entry.group}: {', '.join(entry.cases)}" if entry.cases else entry.group,
            str(entry.count),
            format_share(entry.mean_abs_error),
            named_share(entry.worst, entry.worst_id),
            REACHED if entry.reached else "; ".join(_misses(entry)),
            entry.cause or UNEXPLAINED,
            entry.decided_by or UNEXPLAINED,
        )


def _misses(entry: ExplainedMiss) -> Iterator[str]:
    """Yield each missed target with the figure, and the number of runs with a large error."""
    several = len({missed.group for missed in entry.missed}) > 1
    for missed in entry.missed:
        group = f" of {missed.group}" if several else ""
        sure = f" of {missed.confidence} confidence" if missed.confidence else ""
        figure = _figure(missed.figure, missed.found)
        yield f"{missed.figure}{group}{sure} {_bound(missed)}, is {figure}"
    if entry.far:
        yield f"{counted(len(entry.far), 'run')} more than {100 * entry.far_beyond:g} % off"


def _bound(missed: MissedTarget) -> str:
    if missed.at_most is not None:
        return f"at most {_figure(missed.figure, missed.at_most)}"
    return f"at least {_figure(missed.figure, missed.at_least or 0.0)}"


def _figure(name: str, value: float) -> str:
    return percent(value) if name in SHARES else f"{value:.2f}"


# --- claims and coverage --------------------------------------------------------------------------

VERDICTS: Final = {True: "holds", False: "missed", None: ""}
"""Whether a number of a claim is as expected, in words."""


def claim_rows(verdicts: Sequence[ClaimVerdict]) -> Rows:
    """Yield a row for each number of each claim; the first has the claim and its source."""
    for claim in verdicts:
        for index, expected in enumerate(claim.numbers):
            first = index == 0
            predicted = expected.predicted
            yield (
                str(claim.number) if first else "",
                claim.claim if first else "",
                expected.name,
                _expected(expected),
                "" if predicted is None else f"{format_number(predicted)} {expected.unit}".rstrip(),
                (claim.why or "") if first and claim.why else VERDICTS[expected.holds],
                claim.source if first else "",
            )


def _expected(expected: ClaimNumber) -> str:
    """Return the expected number with its tolerance, or the bound."""
    unit = f" {expected.unit}".rstrip()
    if expected.at_least is not None:
        return f"at least {format_number(expected.at_least)}{unit}"
    if expected.at_most is not None:
        return f"at most {format_number(expected.at_most)}{unit}"
    value = format_number(expected.value or 0.0)
    if expected.relative is not None:
        return f"{value}{unit} ± {percent(expected.relative)}"
    return f"{value} ± {expected.within:.3g}{unit}"


def coverage_rows(coverage: Coverage | None) -> Rows:
    """Yield the coverage of each group, of each accelerator and metric, and of all cases."""
    if coverage is None:
        return
    tables = coverage.groups, coverage.accelerators, coverage.metrics, {"all": coverage.all}
    for name, group in (item for table in tables for item in table.items()):
        share = "" if group.share is None else percent(group.share)
        width = "" if group.width is None else f"{group.width:.2f}"
        yield name, f"{group.count:,}", f"{group.inside:,}", share, width, f"{group.without:,}"


CLAIMS: Final = ResultTable(
    "Claims of papers and articles",
    ("", "claim", "number", "published", "predicted", "verdict", "source"),
    claim_rows,
)
MISSED: Final = ResultTable(
    "Missed accuracy targets, their likely cause, and the measurement that would decide it",
    ("runs", ">graded", ">mean", "worst", "target and result", "likely cause", "decided by"),
    missed_rows,
)
COVERAGE: Final = ResultTable(
    "Coverage of prediction intervals, each made without the runs of its own source",
    (
        "group",
        ">runs with an interval",
        ">inside",
        ">share",
        ">upper over lower end",
        ">without an interval",
    ),
    lambda answer: coverage_rows(answer.coverage),
)
SERVICE_COVERAGE: Final = ResultTable(
    "Coverage of prediction intervals of services, each made without the runs of its own source",
    ("group", ">numbers with an interval", *COVERAGE.headings[2:]),
    lambda answer: coverage_rows(answer.service_coverage),
)

# --- the page -------------------------------------------------------------------------------------

INTRODUCTION: Final = """# Validation

Measured training runs and the predictions of clustersim for them, printed by `clustersim validate`.

- Errors are those of the metric that the source prints.
- A bias of +5 % means that predicted steps take 5 % longer.
- The mode is the value around which these errors are densest; a few slow runs hardly change it.
- Numbers in brackets are those of a best-constant baseline: one throughput for all devices.
  The constant is the best one for the runs of a group; a group of one run has none.
- Some jobs were measured in several layouts: a tau of 1 means that their order is predicted.
  The loss is the throughput lost by running the layout that is predicted fastest.
- Measured memory is compared separately, and so are runs that are predicted not to fit.
- Each missed accuracy target has its likely cause and the measurement that would decide it.
- A claim holds if each of its numbers is within its tolerance.
- Collectives are compared with curves measured by size and by number of devices.
- The predicted time of a token of inference is divided by cause, for each group.
- Cases that are *not scored* are of low confidence, or lack settings that had to be assumed.
- A table has the fitted coefficients of devices and software, with the data of each fit.
  All others have it in their files in `topologies/`.
"""
"""The text above the tables; one sentence a line."""


def to_markdown(report: Report) -> str:
    """Return all tables as one page of Markdown, the shortest first."""
    answer = report.validation
    tables: list[tuple[ResultTable, Any]] = [
        *((table, answer) for table in (GROUPS, METRICS, TOKENS)),
        (MISSED, report.misses),
        *((table, answer) for table in (FITTED, LAYOUTS, MEMORY)),
        (CLAIMS, report.claims),
        *((table, answer) for table in (CURVES, REASONS, CASES, UNGRADABLE)),
    ]
    sections = [(table, list(table.rows(content))) for table, content in tables]
    for explanation in report.explanations:
        sections += explanation_tables(explanation)
    texts = [section(table, rows) for table, rows in sections if rows]
    covered = [
        section(table, list(table.rows(answer)), f"{line}\n\n")
        for table, line in zip((COVERAGE, SERVICE_COVERAGE), coverage_lines(answer), strict=False)
    ]
    return "\n".join([INTRODUCTION, *texts, *covered])


def section(table: ResultTable, rows: Sequence[Sequence[str]], line: str = "") -> str:
    """Return a table below its title."""
    return f"## {table.title}\n\n{line}{markdown_table(table.headings, rows)}"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; columns with `>` before their heading align right."""
    rule = ["---:" if heading.startswith(">") else "---" for heading in headings]
    lines = [[heading.lstrip(">") for heading in headings], rule]
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
