"""`clustersim validate`: every measured case, predicted and measured, with the error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import (
    Executor,
    Figures,
    Force,
    Jobs,
    command_line,
    figure_formats,
    option,
    print_json,
)
from clustersim.cli.output import echo, print_tables

if TYPE_CHECKING:
    from clustersim.validation.answer import Validation


def validate(
    cases: Annotated[
        Path | None,
        option("PATH", "YAML list of measured cases [the shipped ones]."),
    ] = None,
    group: Annotated[
        list[str] | None,
        option("PATTERN", "Only cases of this group. Repeatable."),
    ] = None,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Annotated[
        Path | None,
        option("PATH", "Output folder [none]."),
    ] = None,
    figures: Figures = None,
    force: Force = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare predictions with every measured case."""
    from clustersim.render.folder import check_free
    from clustersim.validation.answer import validate as validated

    formats = figure_formats(figures)
    if out is not None:
        check_free(out, force=force)
    with _progress_bar() as on_progress:
        answer = validated(
            cases,
            group or [],
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    if out is not None:
        command = command_line("validate", [], cases=cases, group=group)
        answer.files(command).write(out, formats=formats, force=force)
    if json_output:
        print_json(answer)
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
    from clustersim.validation.text import coverage_lines, validation_tables

    if not answer.cases:
        echo("no cases")
        return
    print_tables(validation_tables(answer))
    for line in coverage_lines(answer):
        echo(line)
