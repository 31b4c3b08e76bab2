"""Facts: a value with its source or the reason for assuming it, and records made of them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    WithJsonSchema,
    WrapSerializer,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticUseDefault
from pydantic_core.core_schema import no_info_plain_validator_function

from clustersim import units
from clustersim.answers import brief_text
from clustersim.bounded_cache import BoundedCache
from clustersim.escaping import one_line

T = TypeVar("T")


class Strict(BaseModel):
    """A record that allows no other keys, and cannot be changed.

    A field with a `Fact` is checked with its source, and is then the plain value: readers write
    ``nic.bandwidth``.  `facts` yields the sources, and a dump has them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    _sourced: dict[str, Any] = PrivateAttr(default_factory=dict)
    _listed: bool = PrivateAttr(False)  # whether its sources are, as those of a copy need not be

    def __repr__(self) -> str:
        """Return the record in one short line."""
        return brief_text(type(self).__name__, self)

    def model_post_init(self, context: Any, /) -> None:
        """Replace facts by their values, and keep them for `facts` and dumps."""
        for name, value in self.__dict__.items():
            if (plain := _plain(value)) is not value:
                self._sourced[name] = value
                self.__dict__[name] = plain

    @model_serializer(mode="wrap")
    def _with_sources(self, handler: SerializerFunctionWrapHandler) -> Any:
        if not self._sourced:
            return handler(self)
        whole = {name: sourced(self, name) for name in self._sourced}
        return handler(super().model_copy(update=whole))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, some of which may be facts."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            copied._sourced, copied._listed = {**self._sourced}, False
            copied.model_post_init(None)
        return copied


