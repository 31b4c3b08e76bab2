"""`clustersim whatif SCENARIO --set ...`: which change saves most, and what all save together."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from clustersim.cli.options import (
    STORE,
    AsJson,
    Force,
    Jobs,
    Out,
    StoreFile,
    command_line,
    place_of,
    print_table,
    run_variants,
    show,
)


def whatif(
    scenario: Annotated[
        str,
        typer.Argument(help="Scenario file or shipped name; 'A plan.zero=1' is A with a change."),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="A change of one value. Repeatable."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            metavar="SETTINGS",
            help="A change of several values: 'plan.pipeline=4 plan.data=16'. Repeatable.",
        ),
    ] = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    out: Out = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Run each change of a scenario alone and all together; rank them by what they save."""
    from clustersim.runs.arguments import changes_of, study_of, variant_of
    from clustersim.studies.whatif.answer import answered, asked

    question = asked(variant_of(scenario), changes_of(scenario, settings or [], changes or []))
    loaded = question.base.load()
    place = place_of("whatif", loaded.name, out, json_output=json_output, force=force)
    study = study_of("whatif", loaded.name, loaded.scenario.title, question.all)
    runs = run_variants(study, question.all, store, jobs)
    answer = answered(question, runs).to_json()
    names: list[str] = []
    if place is not None:
        from clustersim.studies.whatif.files import write

        command = command_line("whatif", [scenario], set=settings, change=changes)
        names = write(answer, place, command=command, force=force)
    if json_output:
        print(json.dumps(answer, allow_nan=False))
    else:
        _show(answer, place, names)


def _show(answer: dict[str, Any], place: Path | None, names: list[str]) -> None:
    """Print the ranking and what is to be said about it."""
    from clustersim.render.tables import files
    from clustersim.studies.whatif import text as report

    show(report.finding(answer), [])
    print()
    print_table(report.table(answer), report.WORDS, report.UNFIT)
    said = report.rows(answer)
    if place is not None:
        said.append(files(place, names))
    show(None, said)


__all__ = ["whatif"]
