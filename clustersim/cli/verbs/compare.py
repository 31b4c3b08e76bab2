"""`clustersim compare A B`: what changed between scenarios, by how much, and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import option, print_rows, print_table
from clustersim.cli.output import echo
from clustersim.cli.studies import MEASURE_HELP, StudyOptions, folder_of, study_options

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.compare import CompareAnswer


@study_options
def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...]",
            help="Scenario files or shipped names; 'A plan.zero=1' is A with a change.",
        ),
    ],
    study: StudyOptions,
    by: Annotated[
        str | None,
        option("MEASURE", f"Measure that findings state: {MEASURE_HELP}."),
    ] = None,
) -> None:
    """Compare scenarios of any kind: inputs, results and causes.

    Each one is compared with the first.
    """
    study.run("compare", scenarios, folder_of(scenarios)[:1], _show, {"by": by}, by=by)


def _show(answer: "CompareAnswer", written: "list[Row]") -> None:
    """Print each comparison in lines, then all results as a table."""
    from clustersim.studies.compare.text import evidence, result_table, rows

    for comparison in answer.comparisons:
        print_rows(comparison.finding, rows(comparison, answer))
        echo()
    print_table(result_table(answer), [""])
    if last := [*evidence(answer), *written]:
        echo()
        print_rows(None, last)
