"""Options and output that several verbs share: run cache, progress bar, tables, output folder.

destination (checked) -> the study runs -> report: write the files, then print
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from clustersim.answers import Presentable
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped, file_name
from clustersim.records import dataclass

if TYPE_CHECKING:
    from clustersim.render.render_process import RenderProcess
    from clustersim.render.tables import Cells, Row
    from clustersim.scenario.load import LoadedScenario
    from clustersim.simulation.expectations import Expectation


STORE: Final = Path("runs") / "studies.db"
"""Default run cache."""

MAX_JOBS: Final = 1_024
"""Maximum number of processes."""

FORMATS: Final = ("png", "svg", "pdf")
"""Formats of static figures."""


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option of a verb; its help states the default, if there is one, in brackets."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=False, **more)


Settings = Annotated[
    list[str] | None,
    option(
        "KEY=VALUE", "Change a value: plan.data=4, cluster.nic.bandwidth=x2. Repeatable.", "--set"
    ),
]
LaunchCluster = Annotated[
    str | None, option("NAME", "Cluster that a launch file runs on, or another one.", "--cluster")
]
LaunchNodes = Annotated[
    int | None, option("N", "Number of its nodes [that of the file].", "--nodes", min=1)
]
LaunchModel = Annotated[
    str | None,
    option("NAME", "Model of a launch file [by the shape in the file].", "--model"),
]
StoreFile = Annotated[Path, typer.Option("--store", metavar="PATH", help="Run cache (SQLite).")]
Jobs = Annotated[
    int | None,
    option("N", "Number of processes [one per core].", min=1, max=MAX_JOBS),
]
Executor = Annotated[
    str | None,
    option(
        "ADDRESS", "Run on a Dask cluster: dask://HOST:PORT, or dask:FILE.yaml for dask-jobqueue."
    ),
]
Out = Annotated[
    Path | None,
    option("PATH", "Output folder [runs/NAME-VERB]."),
]
RunOut = Annotated[
    Path | None,
    option("PATH", "Output folder [runs/NAME]."),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object; write files only with --out."),
]
Figures = Annotated[
    str | None,
    option("FORMATS", "Write all figures in these formats: png,svg,pdf.", "--figures"),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Write to a folder with other files, which are kept."),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit with code 3 if an expectation of the scenario is missed."),
]

MISSED: Final = 3
"""Exit code of a command with `--strict` whose answer misses an expectation."""


def machine_settings(cluster: str | None, nodes: int | None, model: str | None) -> tuple[str, ...]:
    """Return the changes that name a machine and a model."""
    named = {"cluster.name": cluster, "cluster.nodes": nodes, "model": model}
    return tuple(f"{key}={value}" for key, value in named.items() if value is not None)


def print_remarks(remarks: Sequence[str]) -> None:
    """Print lines about an imported launch file to standard error."""
    if remarks:
        echo("\n".join(remarks), file=sys.stderr)


def check_strict(loaded: "LoadedScenario", *, strict: bool) -> None:
    """Reject `--strict` with a scenario that expects nothing."""
    if strict and not loaded.scenario.expect:
        raise ScenarioError(
            f"{loaded.place()}: --strict: the scenario has no section expect"
            " (expect: {memory.fits: true})"
        )


def end_strictly(
    loaded: "LoadedScenario", expectations: "Sequence[Expectation]", *, strict: bool
) -> None:
    """End a command with `--strict` by the expectations that its answer misses, a line for each."""
    missed = [each for each in expectations if strict and not each.held]
    for each in missed:
        where = loaded.where("expect", each.measure)
        echo(f"{where}: missed: {each.why}", file=sys.stderr)
    if missed:
        raise typer.Exit(MISSED)


@contextmanager
def progress_bar(verb: str, store: Path) -> Iterator[Callable[[int, int], None]]:
    """Return a function that shows progress on standard error: a bar, or a line a minute.

    An interrupt ends the command with exit code 130 and a line with the number of completed runs.
    """
    from rich import progress
    from rich.console import Console

    from clustersim.runs.progress import Pace

    console, pace = Console(stderr=True), Pace(verb)
    columns = (
        progress.TextColumn(verb),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
    )
    hidden = not console.is_terminal
    bar = progress.Progress(*columns, console=console, transient=True, disable=hidden)
    task = bar.add_task(verb, total=None, rate="")
    completed, total = 0, 0

    def update(count: int, of: int) -> None:
        nonlocal completed, total
        completed, total = count, of
        speed = bar.tasks[0].speed
        rate = f"{speed:.1f} runs/s" if speed else ""
        bar.update(task, completed=completed, total=total, rate=rate)
        if hidden and pace.due():
            echo(pace.line(completed, total), file=sys.stderr)

    try:
        with bar:
            yield update
    except KeyboardInterrupt:
        echo(
            f"interrupted: {completed:,} of {total:,} runs are in {store};"
            " run the same command again to resume",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


def reject_unused(options: Mapping[str, object], where: str) -> None:
    """Reject options that are given but have no effect on a kind of scenario.

    >>> reject_unused({"--pareto": None}, "a serving scenario")
    """
    for name, value in options.items():
        if value is not None:
            raise ScenarioError(f"{name}: has no effect on {where} (leave it out)")


def figure_formats(figures: str | None) -> tuple[str, ...]:
    """Return the formats of ``--figures``; none if it is not given.

    >>> figure_formats("pdf,png")
    ('pdf', 'png')
    """
    formats = tuple(dict.fromkeys(name.strip() for name in figures.split(","))) if figures else ()
    for name in formats:
        if name not in FORMATS:
            raise ScenarioError(f"--figures {figures}: unknown format '{name}' (png, svg, pdf)")
    return formats


def command_line(
    verb: str, words: "Sequence[str]", **options: "str | int | Path | Sequence[str] | None"
) -> str:
    """Return the command line with some options; an option may have several values, or none.

    >>> command_line("sweep", ["frontier-1t"], set=["plan.zero=0"], by="mfu", pareto=None)
    'clustersim sweep frontier-1t --set plan.zero=0 --by mfu'
    """
    import shlex

    line = ["clustersim", verb, *words]
    for name, given in options.items():
        values = [given] if isinstance(given, str | int | Path) else given or []
        line += [word for value in values for word in (f"--{name}", str(value))]
    return shlex.join(line)


def print_json(answer: object) -> None:
    """Print an answer as one JSON object."""
    import json

    from clustersim.answers import to_json

    echo(json.dumps(to_json(answer), allow_nan=False))


def print_rows(title: str | None, rows: "Sequence[Row]") -> None:
    """Print lines with labels: as a table on a terminal, as plain lines elsewhere."""
    from rich.console import Console

    from clustersim.render import tables

    console = Console()
    if not console.is_terminal:
        echo(*filter(None, [title]), *tables.plain(rows), sep="\n")
        return
    if title:
        console.print(escaped(title), style="bold", markup=False, highlight=False)
    console.print(tables.table(rows))


def print_table(
    cells: "Cells", words: "Collection[str]" = (), styles: Mapping[str, str] | None = None
) -> None:
    """Print a table: with wrapped cells on a terminal, as plain text elsewhere.

    On a terminal that is too narrow for its numbers it is plain text as well.

    Parameters
    ----------
    words : headings of columns that are aligned to the left
    styles : of cells that are highlighted, by their text
    """
    from rich.console import Console

    from clustersim.render.tables import aligned, columned, narrowest

    console = Console()
    if console.is_terminal and cells and narrowest(cells, words) <= console.width:
        console.print(columned(cells, words, styles or {}))
    else:
        echo("\n".join(aligned(cells, words)))


Answer = TypeVar("Answer", bound=Presentable)


@dataclass(frozen=True)
class Destination:
    """Where the answer of a command goes.

    Attributes
    ----------
    folder : output folder; None if only one JSON object is printed
    formats : of the figures in the folder
    as_json : print one JSON object instead of lines
    force : write to a folder with other files, which are kept
    """

    folder: Path | None
    formats: tuple[str, ...]
    as_json: bool
    force: bool

    def report(
        self, answer: Answer, command: str, show: "Callable[[Answer, list[Row]], None]"
    ) -> None:
        """Write the files of an answer, then print it.

        Parameters
        ----------
        command : what made it, for the page
        show : prints the answer as lines, and the row with the names of the files, if any
        """
        written = self.write(answer, command)
        if self.as_json:
            print_json(answer)
        else:
            show(answer, written)

    def write(
        self, answer: Presentable, command: str = "", process: "RenderProcess | None" = None
    ) -> "list[Row]":
        """Write the files of an answer; return the row with their names, if there is a folder.

        Parameters
        ----------
        command : what made it, for the page
        process : draws the figures
        """
        if self.folder is None:
            return []
        from clustersim.render import tables

        names = answer.files(command).write(
            self.folder, formats=self.formats, force=self.force, process=process
        )
        return [tables.files(self.folder, names)]


def destination(
    name: str, out: Path | None, figures: str | None, *, as_json: bool, force: bool
) -> Destination:
    """Return the destination of an answer, its folder checked before anything is run.

    Parameters
    ----------
    name : of the folder in ``runs/`` without ``--out``; ``--json`` alone needs no folder

    Raises
    ------
    ScenarioError
        when a format is unknown, or the folder has other files (unless `force`).
    """
    formats = figure_formats(figures)
    if as_json and out is None:
        return Destination(None, formats, as_json, force)
    from clustersim.render.folder import check_free

    folder = out or Path("runs") / file_name(name)
    check_free(folder, force=force)
    return Destination(folder, formats, as_json, force)
