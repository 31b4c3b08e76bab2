"""`clustersim whatif SCENARIO --set ...`: which change improves most, and what all do together."""

from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import option, print_rows, print_table
from clustersim.cli.output import echo
from clustersim.cli.studies import MEASURE_HELP, StudyOptions, folder_of, study_options

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.whatif import WhatIfAnswer


Changes = Annotated[
    list[str] | None,
    option(
        "SETTINGS",
        "A change of several values: 'plan.pipeline=4 plan.data=16'. Repeatable.",
        "--change",
    ),
]


@study_options
def whatif(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file or shipped name; 'A plan.zero=1' is A with a change.",
        ),
    ],
    study: StudyOptions,
    changes: Changes = None,
    by: Annotated[
        str | None,
        option("MEASURE", f"Measure that ranks the changes: {MEASURE_HELP}."),
    ] = None,
) -> None:
    """Rank changes of a scenario of any kind by what they improve, alone and together.

    Each --set is a change of its own.
    """
    stated = {"change": changes, "by": by}
    base = " ".join([scenario, *study.machine])
    names = folder_of([scenario])
    alone = study.without_machine()
    alone.run("whatif", base, names, _show, stated, changes=changes or (), by=by)


def _show(answer: "WhatIfAnswer", written: "list[Row]") -> None:
    """Print the ranking and remarks on it."""
    from clustersim.reports.measures import VERDICT_STYLES
    from clustersim.studies.whatif import text

    print_rows(text.finding(answer), [])
    echo()
    print_table(text.table(answer), text.WORDS, VERDICT_STYLES)
    print_rows(None, [*text.rows(answer), *written])
