"""`clustersim scale SCENARIO ...`: weak and strong scaling over numbers of devices."""

import hashlib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustersim.cli.studying import STORE, AsJson, Force, Jobs, Out, Settings, StoreFile, place_of

if TYPE_CHECKING:
    from clustersim.study.scaling import Curve


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
    from clustersim.study.scaling import Wanted, curves_of, numbers
    from clustersim.study.store import check_store

    wanted = Wanted(
        weak=numbers("--weak", weak),
        strong=numbers("--strong", strong),
        axis=axis,
        against=against,
        settings=tuple(settings or ()),
    )
    curves = curves_of(scenarios, wanted)
    names = "-".join(dict.fromkeys(curve.name for curve in curves))
    place = place_of("scale", names, out, json_output=json_output, force=force)
    check_store(store)
    answer = _answered(curves, store, jobs)
    if place is not None:
        chosen = {"--weak": weak, "--strong": strong, "--axis": axis, "--against": against}
        command = _command(scenarios, chosen, wanted.settings)
        _show(answer, place, command, quiet=json_output, force=force)
    if json_output:
        print(json.dumps(answer, allow_nan=False))


def _answered(curves: "list[Curve]", store: Path, jobs: int | None) -> dict[str, Any]:
    """Run the points of all curves and return what came of them."""
    from clustersim.cli.studying import run_variants
    from clustersim.study.efficiency import scaled
    from clustersim.study.store import Study

    variants = [point.variant for curve in curves for point in curve.points]
    asked = json.dumps([[v.scenario, v.settings, dict(v.point)] for v in variants])
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    study = Study(f"scale-{curves[0].name}-{digest}", "scale", curves[0].title)
    runs = iter(run_variants(study, variants, store, jobs))
    return {"curves": [scaled(curve, [next(runs) for _ in curve.points]) for curve in curves]}


def _command(
    scenarios: list[str], chosen: dict[str, str | int | None], settings: tuple[str, ...]
) -> str:
    """Return the command that asks for the same."""
    words = [w for key, value in chosen.items() if value is not None for w in (key, str(value))]
    words += [word for each in settings for word in ("--set", each)]
    return shlex.join(["clustersim", "scale", *scenarios, *words])


def _show(answer: dict[str, Any], place: Path, command: str, *, quiet: bool, force: bool) -> None:
    """Print the answer unless `quiet`, and write the files."""
    from clustersim.report import scaling, scaling_files

    if not quiet:
        print("\n".join(scaling.answer(answer)), flush=True)
    names = scaling_files.write(answer, place, command=command, force=force)
    if not quiet:
        print(scaling.files(place, names))


__all__ = ["scale"]
