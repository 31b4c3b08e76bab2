"""Checks of the values of a file, and messages about them: line, key, problem, what is allowed.

A plain value where a sourced one is needed is an assumption of the user who states it:

    size: 4        in a file of the user: {value: 4, assumed: stated by the user}

Shipped files state the source of every value, or the reason for assuming it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from clustersim.catalog import finding
from clustersim.catalog.changes import key_path
from clustersim.catalog.disk_cache import kept
from clustersim.catalog.facts import STATED
from clustersim.catalog.kept_records import Records, keep_records, kept_records, with_records
from clustersim.catalog.problems import (
    allowed,
    annotations_at,
    as_stated,
    fact_form,
    is_fact_type,
    is_model,
    keys_of,
    merged,
    reason,
    table_of,
    types_at,
    types_of,
    unknown_key,
)
from clustersim.catalog.reading import Key, Place
from clustersim.catalog.tree import Tree, dotted, is_fact
from clustersim.errors import CatalogError, ClustersimError, ScenarioError
from clustersim.suggestions import nearest

Record = TypeVar("Record", bound=BaseModel)

NONE_KNOWN: Final[Mapping[str, BaseModel]] = MappingProxyType({})


def checked(
    record: type[Record],
    tree: Tree,
    error: type[ClustersimError] = ScenarioError,
    known: Mapping[str, BaseModel] = NONE_KNOWN,
    *,
    reasons: bool = False,
) -> Record:
    """Return `tree` as a typed record; its plain values become sourced ones before.

    Parameters
    ----------
    known : records of keys that have been checked and have not changed since
    reasons : whether keys of its table `assumed` must be keys of the record

    Raises
    ------
    `error`
        with one line for each problem of the tree, in the order of the file.
    """
    before: Records = {(key,): each for key, each in known.items()}
    same = {**before, **kept_records(record, tree, before)}
    without_source = _state_plain_values(record, tree, same)
    if without_source:
        raise error("\n".join(without_source))
    try:
        checked_record = _validated(record, tree.data, same)
    except ValidationError as problems:
        raise error("\n".join(_messages(record, tree, problems))) from None
    if reasons and (without_key := list(_reasons_without_key(record, tree))):
        raise error("\n".join(without_key))
    keep_records(checked_record, tree, same)
    return checked_record


def _validated(record: type[Record], data: dict[str, Any], known: Records) -> Record:
    """Return values as a record; the first of a kind from disk, rather than build a validator."""

    def compute() -> Record:
        return record.model_validate(with_records(data, known))

    first = not record.__pydantic_complete__
    return kept(compute, record.__name__, data) if first else compute()


def _reasons_without_key(record: type[BaseModel], tree: Tree) -> Iterator[str]:
    """Yield a line for each reason in `assumed` of a key that the record does not have."""
    for key in tree.data.get("assumed") or {}:
        path = key_path(key)
        known = [annotations_at([record], path[:end]) for end in range(len(path) + 1)]
        if not known[-1]:
            end = known.index([])
            kinds = [kind for annotation in known[end - 1] for kind in types_of(annotation)]
            hint = nearest(str(path[end - 1]), keys_of(kinds))
            yield (
                f"{tree.place(('assumed', key))}: assumed.{key}: a scenario has no key"
                f" '{dotted(path[:end])}'{hint}"
            )


def unknown_keys(record: type[BaseModel], tree: Tree, without: Collection[str]) -> list[str]:
    """Return a line for each key that a tree cannot have; its other problems are left out.

    Parameters
    ----------
    without : keys whose tables are not looked at
    """
    try:
        record.model_validate(tree.data)
    except ValidationError as problems:
        unknown = [one for one in problems.errors() if one["type"] == "extra_forbidden"]
        return _lines(record, tree, [one for one in unknown if str(one["loc"][0]) not in without])
    return []


def shipped_record(record: type[Record], kind: str, name: str) -> Record:
    """Return a shipped file of the catalogue as a typed record.

    Raises
    ------
    CatalogError
        when there is none of that name, or it is not valid.
    """
    return checked(record, Tree.of(finding.find(kind, name)), CatalogError)


# --- messages -------------------------------------------------------------------------------------


def _messages(record: type[BaseModel], tree: Tree, problems: ValidationError) -> list[str]:
    """Return one line for each key at fault: a value of none of several types is one problem."""
    return _lines(record, tree, problems.errors())


def _lines(record: type[BaseModel], tree: Tree, problems: Iterable[Any]) -> list[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        path, text = _problem(record, tree, problem)
        place = _at_fault(tree, path, problem["type"])
        reasons.setdefault((str(place), _shown(tree, path)), []).append(text)
    return [f"{place}: {key}: {merged(texts)}" for (place, key), texts in reasons.items()]


def _problem(record: type[BaseModel], tree: Tree, problem: Any) -> tuple[Key, str]:
    """Return the key that a problem is about, and the reason."""
    kind, loc = problem["type"], problem["loc"]
    of_key = bool(loc) and loc[-1] == "[key]"
    path = _location(tree, loc[:-1] if of_key else loc, whole=kind != "missing")
    kinds = types_at(record, path)
    if of_key:
        return path, unknown_key(str(path[-1]), _allowed_keys(types_at(record, path[:-1])))
    if kind == "extra_forbidden":
        key, around = str(path[-1]), types_at(record, path[:-1])
        table = table_of(key, record) if len(path) == 1 else None
        hint = None if table is None else f"unknown key (did you mean '{table}'?)"
        return path, hint or unknown_key(key, keys_of(_of_tag(around, loc)))
    if kind == "missing":
        return _missing(record, path, problem)
    if kind == "union_tag_not_found":
        key = str(problem["ctx"]["discriminator"]).strip("'")
        if not isinstance(problem.get("input"), dict):
            return (
                path,
                f"must be a table with the key {key}, not {as_stated(problem.get('input'))}",
            )
        return (*path, key), f"missing{allowed(_tags(kinds, key))}"
    if kind == "union_tag_invalid":
        context = problem["ctx"]
        key = str(context["discriminator"]).strip("'")
        value = problem["input"].get(key) if isinstance(problem.get("input"), dict) else None
        return (*path, key), f"must be {_choice(context['expected_tags'])}, not {as_stated(value)}"
    return path, reason(problem, kinds)


def _of_tag(kinds: Sequence[Any], loc: Sequence[Any]) -> Sequence[Any]:
    """Return those of several kinds of tables whose `type` stands in the place of a problem."""
    chosen = [
        kind for kind in kinds
        if is_model(kind) and "type" in kind.model_fields
        and not {*get_args(kind.model_fields["type"].annotation)}.isdisjoint(loc)
    ]  # fmt: skip
    return chosen or kinds


def _missing(record: type[BaseModel], path: Key, problem: Mapping[str, Any]) -> tuple[Key, str]:
    """Return the reason for a missing key, sourced value or entry of a list."""
    around = types_at(record, path[:-1])
    if path and isinstance(path[-1], int):
        counts = {len(get_args(kind)) for kind in around if get_origin(kind) is tuple}
        counted = " or ".join(map(str, sorted(counts)))
        return path[:-1], f"must have {counted} entries, not {path[-1]}"
    if path and path[-1] == "value" and any(map(is_fact_type, around)):
        return path[:-1], f"has no value (write {fact_form(around)})"
    return path, "missing (a required key)"


def _choice(tags: str) -> str:
    """Return ``'a', 'b' or 'c'`` of ``'a', 'b', 'c'``."""
    before, comma, last = tags.rpartition(", ")
    return f"{before} or {last}" if comma else last


def _tags(kinds: list[Any], key: str) -> list[str]:
    fields = (kind.model_fields.get(key) for kind in kinds if is_model(kind))
    return [str(tag) for field in fields if field for tag in get_args(field.annotation)]


def _allowed_keys(kinds: list[Any]) -> list[str]:
    """Return the keys of mappings whose keys are a choice of words."""
    keys = (get_args(kind)[0] for kind in kinds if get_origin(kind) is dict)
    return [str(word) for key in keys if get_origin(key) is Literal for word in get_args(key)]


def _at_fault(tree: Tree, path: Key, kind: str) -> Place:
    """Return the place that the user has to change for a problem at `path`.

    A shipped file is correct, so that what does not agree with it is a setting or a value
    of the user's own file: the closest one. Of a contradiction in a table it is the last setting in
    it, and of a key that is missing the one that sets the table's type.
    """
    place = tree.place(path)
    if _is_setting(place):
        return place
    if kind == "missing" and _is_setting(of_type := tree.place((*path[:-1], "type"))):
        return of_type
    shipped = _is_shipped(place.file)
    if kind != "value_error" and not shipped:
        return place
    best, closest = place, 0 if shipped else len(path)
    for key, candidate in tree.places.items():
        common = _common(key, path)
        is_set = _is_setting(candidate)
        if common < max(closest, 1) or not (is_set or (shipped and common > closest)):
            continue
        if not is_set and (candidate.file == place.file or _is_shipped(candidate.file)):
            continue
        best, closest = candidate, common
    return best


def _is_shipped(file: str) -> bool:
    """Whether a file, as messages name it, is one of the catalogue's own."""
    if file.startswith("--"):
        return False
    try:
        folder = Path(file).resolve().parent
    except (OSError, RuntimeError, ValueError):  # no path
        return False
    return any(folder == finding.shipped(kind) for kind in finding.FOLDERS)


