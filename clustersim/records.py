"""Dataclasses that cost little to import: their methods are compiled when they are first called.

The decorator of the standard library compiles up to seven functions for each class, 0.4 ms where a
module is imported.  A command imports 140 such classes, makes objects of half of them and compares
those of a few.  Here the classes share all methods but `__init__`, which the first object compiles.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def dataclass(kind: type[T], /) -> type[T]: ...


@overload
def dataclass(
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(
    kind: Any = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    """Make a class a dataclass as the decorator of the standard library does.

    >>> @dataclass(frozen=True)
    ... class Pair:
    ...     name: str
    ...     values: tuple[int, ...] = ()
    >>> Pair("a", (1,)), Pair("a") == Pair("a"), hash(Pair("a")) == hash(Pair("a"))
    (Pair(name='a', values=(1,)), True, True)
    """

    def made(kind: Any) -> Any:
        own = {*vars(kind)} - ({"__hash__"} if vars(kind).get("__hash__", 0) is None else set())
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(kind)
        methods: dict[str, Any] = {"__init__": _init(kind, frozen)}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods |= {"__eq__": _eq(kind), "__hash__": _hash(kind) if frozen else None}
        if frozen:
            methods |= {"__setattr__": _setattr, "__delattr__": _delattr}
        for name, method in methods.items():
            if name not in own:
                setattr(kind, name, method)
        return kind

    return made if kind is None else made(kind)


def _init(kind: Any, frozen: bool) -> Callable[..., None]:
    def first(self: Any, *values: Any, **named: Any) -> None:
        kind.__init__ = _compiled(kind, frozen)
        kind.__init__(self, *values, **named)

    return first


def _compiled(kind: Any, frozen: bool) -> Callable[..., None]:
    """Return the method that sets the fields of an object, in their order."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    places: list[str] = ["self"]
    keys: list[str] = []
    lines: list[str] = []
    for each in dataclasses.fields(kind):
        name, value, default = each.name, each.name, ""
        if each.default is not MISSING:
            names[f"_default_{name}"], default = each.default, f"=_default_{name}"
        elif each.default_factory is not MISSING:
            names[f"_make_{name}"], default = each.default_factory, "=_MISSING"
            value = f"{name} if {name} is not _MISSING else _make_{name}()"
        if each.init:
            (keys if each.kw_only else places).append(f"{name}{default}")
        elif each.default_factory is not MISSING:
            value = f"_make_{name}()"
        else:
            continue
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = [*places, *(["*", *keys] if keys else [])]
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n    {body}", names)
    names["__init__"].__qualname__ = f"{kind.__qualname__}.__init__"
    return names["__init__"]  # type: ignore[no-any-return]


def _repr(self: Any) -> str:
    shown = (each.name for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that returns the values of some fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _eq(kind: Any) -> Callable[[Any, Any], bool]:
    values = _values([each.name for each in dataclasses.fields(kind) if each.compare])

    def equal(self: Any, other: Any) -> bool:
        same = other.__class__ is self.__class__
        return values(self) == values(other) if same else NotImplemented

    return equal


def _hash(kind: Any) -> Callable[[Any], int]:
    fields = dataclasses.fields(kind)
    values = _values([e.name for e in fields if (e.compare if e.hash is None else e.hash)])
    return lambda self: hash(values(self))


def _setattr(self: Any, name: str, value: object) -> None:
    _check_free(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    _check_free(self, name, "delete")
    object.__delattr__(self, name)


def _check_free(record: Any, name: str, action: str) -> None:
    """Reject a change of a frozen object; a subclass that is no dataclass may have other values."""
    kind = type(record)
    if "__dataclass_fields__" in vars(kind) or name in kind.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {action} field {name!r}")
