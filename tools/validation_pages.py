"""The pages of a validation: docs/validation/.

A page has fewer than 40 kB, so that it is read; cases are divided by their accelerator.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from clustersim.render.tables import ResultTable
from clustersim.validation.answer import Validation
from clustersim.validation.outcome import CaseAnswer
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
)
from tools.case_errors import BY_MACHINE, BY_SOFTWARE, NONE, unmeasured
from tools.fitted_coefficients import FITTED
from tools.page import (
    CLAIMS,
    COVERAGE,
    INTRODUCTION,
    MISSED,
    SERVICE_COVERAGE,
    Report,
    section,
)

COMMENT: Final = "<!-- Written by make validation; do not edit by hand. -->\n"

OWN_PAGE: Final = 40
"""Cases of an accelerator from which they have a page of their own."""

MY_CASE: Final = """\
Find the accelerator, the software and the kind of your question in these tables.
They have the errors of measured cases: half of them were smaller than the median, nine of ten smaller than the 90th percentile.
A bias of +5 % means that the median prediction is 5 % slower than its measurement.

- With ten numbers or more in its row, expect errors such as those of the row.
- With fewer, take the row of the accelerator and the kind, over all software.
- Without a row, take the largest errors of similar accelerators, and read [when not to trust a result](../limitations.md).

Each training step also has an [interval](../model/intervals.md) from the cases next to yours, and `clustersim validate --cases` compares [your own runs](../guides/how-wrong-is-it.md#my-own-runs) in the same way.
"""  # noqa: E501
"""The text above the errors; one sentence a line."""


class DocPage(NamedTuple):
    """A page: its file, title, what it holds for the index, its text and its tables with rows."""

    name: str
    title: str
    content: str
    text: str
    tables: Sequence[tuple[ResultTable, Any]]


def pages_of(report: Report) -> Iterator[DocPage]:
    """Yield the pages of a validation after the first one."""
    answer = report.validation

    def page(name: str, title: str, content: str, *tables: ResultTable, text: str = "") -> DocPage:
        return DocPage(f"{name}.md", title, content, text, [(table, answer) for table in tables])

    none = ", ".join(f"`{name}`" for name in unmeasured(answer))
    yield page(
        "my-case", "How right is it for my case?",
        "errors by machine, software and kind of question", BY_MACHINE, BY_SOFTWARE,
        text=f"{MY_CASE}\nAccelerators of the catalogue without a measured case: {none}.\n",
    )  # fmt: skip
    yield from _case_pages(answer)
    yield page(
        "inference", "Inference", "errors by metric, causes of a token's time", METRICS, TOKENS
    )
    yield page("collectives", "Collectives", "measured curves by size and devices", CURVES)
    yield page("memory", "Memory", "measured and predicted peaks", MEMORY)
    yield page("layouts", "Layouts of one job", "whether the order of layouts is right", LAYOUTS)
    yield DocPage(
        "claims.md", "Claims of papers", "numbers of papers with their tolerance", "",
        [(CLAIMS, report.claims)],
    )  # fmt: skip
    yield DocPage(
        "missed-targets.md", "Missed targets", "errors above their target, with likely causes", "",
        [(MISSED, report.misses)],
    )  # fmt: skip
    yield page(
        "fitted-coefficients", "Fitted coefficients", "each with the data of its fit", FITTED
    )
    yield page(
        "coverage", "Coverage of prediction intervals", "how often intervals hold", COVERAGE,
        SERVICE_COVERAGE, text="".join(f"{line}\n" for line in coverage_lines(answer)),
    )  # fmt: skip
    yield page("not-graded", "Cases without a grade", "which cases, and why", REASONS, UNGRADABLE)


def _case_pages(answer: Validation) -> Iterator[DocPage]:
    """Yield the cases of each accelerator that has many, then those of all others."""
    groups = defaultdict[str, list[CaseAnswer]](list)
    for case in answer.cases:
        if case.gradable:
            groups[case.accelerator or NONE].append(case)
    few = {name: cases for name, cases in sorted(groups.items()) if len(cases) < OWN_PAGE}
    for name, cases in sorted(groups.items()):
        if name not in few:
            tables = [(CASES, replace(answer, cases=tuple(cases)))]
            yield DocPage(f"cases-{name}.md", f"Cases of {name}", f"{len(cases)} cases", "", tables)
    tables = [
        (CASES._replace(title=name), replace(answer, cases=tuple(cases)))
        for name, cases in few.items()
    ]
    content = f"{sum(map(len, few.values()))} cases of {len(few)} others"
    yield DocPage("cases-others.md", "Cases of other accelerators", content, "", tables)


def to_pages(report: Report) -> Mapping[str, str]:
    """Return the text of each page by its name."""
    pages = [*pages_of(report)]
    index = [f"| [{page.title}]({page.name}) | {page.content} |" for page in pages]
    table = "\n".join(["| page | content |", "| --- | --- |", *index, ""])
    groups = section(GROUPS, [*GROUPS.rows(report.validation)])
    first, *rest = INTRODUCTION.split("\n\n", 1)
    texts = {"README.md": "\n".join([f"{first}\n", COMMENT, *rest, "## Pages\n", table, groups])}
    for page in pages:
        rows = [(table, [*table.rows(content)]) for table, content in page.tables]
        sections = [section(table, cells) for table, cells in rows if cells]
        head = [f"# {page.title}\n", COMMENT, *filter(None, [page.text])]
        texts[page.name] = "\n".join([*head, *sections])
    return texts


def write_pages(report: Report, folder: Path) -> None:
    """Write all pages into a folder, and delete other pages in it."""
    texts = to_pages(report)
    folder.mkdir(exist_ok=True)
    for file in set(folder.glob("*.md")) - {folder / name for name in texts}:
        file.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
