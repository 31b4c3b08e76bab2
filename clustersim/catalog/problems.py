"""Problems of values in plain words: what is wrong, and what is allowed.

The checks of types and limits are pydantic's; none of its words reach a message.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from clustersim.catalog.facts import SourcedValue
from clustersim.catalog.reading import Key
from clustersim.suggestions import nearest, other_names
from clustersim.units import parse_count

_MOST_LETTERS: Final = 60
"""Letters of a value that a message has at most."""

_MOST_KEYS: Final = 14
"""Keys that a message lists at most."""


def as_stated(value: object) -> str:
    """Return a value as a file states it, shortened.

    >>> as_stated(None), as_stated(True), as_stated("x"), as_stated([1]), as_stated({"a": 1})
    ('null', 'true', "'x'", 'a list', 'a table of keys')
    """
    if isinstance(value, dict):
        return "a table of keys"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = repr(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


# --- the types of a place ------------------------------------------------------------------------


def types_of(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation allows, without `None` and metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return types_of(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(kind for inner in get_args(annotation) for kind in types_of(inner))
    return () if annotation is type(None) else (annotation,)


def is_model(kind: Any) -> bool:
    """Whether a type is a table with fixed keys."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def is_fact_type(kind: Any) -> bool:
    """Whether a type is a sourced value."""
    return isinstance(kind, type) and issubclass(kind, SourcedValue)


def annotations_at(kinds: Iterable[Any], path: Key) -> list[Any]:
    """Return the annotations that are allowed at `path` below values of some types."""
    annotations = list(kinds)
    for part in path:
        types = chain.from_iterable(map(types_of, annotations))
        annotations = [inner for kind in types for inner in _inside(kind, part)]
    return annotations


def types_at(record: Any, path: Key) -> list[Any]:
    """Return the types that are allowed at `path` of a record."""
    return [kind for annotation in annotations_at([record], path) for kind in types_of(annotation)]


def _inside(kind: Any, part: str | int) -> list[Any]:
    if is_model(kind):
        return [
            info.annotation for name, info in kind.model_fields.items()
            if part in (name, info.alias)
        ]  # fmt: skip
    inner = get_args(kind)
    if get_origin(kind) is dict:
        return [inner[1]]
    if get_origin(kind) is list and isinstance(part, int):
        return [inner[0]]
    if get_origin(kind) is tuple and isinstance(part, int) and part < len(inner):
        return [inner[part]]
    return []


def keys_of(kinds: Iterable[Any]) -> list[str]:
    """Return the keys that tables of some types have."""
    fields = [pair for kind in kinds if is_model(kind) for pair in kind.model_fields.items()]
    return list(dict.fromkeys(info.alias or name for name, info in fields))


def table_of(key: str, record: Any) -> str | None:
    """Return the dotted key of a table of a record that has a key, also by another name of it."""
    for table in keys_of([record]):
        inside = keys_of(types_at(record, (table,)))
        for name in (key, *other_names(key)):
            if name in inside:
                return f"{table}.{name}"
    return None


def fact_form(kinds: Iterable[Any], value: object = None) -> str:
    """Return how a sourced value is written, with `value` or with an example.

    >>> fact_form([SourcedValue[int]])
    '{value: 4, source: KEY} or {value: 4, assumed: why}'
    """
    known = next((kind for kind in kinds if is_fact_type(kind)), SourcedValue)
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    text = str(value) if plain and value == value else _example(known)
    return f"{{value: {text}, source: KEY}} or {{value: {text}, assumed: why}}"


_EXAMPLES: Final[Mapping[Any, str]] = {int: "4", float: "0.9", bool: "true", list: "[1, 2]"}


def _example(fact: Any) -> str:
    annotation = fact.model_fields["value"]
    for data in annotation.metadata:
        examples = (getattr(data, "json_schema", None) or {}).get("examples")
        if examples:
            return str(examples[0])
    for kind in types_of(annotation.annotation):
        if get_origin(kind) is Literal:
            return str(get_args(kind)[0])
        if (get_origin(kind) or kind) in _EXAMPLES:
            return _EXAMPLES[get_origin(kind) or kind]
    return "..."


# --- one problem in words ------------------------------------------------------------------------


