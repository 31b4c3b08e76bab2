"""`clustersim run SCENARIO`: print the result in about ten lines, and write the files behind it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from clustersim.cli.options import Figures, figure_formats, show

if TYPE_CHECKING:
    from clustersim.simulation.simulate import Result


def run(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or name of a shipped scenario.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a value: plan.data=4, cluster.nic.bandwidth=x2.",
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Pipeline schedule, or a .txt file of steps; as plan.schedule."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Output folder [runs/NAME].", show_default=False),
    ] = None,
    figures: Figures = None,
    json_output: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object; write files only with --out."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output folder.")
    ] = False,
) -> None:
    """Simulate one training step: step time, its components, memory."""
    changes = [*(settings or []), *([f"plan.schedule={schedule}"] if schedule else [])]
    output = _Output(out, figure_formats(figures), force=force)
    if json_output and out is None:
        _print_json(_simulate(scenario, changes))
        return
    result, folder = _run_with_files(scenario, changes, output, quiet=json_output)
    if json_output:
        _print_json(result)
    else:
        _show_files(folder)


class _Output(NamedTuple):
    """The output folder, the formats of the figures, and whether an existing one is replaced."""

    folder: Path | None
    formats: tuple[str, ...]
    force: bool


def _simulate(scenario: str, settings: list[str]) -> "Result":
    from clustersim.simulation.simulate import simulate

    return simulate(scenario, settings, advise=True)


def _run_with_files(
    scenario: str, settings: list[str], output: _Output, *, quiet: bool
) -> "tuple[Result, Path]":
    """Simulate, print the result unless `quiet`, and write the files."""
    from clustersim.render.matplotlib.figure import warm_up
    from clustersim.render.render_process import RenderProcess

    with RenderProcess(warm_up) as process:  # first, so that it warms up during the replay
        from clustersim.render import folder
        from clustersim.scenario.load import load
        from clustersim.simulation.simulate import simulate
        from clustersim.studies.run import files as run_files
        from clustersim.studies.run.page import command_line
        from clustersim.studies.run.text import rows

        loaded = load(scenario, settings)
        place = output.folder or Path("runs") / loaded.name
        folder.check_free(place, force=output.force)
        result = simulate(loaded, advise=True)
        if not quiet:
            show(result.scenario.title, rows(result))
        run_files.write(
            result,
            loaded,
            place,
            process,
            command=command_line(scenario, settings),
            formats=output.formats,
            force=output.force,
        )
    return result, place


def _print_json(result: "Result") -> None:
    from clustersim.answers import to_json

    print(json.dumps(to_json(result.answer), allow_nan=False))


def _show_files(folder: Path) -> None:
    from clustersim.render.tables import plain
    from clustersim.studies.run.text import files

    print(*plain([files(folder)]))
