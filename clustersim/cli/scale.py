"""`clustersim scale SCENARIO ...`: weak and strong scaling over numbers of devices."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

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
)
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.scale import ScalingAnswer
    from clustersim.studies.service_scaling import ServiceScaling

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
Against = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Devices of the reference point, which has efficiency 1 [the fewest]."
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
    against: Against = None,
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Out = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Compute scaling curves: efficiency, and the causes of lost efficiency.

    The load of a service grows with the devices of a weak curve, as do its replicas.

    Without --weak and --strong the curves are those of the scenario's key `scaling`.
    """
    from clustersim.scenario.load import is_service, name_of

    name = "-".join(dict.fromkeys(map(name_of, scenarios)))
    place = destination(f"{name}-scale", out, figures, as_json=as_json, force=force)
    how = Execution(store=store, jobs=jobs, executor=executor)
    command = command_line(
        "scale", scenarios, weak=weak, strong=strong, axis=axis, against=against, set=settings
    )
    if any(map(is_service, scenarios)):
        if len(scenarios) > 1:
            raise ScenarioError(f"{scenarios[1]}: a service is scaled alone (leave it out)")
        from clustersim.studies.service_scaling import files as service_files

        with progress_bar("scale", store) as on_progress:
            services = clustersim.scale_service(
                scenarios[0],
                weak=weak,
                strong=strong,
                axis=axis,
                against=against,
                settings=settings or (),
                on_progress=on_progress,
                **how,
            )
        place.report(services, partial(service_files.files_of, services, command), _show_service)
        return
    from clustersim.studies.scale import files

    with progress_bar("scale", store) as on_progress:
        answer = clustersim.scale(
            scenarios,
            weak=weak,
            strong=strong,
            axis=axis,
            against=against,
            settings=settings or (),
            on_progress=on_progress,
            **how,
        )
    place.report(answer, partial(files.files_of, answer, command), print_curves)


def _show_service(answer: "ServiceScaling", written: "list[Row]") -> None:
    """Print each curve of a service: its finding and its table."""
    from clustersim.studies.service_scaling import text

    echo(answer.title)
    for curve in answer.curves:
        print_rows(text.finding(curve), text.points_not_run(curve))
        print_table(text.curve_points(curve))
        echo()
    if written:
        print_rows(None, written)


def print_curves(answer: "ScalingAnswer", written: "Sequence[Row]" = ()) -> None:
    """Print each curve: what it is, its table, and the lines below."""
    from clustersim.studies.scale import text

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
    if written:
        print_rows(None, written)
