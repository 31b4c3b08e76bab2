"""`clustersim schema KIND`: the JSON Schema of scenario files, for editors, and of answers."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from clustersim import answers
from clustersim.catalog.tree import nearest
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError
from clustersim.scenario.schema import json_schema
from clustersim.simulation.answer import RunAnswer

SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "scenario": json_schema,
    "run": lambda: answers.schema(RunAnswer),
}
"""Kinds of files, and verbs whose `--json` has a schema."""


def schema(
    kind: Annotated[str, typer.Argument(help="scenario, or a verb for its --json: run.")],
) -> None:
    """Print a JSON Schema: of scenario files, for editors, or of what a verb prints."""
    if kind not in SCHEMAS:
        known = ", ".join(SCHEMAS)
        raise ScenarioError(
            f"{kind}: no schema of that name{nearest(kind, SCHEMAS)} (known: {known})"
        )
    echo(json.dumps(SCHEMAS[kind](), indent=2))