def _is_setting(place: Place) -> bool:
    return place.file.startswith("--set")


def _common(path: Key, other: Key) -> int:
    """Return the number of parts that two paths begin with in common."""
    pairs = zip(path, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(path), len(other)))


def _shown(tree: Tree, path: Key) -> str:
    """Return a key as the user writes it: a sourced value by its own name."""
    owner: Any = tree.data
    shown: list[str | int] = []
    for part in path:
        if part != "value" or not is_fact(owner):
            shown.append(part)
        owner = _inner(owner, part)
    return dotted(tuple(shown))


def _location(tree: Tree, loc: tuple[Any, ...], *, whole: bool) -> Key:
    """Return the location of pydantic without the tags of unions, which are not keys of the file.

    The last part may be a key that is missing, unless the message is about the `whole` value.
    """
    path: list[str | int] = []
    value: Any = tree.data
    for depth, part in enumerate(loc):
        last = depth == len(loc) - 1 and not whole
        if isinstance(value, dict) and part not in value and not last:
            continue
        if value is None or isinstance(value, str | int | float):
            continue
        if isinstance(value, list) and not isinstance(part, int):
            continue
        path.append(part)
        value = _inner(value, part)
    return tuple(path)


def _inner(value: Any, part: Any) -> Any:
    """Return a value of a table or a list; None without one."""
    if isinstance(value, list) and isinstance(part, int):
        return value[part] if part < len(value) else None
    return value.get(part) if isinstance(value, dict) else None


