"""Typed answers as plain values and back: what every ``--json`` prints, and its schema.

An answer is a frozen dataclass whose fields are exactly the keys of the JSON object.  Its docstring
documents them, one line `key : meaning [unit]` each under *Attributes*, and `schema` takes the
descriptions from there.  A key that is a keyword of Python is an alias of its field:

    from_: Annotated[int, Field(alias="from")]
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from types import GenericAlias, NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from clustersim.records import dataclass

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Answer = TypeVar("Answer")

MOST_LETTERS: Final = 260
"""Letters of the representation of a record, before it is cut."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(kind: type[Answer]) -> type[Answer]:
    """Make a class a frozen dataclass whose representation is one short line."""
    made: Any = dataclass(frozen=True, repr=False)(kind)
    made.__repr__ = in_brief
    return made  # type: ignore[no-any-return]


def in_brief(values: Any) -> str:
    """Return the values of a record or a named tuple; tables and records inside by their type.

    >>> @record
    ... class Pair:
    ...     name: str
    ...     both: tuple[float, ...]
    >>> Pair("a", (1 / 3, 2.0)), Pair("b", (1.0,) * 100)
    (Pair(name='a', both=(0.333333, 2)), Pair(name='b', both=<100 float>))
    """
    named = [key.name for key in fields(values)] if is_dataclass(values) else values._fields
    return brief_text(type(values).__name__, [(name, getattr(values, name)) for name in named])


def brief_text(name: str, values: Iterable[tuple[str, Any]]) -> str:
    """Return the values of a record of some name as one short line."""
    text = ", ".join(f"{key}={_value_in_brief(value)}" for key, value in values)
    text = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS].rpartition(', ')[0]}, ..."
    return f"{name}({text})"


def _value_in_brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        text = f"({', '.join(map(_value_in_brief, value[:8]))})"
        short = len(value) <= 8 and len(text) <= 40
        return text if short else f"<{len(value)} {type(value[0]).__name__}>"
    if isinstance(value, dict):
        return f"<{len(value)} key{'s' * (len(value) > 1)}>" if value else "{}"
    if isinstance(value, str | int | None):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}...'"
    return f"<{type(value).__name__}>"


class Presentable:
    """An answer that shows itself: as numbers, tables, charts and a page.

    All of them are the files that its command writes: `files_of` of the module `files` next to its
    own, which for an answer in ``simulation`` is the one in ``reports``, returns them.
    """

    def files(self, command: str = "") -> Any:
        """Return the page, the tables and the figures, as `StudyFiles`.

        Parameters
        ----------
        command : what made the answer, for the page
        """
        package = type(self).__module__.rpartition(".")[0].replace(".simulation.", ".reports.")
        return import_module(f"{package}.files").files_of(self, command)

    def _repr_html_(self) -> str:
        """Return the first numbers for a notebook, and the names of what else there is."""
        return str(self.files().html())

    def to_frame(self, table: str | None = None) -> Any:
        """Return a table as a data frame of pandas, in the units of its file.

        Parameters
        ----------
        table : name of the file, with or without its ending; the first one if None

        Raises
        ------
        ScenarioError
            when there is no such table, in one line with the names.
        """
        return self.files().frame(table)

    @property
    def plot(self) -> Any:
        """The charts, each a method: ``answer.plot.pareto(backend="plotly")``."""
        return self.files().charts

    def save(
        self, folder: str | Path, *, figures: Sequence[str] = (), force: bool = False
    ) -> list[str]:
        """Write the page and all files into a folder, as the command does; return their names.

        Parameters
        ----------
        figures : formats of the figures, of ``"png"``, ``"svg"`` and ``"pdf"``
        force : write to a folder with other files, which are kept

        Raises
        ------
        ScenarioError
            when the folder has other files, or cannot be written.
        """
        names: list[str] = self.files().write(Path(folder), formats=figures, force=force)
        return names


def answer_from(kind: type[Answer], *sources: object, **values: Any) -> Answer:
    """Return an answer: `values`, and for other keys the attribute of the first object with it."""
    table: Any = kind
    for name in (key.name for key in fields(table) if key.name not in values):
        values[name] = getattr(next((s for s in sources if hasattr(s, name)), sources[-1]), name)
    return kind(**values)


def built_from(kind: type[Answer], source: object, **values: Any) -> Answer:
    """Return a dataclass of `values`, of attributes of an object, and of defaults.

    The default of a field applies where the object has no attribute of its name, or None.
    """
    table: Any = kind
    for key in fields(table):
        value = getattr(source, key.name, None)
        if value is not None:
            values.setdefault(key.name, value)
    return kind(**values)


PLAIN: Final = (str, int, float, NoneType)
"""Types of values that JSON has itself."""


