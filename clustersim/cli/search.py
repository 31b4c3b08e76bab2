"""`clustersim search SCENARIO`: the best layout that fits in memory, with proof."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import clustersim
from clustersim.cli.options import (
    STORE,
    AsJson,
    Executor,
    Figures,
    Force,
    Jobs,
    Out,
    Settings,
    StoreFile,
    command_line,
    figure_formats,
    output_folder,
    print_json,
    print_rows,
    print_table,
    progress_bar,
)
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError

if TYPE_CHECKING:
    from clustersim.studies.search import SearchAnswer
    from clustersim.studies.search.best_first import Progress

DEFAULT_OBJECTIVE: Final = "tokens_per_s"

Free = Annotated[
    list[str] | None,
    typer.Option(
        "--free",
        metavar="KEY[=VALUES]",
        help="Search another key (framework, precision=bf16,fp8), or only these values of a key of"
        " the layout (plan.tensor=1:8). Repeatable.",
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="LIMIT",
        help="Limit: memory<=70GiB, plan.tensor<=8; of a mean time of a service:"
        " tpot=50ms, ttft=2s. Repeatable.",
    ),
]


def search(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    devices: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of devices, of a service the most [those of the scenario]."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="Measure that is best: mfu, step_time_s, ...; of a service"
            " tokens_per_s_per_device, tpot, devices, ... [tokens_per_s, of a service per device].",
            show_default=False,
        ),
    ] = None,
    free: Free = None,
    limit: Limit = None,
    gap: Annotated[
        str, typer.Option(metavar="SHARE", help="Stop when no layout can be better by more: 2%.")
    ] = "0",
    seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0.0, help="Stop after this time [s].")
    ] = None,
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    best_file: Annotated[
        Path | None,
        typer.Option("-o", metavar="PATH", help="Write the best layout as a scenario file."),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="PROGRAM",
            help="Search layouts that megatron, torchtitan or deepspeed can launch; print the"
            " arguments of the best.",
        ),
    ] = None,
    out: Out = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find the best layout that fits in memory, with proof.

    All layouts that divisibility allows are bounded; those that could be the best are replayed.
    Keys of the layout that --set changes are fixed. An interrupted search resumes when the same
    command is run again.
    """
    from clustersim.catalog.writing import check_new, write_new
    from clustersim.render.study_folder import write_study
    from clustersim.scenario.load import from_mapping, is_service, name_of
    from clustersim.studies.search.best_scenario import scenario_text
    from clustersim.studies.search.files import files_of
    from clustersim.studies.search.launch import launch_arguments, launch_text

    formats, share = figure_formats(figures), _share(gap)
    if best_file is not None:
        check_new(best_file, force=force)
    place = output_folder("search", name_of(scenario), out, json_output=as_json, force=force)
    if is_service(scenario):
        if program is not None:
            raise ScenarioError("--as: has no effect on a serving scenario (leave it out)")
        given: dict[str, Any] = {
            "devices": devices,
            "objective": objective or "tokens_per_s_per_device",
        }
        given |= {"free": free or (), "limits": limit or (), "settings": settings or ()}
        executed = {"gap": share, "seconds": seconds, "jobs": jobs, "executor": executor}
        command = command_line(
            "search", [scenario], devices=devices, objective=objective, free=free, limit=limit,
            set=settings,
        )  # fmt: skip
        _search_services(scenario, store, given | executed, command, place, best_file, as_json)
        return
    objective = objective or DEFAULT_OBJECTIVE
    with _progress(store) as on_progress:
        answer = clustersim.search(
            scenario,
            devices=devices,
            objective=objective,
            free=free or (),
            limits=limit or (),
            settings=settings or (),
            program=program,
            gap=share,
            seconds=seconds,
            store=store,
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    files: list[str] = []
    measure = None if objective == DEFAULT_OBJECTIVE else objective
    command = command_line(
        "search",
        [scenario],
        devices=devices,
        objective=measure,
        free=free,
        limit=limit,
        gap=gap if share else None,
        set=settings,
    )
    if best_file is not None and answer.scenario is not None:
        write_new(best_file, scenario_text(answer, command), force=force)
    if place is not None:
        contents = files_of(answer, command)
        files = write_study(answer, contents, place, formats=formats, force=force)
    if as_json:
        print_json(answer)
        return
    _print(answer, place, files)
    if program is not None and answer.scenario is not None:
        best = from_mapping(answer.name, answer.scenario)
        echo(f"\nlaunch arguments of {best.scenario.framework.name}:")
        echo(launch_text(launch_arguments(best, program)))


def _search_services(
    scenario: str,
    store: Path,
    arguments: dict[str, Any],
    command: str,
    place: Path | None,
    best_file: Path | None,
    as_json: bool,
) -> None:
    """Search the best layout of a service; `arguments` are those of `search_services`."""
    from clustersim.catalog.writing import to_yaml, write_new
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.studies.service_search.files import files_of
    from clustersim.studies.service_search.text import found_table, rows

    with progress_bar("search", store) as on_progress:
        answer = clustersim.search_services(
            scenario, store=store, on_progress=on_progress, **arguments
        )
    if best_file is not None and answer.scenario is not None:
        text = to_yaml(dict(answer.scenario), [f"The best layout of `{command}`."])
        write_new(best_file, text, force=True)
    lines = rows(answer)
    if place is not None:
        files = write_study(answer, files_of(answer, command), place, force=True)
        lines.append(tables.files(place, files))
    if as_json:
        print_json(answer)
        return
    print_rows(answer.title, lines)
    if table := found_table(answer):
        echo(f"\n{len(table) - 1} best layouts:")
        print_table(table, ["layout"])


def _print(answer: "SearchAnswer", place: Path | None, files: list[str]) -> None:
    """Print the answer in lines, then the best layouts as a table."""
    from clustersim.render import tables
    from clustersim.studies.search.text import layout_table, rows

    lines = rows(answer)
    if place is not None:
        lines.append(tables.files(place, files))
    print_rows(answer.title, lines)
    if table := layout_table(answer):
        echo(f"\n{len(table) - 1} best layouts:")
        print_table(table)


def _share(gap: str) -> float:
    """Return a share of 1 from ``2%``, ``2 %`` or ``0.02``.

    >>> _share("2%"), _share("0.02")
    (0.02, 0.02)
    """
    text = gap.strip()
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise ScenarioError(f"--gap {gap}: is not a share of 1 (2%, or 0.02)")
    return value


@contextmanager
def _progress(store: Path) -> Iterator[Callable[["Progress"], None]]:
    """Return a function that shows progress on standard error: a line in place, or one a minute.

    An interrupt ends the command with exit code 130.
    """
    from rich.console import Console

    from clustersim.runs.progress import Pace
    from clustersim.studies.search.best_first import progress_note

    console, paces = Console(stderr=True), {False: Pace("search", "bounds")}
    computed = 0

    try:
        with console.status("search: possible layouts") as status:

            def update(progress: "Progress") -> None:
                nonlocal computed
                computed = progress.computed
                pace = paces.setdefault(progress.bounded, Pace("search", "layouts"))
                line = pace.line(progress.examined, progress.ahead, progress_note(progress))
                status.update(line)
                if not console.is_terminal and pace.due():
                    echo(line, file=sys.stderr)

            yield update
    except KeyboardInterrupt:
        echo(
            f"interrupted: {computed:,} completed replays are in {store}; run the same command"
            " again to resume (--seconds S ends with the best so far)",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


__all__ = ["search"]