def reason(problem: Mapping[str, Any], kinds: Iterable[Any] = ()) -> str:
    """Return what is wrong with a value, and what is allowed.

    Parameters
    ----------
    problem : an entry of `ValidationError.errors()`
    kinds : the types that are allowed there
    """
    kind, value = problem["type"], problem.get("input")
    if kind == "value_error":
        text = problem["msg"].removeprefix("Value error, ")
        text = text[:1].lower() + text[1:]
        known = isinstance(value, dict | list | BaseModel) or repr(value) in text
        return text if known else f"{text}, not {as_stated(value)}"
    return f"{_expected(problem, list(kinds))}, not {as_stated(value)}{_as_number(kind, value)}"


def _as_number(kind: str, value: object) -> str:
    """Return how a text with a suffix is written as a whole number: a k may be 1,000 or 1,024.

    >>> _as_number("int_type", "8k"), _as_number("int_type", "x"), _as_number("float_type", "5 %")
    (' (write 8000 or 8192)', '', ' (write 0.05)')
    """
    if not isinstance(value, str):
        return ""
    if _WORDS.get(kind) == "a number" and re.fullmatch(r"\d+(\.\d+)? ?%", value.strip()):
        return f" (write {float(value.strip(' %')) / 100:g})"
    if _WORDS.get(kind) != "a whole number":
        return ""
    try:
        number = parse_count(value)
    except ValueError:
        return ""
    choices = [number, number * 1.024] if value.strip()[-1:] in ("k", "K") else [number]
    whole = [f"{choice:.0f}" for choice in choices if choice == round(choice)]
    return f" (write {' or '.join(whole)})" if whole else ""


def merged(reasons: Iterable[str]) -> str:
    """Return the reasons of one value, which is of none of several types, as one.

    >>> merged(["must be text, not true", "must be a whole number, not true"])
    'must be text or a whole number, not true'
    """
    different = list(dict.fromkeys(reasons))
    parts = [text.removeprefix("must be ").rpartition(", not ") for text in different]
    same_given = len({given for _, _, given in parts}) == 1
    choices = all(text.startswith("must be ") for text in different)
    if len(different) == 1 or not same_given or not choices:
        return different[0]
    return f"must be {' or '.join(expected for expected, _, _ in parts)}, not {parts[0][2]}"


def _expected(problem: Mapping[str, Any], kinds: list[Any]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in {"model_type", "model_attributes_type", "dataclass_type"}:
        return _table(kinds)
    if kind in _LIMITS:
        return _LIMITS[kind](context)
    return f"must be {_WORDS[kind]}" if kind in _WORDS else "is not allowed here"


def _table(kinds: list[Any]) -> str:
    if any(map(is_fact_type, kinds)):
        return f"must be a value with its proof, {fact_form(kinds)}"
    models = [kind for kind in kinds if is_model(kind)]
    if len(models) > 1 and all("type" in model.model_fields for model in models):
        [first, *_] = get_args(models[0].model_fields["type"].annotation)
        return f"must be a table such as {{type: {first}}}"
    keys = keys_of(kinds)
    if not keys:
        return "must be a table of keys"
    more = ", ..." if len(keys) > _MOST_KEYS else ""
    return f"must be a table with keys such as {', '.join(keys[:_MOST_KEYS])}{more}"


_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    "int_parsing_size": "a whole number of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("string_type", "string_unicode"), "text"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "mapping_type"), "a table of keys"),
}


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


_LIMITS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "literal_error": lambda context: f"must be {context['expected']}",
    "greater_than_equal": lambda context: f"must be at least {_number(context['ge'])}",
    "greater_than": lambda context: f"must be more than {_number(context['gt'])}",
    "less_than_equal": lambda context: f"must be at most {_number(context['le'])}",
    "less_than": lambda context: f"must be less than {_number(context['lt'])}",
    "too_short": lambda context: f"must have at least {_entries(context['min_length'])}",
    "too_long": lambda context: f"must have at most {_entries(context['max_length'])}",
    "string_too_short": lambda context: f"must have at least {context['min_length']} letters",
    "string_too_long": lambda context: f"must have at most {context['max_length']} letters",
}
"""Problems whose limit is in their context."""


def allowed(keys: Iterable[str]) -> str:
    """Return ``" (allowed: a, b)"``, or an empty text for none and for too many."""
    known = list(dict.fromkeys(keys))
    return f" (allowed: {', '.join(known)})" if 0 < len(known) <= _MOST_KEYS else ""


def unknown_key(key: str, keys: Iterable[str]) -> str:
    """Return the reason for a key that a table does not have."""
    known = list(keys)
    return f"unknown key{nearest(key, known) or allowed(known)}"
