"""`clustersim doctor`: the state of this installation, and what to do about problems."""

from pathlib import Path
from typing import Annotated

import typer

from clustersim.cli.options import STORE, StoreFile, print_json
from clustersim.cli.output import echo


def doctor(
    store: StoreFile = STORE,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check this installation: versions, cores, memory, folders, catalogue.

    Each line is ok, a warning (some commands are slower or fail) or a problem (most commands
    fail), with what to do. The exit code is 1 if there is a problem.
    """
    from clustersim.reports.doctor.answer import diagnose
    from clustersim.reports.doctor.text import lines

    diagnosis = diagnose(Path(store))
    if json_output:
        print_json(diagnosis)
    else:
        echo("\n".join(lines(diagnosis)))
    if diagnosis.status == "problem":
        raise typer.Exit(1)
