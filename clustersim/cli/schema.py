"""`clustersim schema KIND`: the JSON Schema of files, for editors, and of answers."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final

import typer

from clustersim import answers
from clustersim.calibration.answer import Calibration
from clustersim.catalog.tree import nearest
from clustersim.cli.output import echo
from clustersim.engine.network.flows import FinishTimes
from clustersim.errors import ScenarioError
from clustersim.scenario.entries import RECORDS
from clustersim.scenario.file_schemas import file_schema
from clustersim.scenario.schema import json_schema
from clustersim.simulation.answer import RunAnswer
from clustersim.studies.collective.answer import Timing
from clustersim.studies.compare import CompareAnswer
from clustersim.studies.scaling import ScalingAnswer
from clustersim.studies.show.answer import EntryAnswer
from clustersim.studies.stored.answer import StoredRuns, StoredStudies
from clustersim.studies.sweep import SweepAnswer
from clustersim.studies.whatif import WhatIfAnswer
from clustersim.validation.answer import Validation

ANSWERS: Final[Mapping[str, Any]] = {
    "run": RunAnswer,
    "scale": ScalingAnswer,
    "compare": CompareAnswer,
    "whatif": WhatIfAnswer,
    "sweep": SweepAnswer,
    "study": StoredStudies | StoredRuns,
    "validate": Validation,
    "calibrate": Calibration,
    "collective": list[Timing],
    "flows": dict[str, FinishTimes],
    "show": EntryAnswer,
}
"""What each verb prints with `--json`."""

SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "scenario": json_schema,
    **{kind: partial(file_schema, kind) for kind in RECORDS},
    **{verb: partial(answers.schema, answer) for verb, answer in ANSWERS.items()},
}
"""Kinds of files, and verbs whose `--json` has a schema."""


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            help=f"Kind of file (scenario, {', '.join(RECORDS)}), or a verb for its --json."
        ),
    ],
) -> None:
    """Print a JSON Schema: of files, for editors, or of what a verb prints."""
    if kind not in SCHEMAS:
        known = ", ".join(SCHEMAS)
        raise ScenarioError(
            f"{kind}: no schema of that name{nearest(kind, SCHEMAS)} (known: {known})"
        )
    echo(json.dumps(SCHEMAS[kind](), indent=2))
