"""Chakra execution traces: a file for each rank, of a message for each operation.

    GlobalMetadata {version = 1, attr = 2}
    Node {id = 1, name = 2, type = 3, ctrl_deps = 4, data_deps = 5, start_time_micros = 6,
          duration_micros = 7, inputs = 8, outputs = 9, attr = 10}

``schema/protobuf/et_def.proto`` of mlcommons/chakra.  The attributes are those that ASTRA-sim
reads (``astra-sim/workload/Workload.cc``); `comm_size` is what a rank gives to a collective, and a
send begins without its receive.  An operation runs one at a time on the device, and one on the
host, as ASTRA-sim's ``HardwareResource.cc`` has it.

Microseconds and whole bytes are too coarse for our own programs, whose exact values stand in
attributes that other readers ignore, `clustersim_*`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any, Final, NamedTuple

from clustersim.catalog.files import shown
from clustersim.catalog.reading import Place
from clustersim.errors import CatalogError
from clustersim.importers.traces.attributes import (
    BOOL,
    DOUBLE,
    INT32,
    INT64,
    TEXT,
    UINT64,
    Value,
    read_attribute,
    text,
    to_attributes,
)
from clustersim.importers.traces.files import GROUPS, files_of_ranks, unpacked
from clustersim.importers.traces.trace import (
    COLLECTIVE,
    COMPUTE,
    DEVICE,
    HOST,
    RECEIVE,
    SEND,
    Kind,
    Node,
    NotPlaced,
    Trace,
    Work,
    count_not_placed,
)
from clustersim.importers.traces.wire import (
    WireError,
    delimited,
    fields,
    numbers,
    to_delimited,
    to_field,
)

TYPES: Final = (
    "INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL",
    "STORAGE", "BATCH", "CHECKPOINT",
)  # fmt: skip
"""Types of nodes, by number."""

COLLECTIVES: Final = (
    "all-reduce", "reduce", "all-gather", "gather", "scatter", "broadcast", "all-to-all",
    "reduce-scatter", "reduce-scatter", "barrier",
)  # fmt: skip
"""Collectives by the number of their type."""

ENDING: Final = ".et"
VERSION: Final = "1.0"
ALL_RANKS: Final = ("", "0")
"""Names of the group of all ranks."""

MOST_NODES: Final = 4_000_000
"""Operations of all ranks of a trace."""

SECONDS: Final = "clustersim_seconds"
BUFFER: Final = "clustersim_bytes"
SHARE: Final = "clustersim_share"
TOGETHER: Final = "clustersim_together"
TIMER: Final = "is_timer_op"

Groups = Mapping[str, tuple[int, ...]]


def read_chakra(place: Path) -> Trace:
    """Return the trace of a folder, or of the file of one of its ranks.

    Raises
    ------
    CatalogError
        when a file is missing or damaged, or operations do not belong together.
    """
    paths = files_of_ranks(place, ENDING)
    messages, count = [], 0
    for path in paths:
        messages.append(_messages(path))
        count += len(messages[-1])
        if count > MOST_NODES:
            raise CatalogError(f"{shown(place)}: has more than {MOST_NODES:,} operations")
    groups = _groups(place if place.is_dir() else place.parent)
    for each in messages:
        groups |= {name: ranks for message in each for name, ranks in _process_groups(message)}
    readers = [_Rank(path, rank, len(paths), groups) for rank, path in enumerate(paths)]
    ranks = [
        [reader.node(message) for message in own]
        for reader, own in zip(readers, messages, strict=True)
    ]
    not_placed = count_not_placed(each for reader in readers for each in reader.not_placed)
    trace = Trace("chakra", shown(place), ranks, not_placed=not_placed)
    trace.check()
    return trace


class _Message(NamedTuple):
    """A node as it stands in the file."""

    id: int
    name: str
    type: int
    after: tuple[int, ...]
    micros: int
    inputs: str
    attributes: Mapping[str, Value]


def _messages(path: Path) -> list[_Message]:
    """Return the nodes of a file."""
    data = unpacked(path)
    try:
        found = delimited(data)
        first = next(found, None)
        if first is None:
            raise WireError("is empty")
        if any(number == 1 and not isinstance(value, bytes) for number, _, value in fields(first)):
            raise WireError(
                "begins with a node: a Chakra trace begins with its GlobalMetadata (convert it"
                " with a current release of Chakra)"
            )
        return [_message(message) for message in found]
    except WireError as problem:
        raise CatalogError(f"{shown(path)}: {problem}") from None


def _message(content: bytes) -> _Message:
    number = kind = micros = 0
    name, inputs = "", ""
    after: list[int] = []
    attributes: dict[str, Value] = {}
    for field, form, value in fields(content):
        if isinstance(value, int):
            number = value if field == 1 else number
            kind = value if field == 3 else kind
            micros = value if field == 7 else micros
        elif field == 2:
            name = text(value)
        elif field == 8:
            inputs = next(
                (text(v) for n, _, v in fields(value) if n == 1 if isinstance(v, bytes)), ""
            )
        elif field == 10:
            key, attribute = read_attribute(value)
            attributes[key] = attribute
        if field in (4, 5):
            after += numbers(form, value)
    return _Message(number, name, kind, tuple(after), micros, inputs, attributes)


# --- groups ---------------------------------------------------------------------------------------


def _groups(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the groups of the file next to the trace, by name."""
    path = folder / GROUPS
    if not path.is_file():
        return {}
    try:
        listed = json.loads(unpacked(path))
        return {str(name): tuple(map(int, ranks)) for name, ranks in listed.items()}
    except json.JSONDecodeError as problem:
        raise CatalogError(f"{Place(shown(path), problem.lineno)}: is not valid JSON") from None
    except (ValueError, TypeError, AttributeError):
        raise CatalogError(
            f'{shown(path)}: must list the ranks of each group ({{"1": [0, 1], ...}})'
        ) from None


