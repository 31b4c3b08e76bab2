"""The JSON Schemas of catalogue files as users write them, for editors.

Another file is given by its name, and a sourced value may be the value alone.
"""

from collections.abc import Iterator
from typing import Any, Final

from clustersim.scenario.entries import RECORDS
from clustersim.scenario.references import references_in

_NAMED: Final = {
    "anyOf": [{"type": "string"}, {"type": "object", "required": ["name"]}],
}
"""A file by its name, or with keys that win over those of the file."""


def file_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of catalogue files of a kind."""
    schema = RECORDS[kind].model_json_schema(by_alias=True)
    for (key, *inner), named in references_in(kind).items():
        if not inner:
            schema["properties"][key] = {**_NAMED, "description": f"name of a file of kind {named}"}
    definitions = schema.pop("$defs", {})
    for name, definition in definitions.items():
        if name.startswith("Fact_"):
            definitions[name] = {"anyOf": [definition, definition["properties"]["value"]]}
    if "extends" in schema["properties"]:
        schema["required"] = ["kind", "name"]  # the others may be those of the file it extends
    used = _used(schema, definitions, {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "$defs": dict(sorted(used.items())),
    }


def _used(part: Any, definitions: dict[str, Any], used: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions that a schema refers to, directly or through others."""
    for name in _references(part):
        if name not in used:
            used[name] = definitions[name]
            _used(used[name], definitions, used)
    return used


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].rpartition("/")[2]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)
