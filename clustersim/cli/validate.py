"""`clustersim validate`: every measured case, predicted and measured, with the error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import Executor, Figures, Force, Jobs, figure_formats, print_json
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.validation.answer import Validation

WIDTH = 160
"""Columns of the tables in a file or a pipe, which have no width."""


def validate(
    cases: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="YAML list of measured cases [the shipped ones]."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only cases of this group. Repeatable."),
    ] = None,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Explain the missing time of this group, or of these cases. Repeatable.",
        ),
    ] = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="Claims of papers as well, for --cases or --group.")
    ] = False,
    intervals: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Update prediction-interval data in PATH."),
    ] = None,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Output folder [none]."),
    ] = None,
    figures: Figures = None,
    force: Force = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown.")
    ] = False,
) -> None:
    """Compare predictions with every measured case."""
    from clustersim.render.folder import check_free
    from clustersim.validation import files, text
    from clustersim.validation.answer import validate as validated

    if json_output and markdown:
        raise ScenarioError("--json, --markdown: use one of them")
    formats = figure_formats(figures)
    if out is not None:
        check_free(out, force=force)
    with _progress_bar() as on_progress:
        answer = validated(
            cases,
            group or [],
            explained=explain or [],
            claims=claims,
            intervals=intervals,
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    if out is not None:
        files.write_validation(answer, out, formats=formats, force=force)
    if json_output:
        print_json(answer)
    elif markdown:
        echo(text.to_markdown(answer), end="")
    else:
        _show(answer)
        if out is not None:
            echo(f"\n{out}/")


@contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None]]:
    """Give a function that shows on the terminal how many cases are finished, of how many."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("cases", total=None)
        yield lambda finished, total: bar.update(task, completed=finished, total=total)


def _show(answer: "Validation") -> None:
    """Print the tables that have rows, then the coverage of prediction intervals."""
    from rich.console import Console

    from clustersim.validation import text
    from clustersim.validation.result_tables import coverage_line

    piped = not sys.stdout.isatty()
    console = Console(markup=False, highlight=False, width=WIDTH if piped else None)
    if not answer.cases:
        console.print("no cases")
        return
    for table, rows in text.validation_tables(answer):
        grid = make_grid(table.title, table.headings)
        for row in rows:
            grid.add_row(*map(escaped, row))
        console.print(grid)
    console.print(coverage_line(answer.coverage), highlight=False)


def make_grid(title: str, headings: tuple[str, ...]) -> "Table":
    """Return a table without rows; headings of numbers begin with ``>``."""
    from rich.table import Table

    grid = Table(title=title, title_justify="left")
    for heading in headings:
        grid.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left")
    return grid
