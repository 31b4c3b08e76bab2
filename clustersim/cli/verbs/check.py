"""`clustersim check LOG --scenario SCENARIO`: a log next to its prediction."""

from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import (
    LaunchCluster,
    LaunchModel,
    LaunchNodes,
    machine_settings,
    option,
    print_rows,
    print_table,
)
from clustersim.cli.output import echo
from clustersim.cli.studies import StudyOptions, folder_of, study_options

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.check import CheckAnswer


@study_options
def check(
    log: Annotated[
        str,
        typer.Argument(metavar="LOG", help="Log of training, or JSON of a serving benchmark."),
    ],
    study: StudyOptions,
    scenario: Annotated[
        str,
        option(
            "SCENARIO",
            "Scenario or launch file of the run, or a shipped name; 'A plan.zero=1' is A with a"
            " change.",
            "--scenario",
        ),
    ],
    cluster: LaunchCluster = None,
    nodes: LaunchNodes = None,
    model: LaunchModel = None,
) -> None:
    """Compare a log with its prediction: normal, slow or fast, and the likely causes."""
    machine = machine_settings(cluster, nodes, model)
    study = study.with_settings(machine)
    study.run("check", log, folder_of([scenario]), _show, {"scenario": scenario}, scenario=scenario)


def _show(answer: "CheckAnswer", written: "list[Row]") -> None:
    """Print the verdict, measured and predicted values, then the causes."""
    from clustersim.studies.check import text

    print_rows(text.finding(answer), [])
    echo()
    print_table(text.table(answer), text.WORDS)
    print_rows(None, list(text.rows(answer)))
    if causes := text.cause_table(answer):
        echo()
        print_table(causes[: 1 + text.MOST_CAUSES], text.WORDS)
    if written:
        echo()
        print_rows(None, written)
