"""`clustersim compare A B`: what changed between runs, by how much, and why."""

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
    run_variants,
    show,
)

if TYPE_CHECKING:
    from clustersim.runs.variants import Variant
    from clustersim.scenario.load import Loaded


def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...]",
            help="Scenario files, or names of shipped ones; 'A plan.zero=1' is A with a change.",
        ),
    ],
    settings: Settings = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    out: Out = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Tell what changed from A to B, and to each other: the input, the answer, and why."""
    variants, loaded = _asked(scenarios, settings or [])
    place = place_of("compare", loaded[0].name, out, json_output=json_output, force=force)
    answer = _answer(variants, loaded, len(settings or []), store, jobs)
    names: list[str] = []
    if place is not None:
        from clustersim.studies.compare.files import write

        command = command_line("compare", scenarios, set=settings)
        names = write(answer, place, command=command, force=force)
    if json_output:
        print(json.dumps(answer, allow_nan=False))
    else:
        _show(answer, place, names)


def _asked(scenarios: list[str], settings: list[str]) -> "tuple[list[Variant], list[Loaded]]":
    """Return the scenarios, checked before anything is run or written."""
    from clustersim.errors import ScenarioError
    from clustersim.runs.arguments import check, variant_of

    variants = [variant_of(text, settings) for text in scenarios]
    loaded = [variant.load() for variant in variants]
    for each in loaded:
        check(each)
    if len(variants) < 2:
        raise ScenarioError(
            f"{scenarios[0]}: is one scenario, and two are compared (name a second one, or a"
            f" change of it: '{scenarios[0]} batch.micro=2')"
        )
    return variants, loaded


def _answer(
    variants: "list[Variant]",
    loaded: "list[Loaded]",
    shared: int,
    store: Path,
    jobs: int | None,
) -> dict[str, Any]:
    """Return what ``--json`` prints; the first so many settings are `shared` by all."""
    from clustersim.runs.arguments import study_of
    from clustersim.studies.compare.answer import compared, named

    first = loaded[0]
    study = study_of("compare", first.name, first.scenario.title, variants)
    runs = run_variants(study, variants, store, jobs)
    names = named(
        [(one.name, v.settings[shared:]) for one, v in zip(loaded, variants, strict=True)]
    )
    return compared(names, variants, loaded, runs)


def _show(answer: dict[str, Any], place: Path | None, names: list[str]) -> None:
    """Print each comparison: a table on a terminal, plain lines elsewhere."""
    from clustersim.render.tables import files
    from clustersim.studies.compare.text import rows

    for found in answer["comparisons"]:
        show(found["finding"], rows(found))
        print()
    if place is not None:
        show(None, [files(place, names)])


__all__ = ["compare"]
