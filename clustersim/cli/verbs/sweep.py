"""`clustersim sweep SCENARIO --over KEY=VALUES`: the best of all combinations of some values."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import option, print_rows, print_table
from clustersim.cli.output import echo
from clustersim.cli.studies import LIMIT_HELP, MEASURE_HELP, StudyOptions, study_options

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.sweep import SweepAnswer

Over = Annotated[
    list[str] | None,
    option(
        "KEY=VALUES",
        "Axis: plan.tensor=1,2,4,8, batch.micro=1:8 (doublings), plan.pipeline=4:16:4"
        " (steps), plan.data=fill (all remaining devices). Repeatable.",
        "--over",
    ),
]
Table = Annotated[
    Path | None,
    option("PATH", "CSV of combinations, a column for each key.", "--list"),
]
By = Annotated[
    str | None,
    option(
        "MEASURE",
        f"Measure that decides which combination is best: {MEASURE_HELP} [tokens_per_s, of a"
        " service per device].",
    ),
]
Pareto = Annotated[
    str | None,
    option(
        "MEASURE",
        "Measure of the Pareto front: memory, devices, ... [devices if their number varies,"
        " else memory; of a service tokens_per_s_per_user].",
    ),
]
Limit = Annotated[list[str] | None, option("MEASURE=VALUE", f"{LIMIT_HELP} Repeatable.", "--limit")]


@study_options
def sweep(
    scenario: Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.")],
    study: StudyOptions,
    over: Over = None,
    table: Table = None,
    by: By = None,
    pareto: Pareto = None,
    limit: Limit = None,
) -> None:
    """Run all combinations of values; find the best that fits in memory.

    Invalid combinations are listed with their reasons. An interrupted sweep resumes when the same
    command is run again.
    """
    stated = {"list": table, "over": over, "by": by, "pareto": pareto, "limit": limit}
    given = {"over": over or (), "table": table, "by": by, "pareto": pareto, "limits": limit or ()}
    study.run("sweep", scenario, [scenario], _show, stated, **given)


def _show(answer: "SweepAnswer", written: "list[Row]") -> None:
    """Print the answer in lines, then the best combinations and the front as tables."""
    from clustersim.studies.sweep.text import layout_tables, rows

    print_rows(answer.title, [*rows(answer), *written])
    for heading, table in layout_tables(answer):
        echo(f"\n{heading}:")
        print_table(table)
