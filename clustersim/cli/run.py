"""`clustersim run SCENARIO`: the answer in about ten lines, and the files behind it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from clustersim.cli.options import show

if TYPE_CHECKING:
    from clustersim.scenario.load import Loaded
    from clustersim.simulation.simulate import Result


def run(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Change a value: plan.data=4, cluster.nic.bandwidth=x2, batch.global=/2.",
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="Of the pipeline: a name, or a .txt file of steps; as plan.schedule."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files [runs/NAME].", show_default=False)
    ] = None,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Figures as PDF too, and all that they show as CSV."),
    ] = False,
    json_output: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object; write files only with --out."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace --out even if no earlier run wrote it.")
    ] = False,
) -> None:
    """Simulate one training step and tell how long it takes and why."""
    changes = [*(settings or []), *([f"plan.schedule={schedule}"] if schedule else [])]
    if json_output and out is None:
        _print_json(_simulate(scenario, changes))
        return
    place = _Place(out, paper=paper, force=force)
    result, folder = _run_with_files(scenario, changes, place, quiet=json_output)
    if json_output:
        _print_json(result)
    else:
        _show_files(folder)


class _Place(NamedTuple):
    """Where the files go, whether those for papers too, and whatever may be in the way."""

    out: Path | None
    paper: bool
    force: bool


def _simulate(scenario: str, settings: list[str]) -> "Result":
    from clustersim.scenario.load import load

    return _advised(scenario, settings, load(scenario, settings))


def _advised(scenario: str, settings: list[str], loaded: "Loaded") -> "Result":
    """Simulate a scenario; where it does not fit, look for what would make it fit."""
    from clustersim.scenario.load import load
    from clustersim.simulation.advice import advise
    from clustersim.simulation.simulate import simulate

    result = simulate(loaded)
    return advise(result, lambda more: load(scenario, [*settings, *more]))


def _run_with_files(
    scenario: str, settings: list[str], given: _Place, *, quiet: bool
) -> "tuple[Result, Path]":
    """Simulate, tell the answer unless `quiet`, and write the files."""
    from clustersim.studies.run.render_process import Artist

    with Artist() as artist:  # first, so that it gets ready while we load and replay
        from clustersim.render import folder
        from clustersim.scenario.load import load
        from clustersim.studies.run import files as run_files
        from clustersim.studies.run.page import command_line
        from clustersim.studies.run.text import rows

        loaded = load(scenario, settings)
        place = given.out or Path("runs") / loaded.name
        folder.check_free(place, force=given.force)
        result = _advised(scenario, settings, loaded)
        if not quiet:
            show(result.scenario.title, rows(result))
        command = command_line(scenario, settings)
        run_files.write(
            result, loaded, place, artist, command=command, paper=given.paper, force=given.force
        )
    return result, place


def _print_json(result: "Result") -> None:
    from clustersim.answers import to_json

    print(json.dumps(to_json(result.answer), allow_nan=False))


def _show_files(folder: Path) -> None:
    from clustersim.render.tables import plain
    from clustersim.studies.run.text import files

    print(*plain([files(folder)]))