class AtFirstUse:
    """Metadata of a record inside another one, whose validator is built when it is first used.

    pydantic builds that of a record with those of all records inside it, also of tables that a file
    does not have and of records that are known.  Problems and dumps are those of a record without:

        training: Annotated[Training, AT_FIRST_USE] | None = None
    """

    def __get_pydantic_core_schema__(self, kind: type[BaseModel], _: object) -> CoreSchema:
        """Return the schema of a validator that calls the one of the record."""

        def checked(value: object) -> BaseModel:
            return value if isinstance(value, kind) else kind.model_validate(value)

        return no_info_plain_validator_function(checked, metadata={"kind": kind})

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the record."""
        return handler(TypeAdapter(schema["metadata"]["kind"]).core_schema)


AT_FIRST_USE: Final = AtFirstUse()

LEAST: Final = 1e-9
"""Smallest value of a number that must be positive, so that quotients are finite."""

NOTHING: Final = 1e-30
"""Numbers below this, where 0 is allowed, are 0, so that quotients are finite."""

MOST: Final = 1e24
"""Largest value of any number or quantity in SI units, so that products are finite."""

MAX_COUNT: Final = 10**9
"""Maximum of a whole number."""

MAX_AMOUNT: Final = 1e18
"""Maximum of a count of tokens or samples, which is no whole number of the program."""

MAX_DEVICES: Final = 2**22
"""Maximum number of nodes, and of devices of all nodes together."""

MAX_PARTS: Final = 2**16
"""Maximum number of parts that are simulated one by one: cables of a switch, or experts."""

MAX_IN_NODE: Final = 2**10
"""Maximum number of devices or NICs of a node, and of parallel links between two ends."""


def _quantity(dimension: str) -> list[Any]:
    def parsed(text: object) -> float:
        return units.parse(text, dimension)

    example = units.EXAMPLES[dimension].partition(" or ")[0]
    return [
        BeforeValidator(parsed),
        WithJsonSchema({"type": "string", "description": dimension, "examples": [example]}),
    ]


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be greater than 0")
    if not LEAST <= value <= MOST:
        raise ValueError(f"must be between {LEAST:g} and {MOST:g} in SI units")
    return value


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError("must not be negative")
    if value > MOST:
        raise ValueError(f"must be at most {MOST:g} in SI units")
    return value


def _nothing_is_zero(value: float) -> float:
    return value if value >= NOTHING else 0.0  # which -0.0, printed as -0, is as well


Line = Annotated[str, AfterValidator(one_line)]
Bytes = Annotated[float, *_quantity("bytes"), AfterValidator(_positive)]
Bandwidth = Annotated[float, *_quantity("bandwidth"), AfterValidator(_positive)]
Seconds = Annotated[float, *_quantity("seconds"), AfterValidator(_not_negative)]
FlopsPerSecond = Annotated[float, *_quantity("flops_per_second"), AfterValidator(_positive)]
Watts = Annotated[float, *_quantity("watts"), AfterValidator(_not_negative)]
Fraction = Annotated[float, Field(ge=LEAST, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(ge=LEAST, le=MOST)]
Amount = Annotated[
    float,
    Field(ge=LEAST, le=MAX_AMOUNT),
    BeforeValidator(units.parse_count),
    WithJsonSchema(
        {"type": ["number", "string"], "description": "count", "examples": ["300B", "1.4T"]}
    ),
]
"""A count of tokens or samples, which may be a billion: ``300B``."""
NotNegative = Annotated[float, Field(ge=0, le=MOST), AfterValidator(_nothing_is_zero)]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT, strict=True)]
Whole = Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)]
Nodes = Annotated[int, Field(ge=1, le=MAX_DEVICES, strict=True)]
Parts = Annotated[int, Field(ge=1, le=MAX_PARTS, strict=True)]
InNode = Annotated[int, Field(ge=1, le=MAX_IN_NODE, strict=True)]


if TYPE_CHECKING:

    class _OfValues(Generic[T]): ...

else:  # pydantic takes thrice as long for a kind of a generic class as for a subclass

    class _OfValues:
        def __class_getitem__(cls, _: Any) -> Any:
            return cls


class SourcedValue(BaseModel, _OfValues[T]):
    """A value with its source.

    Attributes
    ----------
    value : the value, with its unit where it has one
    source : key of the record's ``sources`` table
    assumed : the reason for the value where no source was read; or the fit that gave it
    """

    model_config = Strict.model_config

    value: T
    source: str | None = None
    assumed: str | None = None
    confidence: Literal["high", "medium", "low"] | None = None
    note: str | None = None

    if not TYPE_CHECKING:

        @classmethod
        @cache
        def __class_getitem__(cls, kind: Any) -> Any:
            """Return the class of facts of some kind: ``Fact_int_ge_1_le_1024`` in JSON Schemas."""
            name = "_".join(["Fact", *_words(kind)])
            return type(cls)(
                name, (cls,), {"__annotations__": {"value": kind}, "__module__": __name__}
            )

    @model_validator(mode="after")
    def _has_source(self) -> Self:
        if (self.source is None) == (self.assumed is None):
            raise ValueError("needs either 'source' or 'assumed', and not both")
        return self


def _words(kind: Any) -> Iterator[str]:
    """Yield the type of a value and its bounds, or the dimension of a quantity."""
    if get_origin(kind) is Annotated:
        base, *constraints = get_args(kind)
        schemas = [each for each in constraints if isinstance(each, WithJsonSchema)]
        if schemas and schemas[0].json_schema:
            yield str(schemas[0].json_schema["description"])
            return
        yield from _words(base)
        for field in (each for each in constraints if isinstance(each, FieldInfo)):
            for bound in field.metadata:
                named = vars(bound) if hasattr(bound, "__dict__") else asdict(bound)
                yield from (f"{key}_{value}" for key, value in named.items() if value is not True)
    else:
        whole = get_origin(kind) or kind
        if whole not in (Union, UnionType):
            yield getattr(whole, "__name__", str(whole))
        for inner in get_args(kind):
            yield from [inner] if isinstance(inner, str) else _words(inner)


if TYPE_CHECKING:
    Fact = Annotated[T, "stated with its source"]
    Usual = Annotated[T, "stated with its source, or missing where it is the default"]
else:  # files have the table, readers of a record the value: see Strict
    Fact = SourcedValue
    Fact.__name__ = Fact.__qualname__ = "Fact"  # in JSON Schemas

    class Usual:
        """A fact that may be missing: readers then have the default of the field, dumps null."""

        def __class_getitem__(cls, kind: Any) -> Any:
            """Return the type of a field that has facts of some kind."""
            default, stated = BeforeValidator(_or_default), WrapSerializer(_if_stated)
            return Annotated[Fact[kind] | None, default, stated]


def _or_default(value: object) -> object:
    if value is None:
        raise PydanticUseDefault
    return value


def _if_stated(value: Any, handler: SerializerFunctionWrapHandler) -> Any:
    return handler(value if isinstance(value, SourcedValue) else None)


def _plain(value: Any) -> Any:
    """Return a value without the sources of facts; itself if it has none."""
    if isinstance(value, SourcedValue):
        return value.value
    if isinstance(value, dict):
        inside = {key: _plain(item) for key, item in value.items()}
        return inside if any(inside[key] is not value[key] for key in value) else value
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


class Source(Strict):
    """Where a fact was read."""

    title: Line
    where: Line | None = None
    read: str | None = None


class Fitted(Strict):
    """Fitted value of a coefficient, in SI units, and its standard error as a share of it."""

    value: float
    error: NotNegative


class Record(Strict):
    """A catalogue file: its kind, its name and the sources that its facts refer to."""

    name: Line
    title: Line | None = None
    sources: dict[str, Source] = {}

    @model_validator(mode="after")
    def _sources_are_listed(self) -> Self:
        if self._listed:  # a record in a scenario that is checked again
            return self
        for where, fact in facts(self):
            if fact.source is not None and fact.source not in self.sources:
                raise ValueError(f"{where}: source '{fact.source}' is not in the table 'sources'")
        self._listed = True
        return self


def facts(record: BaseModel, where: str = "") -> Iterator[tuple[str, SourcedValue[Any]]]:
    """Yield every fact of a record with its dotted key, not entering records inside it."""
    originals = _originals(record)
    for name, plain in vars(record).items():
        if isinstance(plain, Record) or (plain is None and name not in originals):
            continue
        value = _joined(originals[name], plain) if name in originals else plain
        if isinstance(value, SourcedValue | BaseModel | dict | list | tuple):
            yield from _facts_in(value, f"{where}.{name}" if where else name)


def sourced(record: BaseModel, name: str) -> Any:
    """Return a field of a record, with the sources of its facts."""
    value, original = getattr(record, name), _originals(record).get(name)
    return value if original is None else _joined(original, value)


def _originals(record: BaseModel) -> Mapping[str, Any]:
    """Return those fields of a record that had facts, as its file states them."""
    return record._sourced if isinstance(record, Strict) else {}


def _joined(sourced: Any, value: Any) -> Any:
    """Return values with their sources, also where a copy of the record has other values."""
    if isinstance(sourced, SourcedValue) and value is not None:
        return sourced if sourced.value is value else sourced.model_copy(update={"value": value})
    if isinstance(value, dict):
        return {key: _joined(sourced.get(key), item) for key, item in value.items()}
    if isinstance(value, list):
        return [_joined(a, b) for a, b in zip(sourced, value, strict=True)]
    return value


def _facts_in(value: Any, where: str) -> Iterator[tuple[str, SourcedValue[Any]]]:
    if isinstance(value, SourcedValue):
        yield where, value
    elif isinstance(value, BaseModel):
        yield from facts(value, where)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _facts_in(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _facts_in(item, f"{where}[{i}]")


STATED: Final = "stated by the user"
"""The reason for a value that has no other."""


_STATED: Final = BoundedCache(64, 1)
"""Such keys of the latest records; a record that is kept has its number to itself."""


def stated_keys(record: BaseModel, where: str = "") -> list[str]:
    """Return the dotted keys of a record whose only proof is that the user states them."""
    compute = partial(_with_stated_keys, record, where)
    keys = _STATED.get((id(record), where), 1, compute)[1]
    return [*keys]


def _with_stated_keys(record: BaseModel, where: str) -> tuple[BaseModel, list[str]]:
    return record, [*_stated_keys(record, where)]


def _stated_keys(record: BaseModel, where: str) -> Iterator[str]:
    for key, fact in facts(record, where):
        if fact.assumed == STATED:
            yield key
    for name in type(record).model_fields:
        inner = getattr(record, name)
        if isinstance(inner, Record):
            yield from _stated_keys(inner, f"{where}.{name}" if where else name)
