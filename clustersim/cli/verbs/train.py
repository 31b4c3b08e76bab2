"""`clustersim train SCENARIO`: a whole training run, its failures and its checkpoints."""

from typing import TYPE_CHECKING, Annotated

import typer

import clustersim
from clustersim.cli import options
from clustersim.cli.options import (
    check_strict,
    command_line,
    destination,
    end_strictly,
    print_rows,
)

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.simulation.training_run.answer import TrainAnswer


def train(
    scenario: Annotated[
        str, typer.Argument(help="Scenario file with a section training, or a shipped name.")
    ],
    settings: options.Settings = None,
    cluster: options.LaunchCluster = None,
    nodes: options.LaunchNodes = None,
    model: options.LaunchModel = None,
    out: options.Out = None,
    figures: options.Figures = None,
    as_json: options.AsJson = False,
    force: options.Force = False,
    strict: options.Strict = False,
) -> None:
    """Predict a whole training run: days, failures, checkpoints."""
    from clustersim.scenario.load import load

    changes = (*options.machine_settings(cluster, nodes, model), *(settings or ()))
    loaded = load(scenario, changes)
    check_strict(loaded, strict=strict)
    place = destination(f"{loaded.name}-train", out, figures, as_json=as_json, force=force)
    answer = clustersim.train(loaded)
    command = command_line("train", [scenario], set=changes)
    place.report(answer, command, _show)
    end_strictly(loaded, answer.expectations, strict=strict)


def _show(answer: "TrainAnswer", written: "list[Row]") -> None:
    """Print the answer in lines."""
    from clustersim.reports.training_run.text import rows

    print_rows(answer.title, [*rows(answer), *written])