# --- plain values for sourced ones ----------------------------------------------------------------


def _state_plain_values(record: type[BaseModel], tree: Tree, known: Collection[Key]) -> list[str]:
    """Turn the plain values of a tree into sourced ones where the record has these.

    Parameters
    ----------
    known : paths of tables whose values are sourced already

    Returns
    -------
    A message for each plain value of a shipped file.
    """
    messages: list[str] = []
    for key, kinds in _fields(record):
        if key in tree.data:
            messages += _in_key(kinds, tree.data, key, (key,), tree, known)
    return messages


def _in_table(
    kinds: tuple[Any, ...], table: dict[str, Any], path: Key, tree: Tree, known: Collection[Key]
) -> Iterator[str]:
    for kind in kinds:
        if get_origin(kind) is dict:
            inner = types_of(get_args(kind)[1])
            for key in table:
                yield from _in_key(inner, table, key, (*path, key), tree, known)
        elif is_model(kind) and not is_fact_type(kind):
            for key, inner in _fields(kind):
                if key in table:
                    yield from _in_key(inner, table, key, (*path, key), tree, known)


def _in_key(
    kinds: tuple[Any, ...],
    table: dict[str, Any],
    key: str,
    path: Key,
    tree: Tree,
    known: Collection[Key],
) -> Iterator[str]:
    if path in known:
        return
    value = table[key]
    fact = next((kind for kind in kinds if is_fact_type(kind)), None)
    if fact is not None and _is_plain(fact, value):
        place = tree.place(path)
        if _is_shipped(place.file):
            yield (
                f"{place}: {dotted(path)}: {as_stated(value)} has no source"
                f" (write {fact_form(kinds, value)})"
            )
        reason = str(place) if place.file.startswith("--set") else STATED
        table[key] = {"value": value, "assumed": reason}
    elif isinstance(value, dict):
        yield from _in_table(kinds, value, path, tree, known)


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
