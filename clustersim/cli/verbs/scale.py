"""`clustersim scale SCENARIO ...`: weak and strong scaling over numbers of devices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import option, print_rows, print_table
from clustersim.cli.output import echo
from clustersim.cli.studies import StudyOptions, study_options

if TYPE_CHECKING:
    from clustersim.render.tables import Row
    from clustersim.studies.scale import ScalingAnswer

Weak = Annotated[
    str | None,
    option(
        "N,N,..",
        "Devices of a curve with a batch or load that grows with them: 128,256 or 128:1024.",
    ),
]
Strong = Annotated[
    str | None,
    option("N,N,..", "Devices of a curve with the batch or load of the scenario."),
]
Axis = Annotated[
    str | None,
    option(
        "AXIS",
        "Parallel axis that grows with the number of devices: tensor, pipeline, data,"
        " context or expert [data]; of a service replicas, tensor or pipeline [replicas, of strong"
        " scaling tensor]; of a shared machine copies of its jobs.",
    ),
]
Against = Annotated[
    int | None,
    option("N", "Devices of the reference point, which has efficiency 1 [the fewest]."),
]


@study_options
def scale(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO ...", help="Scenario files or shipped names; several share a figure."
        ),
    ],
    study: StudyOptions,
    weak: Weak = None,
    strong: Strong = None,
    axis: Axis = None,
    against: Against = None,
) -> None:
    """Compute scaling curves: efficiency, and the causes of lost efficiency.

    Without --weak and --strong the curves are those of the scenario's key `scaling`, else 1, 2, 4
    and 8 times its devices.
    """
    stated = {"weak": weak, "strong": strong, "axis": axis, "against": against}
    study.run("scale", scenarios, scenarios, print_curves, stated, **stated)


def print_curves(answer: "ScalingAnswer", written: "Sequence[Row]" = ()) -> None:
    """Print each curve: what it is, its table, and the lines below."""
    from clustersim.reports.measures import VERDICT_STYLES
    from clustersim.studies.scale import text

    for position, curve in enumerate(answer.curves):
        if position:
            echo()
        print_rows(curve.title, text.head(curve))
        echo()
        if curve.points:
            print_table(text.table(curve), text.WORDS, VERDICT_STYLES)
            echo()
        if notes := text.notes(curve):
            print_rows(None, notes)
    if written:
        print_rows(None, written)
