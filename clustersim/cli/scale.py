"""`clustersim scale SCENARIO ...`: weak and strong scaling over numbers of devices."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from clustersim.studies.scaling import ScalingAnswer

Weak = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,..",
        help="Devices of a curve with a batch that grows with them: 128,256 or 128:1024.",
    ),
]
Strong = Annotated[
    str | None,
    typer.Option(metavar="N,N,..", help="Devices of a curve with the batch of the scenario."),
]
Axis = Annotated[
    str | None,
    typer.Option(
        metavar="AXIS",
        help="Parallel axis that grows with the number of devices: tensor, pipeline, data,"
        " context or expert [data]; of a service replicas, tensor or pipeline [replicas, of strong"
        " scaling tensor].",
    ),
]


def scale(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO ...", help="Scenario files or shipped names; several share a figure."
        ),
    ],
    weak: Weak = None,
    strong: Strong = None,
    axis: Axis = None,
    against: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Devices of the reference point, which has efficiency 1 [the fewest]."
        ),
    ] = None,
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Out = None,
    figures: Figures = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Compute scaling curves: efficiency, and the causes of lost efficiency.

    The load of a service grows with the devices of a weak curve, as do its replicas.

    Without --weak and --strong the curves are those of the scenario's key `scaling`.
    """
    from clustersim.render.study_folder import write_study
    from clustersim.scenario.load import is_service, name_of
    from clustersim.studies.scaling.files import files_of

    name = "-".join(dict.fromkeys(map(name_of, scenarios)))
    formats = figure_formats(figures)
    place = output_folder("scale", name, out, json_output=json_output, force=force)
    if any(map(is_service, scenarios)):
        if len(scenarios) > 1:
            raise ScenarioError(f"{scenarios[1]}: a service is scaled alone (leave it out)")
        given = {"weak": weak, "strong": strong, "axis": axis, "against": against}
        executed = {"settings": settings or (), "store": store, "jobs": jobs, "executor": executor}
        command = command_line("scale", scenarios, **given, set=settings)
        _scale_service(scenarios[0], given | executed, place, formats, command, json_output)
        return
    with progress_bar("scale", store) as on_progress:
        answer = clustersim.scale(
            scenarios,
            weak=weak,
            strong=strong,
            axis=axis,
            against=against,
            settings=settings or (),
            store=store,
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    files: list[str] = []
    if place is not None:
        command = command_line(
            "scale", scenarios, weak=weak, strong=strong, axis=axis, against=against, set=settings
        )
        contents = files_of(answer, command)
        files = write_study(answer, contents, place, formats=formats, force=force)
    if json_output:
        print_json(answer)
    else:
        print_curves(answer, place, files)


def _scale_service(
    scenario: str,
    arguments: dict[str, Any],
    place: Path | None,
    formats: tuple[str, ...],
    command: str,
    as_json: bool,
) -> None:
    """Scale a service; `arguments` are those of `scale_service`."""
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.studies.service_scaling import text
    from clustersim.studies.service_scaling.files import files_of

    with progress_bar("scale", arguments["store"]) as on_progress:
        answer = clustersim.scale_service(scenario, **arguments, on_progress=on_progress)
    files: list[str] = []
    if place is not None:
        files = write_study(answer, files_of(answer, command), place, formats=formats, force=True)
    if as_json:
        print_json(answer)
        return
    echo(answer.title)
    for curve in answer.curves:
        print_rows(text.finding(curve), text.points_not_run(curve))
        print_table(text.curve_points(curve))
        echo()
    if place is not None:
        print_rows(None, [tables.files(place, files)])


def print_curves(answer: "ScalingAnswer", place: Path | None, files: list[str]) -> None:
    """Print each curve: what it is, its table, and the lines below."""
    from clustersim.render import tables
    from clustersim.studies.scaling import text

    for position, curve in enumerate(answer.curves):
        if position:
            echo()
        print_rows(curve.title, text.head(curve))
        echo()
        if curve.points:
            print_table(text.table(curve), text.WORDS, text.UNFIT)
            echo()
        if notes := text.notes(curve):
            print_rows(None, notes)
    if place is not None:
        print_rows(None, [tables.files(place, files)])


__all__ = ["print_curves", "scale"]
