"""Chakra traces as bytes, written and read by the field numbers of `et_def.proto` alone."""

import struct

TYPES = {"METADATA": 1, "MEM_LOAD": 2, "COMP": 4, "COMM_SEND": 5, "COMM_RECV": 6, "COMM_COLL": 7}


def varint(value):
    """Return a number in groups of seven bits, the lowest first."""
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127)
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def field(number, value):
    """Return a field of a message: a whole number, a double, a text or bytes."""
    if isinstance(value, bool | int):
        return varint(8 * number) + varint(int(value))
    if isinstance(value, float):
        return varint(8 * number + 1) + struct.pack("<d", value)
    content = value.encode() if isinstance(value, str) else value
    return varint(8 * number + 2) + varint(len(content)) + content


def attribute(name, value):
    """Return an attribute: a bool, an int64, a double, a text, or a list of bools."""
    kinds = {bool: 27, int: 9, float: 3, str: 29, list: 28}
    content = field(1, bytes(map(int, value))) if isinstance(value, list) else value
    return field(1, name) + field(kinds[type(value)], content)


def node(number, type, after=(), name="n", micros=0, packed=False, **attributes):
    """Return a node; keyword arguments are its attributes."""
    deps = (
        field(4, b"".join(map(varint, after))) if packed else b"".join(field(5, a) for a in after)
    )
    parts = [field(1, number)] if number else []
    parts += [field(2, name), field(3, TYPES.get(type, type)), deps if after else b""]
    parts += [field(7, micros)] if micros else []
    parts += [field(10, attribute(name, value)) for name, value in attributes.items()]
    return b"".join(parts)


def collective(number, kind, nbytes, after=(), **attributes):
    """Return a collective of ASTRA-sim's examples."""
    return node(
        number, "COMM_COLL", after, is_cpu_op=False, comm_type=kind, comm_size=nbytes, **attributes
    )


def chakra(*nodes, version="0.0.4"):
    """Return the file of a rank."""
    messages = [field(1, version), *nodes]
    return b"".join(varint(len(message)) + message for message in messages)


def write_traces(folder, *ranks, name="job"):
    """Write the files of all ranks; return the folder."""
    folder.mkdir(exist_ok=True)
    for rank, nodes in enumerate(ranks):
        (folder / f"{name}.{rank}.et").write_bytes(chakra(*nodes))
    return folder


# --- read -----------------------------------------------------------------------------------------


def read_varint(data, at):
    """Return a number and the position after it."""
    value, shift = 0, 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def read_fields(data):
    """Return the fields of a message as pairs of number and value."""
    found, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key % 8 == 0:
            value, at = read_varint(data, at)
        else:
            size, at = (8, at) if key % 8 == 1 else read_varint(data, at)
            value, at = data[at : at + size], at + size
        found.append((key // 8, value))
    return found


def read_chakra(data):
    """Return the version of a file, and its nodes as dicts."""
    messages, at = [], 0
    while at < len(data):
        size, at = read_varint(data, at)
        messages.append(data[at : at + size])
        at += size
    version = dict(read_fields(messages[0]))[1].decode()
    return version, [read_node(message) for message in messages[1:]]


def read_node(message):
    """Return a node as a dict, its attributes by name."""
    fields = read_fields(message)
    by_number = dict(fields)
    attributes = {}
    for content in (value for number, value in fields if number == 10):
        inside = dict(read_fields(content))
        kind = next(number for number in inside if number != 1)
        value = inside[kind]
        value = value.decode() if kind == 29 else value
        attributes[inside[1].decode()] = struct.unpack("<d", value)[0] if kind == 3 else value
    return {
        "id": by_number.get(1, 0),
        "name": by_number[2].decode(),
        "type": by_number[3],
        "after": [value for number, value in fields if number in (4, 5)],
        "micros": by_number.get(7, 0),
        **attributes,
    }
