"""Attributes of Chakra's messages: a name, and a value of one of thirty types.

    string name = 1; string doc_string = 2; oneof value { double double_val = 3; ... }

``schema/protobuf/et_def.proto`` of mlcommons/chakra has a type with an even number for a list of
the type before it.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

from clustersim.importers.traces.wire import BYTES, WireError, fields, to_field, varint

Value = float | int | str | bytes | list[Any]

DOUBLE: Final = 3
FLOAT: Final = 5
INT32: Final = 7
INT64: Final = 9
UINT64: Final = 13
BOOL: Final = 27
TEXT: Final = 29
"""Numbers of the fields that hold values of a type."""

_SIGNED: Final = (INT32, INT64)
_ZIGZAG: Final = (15, 17)
_FIXED: Final = {DOUBLE: "<d", FLOAT: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
_PLAIN: Final = (*_SIGNED, 11, UINT64, BOOL)
_LENGTH: Final = (TEXT, 31)


def read_attribute(message: bytes) -> tuple[str, Value]:
    """Return the name and the value of an attribute; 0 where it has none."""
    name, value = "", 0  # type: str, Value
    for number, kind, content in fields(message):
        if number == 1 and isinstance(content, bytes):
            name = text(content)
        elif number in (*_FIXED, *_PLAIN, *_ZIGZAG, *_LENGTH):
            value = _single(number, content)
        elif number - 1 in (*_FIXED, *_PLAIN, *_ZIGZAG, *_LENGTH) and kind == BYTES:
            assert isinstance(content, bytes)
            value = _list(number - 1, content)
    return name, value


def text(content: bytes) -> str:
    """Return a text, which must be UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("has a text that is not UTF-8") from None


def _single(number: int, content: int | bytes) -> Value:
    if number in _FIXED:
        return _fixed(number, content)
    if number in _LENGTH:
        if not isinstance(content, bytes):
            raise WireError(f"has a number in field {number} of an attribute, which is a text")
        return text(content) if number == TEXT else content
    if not isinstance(content, int):
        raise WireError(f"has a text in field {number} of an attribute, which is a number")
    return _whole(number, content)


def _whole(number: int, value: int) -> int:
    if number in _ZIGZAG:
        return (value >> 1) ^ -(value & 1)
    return value - 2**64 if number in _SIGNED and value >= 2**63 else value


def _fixed(number: int, content: int | bytes) -> float:
    form = _FIXED[number]
    if not isinstance(content, bytes) or len(content) != struct.calcsize(form):
        raise WireError(f"has a value of another length in field {number} of an attribute")
    value: float = struct.unpack(form, content)[0]
    return value


def _list(number: int, message: bytes) -> list[Any]:
    """Return the values of a list, which may be packed."""
    found: list[Any] = []
    for _, kind, content in fields(message):
        if number in _LENGTH or kind != BYTES:
            found.append(_single(number, content))
            continue
        assert isinstance(content, bytes)
        at = 0
        while at < len(content):
            if number in _FIXED:
                size = struct.calcsize(_FIXED[number])
                found.append(_fixed(number, content[at : at + size]))
                at += size
            else:
                value, at = varint(content, at)
                found.append(_whole(number, value))
    return found


def to_attributes(number: int, values: Mapping[str, tuple[int, float | int | str]]) -> bytes:
    """Return attributes as field `number` of a message, each of them of a type."""
    return b"".join(
        to_field(number, to_field(1, name) + to_field(kind, value))
        for name, (kind, value) in values.items()
    )
