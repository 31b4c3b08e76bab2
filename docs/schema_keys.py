"""Keys of files and answers, from their schemas: what each holds, and what it means.

schema of a file   ----file_keys---->   key, holds, if not given, meaning
schema of an answer --answer_keys-->    key, meaning
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

from pydantic import AliasPath, BaseModel

from clustersim.answers import schema
from clustersim.catalog.facts import LEAST, MAX_COUNT, MOST
from clustersim.catalog.problems import is_model, types_of
from clustersim.validation.cases import texts

Schema = Mapping[str, Any]

KINDS = {
    "string": "text",
    "boolean": "`true` or `false`",
    "name": "name",
    "object": "mapping",
    "integer": "whole number",
    "number": "number",
}
"""JSON types in the words of the reference."""

LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
"""Limits of numbers in the words of the reference."""


class Key(NamedTuple):
    """A line of a table: a key, what it holds, what holds where it is not given, its meaning."""

    name: str
    holds: str
    otherwise: str
    meaning: str


def check_meanings(table: str, keys: Iterable[str], meanings: Iterable[str]) -> None:
    """Stop at a meaning that belongs to no key."""
    if unknown := set(meanings) - set(keys):
        raise SystemExit(f"{table}: reference.yaml explains what is not there: {sorted(unknown)}")


# --- keys of a file -------------------------------------------------------------------------------


def file_keys(
    record: type[BaseModel], meanings: Mapping[str, str], left_out: Iterable[str] = ()
) -> list[Key]:
    """Return the keys of one kind of file, dotted, in the order of its schema."""
    keys = list(Reader(record, meanings).below(left_out))
    check_meanings(record.__name__, [key.name for key in keys if key.meaning], meanings)
    assert all(key.meaning for key in keys), [key for key in keys if not key.meaning]
    return keys


class Reader:
    """Reads keys from the schema of a kind of file."""

    def __init__(self, record: type[BaseModel], meanings: Mapping[str, str]) -> None:
        self.meanings = meanings
        self.schema = record.model_json_schema(by_alias=True)
        self.tables = self.schema.get("$defs", {})

    def below(self, left_out: Iterable[str] = ()) -> Iterator[Key]:
        """Yield all keys, without some of the highest level."""
        yield from self._below(self.schema, "", left_out)

    def _below(self, table: Schema, path: str, left_out: Iterable[str] = ()) -> Iterator[Key]:
        required = table.get("required", [])
        for name, inner in table.get("properties", {}).items():
            if name not in left_out:
                otherwise = "required" if name in required else _default(inner.get("default"))
                yield from self._key(inner, f"{path}.{name}" if path else name, otherwise)

    def _key(self, entry: Schema, path: str, otherwise: str) -> Iterator[Key]:
        """Yield one key, or the keys below it."""
        shapes = [
            self._resolved(inner)
            for shape in entry.get("anyOf", entry.get("oneOf", [entry]))
            for inner in shape.get("oneOf", [shape])
        ]
        first, *others = [shape for shape in shapes if shape.get("type") != "null"]
        inside = first.get("properties", {})
        if "kind" in inside or (others and "name" in others[0].get("properties", {})):
            yield self._line({"type": "name"}, path, otherwise)
        elif "type" in inside:
            yield from self._shapes([first, *others], path)
        elif {"value", "assumed", "note"} <= set(inside):
            value = self._resolved(inside["value"])
            for key in self._plain(value, path, otherwise, value):
                yield key._replace(holds=f"fact: {key.holds}")
        elif inside:
            yield from self._below(first, path)
        else:
            yield from self._plain(first, path, otherwise, entry)

    def _plain(self, value: Schema, path: str, otherwise: str, entry: Schema) -> Iterator[Key]:
        """Yield a value, or the keys of the items of a list or a mapping."""
        items = self._resolved(value.get("items", {}))
        named = value.get("additionalProperties")
        if "oneOf" in items:
            shapes = [self._resolved(shape) for shape in items["oneOf"]]
            yield from self._shapes(shapes, f"{path}[]")
        elif "properties" in items:
            yield from self._below(items, f"{path}[]")
        elif isinstance(named, dict) and _has_keys(named):
            yield from self._key(named, f"{path}.<name>", "required")
        else:
            yield self._line(value, path, otherwise, entry.get("description", ""))

    def _shapes(self, shapes: list[Schema], path: str) -> Iterator[Key]:
        """Yield the types of a part that has several shapes, then the keys of all shapes once."""
        types = [shape["properties"]["type"]["const"] for shape in shapes]
        yield self._line({"enum": types}, f"{path}.type", "required")
        keys: dict[str, Key] = {}
        having: dict[str, list[str]] = {}
        for shape, name in zip(shapes, types, strict=True):
            for key in self._below(shape, path, ["type"]):
                keys[key.name] = max(keys.get(key.name, key), key, key=lambda k: len(k.holds))
                having.setdefault(key.name, []).append(f"`{name}`")
        for name, key in keys.items():
            everywhere = len(having[name]) == len(types)
            only = key.otherwise if everywhere else f"with `type:` {_one_of(having[name])}"
            yield key._replace(otherwise=only)

    def _resolved(self, entry: Schema) -> Schema:
        reference = entry.get("$ref")
        return entry if reference is None else self.tables[reference.rpartition("/")[2]]

    def _line(self, value: Schema, path: str, otherwise: str, described: str = "") -> Key:
        own = "" if described == value.get("description") and "examples" in value else described
        return Key(path, self._holds(value), otherwise, self.meanings.get(path, own))

    def _holds(self, value: Schema) -> str:
        """Return in words which values a key may have."""
        if "enum" in value or "const" in value:
            return _one_of([f"`{name}`" for name in value.get("enum", [value.get("const")])])
        if "examples" in value:
            return f"{value['description'].replace('_', ' ')}, such as `{value['examples'][0]}`"
        if "anyOf" in value:
            return _one_of([self._holds(self._resolved(shape)) for shape in value["anyOf"]])
        kind = value["type"]
        if kind == "array" and "prefixItems" in value:
            return f"[{', '.join(self._holds(item) for item in value['prefixItems'])}]"
        if kind == "array":
            return f"list: {self._holds(self._resolved(value['items']))}"
        return KINDS[kind] + _range(value)


def _has_keys(named: Schema) -> bool:
    """Whether the values of a mapping have keys of their own, at this level or a lower one."""
    below = named.get("additionalProperties")
    shapes = [named, *named.get("anyOf", [])]  # null as well, or not
    return any("$ref" in each for each in shapes) or (isinstance(below, dict) and _has_keys(below))


def _default(value: object) -> str:
    return "" if value in (None, {}, []) else f"`{json.dumps(value)}`".replace('"', "")


def _one_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _range(value: Schema) -> str:
    limits = {key: value[key] for key in LIMITS if key in value}
    if limits.get("maximum") in (MAX_COUNT, MOST):
        del limits["maximum"]  # those of all numbers, in the section on limits
    if limits.get("minimum") == LEAST:
        limits = {"exclusiveMinimum": 0, **limits}
        del limits["minimum"]
    words = [
        f"{LIMITS[key]} {limit:,}" if isinstance(limit, int) else f"{LIMITS[key]} {limit:g}"
        for key, limit in limits.items()
    ]
    return f", {' and '.join(words)}" if words else ""


# --- keys of measured cases -----------------------------------------------------------------------

READERS = {
    texts.count: "whole number, at least 1",
    texts.whole_number: "whole number",
    texts.measured_number: "number",
    texts.flag: "`true` or `false`",
    texts.text: "text",
    texts.word: "word",
}
"""Readers of the values of a case in the words of the reference."""


def case_keys(section: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the keys that a reader of cases has, dotted, and what each holds."""
    for name, field in section.model_fields.items():
        alias = field.validation_alias
        own = alias.path if isinstance(alias, AliasPath) else [field.alias or name]
        here = (*path, *map(str, own))
        kinds = [(kind, *get_args(kind)) for kind in types_of(field.annotation)]  # or of its items
        inner = next((kind for either in kinds for kind in either if is_model(kind)), None)
        if inner is not None:
            yield from case_keys(inner, here)
        else:
            readers = [getattr(part, "func", None) for part in field.metadata]
            plain = "number" if float in types_of(field.annotation) else "text"
            yield ".".join(here), next((READERS[of] for of in readers if of in READERS), plain)


