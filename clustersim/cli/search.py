"""`clustersim search SCENARIO`: the best layout that fits in memory, with proof."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import clustersim
from clustersim.cli.destination import destination
from clustersim.cli.options import (
    STORE,
    AsJson,
    Execution,
    Executor,
    Figures,
    Force,
    Jobs,
    Out,
    Settings,
    StoreFile,
    command_line,
    print_rows,
    print_table,
    progress_bar,
    reject_unused,
)
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.search import SearchAnswer
    from clustersim.studies.search.best_first import Progress
    from clustersim.studies.service_search import ServiceSearch

DEFAULT_OBJECTIVE: Final = "tokens_per_s"
DEFAULT_OF_SERVICE: Final = "tokens_per_s_per_device"

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


Devices = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Number of devices, of a service the most [those of the scenario]."
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        metavar="MEASURE",
        help="Measure that is best: mfu, step_time_s, ...; of a service"
        " tokens_per_s_per_device, tpot, devices, ... [tokens_per_s, of a service per device].",
        show_default=False,
    ),
]
Gap = Annotated[
    str, typer.Option(metavar="SHARE", help="Stop when no layout can be better by more: 2%.")
]
Seconds = Annotated[
    float | None, typer.Option(metavar="S", min=0.0, help="Stop after this time [s].")
]
BestFile = Annotated[
    Path | None,
    typer.Option("-o", metavar="PATH", help="Write the best layout as a scenario file."),
]
Program = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="PROGRAM",
        help="Search layouts that megatron, torchtitan or deepspeed can launch; print the"
        " arguments of the best.",
    ),
]


def search(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    devices: Devices = None,
    objective: Objective = None,
    free: Free = None,
    limit: Limit = None,
    gap: Gap = "0",
    seconds: Seconds = None,
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    best_file: BestFile = None,
    program: Program = None,
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
    from clustersim.catalog.writing import check_new
    from clustersim.scenario.load import is_service, name_of

    given: dict[str, Any] = {
        "devices": devices,
        "free": free or (),
        "limits": limit or (),
        "settings": settings or (),
        "gap": _share(gap),
        "seconds": seconds,
    }
    if best_file is not None:
        check_new(best_file, force=force)
    place = destination(f"{name_of(scenario)}-search", out, figures, as_json=as_json, force=force)
    serving = is_service(scenario)
    usual = DEFAULT_OF_SERVICE if serving else DEFAULT_OBJECTIVE
    measure = objective or usual
    command = command_line(
        "search",
        [scenario],
        devices=devices,
        objective=None if measure == usual else measure,
        free=free,
        limit=limit,
        gap=gap if given["gap"] else None,
        set=settings,
    )
    how = Execution(store=store, jobs=jobs, executor=executor)
    if serving:
        reject_unused({"--as": program}, "a serving scenario")
        from clustersim.studies.service_search import files as service_files

        with progress_bar("search", store) as on_progress:
            services = clustersim.search_services(
                scenario, objective=measure, on_progress=on_progress, **given, **how
            )
        _write_best(best_file, services, command, force=force)
        place.report(services, partial(service_files.files_of, services, command), _show_services)
        return
    from clustersim.studies.search import files

    with _progress(store) as update:
        answer = clustersim.search(
            scenario, objective=measure, program=program, on_progress=update, **given, **how
        )
    _write_best(best_file, answer, command, force=force)
    place.report(answer, partial(files.files_of, answer, command), partial(_show, program))


def _write_best(
    file: Path | None, answer: "SearchAnswer | ServiceSearch", command: str, *, force: bool
) -> None:
    """Write the scenario of the best layout, if any fits, with the command that found it."""
    if file is None or answer.scenario is None:
        return
    from clustersim.catalog.writing import write_new
    from clustersim.studies.search.best_scenario import scenario_text

    write_new(file, scenario_text(answer.scenario, answer.gap, command), force=force)


def _show_services(answer: "ServiceSearch", written: "list[Row]") -> None:
    """Print the answer in lines, then the best layouts of a service as a table."""
    from clustersim.studies.service_search.text import found_table, rows

    print_rows(answer.title, [*rows(answer), *written])
    if table := found_table(answer):
        echo(f"\n{len(table) - 1} best layouts:")
        print_table(table, ["layout"])


def _show(program: str | None, answer: "SearchAnswer", written: "list[Row]") -> None:
    """Print the answer in lines, the best layouts as a table, and what launches the best."""
    from clustersim.studies.search.text import layout_table, rows

    print_rows(answer.title, [*rows(answer), *written])
    if table := layout_table(answer):
        echo(f"\n{len(table) - 1} best layouts:")
        print_table(table)
    if program is not None and answer.scenario is not None:
        from clustersim.scenario.load import from_mapping
        from clustersim.studies.search.launch import launch_arguments, launch_text

        best = from_mapping(answer.name, answer.scenario)
        echo(f"\nlaunch arguments of {best.scenario.framework.name}:")
        echo(launch_text(launch_arguments(best, program)))


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
