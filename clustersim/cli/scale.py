"""`clustersim scale SCENARIO ...`: weak and strong scaling over numbers of devices."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustersim.cli.options import (
    STORE,
    AsJson,
    Force,
    Jobs,
    Out,
    Settings,
    StoreFile,
    command_line,
    place_of,
    print_table,
    run_variants,
    show,
)

if TYPE_CHECKING:
    from clustersim.studies.scaling.arguments import Curve


Weak = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,..", help="Devices of a curve whose batch grows with them; 128:1024 too."
    ),
]
Strong = Annotated[
    str | None,
    typer.Option(metavar="N,N,..", help="Devices of a curve with the same batch in all."),
]


def scale(
    scenarios: Annotated[
        list[str], typer.Argument(help="Scenario files or shipped names; several share a figure.")
    ],
    weak: Weak = None,
    strong: Strong = None,
    axis: Annotated[
        str | None, typer.Option(help="That more devices go to: data, tensor, pipeline, ...")
    ] = None,
    against: Annotated[
        int | None, typer.Option(help="Devices of the point with efficiency 1 [the fewest].")
    ] = None,
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    out: Out = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Tell how a scenario scales: efficiency, and what is lost of it to what.

    Without --weak and --strong the curves are those of the scenario's key `scaling`.
    """
    from clustersim.studies.scaling.arguments import Wanted, curves_of, numbers

    wanted = Wanted(
        weak=numbers("--weak", weak),
        strong=numbers("--strong", strong),
        axis=axis,
        against=against,
        settings=tuple(settings or ()),
    )
    curves = curves_of(scenarios, wanted)
    name = "-".join(dict.fromkeys(curve.name for curve in curves))
    place = place_of("scale", name, out, json_output=json_output, force=force)
    answer = _answered(curves, store, jobs)
    names: list[str] = []
    if place is not None:
        from clustersim.studies.scaling.files import write

        command = command_line(
            "scale", scenarios, weak=weak, strong=strong, axis=axis, against=against, set=settings
        )
        names = write(answer, place, command=command, force=force)
    if json_output:
        print(json.dumps(answer, allow_nan=False))
    else:
        tell(answer, place, names)


def _answered(curves: "list[Curve]", store: Path, jobs: int | None) -> dict[str, Any]:
    """Run the points of all curves and return what came of them."""
    from clustersim.runs.arguments import study_of
    from clustersim.studies.scaling.answer import scaled

    variants = [point.variant for curve in curves for point in curve.points]
    study = study_of("scale", curves[0].name, curves[0].title, variants)
    runs = iter(run_variants(study, variants, store, jobs))
    return {"curves": [scaled(curve, [next(runs) for _ in curve.points]) for curve in curves]}


def tell(answer: dict[str, Any], place: Path | None, names: list[str]) -> None:
    """Print each curve: what it is, its table, and what is to be said about it."""
    from clustersim.render.tables import files
    from clustersim.studies.scaling import text as report

    for position, curve in enumerate(answer["curves"]):
        if position:
            print()
        show(curve["title"], report.head(curve))
        print()
        if curve["points"]:
            print_table(report.table(curve), report.WORDS, report.UNFIT)
            print()
        if said := report.notes(curve):
            show(None, said)
    if place is not None:
        show(None, [files(place, names)])


__all__ = ["scale", "tell"]
