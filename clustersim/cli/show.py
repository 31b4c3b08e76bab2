"""`clustersim show NAME`: print a machine, model, library, framework, scenario or schedule."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.program.schedules import Schedule
    from clustersim.scenario.entries import Entry
    from clustersim.studies.show.answer import Page

WIDTH = 140
"""Columns of the tables on a file or pipe, which has no width."""


def show(
    name: Annotated[
        str,
        typer.Argument(help="Entry of `clustersim list`, KIND/NAME, or a file."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PATH", help="Output folder [runs/show-NAME]."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use the first N nodes of a cluster [all]."),
    ] = None,
    json_output: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object; files only with --out."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output folder.")
    ] = False,
    stages: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Pipeline stages of a schedule [4].")
    ] = None,
    microbatches: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Microbatches of a schedule [8].")
    ] = None,
    chunks: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Model chunks per stage of a schedule [fewest]."),
    ] = None,
) -> None:
    """Show a catalogue entry: facts with sources, derived quantities, pictures of machines."""
    kind, entry = _resolve(name)
    shape = {"--stages": stages, "--microbatches": microbatches, "--chunks": chunks}
    files = {"--out": out, "--force": force or None}
    if kind == "schedule":
        _reject_options(name, kind, {"--nodes": nodes})
        shaped = stages, microbatches, chunks
        _show_schedule(_schedule(name), shaped, out, json_output, force)
        return
    assert entry is not None
    unused = shape if kind in ("cluster", "node") else {**shape, **files}
    _reject_options(name, kind, unused if kind == "cluster" else {**unused, "--nodes": nodes})
    if kind in ("cluster", "node"):
        folder = None if json_output and out is None else out or _folder(entry)
        _show_machine(entry, nodes, folder, json_output, force)
    else:
        from clustersim.studies.show.answer import page

        _print(page(entry), json_output)


def _resolve(name: str) -> "tuple[str, Entry | None]":
    """Return the kind of an entry, and its file if it has one."""
    from clustersim.program.schedules import SCHEDULES
    from clustersim.scenario.entries import KINDS, entry, entry_of_file, kinds_of

    kind, slash, rest = name.partition("/")
    if slash and kind in (*KINDS, "schedule"):
        if kind != "schedule":
            return kind, entry(kind, rest)
        if rest in SCHEDULES:
            return kind, None
    elif Path(name).suffix == ".txt":
        return "schedule", None
    elif Path(name).suffix in {".yaml", ".yml"} or (slash and Path(name).exists()):
        found = entry_of_file(Path(name))
        return found.kind, found
    elif kinds := kinds_of(name):
        return kinds[0], entry(kinds[0], name)
    elif name in SCHEDULES:
        return "schedule", None
    raise _unknown(rest if kind == "schedule" else name)


def _schedule(name: str) -> "Schedule":
    """Return a schedule by its name, or from a file."""
    from clustersim.program.schedules import SCHEDULES
    from clustersim.program.schedules.written import read_schedule

    known = SCHEDULES.get(name.rpartition("/")[2])
    return read_schedule(Path(name)) if known is None else known


def _unknown(name: str) -> Exception:
    """Return the error for an unknown name, with the nearest name of any kind."""
    import difflib

    from clustersim.catalog.finding import names
    from clustersim.catalog.tree import nearest
    from clustersim.errors import ScenarioError
    from clustersim.program.schedules import SCHEDULES
    from clustersim.scenario.entries import KINDS

    known = {other: kind for kind in reversed(KINDS) for other in names(kind)}
    known |= dict.fromkeys(SCHEDULES, "schedule")
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close and known[close[0]] == "schedule":
        hint = f"{nearest(name, SCHEDULES)} (known: {', '.join(SCHEDULES)})"
        return ScenarioError(f"{name}: unknown schedule{hint}")
    hint = nearest(name, known) or " (see `clustersim list`)"
    return ScenarioError(f"{name}: unknown name{hint}")


def _reject_options(name: str, kind: str, options: dict[str, Any]) -> None:
    """Raise an error for options that do not apply to this kind of entry."""
    from clustersim.errors import ScenarioError

    for option, value in options.items():
        if value is not None:
            raise ScenarioError(f"{option}: does not apply to a {kind} ({name})")


# --- machines ------------------------------------------------------------------------------------


def _folder(entry: "Entry") -> Path:
    return Path("runs") / f"show-{entry.name}"


def _show_machine(
    entry: "Entry", nodes: int | None, folder: Path | None, json_output: bool, force: bool
) -> None:
    """Print the page of a cluster or a node, and write its pictures."""
    from clustersim.render.folder import check_free
    from clustersim.studies.show.answer import machine_page
    from clustersim.studies.show.text import write

    page, pictures = machine_page(entry, nodes)
    if folder is not None:
        check_free(folder, force=force)
    _print(page, json_output)
    if folder is not None:
        write(page, pictures, folder, force=force)
        if not json_output:
            files = ", ".join(f"{stem}.png, .svg and .pdf" for stem in pictures)
            print(f"\npictures in {folder}/: {files}")


def _print(page: "Page", json_output: bool) -> None:
    """Print a page as text, or as one JSON object."""
    if json_output:
        print(json.dumps(page.to_json(), allow_nan=False))
        return
    from rich.console import Console

    from clustersim.studies.show.text import paragraphs, tables

    print(f"{page.kind} {page.name}: {page.title}")
    if page.words:
        print(f"\n{paragraphs(page.words)}")
    console = Console(markup=False, highlight=False)
    for table in tables(page):
        print()
        if console.is_terminal:
            console.print(table)
        else:
            print(_lines(table))


def _lines(table: "Table") -> str:
    """Return a table for a file or a pipe, without trailing spaces."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, width=WIDTH)
    with console.capture() as text:
        console.print(table)
    return "\n".join(line.rstrip() for line in text.get().splitlines())


# --- schedules -----------------------------------------------------------------------------------


def _show_schedule(
    schedule: "Schedule", shape: tuple[int | None, int | None, int | None], out: Path | None,
    json_output: bool, force: bool,
) -> None:  # fmt: skip
    """Print a schedule: one line per stage, its grid in time, and its bubble."""
    from clustersim.errors import ScenarioError
    from clustersim.render.folder import check_free
    from clustersim.studies.show.schedule import FILES, page, replay_schedule, write

    written, least = schedule.shape or (4, 8, 0), schedule.chunks[0]
    stages, microbatches, chunks = (
        given or usual for given, usual in zip(shape, (*written[:2], least), strict=True)
    )
    if problem := schedule.misfit(stages, microbatches, chunks):
        raise ScenarioError(f"{schedule.name}: {problem}")
    shown = replay_schedule(schedule, stages, microbatches, chunks)
    if json_output:
        head = {"name": schedule.name, "kind": "schedule", "title": schedule.title, "facts": []}
        print(json.dumps({**head, "derived": shown.to_json()}))
    if json_output and out is None:
        return
    folder = out or Path("runs") / f"show-{Path(schedule.name).stem}"
    check_free(folder, force=force)
    if not json_output:
        print(page(shown))
    write(shown, folder, force=force)
    if not json_output:
        print(f"#\n# files in {folder}/: {', '.join(FILES)}")
