"""Plain values where a sourced one is needed: assumptions of the user who states them.

    size: 4        in a file of the user: {value: 4, assumed: stated by the user}

Shipped files state the source of every value, or the reason for assuming it.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel

from clustersim.catalog import finding
from clustersim.catalog.facts import Record, facts
from clustersim.catalog.problems import as_stated, fact_form, is_fact_type, is_model, types_of
from clustersim.catalog.reading import Key
from clustersim.catalog.tree import Tree, dotted

STATED: Final = "stated by the user"
"""The reason for a value that has no other."""


def state(record: type[BaseModel], tree: Tree, known: Collection[str] = ()) -> list[str]:
    """Turn the plain values of a tree into sourced ones where the record has these.

    Parameters
    ----------
    known : keys whose values are sourced already

    Returns
    -------
    A message for each plain value of a shipped file.
    """
    messages: list[str] = []
    for key, kinds in _fields(record):
        if key in tree.data and key not in known:
            messages += _in_key(kinds, tree.data, key, (key,), tree)
    return messages


def stated_keys(record: BaseModel, where: str = "") -> Iterator[str]:
    """Yield the dotted keys of a record whose only proof is that the user states them."""
    for key, fact in facts(record, where):
        if fact.assumed == STATED:
            yield key
    for name in type(record).model_fields:
        inner = getattr(record, name)
        if isinstance(inner, Record):
            yield from stated_keys(inner, f"{where}.{name}" if where else name)


def _in_table(
    kinds: tuple[Any, ...], table: dict[str, Any], path: Key, tree: Tree
) -> Iterator[str]:
    for kind in kinds:
        if get_origin(kind) is dict:
            inner = types_of(get_args(kind)[1])
            for key in table:
                yield from _in_key(inner, table, key, (*path, key), tree)
        elif is_model(kind) and not is_fact_type(kind):
            for key, inner in _fields(kind):
                if key in table:
                    yield from _in_key(inner, table, key, (*path, key), tree)


def _in_key(
    kinds: tuple[Any, ...], table: dict[str, Any], key: str, path: Key, tree: Tree
) -> Iterator[str]:
    value = table[key]
    fact = next((kind for kind in kinds if is_fact_type(kind)), None)
    if fact is not None and _is_plain(fact, value):
        place = tree.place(path)
        if finding.is_shipped(place.file):
            yield (
                f"{place}: {dotted(path)}: {as_stated(value)} has no source"
                f" (write {fact_form(kinds, value)})"
            )
        reason = str(place) if place.file.startswith("--set") else STATED
        table[key] = {"value": value, "assumed": reason}
    elif isinstance(value, dict):
        yield from _in_table(kinds, value, path, tree)


def _is_plain(fact: Any, value: object) -> bool:
    """Whether a value is one without a table around it, which may be a table itself."""
    if not isinstance(value, dict):
        return value is not None
    inner = types_of(fact.model_fields["value"].annotation)
    return "value" not in value and any(get_origin(kind) is dict for kind in inner)


@lru_cache(maxsize=256)
def _fields(model: type[BaseModel]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the keys of a table that may hold tables, with the types of each."""
    fields = (
        (info.alias or name, types_of(info.annotation)) for name, info in model.model_fields.items()
    )
    return tuple(
        (key, kinds)
        for key, kinds in fields
        if any(is_model(kind) or get_origin(kind) is dict for kind in kinds)
    )
