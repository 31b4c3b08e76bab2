"""`clustersim search SCENARIO`: the best layout that fits in memory, with proof."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import clustersim
from clustersim.cli.options import command_line, option, print_rows, print_table
from clustersim.cli.output import echo
from clustersim.cli.studies import LIMIT_HELP, MEASURE_HELP, StudyOptions, study_options
from clustersim.errors import ScenarioError
from clustersim.units import parse_number

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.search import SearchAnswer
    from clustersim.studies.search.loop import Progress

Free = Annotated[
    list[str] | None,
    option(
        "KEY[=VALUES]",
        "Search another key (framework, precision=bf16,fp8), or only these values of a key of"
        " the layout (plan.tensor=1:8). Repeatable.",
        "--free",
    ),
]
Limit = Annotated[
    list[str] | None,
    option(
        "LIMIT",
        f"{LIMIT_HELP} Or of a key of a layout: plan.tensor<=8. Repeatable.",
        "--limit",
    ),
]


Devices = Annotated[
    int | None,
    option("N", "Number of devices, of a service the most [those of the scenario]."),
]
Objective = Annotated[
    str | None,
    option(
        "MEASURE",
        f"Measure that is best: {MEASURE_HELP} [tokens_per_s, of a service per device; of a shared"
        " machine slowdown_mean].",
    ),
]
Gap = Annotated[
    str, typer.Option(metavar="SHARE", help="Stop when no layout can be better by more: 2%.")
]
Seconds = Annotated[
    float | None, option("S", "End after this time with the best so far [s].", min=0.0)
]
BestFile = Annotated[
    Path | None,
    option("PATH", "Write the best layout as a scenario file.", "-o"),
]
Program = Annotated[
    str | None,
    option(
        "PROGRAM",
        "Search layouts that megatron, megatron-bridge, torchtitan, deepspeed or accelerate can"
        " launch; print the arguments of the best.",
        "--as",
    ),
]


@study_options
def search(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    study: StudyOptions,
    devices: Devices = None,
    objective: Objective = None,
    free: Free = None,
    limit: Limit = None,
    gap: Gap = "0",
    seconds: Seconds = None,
    best_file: BestFile = None,
    program: Program = None,
) -> None:
    """Find the best layout that fits in memory, with proof.

    All layouts that divisibility allows are bounded; those that could be the best are replayed.
    Of a shared machine these are the rules for the nodes of its jobs. Keys of the layout that
    --set changes are fixed. An interrupted search resumes when the same command is run again.
    """
    from clustersim.catalog.writing import check_new

    share = _share(gap)
    if best_file is not None:
        check_new(best_file, force=study.force)
    place = study.destination("search", [scenario])
    command = command_line(
        "search",
        [scenario],
        devices=devices,
        objective=objective,
        free=free,
        limit=limit,
        gap=gap if share else None,
        set=study.changes,
    )
    with _progress(study.store) as update:
        answer = clustersim.search(
            scenario,
            devices=devices,
            objective=objective,
            free=free or (),
            limits=limit or (),
            program=program,
            gap=share,
            seconds=seconds,
            on_progress=update,
            **study.execution(),
        )
    _write_best(best_file, answer, command, force=study.force)
    place.report(answer, command, partial(_show, program))


def _write_best(file: Path | None, answer: "SearchAnswer", command: str, *, force: bool) -> None:
    """Write the scenario of the best layout, if any fits, with the command that found it."""
    if file is None or answer.scenario is None:
        return
    from clustersim.catalog.writing import write_new
    from clustersim.studies.search.files import scenario_text

    write_new(file, scenario_text(answer.scenario, answer.gap, command), force=force)


def _show(program: str | None, answer: "SearchAnswer", written: "list[Row]") -> None:
    """Print the answer in lines, the best layouts as a table, and what launches the best."""
    from clustersim.studies.search.text import layout_table, rows, rule_rows
    from clustersim.units import counted

    print_rows(answer.title, [*rows(answer), *rule_rows(answer), *written])
    if table := layout_table(answer):
        echo(f"\n{counted(len(table) - 1, 'best layout')}:")
        print_table(table, ["layout"])
    if program is not None and answer.scenario is not None:
        from clustersim.exporters.arguments import argument_lines, launch_of, layout_arguments
        from clustersim.scenario.load import from_mapping

        best = from_mapping(answer.name, answer.scenario)
        echo(f"\nlaunch arguments of {best.scenario.framework.name}:")
        arguments = layout_arguments(best, launch_of(best, program))
        echo("\n".join(argument_lines(arguments)))


def _share(gap: str) -> float:
    """Return a share of 1 from ``2%``, ``2 %`` or ``0.02``.

    >>> _share("2%"), _share("0.02")
    (0.02, 0.02)
    """
    text = gap.strip()
    try:
        value = parse_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
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
    from clustersim.studies.search.loop import progress_note

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
