"""`clustersim run SCENARIO`: print the result in about ten lines, and write the files behind it."""

from pathlib import Path
from typing import Annotated

import typer

import clustersim
from clustersim.cli.options import Figures, command_line, figure_formats, print_json, show
from clustersim.render.folder import check_free
from clustersim.render.matplotlib.figure import warm_up
from clustersim.render.render_process import RenderProcess


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
    formats = figure_formats(figures)
    if json_output and out is None:
        print_json(clustersim.simulate(scenario, changes, advise=True).answer)
        return
    with RenderProcess(warm_up) as process:  # before the slow imports, which it does not wait for
        from clustersim.scenario.load import load
        from clustersim.studies.run import files
        from clustersim.studies.run.text import file_row, rows

        loaded = load(scenario, changes)
        place = out or Path("runs") / loaded.name
        check_free(place, force=force)
        result = clustersim.simulate(loaded, advise=True)
        if not json_output:
            show(result.scenario.title, rows(result))
        command = command_line("run", [scenario], set=changes)
        files.write(result, loaded, place, process, command=command, formats=formats, force=force)
    if json_output:
        print_json(result.answer)
    else:
        show(None, [file_row(place)])


__all__ = ["run"]
