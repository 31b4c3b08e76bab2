"""`clustersim whatif SCENARIO --set ...`: which change saves most, and what all save together."""

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
    from clustersim.studies.whatif import WhatIfAnswer


def whatif(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file or shipped name; 'A plan.zero=1' is A with a change.",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A change of one value: plan.data=4. Repeatable."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            metavar="SETTINGS",
            help="A change of several values: 'plan.pipeline=4 plan.data=16'. Repeatable.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="Measure that ranks the changes of a service: tokens_per_s_per_device, tpot, ...",
        ),
    ] = None,
    store: StoreFile = STORE,
    jobs: Jobs = None,
    executor: Executor = None,
    out: Out = None,
    figures: Figures = None,
    json_output: AsJson = False,
    force: Force = False,
) -> None:
    """Rank changes of a scenario by the time that they save, alone and together.

    Changes of a service are ranked by a measure, by default tokens/s per device or the latency.
    """
    from clustersim.render.study_folder import write_study
    from clustersim.runs.arguments import variant_of
    from clustersim.scenario.load import is_service, name_of
    from clustersim.studies.whatif.files import files_of

    name = name_of(variant_of(scenario).scenario)
    formats = figure_formats(figures)
    serving = is_service(variant_of(scenario).scenario)
    if by is not None and not serving:
        raise ScenarioError("--by: has no effect on the scenario of a training step (leave it out)")
    place = output_folder("whatif", name, out, json_output=json_output, force=force)
    if serving:
        given = {"settings": settings or (), "changes": changes or (), "by": by}
        executed = {"store": store, "jobs": jobs, "executor": executor}
        command = command_line("whatif", [scenario], set=settings, change=changes, by=by)
        _change_service(scenario, given | executed, place, formats, command, as_json=json_output)
        return
    with progress_bar("whatif", store) as on_progress:
        answer = clustersim.whatif(
            scenario,
            settings=settings or (),
            changes=changes or (),
            store=store,
            jobs=jobs,
            executor=executor,
            on_progress=on_progress,
        )
    files: list[str] = []
    if place is not None:
        command = command_line("whatif", [scenario], set=settings, change=changes)
        contents = files_of(answer, command)
        files = write_study(answer, contents, place, formats=formats, force=force)
    if json_output:
        print_json(answer)
    else:
        _show(answer, place, files)


def _change_service(
    scenario: str,
    arguments: dict[str, Any],
    place: Path | None,
    formats: tuple[str, ...],
    command: str,
    *,
    as_json: bool,
) -> None:
    """Rank changes of a service; `arguments` are those of `whatif_service`."""
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.studies.service_whatif import text
    from clustersim.studies.service_whatif.files import files_of

    with progress_bar("whatif", arguments["store"]) as on_progress:
        answer = clustersim.whatif_service(scenario, **arguments, on_progress=on_progress)
    files: list[str] = []
    if place is not None:
        files = write_study(answer, files_of(answer, command), place, formats=formats, force=True)
    if as_json:
        print_json(answer)
        return
    print_rows(text.finding(answer), [])
    echo()
    print_table(text.change_table(answer), text.WORDS)
    written = [] if place is None else [tables.files(place, files)]
    print_rows(None, [*text.rows(answer), *written])


def _show(answer: "WhatIfAnswer", place: Path | None, files: list[str]) -> None:
    """Print the ranking and remarks on it."""
    from clustersim.render import tables
    from clustersim.studies.whatif import text

    print_rows(text.finding(answer), [])
    echo()
    print_table(text.table(answer), text.WORDS, text.UNFIT)
    rows = text.rows(answer)
    if place is not None:
        rows.append(tables.files(place, files))
    print_rows(None, rows)


__all__ = ["whatif"]