def to_json(answer: Any, *, floats: bool = False) -> Any:
    """Return an answer, or whatever is in one, as plain values for `json.dumps`.

    The values are those of pydantic, which would compile all types of an answer first: 10 ms.

    Parameters
    ----------
    floats : whether whole numbers are of a field of floats
    """
    if isinstance(answer, PLAIN):
        return float(answer) if floats and type(answer) is int else answer
    if isinstance(answer, list | tuple):
        return [to_json(item, floats=floats) for item in answer]
    if isinstance(answer, Mapping):
        return {key: to_json(value, floats=floats) for key, value in answer.items()}
    if is_dataclass(answer):
        kind: Any = type(answer)
        return {
            key: to_json(getattr(answer, name), floats=floats) for name, key, floats in _keys(kind)
        }
    from pydantic_core import to_jsonable_python  # of which few answers have values

    return to_jsonable_python(answer)


@cache
def _keys(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """Return the fields of an answer, the key of each, and whether its numbers are floats."""
    aliases = {name: key for key, name in _fields_by_key(kind).items()}
    types = {name: [*_types(hint)] for name, hint in get_type_hints(kind).items()}
    floats = {name: float in own and int not in own for name, own in types.items()}
    names = (each.name for each in fields(kind))
    return tuple((name, aliases.get(name, name), floats[name]) for name in names)


def _types(annotation: Any) -> Iterator[Any]:
    inner = get_args(annotation)
    yield from chain.from_iterable(map(_types, inner)) if inner else (annotation,)


def from_json(kind: type[Answer], data: Any) -> Answer:
    """Return an answer of some type from plain values.

    Raises
    ------
    ValueError
        with every key that is missing or has a value of another type.
    """
    hashable: Any = kind
    adapter: TypeAdapter[Answer] = _adapter(hashable)
    return adapter.validate_python(data)


def schema(answer: type | GenericAlias) -> dict[str, Any]:
    """Return the JSON Schema of an answer, each key with the description of its docstring."""
    whole = _adapter(answer).json_schema(by_alias=True)
    for table in [whole, *whole.get("$defs", {}).values()]:
        kind = _named(answer, table.get("title", ""))
        described, names = _descriptions(kind), _fields_by_key(kind)
        for key, given in table.get("properties", {}).items():
            given.pop("title", None)
            if (field := names.get(key, key)) in described:
                given["description"] = described[field]
    return with_definitions(whole, lambda key, _: re.sub("_Union|_(?=_)|_+$", "", key))


def with_definitions(schema: dict[str, Any], name: Callable[[str, Any], str]) -> dict[str, Any]:
    """Return a JSON Schema with other names of its definitions, from each name and definition.

    Those that are made from types of Python would be names of a thousand characters.
    """
    definitions: dict[str, Any] = schema.get("$defs", {})
    names = {
        key: name(key, table).replace("NoneType", "null") for key, table in definitions.items()
    }
    text = json.dumps({**schema, "$defs": {names[key]: definitions[key] for key in names}})
    for key, new in names.items():
        text = text.replace(f'"#/$defs/{key}"', f'"#/$defs/{new}"')
    renamed: dict[str, Any] = json.loads(text)
    return renamed if names else schema


def _fields_by_key(answer: type | None) -> dict[str, str]:
    """Return the fields of an answer that have another name than their keys, by key."""
    hints = get_type_hints(answer, include_extras=True) if answer else {}
    return {
        alias: name
        for name, hint in hints.items()
        for note in getattr(hint, "__metadata__", ())
        if (alias := getattr(note, "alias", None)) is not None
    }


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # 50 ms that `--help` need not wait for

    return TypeAdapter(kind)


def _named(answer: Any, name: str) -> type | None:
    """Return the dataclass of that name among an answer and all that it holds."""
    return next((kind for kind in _dataclasses(answer) if kind.__name__ == name), None)


@cache
def _dataclasses(annotation: Any) -> tuple[type, ...]:
    """Return the dataclasses of a type and of all that it holds, each where it is met."""
    inner, own = list(get_args(annotation)), []
    table = get_origin(annotation) or annotation
    if isinstance(table, type) and is_dataclass(table):
        own = [table]
        hints = get_type_hints(table)
        inner += [hints[field.name] for field in fields(table)]
    return tuple(dict.fromkeys(chain(own, *map(_dataclasses, inner))))


_ATTRIBUTE = re.compile(r"^(\w[\w, ]*) : (.*(?:\n +.*)*)$", re.MULTILINE)
"""A line `key : meaning` or `key, key : meaning` of a docstring, and the lines that continue it."""


def _descriptions(answer: type | None) -> dict[str, str]:
    """Return the meaning of each key in a docstring.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     '''A point.
    ...
    ...     Attributes
    ...     ----------
    ...     x, y : along an axis [m]
    ...     '''
    ...
    ...     x: float
    ...     y: float
    >>> _descriptions(Point)
    {'x': 'along an axis [m]', 'y': 'along an axis [m]'}
    """
    meanings: dict[str, str] = {}
    for table in reversed(answer.__mro__ if answer else ()):
        _, _, section = cleandoc(table.__doc__ or "").partition("Attributes\n---")
        for keys, meaning in _ATTRIBUTE.findall(section):
            meanings |= dict.fromkeys(keys.replace(" ", "").split(","), " ".join(meaning.split()))
    return meanings