# --- keys of an answer ----------------------------------------------------------------------------


WHOLE_ANSWERS = ("RunAnswer", "BestRun", "BeforeAfter", "CombinationResult")
"""Tables inside answers, whose keys are documented elsewhere, or with the key that holds them."""


def answer_keys(answer: type) -> Iterator[tuple[str, str]]:
    """Yield the keys of an answer, dotted, with the meanings that its docstrings give."""
    table = schema(answer)
    yield from _answer_keys(table, table.get("$defs", {}), "")


def _answer_keys(answer: Schema, tables: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys below `path` that have no keys of their own, with their descriptions."""
    for name, inner in answer.get("properties", {}).items():
        key = f"{path}.{name}" if path else name
        entry, suffix = _entry(inner)
        table = tables.get(entry.get("$ref", "").rpartition("/")[2])
        whole = table is None or table.get("title") in WHOLE_ANSWERS
        if whole or "$ref" not in inner:
            yield key, inner["description"]
        if not whole:
            yield from _answer_keys(table, tables, key + suffix)


def _entry(value: Schema) -> tuple[Schema, str]:
    """Return what a key holds, and how the keys below it are written."""
    if value.get("type") == "array":
        entry, suffix = _entry(value["items"])
        return entry, f"[]{suffix}"
    named = value.get("additionalProperties")
    if isinstance(named, dict):
        return named, ".<name>"
    present = [shape for shape in value.get("anyOf", [value]) if shape.get("type") != "null"]
    return next(iter(present), value), ""
