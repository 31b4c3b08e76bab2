"""Types of the arguments of public functions, by their annotations: a wrong one is a line.

Only the outermost type is checked: the items of lists and dicts are checked where they are read.
"""

import inspect
import reprlib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from clustersim.errors import ScenarioError

Function = TypeVar("Function", bound=Callable[..., Any])


def checked(function: Function) -> Function:
    """Return a function that rejects arguments of wrong types in one line."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        _check(function, arguments, named)
        return function(*arguments, **named)

    return call  # type: ignore[return-value]  # it has the same parameters


def _check(function: Callable[..., Any], arguments: Any, named: Mapping[str, Any]) -> None:
    """Check the types of the arguments of a call.

    Raises
    ------
    ScenarioError
        a line for each argument of a wrong type.
    """
    names, hints = _parameters(function)
    given = {**dict(zip(names, arguments, strict=False)), **named}
    problems = [
        f"{function.__name__}: {name}: must be {_words(hints[name])}, not {reprlib.repr(value)}"
        for name, value in given.items()
        if name in hints and not any(test(value) for _, test in _kinds(hints[name]))
    ]
    if problems:
        raise ScenarioError("\n".join(problems))


@cache
def _parameters(function: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the names of parameters in their order, and their types; those of `**` as well."""
    hints, names = get_type_hints(function), []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            (table,) = get_args(hints.pop(name))
            hints |= get_type_hints(table)
        else:
            names.append(name)
    return names, hints


def _number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


Test = Callable[[Any], bool]

_KINDS: Final[Mapping[Any, tuple[str, Test]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    int: ("a whole number", lambda value: _number(value, Integral)),
    float: ("a number", lambda value: _number(value, Real)),
    bool: ("True or False", lambda value: type(value).__name__ in ("bool", "bool_")),
    types.NoneType: ("None", lambda value: value is None),
    Mapping: ("a dict", lambda value: isinstance(value, Mapping)),
    Callable: ("a function", callable),
    PathLike: ("a path", lambda value: isinstance(value, PathLike)),
}
"""What a value of a type is in words, and whether one is."""

_LIST: Final[tuple[str, Test]] = ("a list", lambda value: isinstance(value, Iterable))


def _kinds(hint: Any) -> Iterator[tuple[str, Test]]:
    """Yield each type that a hint allows, in words, and whether a value has it."""
    if get_origin(hint) in (Union, types.UnionType):
        for one in get_args(hint):
            yield from _kinds(one)
        return
    kind = get_origin(hint) or hint
    if kind in _KINDS:
        yield _KINDS[kind]
    elif issubclass(kind, PathLike):
        yield _KINDS[PathLike]
    elif issubclass(kind, Iterable):
        yield _LIST
    else:
        yield f"a {kind.__name__}", lambda value: isinstance(value, kind)


def _words(hint: Any) -> str:
    """Return the types that a hint allows in words.

    >>> _words(int | list[int] | None)
    'a whole number, a list or None'
    """
    *first, last = [*dict.fromkeys(words for words, _ in _kinds(hint))]
    return f"{', '.join(first)} or {last}" if first else last
