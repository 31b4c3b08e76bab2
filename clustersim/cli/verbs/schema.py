"""`clustersim schema KIND`: the JSON Schema of files, for editors, and of answers."""

import json
from typing import Annotated

import typer

from clustersim.cli.output import echo
from clustersim.errors import ScenarioError
from clustersim.suggestions import nearest


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            help="Kind of file (scenario, serving, sharing, traced, cluster, node, accelerator,"
            " library, model, framework, engine, reliability, site, prices), or a verb for its"
            " --json."
        ),
    ],
) -> None:
    """Print a JSON Schema: of files, for editors, or of what a verb prints."""
    from clustersim.cli.schemas import SCHEMAS

    if kind not in SCHEMAS:
        known = ", ".join(SCHEMAS)
        raise ScenarioError(
            f"{kind}: no schema of that name{nearest(kind, SCHEMAS)} (known: {known})"
        )
    echo(json.dumps(SCHEMAS[kind](), indent=2))