def _process_groups(message: _Message) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the groups that a metadata node of PyTorch lists."""
    if TYPES[1:2] != TYPES[message.type : message.type + 1] or "pg_name" not in message.inputs:
        return
    try:
        listed = json.loads(message.inputs.strip("[]'\"").join("[]"))
        for group in listed:
            if group["ranks"]:
                yield str(group["pg_name"]), tuple(map(int, group["ranks"]))
    except (ValueError, TypeError, KeyError):
        return


# --- nodes ----------------------------------------------------------------------------------------


class _Rank:
    """The reader of a rank.

    Attributes
    ----------
    not_placed : operations without a time
    """

    def __init__(self, path: Path, rank: int, ranks: int, groups: Groups) -> None:
        self.path, self.rank, self.ranks, self.groups = path, rank, ranks, groups
        self.not_placed: list[NotPlaced] = []

    def node(self, message: _Message) -> Node:
        """Return an operation."""
        known = 0 <= message.type < len(TYPES)
        type = TYPES[message.type] if known else f"{message.type}"
        if type == "COMM_COLL":
            return self._collective(message)
        if type in ("COMM_SEND", "COMM_RECV"):
            return self._message(message, SEND if type == "COMM_SEND" else RECEIVE)
        seconds = self._seconds(message)
        if type == "METADATA":
            return Node(message.id, message.name, COMPUTE, message.after, unit="")
        if type == "COMP":
            return self._compute(message, seconds)
        if not seconds:
            why = "no duration, and remote memory has no model here"
            self._leave_out(type, why if type.startswith("MEM_") else "no duration")
        unit = "memory" if type.startswith("MEM_") else type.lower()
        return Node(message.id, message.name, COMPUTE, message.after, seconds, unit, unit)

    def _compute(self, message: _Message, seconds: float) -> Node:
        flops, nbytes = (self._number(message, key) for key in ("num_ops", "tensor_size"))
        work = Work(flops, nbytes) if flops or nbytes else None
        given = SECONDS in message.attributes or bool(message.micros)
        if not given and work is None:
            self._leave_out("COMP", "no duration, and neither num_ops nor tensor_size")
        unit = HOST if message.attributes.get("is_cpu_op") else DEVICE
        unit = "" if message.attributes.get(TIMER) else unit
        seconds = seconds if given or work is None else nan
        return Node(message.id, message.name, COMPUTE, message.after, seconds, unit, work=work)

    def _message(self, message: _Message, kind: Kind) -> Node:
        other = "comm_dst" if kind == SEND else "comm_src"
        for key in (other, "comm_size"):
            if key not in message.attributes:
                raise self._wrong(message, f"has no attribute {key}")
        peer = int(self._number(message, other))
        ends = (self.rank, peer) if kind == SEND else (peer, self.rank)
        return Node(
            message.id,
            message.name,
            kind,
            message.after,
            nbytes=self._bytes(message, 1),
            ranks=ends,
            tag=int(self._number(message, "comm_tag")),
            together=self._together(message),
        )

    def _collective(self, message: _Message) -> Node:
        if "comm_type" not in message.attributes:
            raise self._wrong(message, "has no attribute comm_type")
        kind = int(self._number(message, "comm_type"))
        if not 0 <= kind < len(COLLECTIVES):
            raise self._wrong(message, f"has the unknown comm_type {kind}")
        operation = COLLECTIVES[kind]
        group = self._group(message)
        reason = ""
        if group is None:
            reason = "dimensions of a logical topology (involved_dim) instead of a group (pg_name)"
        elif operation in ("gather", "scatter"):
            reason = f"a {operation} has no algorithm here"
        if reason or group is None:
            self._leave_out(f"COMM_COLL {operation}", reason)
            return Node(message.id, message.name, COMPUTE, message.after, unit="")
        return Node(
            message.id,
            message.name,
            COLLECTIVE,
            message.after,
            seconds=self._seconds(message) if SECONDS in message.attributes else nan,
            operation=operation,
            nbytes=self._bytes(message, len(group) if operation == "all-gather" else 1),
            ranks=group,
            together=self._together(message),
            share=float(message.attributes.get(SHARE, 1.0)),  # type: ignore[arg-type]
        )

    def _group(self, message: _Message) -> tuple[int, ...] | None:
        """Return the ranks of a collective; None where it has dimensions instead."""
        name = str(message.attributes.get("pg_name", ""))
        if name in self.groups:
            return self.groups[name]
        if name not in ALL_RANKS:
            known = ", ".join([*self.groups][:6]) or f"none, as there is no {GROUPS}"
            raise self._wrong(message, f"is of the unknown group '{name}' (groups: {known})")
        dimensions = message.attributes.get("involved_dim")
        if isinstance(dimensions, list) and not all(dimensions):
            return None
        return tuple(range(self.ranks))

    def _bytes(self, message: _Message, factor: int) -> float:
        """Return the bytes of a message, or of the whole buffer of a collective."""
        exact = self._number(message, BUFFER)
        return exact or self._number(message, "comm_size") * factor

    def _seconds(self, message: _Message) -> float:
        return self._number(message, SECONDS) or message.micros * 1e-6

    def _together(self, message: _Message) -> int | None:
        value = message.attributes.get(TOGETHER)
        return int(value) if isinstance(value, int) else None

    def _number(self, message: _Message, key: str) -> float:
        value = message.attributes.get(key, 0)
        if not isinstance(value, int | float) or not 0 <= value < 1e24:
            raise self._wrong(message, f"has {key} {value!r}, which must be a number from 0 up")
        return value

    def _leave_out(self, type: str, reason: str) -> None:
        self.not_placed.append(NotPlaced(type, reason))

    def _wrong(self, message: _Message, problem: str) -> CatalogError:
        return CatalogError(
            f"{shown(self.path)}: operation {message.id} '{message.name}' {problem}"
        )


# --- to bytes -------------------------------------------------------------------------------------


def to_chakra(nodes: Sequence[Node], groups: Mapping[tuple[int, ...], str]) -> bytes:
    """Return the file of a rank.

    Parameters
    ----------
    groups : names of the groups of its collectives
    """
    return to_delimited([to_field(1, VERSION), *(_to_message(node, groups) for node in nodes)])


def _to_message(node: Node, groups: Mapping[tuple[int, ...], str]) -> bytes:
    types = {COMPUTE: "COMP", SEND: "COMM_SEND", RECEIVE: "COMM_RECV", COLLECTIVE: "COMM_COLL"}
    values: dict[str, tuple[int, Any]] = {"is_cpu_op": (BOOL, int(node.unit == ""))}
    micros = 0
    if node.kind == COMPUTE:
        micros = max(1, round(node.seconds * 1e6))
        values[SECONDS] = DOUBLE, float(node.seconds)
        if node.unit == "":
            values[TIMER] = BOOL, 1
    elif node.kind == COLLECTIVE:
        values |= _collective_attributes(node, groups)
    else:
        source, target = node.ranks
        values["comm_src"], values["comm_dst"] = (INT32, source), (INT32, target)
        values["comm_tag"] = INT32, node.tag
        values["comm_size"] = INT64, max(1, round(node.nbytes))
        values[BUFFER] = DOUBLE, float(node.nbytes)
    if node.together is not None:
        values[TOGETHER] = UINT64, node.together
    content = [to_field(1, node.id)] if node.id else []
    content += [to_field(2, node.name), to_field(3, TYPES.index(types[node.kind]))]
    content += [to_field(5, other) for other in node.after]
    content += [to_field(7, micros)] if micros else []
    return b"".join(content) + to_attributes(10, values)


def _collective_attributes(
    node: Node, groups: Mapping[tuple[int, ...], str]
) -> dict[str, tuple[int, Any]]:
    given = node.nbytes / (len(node.ranks) if node.operation == "all-gather" else 1)
    values: dict[str, tuple[int, Any]] = {
        "comm_type": (INT64, COLLECTIVES.index(node.operation)),
        "comm_size": (INT64, max(1, round(given * node.share))),
        "pg_name": (TEXT, groups[node.ranks]),
        BUFFER: (DOUBLE, float(node.nbytes)),
    }
    if node.share != 1.0:
        values[SHARE] = DOUBLE, float(node.share)
    if node.seconds == node.seconds:  # stated, and not a number otherwise
        values[SECONDS] = DOUBLE, float(node.seconds)
    return values
