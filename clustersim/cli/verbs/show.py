"""`clustersim show NAME`: print a machine, model, library, framework, scenario or schedule.

Several schedules are compared on one time axis.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustersim.cli.options import AsJson, Figures, Force, figure_formats, option, print_json
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError
from clustersim.escaping import file_name

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.program.schedules import Schedule
    from clustersim.reports.show.answer import Page
    from clustersim.scenario.entries import Entry

WIDTH = 140
"""Columns of the tables on a file or pipe, which has no width."""


def show(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="Entry of `clustersim list`, KIND/NAME, or a file; or several schedules.",
        ),
    ],
    out: Annotated[
        Path | None,
        option("PATH", "Output folder [runs/show-NAME with --figures].", "--out", "-o"),
    ] = None,
    nodes: Annotated[
        int | None,
        option("N", "Use the first N nodes of a cluster [all].", min=1, max=4194304),
    ] = None,
    json_output: AsJson = False,
    figures: Figures = None,
    force: Force = False,
    stages: Annotated[
        int | None,
        option("N", "Pipeline stages of a schedule [4].", min=1, max=4096),
    ] = None,
    microbatches: Annotated[
        int | None,
        option("N", "Microbatches of a schedule [8].", min=1, max=65536),
    ] = None,
    chunks: Annotated[
        int | None,
        option("N", "Model chunks per stage of a schedule [fewest].", min=1, max=64),
    ] = None,
) -> None:
    """Show a catalogue entry: facts with sources, derived quantities, pictures of machines."""
    from clustersim.reports.show.answer import page
    from clustersim.reports.show.text import find_entry, find_schedule

    name, formats = ", ".join(names), figure_formats(figures)
    entry = find_entry(name) if len(names) == 1 else None
    if entry is None:
        _reject_options(name, "schedule", {"--nodes": nodes})
        shaped = stages, microbatches, chunks
        if len(names) == 1:
            folder = _folder(Path(name).stem, out, formats, json_output)
            _show_schedule(find_schedule(name), shaped, folder, formats, json_output, force)
        else:
            folder = _folder("schedules", out, formats, json_output)
            _compare_schedules(names, shaped, folder, formats, json_output, force)
        return
    shape = {"--stages": stages, "--microbatches": microbatches, "--chunks": chunks}
    files = {"--out": out, "--figures": figures, "--force": force or None}
    machine = entry.kind in ("cluster", "node")
    unused = shape if machine else {**shape, **files}
    _reject_options(
        name, entry.kind, unused if entry.kind == "cluster" else {**unused, "--nodes": nodes}
    )
    if machine:
        folder = _folder(entry.name, out, formats, json_output)
        _show_machine(entry, nodes, folder, formats, json_output, force)
    else:
        _print(page(entry), json_output)


def _folder(name: str, out: Path | None, formats: Sequence[str], json_output: bool) -> Path | None:
    """Return the output folder; none unless files are requested."""
    if out is None and formats and not json_output:
        return Path("runs") / f"show-{file_name(name)}"
    return out


def _reject_options(name: str, kind: str, options: dict[str, Any]) -> None:
    """Raise an error for options that do not apply to this kind of entry."""
    for flag, value in options.items():
        if value is not None:
            raise ScenarioError(f"{flag}: does not apply to a {kind} ({name})")


def _show_machine(
    entry: "Entry", nodes: int | None, folder: Path | None, formats: Sequence[str],
    json_output: bool, force: bool,
) -> None:  # fmt: skip
    """Print the page of a cluster or a node, and write its files."""
    from clustersim.reports.show import text
    from clustersim.reports.show.answer import machine_page

    shown, pictures = machine_page(entry, nodes)
    _print(shown, json_output)
    if folder is not None:
        names = text.write(shown, pictures, folder, formats=formats, force=force)
        if not json_output:
            echo(f"\nfiles in {folder}/: {', '.join(names)}")


def _print(shown: "Page", json_output: bool) -> None:
    """Print a page as text, or as one JSON object."""
    from rich.console import Console

    from clustersim.reports.show import text

    if json_output:
        print_json(shown.answer)
        return
    echo(f"{shown.answer.kind} {shown.answer.name}: {shown.answer.title}")
    console = Console(markup=False, highlight=False)
    for table in text.tables(shown):
        echo()
        if console.is_terminal:
            console.print(table)
        else:
            echo(_lines(table))


def _lines(table: "Table") -> str:
    """Return a table for a file or a pipe, without trailing spaces."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, width=WIDTH)
    with console.capture() as lines:
        console.print(table)
    return "\n".join(line.rstrip() for line in lines.get().splitlines())


def _show_schedule(
    steps: "Schedule", shape: tuple[int | None, int | None, int | None], folder: Path | None,
    formats: Sequence[str], json_output: bool, force: bool,
) -> None:  # fmt: skip
    """Print a schedule: one line per stage, its grid in time, and its bubble."""
    from clustersim.answers import to_json
    from clustersim.reports.show import schedule
    from clustersim.reports.show.answer import EntryAnswer

    written, least = steps.shape or (4, 8, 0), steps.chunks[0]
    stages, microbatches, chunks = (
        given or usual for given, usual in zip(shape, (*written[:2], least), strict=True)
    )
    if problem := steps.misfit(stages, microbatches, chunks):
        raise ScenarioError(f"{steps.name}: {problem}")
    shown = schedule.replay_schedule(steps, stages, microbatches, chunks)
    if json_output:
        derived = to_json(shown.answer)
        print_json(EntryAnswer(steps.name, "schedule", steps.title, (), derived))
    else:
        echo(schedule.page(shown))
    if folder is not None:
        names = schedule.write(shown, folder, formats=formats, force=force)
        if not json_output:
            echo(f"#\n# files in {folder}/: {', '.join(names)}")


def _compare_schedules(
    names: Sequence[str], shape: tuple[int | None, int | None, int | None], folder: Path | None,
    formats: Sequence[str], json_output: bool, force: bool,
) -> None:  # fmt: skip
    """Print schedules of one shape as a table, and draw them on one time axis."""
    from clustersim.reports.show import schedules
    from clustersim.reports.show.text import find_schedules

    stages, microbatches, chunks = shape
    replayed = schedules.replay_schedules(
        find_schedules(names), stages or 4, microbatches or 8, chunks
    )
    answer = schedules.answer_of(replayed)
    print_json(answer) if json_output else echo(schedules.text(answer))
    if folder is not None:
        files = schedules.write(replayed, folder, formats=formats, force=force)
        if not json_output:
            echo(f"\nfiles in {folder}/: {', '.join(files)}")
