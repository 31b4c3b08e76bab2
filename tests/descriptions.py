"""What the schema of a verb does not describe in an answer, for tests of any kind of scenario."""

import json
from functools import cache

from pydantic import TypeAdapter

from clustersim.answers import to_json
from clustersim.cli.schemas import SCHEMAS

TYPES = {
    dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null",
    int: "integer", float: "number",
}  # fmt: skip

described = cache(lambda verb: SCHEMAS[verb]())


def _undescribed(schema, data, whole, path="$"):
    """Return the keys of an object that its schema does not describe, and those that it lacks."""
    if "$ref" in schema:
        return _undescribed(whole["$defs"][schema["$ref"].rpartition("/")[2]], data, whole, path)
    if "anyOf" in schema:
        results = (_undescribed(each, data, whole, path) for each in schema["anyOf"])
        return min(results, key=len)
    allowed = schema.get("type", TYPES.get(type(data)))
    kinds = {"integer", "number"} if type(data) is int else {TYPES[type(data)]}
    if kinds.isdisjoint([allowed] if isinstance(allowed, str) else allowed):
        return [f"{path}: is no {allowed}"] * 1000  # another branch of anyOf is
    problems = []
    if isinstance(data, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", False)
        if known and "description" not in (rest or {}):
            rest = False
        problems += [f"{path}.{key}: missing" for key in {*schema.get("required", ())} - {*data}]
        for key, value in data.items():
            inner = known.get(key, rest)
            if not inner or (key in known and "description" not in inner):
                problems.append(f"{path}.{key}: not described")
            elif inner is not True:
                problems += _undescribed(inner, value, whole, f"{path}.{key}")
    for i, item in enumerate(data if isinstance(data, list) else ()):
        inner = schema["prefixItems"][i] if "prefixItems" in schema else schema.get("items", {})
        problems += _undescribed(inner, item, whole, f"{path}[{i}]")
    return problems


def undescribed(answer, *verbs):
    """Return the keys of an answer that `clustersim schema VERB` lacks, for each verb.

    Its plain values are those of pydantic, whose schema it is.
    """
    text = json.dumps(to_json(answer))
    assert text == json.dumps(TypeAdapter(type(answer)).dump_python(answer, mode="json"))
    data = json.loads(text)
    return [problem for verb in verbs for problem in undescribed_keys(data, verb)]


def undescribed_keys(data, verb):
    """Return the keys of what a verb prints that its schema lacks."""
    return _undescribed(described(verb), data, described(verb))
