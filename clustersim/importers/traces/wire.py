"""The wire format of protocol buffers: messages of fields, each by its number.

    message   field 1 | field 2 | ...          field   number and type | value
    varint    seven bits a byte, the lowest first; the highest bit of a byte: another one follows

https://protobuf.dev/programming-guides/encoding.  A trace has thousands of small messages of a few
fields, for which a library that compiles schemas would be a dependency of every installation.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

VARINT: Final = 0
"""Wire type of whole numbers and truth values."""

WIDE: Final = 1
"""Wire type of eight bytes: `double`."""

BYTES: Final = 2
"""Wire type of texts, messages inside, and packed lists."""

NARROW: Final = 5
"""Wire type of four bytes: `float`."""

MOST_BITS: Final = 64
"""Bits of a whole number."""

Field = tuple[int, int, int | bytes]
"""Number, wire type and value of a field; the value as it stands there."""


class WireError(ValueError):
    """Bytes that are no message: what is wrong, and at which byte."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a whole number, and the position after it.

    >>> varint(bytes([0xAC, 0x02]), 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireError(f"ends inside a number, at byte {at:,}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**MOST_BITS - 1), at
        shift += 7
        if shift >= 70:
            raise WireError(f"has a number of more than {MOST_BITS} bits, at byte {at:,}")


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        value: int | bytes
        if kind == VARINT:
            value, at = varint(data, at)
        elif kind in (WIDE, NARROW, BYTES):
            size, at = (8 if kind == WIDE else 4, at) if kind != BYTES else varint(data, at)
            value, at = piece(data, at, size), at + size
        else:
            raise WireError(f"has a field of the unknown wire type {kind}, at byte {at:,}")
        yield number, kind, value


def piece(data: bytes, at: int, size: int) -> bytes:
    """Return some bytes, all of which must be there."""
    if size > len(data) - at:
        raise WireError(
            f"ends inside a message: {size:,} bytes are announced at byte {at:,}, and"
            f" {len(data) - at:,} follow"
        )
    return data[at : at + size]


def delimited(data: bytes) -> Iterator[bytes]:
    r"""Yield the messages of a file in which each follows its length.

    >>> list(delimited(b"\x01a\x02bc"))
    [b'a', b'bc']
    """
    at = 0
    while at < len(data):
        size, at = varint(data, at)
        yield piece(data, at, size)
        at += size


def numbers(kind: int, value: int | bytes) -> list[int]:
    """Return the whole numbers of a repeated field: one, or a packed list."""
    if isinstance(value, int):
        return [value]
    if kind != BYTES:
        return [int.from_bytes(value, "little")]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


# --- to bytes -------------------------------------------------------------------------------------


def to_varint(value: int) -> bytes:
    """Return a whole number as bytes; a negative one as its complement in 64 bits.

    >>> to_varint(300).hex(), len(to_varint(-1))
    ('ac02', 10)
    """
    value &= 2**MOST_BITS - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def to_field(number: int, value: int | float | str | bytes) -> bytes:
    """Return a field: a whole number, a `double`, a text or a message."""
    if isinstance(value, float):
        return to_varint(number << 3 | WIDE) + struct.pack("<d", value)
    if isinstance(value, int):
        return to_varint(number << 3 | VARINT) + to_varint(value)
    content = value.encode("utf-8") if isinstance(value, str) else value
    return to_varint(number << 3 | BYTES) + to_varint(len(content)) + content


def to_delimited(messages: Iterable[bytes]) -> bytes:
    """Return the bytes of a file in which each message follows its length."""
    return b"".join(part for message in messages for part in (to_varint(len(message)), message))
