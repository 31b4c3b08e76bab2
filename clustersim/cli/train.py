"""`clustersim train SCENARIO`: a whole training run, its failures and its checkpoints."""

from typing import Annotated

import typer

import clustersim
from clustersim.cli.options import (
    AsJson,
    Figures,
    Force,
    Out,
    Settings,
    command_line,
    figure_formats,
    output_folder,
    print_json,
    print_rows,
)


def train(
    scenario: Annotated[
        str, typer.Argument(help="Scenario file with a section training, or a shipped name.")
    ],
    settings: Settings = None,
    out: Out = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Predict a whole training run: days, failures, checkpoints."""
    from clustersim.render import tables
    from clustersim.render.study_folder import write_study
    from clustersim.scenario.load import load
    from clustersim.studies.train.files import files_of
    from clustersim.studies.train.text import rows

    formats = figure_formats(figures)
    loaded = load(scenario, settings or ())
    place = output_folder("train", loaded.name, out, json_output=as_json, force=force)
    answer = clustersim.train(loaded)
    files: list[str] = []
    if place is not None:
        command = command_line("train", [scenario], set=settings)
        contents = files_of(answer, command)
        files = write_study(answer, contents, place, formats=formats, force=force)
    if as_json:
        print_json(answer)
        return
    lines = rows(answer)
    if place is not None:
        lines.append(tables.files(place, files))
    print_rows(answer.title, lines)


__all__ = ["train"]
