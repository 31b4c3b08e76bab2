"""`clustersim schema KIND`: the JSON Schema that editors complete files from."""

import json
from typing import Annotated

import typer


def schema(
    kind: Annotated[str, typer.Argument(help="Kind of file: scenario.")],
) -> None:
    """Print the JSON Schema that editors complete files from."""
    from clustersim.catalog.tree import nearest
    from clustersim.errors import ScenarioError
    from clustersim.scenario.schema import json_schema

    schemas = {"scenario": json_schema}
    if kind not in schemas:
        known = ", ".join(schemas)
        raise ScenarioError(
            f"{kind}: no kind of file with a schema (known: {known}){nearest(kind, schemas)}"
        )
    print(json.dumps(schemas[kind](), indent=2))
