"""Messages about the values of a file: line, key, problem and what is allowed."""

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from clustersim.catalog.reading import Key
from clustersim.catalog.tree import Tree, dotted, is_fact, nearest
from clustersim.errors import ClustersimError, ScenarioError

Record = TypeVar("Record", bound=BaseModel)


def checked(
    record: type[Record], tree: Tree, error: type[ClustersimError] = ScenarioError
) -> Record:
    """Return `tree` as a typed record.

    Raises
    ------
    `error`
        with one line for each problem of the tree, in the order of the file.
    """
    try:
        return record.model_validate(tree.data)
    except ValidationError as problems:
        lines = [_message(record, tree, problem) for problem in problems.errors()]
        raise error("\n".join(dict.fromkeys(lines))) from None


def _message(record: type[BaseModel], tree: Tree, problem: Any) -> str:
    kind = problem["type"]
    path = _location(tree, problem["loc"], whole=kind == "value_error")
    place = tree.place(path)
    if kind == "extra_forbidden":
        hint = nearest(str(path[-1]), _keys(record, path[:-1]))
        return f"{place}: {dotted(path)}: unknown key{hint}"
    if kind == "missing":
        return f"{place}: {dotted(path)}: missing (it must be given)"
    reason = problem["msg"].removeprefix("Value error, ")
    reason = reason[:1].lower() + reason[1:]
    given = problem.get("input")
    complete = isinstance(given, dict | list) or repr(given) in reason or kind in _WITH_VALUE
    return f"{place}: {_shown(tree, path)}: {reason}" + ("" if complete else f", not {given!r}")


_WITH_VALUE = {"union_tag_invalid"}
"""Kinds of problems whose text contains the given value."""


def _shown(tree: Tree, path: Key) -> str:
    """Return a key as the user writes it: a sourced value by its own name."""
    owner: Any = tree.data
    for part in path[:-1]:
        owner = owner[part]
    return dotted(path[:-1] if path and path[-1] == "value" and is_fact(owner) else path)


def _location(tree: Tree, loc: tuple[Any, ...], *, whole: bool) -> Key:
    """Return the location of pydantic without the tags of unions, which are not keys of the file.

    The last part may be a key that is missing, unless the message is about a `whole` table.
    """
    path: list[str | int] = []
    value: Any = tree.data
    for depth, part in enumerate(loc):
        last = depth == len(loc) - 1 and not whole
        if isinstance(value, dict) and part not in value and not last:
            continue
        if isinstance(value, str | int | float):
            continue
        if isinstance(value, list) and not isinstance(part, int):
            continue
        path.append(part)
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            value = None
    return tuple(path)


def _keys(record: Any, path: Key) -> list[str]:
    """Return the keys that a record allows below `path`, following unions and containers."""
    found: list[str] = []
    for model in _models(record):
        if not path:
            found += [info.alias or name for name, info in model.model_fields.items()]
        elif path[0] in model.model_fields:
            found += _keys(model.model_fields[str(path[0])].annotation, path[1:])
    if not found and path:
        return _keys(record, path[1:]) if not _models(record) else found
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
