"""`clustersim validate`: every measured case, predicted, measured and the error."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustersim.cli.options import Figures, figure_formats

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.metrics.prediction_interval import MeasuredRuns
    from clustersim.validation.validate import Validation

WIDTH = 160
"""Columns of the tables where they go to a file or a pipe, which have no width."""


def validate(
    cases: Annotated[
        Path | None,
        typer.Option("--cases", help="YAML list of measured cases; the shipped ones without it."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Only cases of this group or pattern; may be repeated."),
    ] = None,
    claims: Annotated[
        bool,
        typer.Option("--claims", help="The claims of papers too, beside the cases of some groups."),
    ] = False,
    intervals: Annotated[
        Path | None,
        typer.Option("--intervals", help="Update prediction-interval data in PATH."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes to run cases in.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for tables and figures; none without it.")
    ] = None,
    figures: Figures = None,
    force: Annotated[bool, typer.Option("--force", help="Write over whatever is there.")] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown.")
    ] = False,
) -> None:
    """Run every measured case and tell how far the prediction is off."""
    from clustersim.catalog.finding import shipped
    from clustersim.errors import ScenarioError
    from clustersim.render.folder import check_free
    from clustersim.validation.cases.cases import read_cases

    if json_output and markdown:
        raise ScenarioError("--json, --markdown: one or the other")
    formats = figure_formats(figures)
    if out is not None:
        check_free(out, force=force)
    entries = read_cases(cases or shipped("validation") / "cases.yaml")
    earlier = _earlier(intervals)
    validation = _validated(entries, group or [], jobs)
    if intervals is not None:
        validation = _with_spread(validation, intervals, earlier if cases or group else [])
    if cases is None:
        validation = _with_unreached(validation, whole=not group)
    if claims or (cases is None and not group):
        validation = _with_claims(validation, jobs)
    if cases is None and not group:
        validation = _with_curves(validation)
    answer = validation.to_json()
    if out is not None:
        from clustersim.validation.files import write

        write(answer, out, formats=formats, force=force)
    _answer(answer, as_json=json_output, as_markdown=markdown)
    if out is not None and not (json_output or markdown):
        print(f"\n{out}/")


def _answer(answer: dict[str, Any], *, as_json: bool, as_markdown: bool) -> None:
    """Print the answer in the form that is asked for."""
    if as_json:
        print(json.dumps(answer, allow_nan=False))
    elif as_markdown:
        from clustersim.validation.text import to_markdown

        print(to_markdown(answer), end="")
    else:
        _show(answer)


def _earlier(file: Path | None) -> "list[MeasuredRuns]":
    """Return the runs that stand in a file, before others are run for minutes."""
    from clustersim.validation.interval_data import earlier_runs

    return [] if file is None else earlier_runs(file)


def _with_spread(
    validation: "Validation", file: Path, earlier: "list[MeasuredRuns]"
) -> "Validation":
    """Write how far off predictions are, and judge the intervals by that."""
    from dataclasses import replace

    from clustersim.validation.interval_data import renewed, write_spread

    write_spread(file, renewed(earlier, validation.outcomes))
    return replace(validation, runs=tuple(_earlier(file)))


def _with_unreached(validation: "Validation", *, whole: bool) -> "Validation":
    """Tell what is promised of shipped cases and not reached, of all of them or of some groups."""
    from dataclasses import replace

    from clustersim.validation.missed_targets import findings, read_unreached

    found = findings(read_unreached(), validation.outcomes, whole=whole)
    return replace(validation, unreached=tuple(found))


def _with_claims(validation: "Validation", jobs: int) -> "Validation":
    from dataclasses import replace

    from clustersim.runs.executors import workers
    from clustersim.validation.claims.verdicts import judge_all

    with workers(jobs) as executor:
        verdicts = judge_all(executor)
    return replace(validation, claims=tuple(verdict.to_json() for verdict in verdicts))


def _with_curves(validation: "Validation") -> "Validation":
    from dataclasses import replace

    from clustersim.validation.curves import grade_curves, read_curves

    return replace(validation, curves=tuple(grade_curves(read_curves())))


def _validated(entries: list[Any], groups: list[str], jobs: int) -> "Validation":
    """Run the cases, with a bar on the terminal while it takes."""
    from rich.console import Console
    from rich.progress import Progress

    from clustersim.runs.executors import workers
    from clustersim.validation import validate as study

    count = len(study.select(entries, groups))
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("cases", total=count)

        def advance() -> None:
            bar.advance(task)

        with workers(jobs) as executor:
            return study.validate(entries, groups, executor, advance)


def _show(answer: dict[str, Any]) -> None:
    """Print the cases, the groups, and what cannot be graded."""
    from rich.console import Console

    from clustersim.validation.coverage_text import coverage_line
    from clustersim.validation.text import for_terminal

    piped = not sys.stdout.isatty()
    console = Console(markup=False, highlight=False, width=WIDTH if piped else None)
    if not answer["cases"]:
        console.print("no cases")
    for table, rows in for_terminal(answer):
        made = drawn(table.title, table.headings)
        for row in rows:
            made.add_row(*row)
        console.print(made)
    if answer["cases"]:
        console.print(coverage_line(answer["coverage"]), highlight=False)


def drawn(title: str, headings: tuple[str, ...]) -> "Table":
    """Return a table without rows; headings of numbers begin with ``>``."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in headings:
        words = not heading.startswith(">")
        table.add_column(heading.lstrip(">"), justify="left" if words else "right")
    return table
