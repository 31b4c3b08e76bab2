"""Traces of PyTorch's profiler: a JSON file of events for each rank.

    stream 7    | gemm | gemm |..idle..| gemm |          lanes: streams, or threads of the host
    stream 20          | ncclDevKernel_AllReduce |       without a device

An operation follows the one before it in its lane.  Between lanes it follows what the trace records
(``cuda_sync``, with `enable_cuda_sync_events`).  Without such records it follows the communication
that ended last before it began while its lane was idle; a communication follows any operation that
did.  What remains of a gap in a lane is kept as a time of the host.  Communications take the time
of the network instead of their own.

The arguments of collectives are those of PyTorch's ``torch/csrc/profiler/util.cpp`` and Kineto's
``output_json.cpp``; those of gloo are the shapes of its annotations, with the peers of the calls.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from math import nan, prod
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.files import shown
from clustersim.catalog.reading import Place
from clustersim.errors import CatalogError
from clustersim.importers.traces.files import MOST_RANKS, files_of_ranks, unpacked
from clustersim.importers.traces.trace import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    Kind,
    Node,
    NotPlaced,
    Trace,
    count_not_placed,
)
from clustersim.records import dataclass

ENDING: Final = ".json"

MOST_EVENTS: Final = 4_000_000
"""Events of all ranks."""

ON_DEVICE: Final = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of events that run on a device."""

SAMPLE: Final = 4096
"""Bytes in which a trace shows what it is."""

BYTES: Final = {
    "byte": 1, "char": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "signed char": 1,
    "unsigned char": 1, "half": 2, "bfloat16": 2, "c10::half": 2, "c10::bfloat16": 2, "short": 2,
    "short int": 2, "float": 4, "int": 4, "double": 8, "long": 8, "long int": 8,
}  # fmt: skip
"""Bytes of an element, by the names that PyTorch has for types."""

_STEP: Final = "ProfilerStep#"
_GLOO: Final = "gloo:"
_CALLS: Final = "c10d::"

_OPERATIONS: Final = (
    ("allreduce", "all-reduce"),
    ("allgather", "all-gather"),
    ("reducescatter", "reduce-scatter"),
    ("alltoall", "all-to-all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("reduce", "reduce"),
    ("send", SEND),
    ("recv", RECEIVE),
)
"""Operations by a part of the names that PyTorch has for them, in this order."""

_PARTS: Final = (
    ("attention", re.compile(r"flash|attention|fmha|softmax", re.IGNORECASE)),
    (
        "gemm",
        re.compile(
            r"gemm|cutlass|cublas|nvjet|wgmma|xmma|cijk|\b(?:add|b)?mm(?:backward\d*)?\b|matmul|linear",
            re.IGNORECASE,
        ),
    ),
    ("copy", re.compile(r"memcpy|memset|copy_?$", re.IGNORECASE)),
    ("communication", re.compile(r"[nrs]ccl|c10d::", re.IGNORECASE)),
)


def part_of(name: str) -> str:
    """Return what a kernel is part of, by its name.

    >>> part_of("sm90_xmma_gemm_bf16bf16"), part_of("vectorized_elementwise_kernel")
    ('gemm', 'elementwise')
    """
    return next((part for part, sign in _PARTS if sign.search(name)), "elementwise")


def operation_of(name: str) -> str:
    """Return the operation of a collective's name; the name itself of an unknown one.

    >>> operation_of("_allgather_base"), operation_of("reduce_scatter_tensor_coalesced")
    ('all-gather', 'reduce-scatter')
    """
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((operation for sign, operation in _OPERATIONS if sign in plain), name)


def is_kineto(path: Path) -> bool:
    """Whether a file is a trace of PyTorch's profiler."""
    if path.suffix == ".gz":
        return True
    try:
        with path.open("rb") as opened:
            head = opened.read(SAMPLE)
    except OSError:
        return False
    return b'"traceEvents"' in head or b'"distributedInfo"' in head or b'"deviceProperties"' in head


def read_kineto(place: Path, *, whole: bool = True) -> Trace:
    """Return the trace of a folder, or of the file of one of its ranks.

    Parameters
    ----------
    whole : whether the files of all ranks must be there

    Raises
    ------
    CatalogError
        when a file is missing or damaged, or operations do not belong together.
    """
    read = [_read_file(path) for path in (_files(place) if whole else _some_files(place))]
    if sum(len(each.events) for each in read) > MOST_EVENTS:
        raise CatalogError(f"{shown(place)}: has more than {MOST_EVENTS:,} events")
    files = _by_rank(place, read) if whole else read
    world = len(files) if whole else max(len(files), *(file.world for file in files))
    ranks = [_Rank(file, rank, world) for rank, file in enumerate(files)]
    nodes = [rank.nodes() for rank in ranks]
    missed = count_not_placed(each for rank in ranks for each in rank.not_placed)
    notes = [_note(ranks)]
    if any(rank.assumed_group for rank in ranks):
        notes.append("gloo states no groups: its collectives are of all ranks")
    steps = max(1, *(file.steps for file in files))
    trace = Trace("kineto", shown(place), nodes, False, missed, tuple(notes), steps)
    if whole:
        trace.check()
    return trace


def _note(ranks: "Sequence[_Rank]") -> str:
    inferred = sum(rank.inferred for rank in ranks)
    recorded = sum(rank.recorded for rank in ranks)
    return (
        f"{recorded:,} dependencies between lanes are recorded, {inferred:,} are inferred from the"
        " order in time"
    )


# --- files ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A file: its events, and what it states about its rank."""

    path: Path
    events: Sequence[Mapping[str, Any]]
    info: Mapping[str, Any]

    @property
    def rank(self) -> int | None:
        """Its rank, where the file states it."""
        rank = self.info.get("rank")
        return rank if isinstance(rank, int) else None

    @property
    def world(self) -> int:
        """Ranks of its job, where the file states them; 0 otherwise."""
        size = self.info.get("world_size")
        return size if isinstance(size, int) and 0 < size <= MOST_RANKS else 0

    @property
    def steps(self) -> int:
        """Steps that the profiler counted."""
        return len({e["name"] for e in self.events if str(e.get("name")).startswith(_STEP)})

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The ranks of its groups by name, as far as they are stated in full."""
        found = self.info.get("pg_config")
        listed = found if isinstance(found, list) else []
        return {
            str(group.get("pg_name")): tuple(group["ranks"])
            for group in listed
            if isinstance(group, dict)
            and isinstance(group.get("ranks"), list)
            and all(isinstance(rank, int) for rank in group["ranks"])
            and len(group["ranks"]) == group.get("pg_size", len(group["ranks"]))
        }

    def wrong(self, problem: str) -> CatalogError:
        """Return an error about the file."""
        return CatalogError(f"{shown(self.path)}: {problem}")


def _files(place: Path) -> list[Path]:
    """Return the files of all ranks; those of a folder whose names have no numbers as they are."""
    if place.is_dir():
        inside = sorted(path for path in place.iterdir() if path.is_file())
        traces = [path for path in inside if path.name.removesuffix(".gz").endswith(ENDING)]
        if len(traces) == 1:
            return traces
    return files_of_ranks(place, ENDING)


def _some_files(place: Path) -> list[Path]:
    """Return a file, or those of a folder."""
    if not place.is_dir():
        return [place]
    inside = sorted(path for path in place.iterdir() if path.is_file())
    return [path for path in inside if path.name.removesuffix(".gz").endswith(ENDING)]


def _read_file(path: Path) -> _File:
    try:
        data = json.loads(unpacked(path))
    except json.JSONDecodeError as problem:
        raise CatalogError(f"{Place(shown(path), problem.lineno)}: is not valid JSON") from None
    except (UnicodeDecodeError, RecursionError):
        raise CatalogError(f"{shown(path)}: is not valid JSON") from None
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        raise CatalogError(f"{shown(path)}: has no list of traceEvents")
    info = data.get("distributedInfo") if isinstance(data, dict) else None
    known = [event for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    return _File(path, known, info if isinstance(info, dict) else {})


def _by_rank(place: Path, files: Sequence[_File]) -> list[_File]:
    """Return files in the order of the ranks that they state; else of their names."""
    stated = [file.rank for file in files]
    if None in stated:
        return [*files]
    by_rank = {file.rank: file for file in files}
    if len(by_rank) < len(files):
        raise CatalogError(f"{shown(place)}: two files are of the same rank")
    world = max(file.world for file in files)
    needed = max(world, len(files))
    missing = next((rank for rank in range(needed) if rank not in by_rank), None)
    if missing is not None:
        raise CatalogError(f"{shown(place)}: has no file of rank {missing}, of {needed} ranks")
    return [by_rank[rank] for rank in range(needed)]


# --- operations -----------------------------------------------------------------------------------


@dataclass
class _Operation:
    """An operation in its lane, with its times in the trace [us]."""

    lane: Any
    name: str
    begin: float
    end: float
    args: Mapping[str, Any]
    communicates: bool
    correlation: int = -1
    after: list[int] = field(default_factory=list)

    @property
    def recorded(self) -> tuple[float, float]:
        """Its begin and its end [s]."""
        return self.begin * 1e-6, self.end * 1e-6

    def is_inside(self, other: "_Operation") -> bool:
        """Whether another one contains it."""
        return self.lane == other.lane and self.end <= other.end


class _Rank:
    """The reader of a rank.

    Attributes
    ----------
    not_placed : operations without a time
    recorded, inferred : dependencies between lanes, by their cause
    assumed_group : whether collectives without a group are of all ranks
    """

    def __init__(self, file: _File, rank: int, ranks: int) -> None:
        self.file, self.rank, self._world = file, rank, ranks
        self.not_placed: list[NotPlaced] = []
        self.recorded = self.inferred = 0
        self.assumed_group = False
        self._on_device = any(event.get("cat") in ON_DEVICE for event in file.events)
        self._peers = self._called_peers()

    def nodes(self) -> list[Node]:
        """Return the operations of the rank: those of the trace, and the gaps before them."""
        operations = [*_outer(sorted(self._operations(), key=lambda op: (op.begin, -op.end)))]
        if not operations:
            raise self.file.wrong("has no kernels and no operations with a time")
        waits = self._recorded(operations)
        self._order(operations, waits)
        nodes: list[Node] = []
        first, previous = operations[0].begin, dict[Any, int]()
        for number, operation in enumerate(operations):
            before = previous.get(operation.lane)
            after = [*operation.after, *([] if before is None else [before])]
            since = max([first, *(operations[other].end for other in after)])
            follows = tuple(2 * other for other in sorted({*after}))
            gap = operation.begin - since
            if gap > 0:
                nodes.append(
                    Node(2 * number + 1, "gap", COMPUTE, follows, gap * 1e-6, unit="", part="idle")
                )
                follows = (2 * number + 1,)
            nodes.append(self._node(2 * number, operation, follows))
            previous[operation.lane] = number
        return nodes

    def _operations(self) -> Iterator[_Operation]:
        """Yield what runs on the device, or on the host where there is none."""
        for event in self.file.events:
            category, name = event.get("cat"), str(event.get("name", ""))
            args = event.get("args")
            args = args if isinstance(args, dict) else {}
            device = category in ON_DEVICE
            host = not self._on_device and (
                category == "cpu_op" or (category == "user_annotation" and name.startswith(_GLOO))
            )
            if not device and not host:
                continue
            if host and name.startswith(_CALLS):
                continue  # the host's call: its gap
            begin, seconds = self._time(event, "ts"), self._time(event, "dur")
            own = args.get("stream", event.get("tid")) if device else event.get("tid")
            lane = (event.get("pid"), own)
            communicates = "Collective name" in args or name.startswith(_GLOO)
            correlation = args.get("correlation", -1)
            yield _Operation(
                lane, name, begin, begin + seconds, args, communicates,
                correlation if isinstance(correlation, int) else -1,
            )  # fmt: skip

    def _time(self, event: Mapping[str, Any], key: str) -> float:
        value = event.get(key, 0)
        if not isinstance(value, int | float) or not 0 <= value < 1e18:
            name = str(event.get("name", ""))[:60]
            raise self.file.wrong(f"event '{name}': {key} is {value!r}, which is no time")
        return float(value)

    # --- between lanes ----------------------------------------------------------------------------

    def _recorded(self, operations: Sequence[_Operation]) -> bool:
        """Let operations follow those of other streams that the trace records; whether it does."""
        lists: dict[Any, list[int]] = {}
        for number in sorted(range(len(operations)), key=lambda n: operations[n].correlation):
            lists.setdefault(operations[number].args.get("stream"), []).append(number)
        keys = {
            stream: [operations[number].correlation for number in numbers]
            for stream, numbers in lists.items()
        }
        found = False
        for event in self.file.events:
            args = event.get("args") or {}
            if event.get("cat") != "cuda_sync" or "wait_on_stream" not in args:
                continue
            found = True
            own, other = args.get("stream"), args["wait_on_stream"]
            issued = args.get("correlation")
            event_recorded = args.get("wait_on_cuda_event_record_corr_id")
            if own == other or own not in lists or other not in lists:
                continue
            if not isinstance(issued, int) or not isinstance(event_recorded, int):
                continue
            first = bisect_right(keys[own], issued)
            last = bisect_right(keys[other], event_recorded) - 1
            if first < len(lists[own]) and last >= 0:
                operations[lists[own][first]].after.append(lists[other][last])
                self.recorded += 1
        return found

    def _order(self, operations: Sequence[_Operation], recorded: bool) -> None:
        """Let operations follow what ended last in other lanes, unless the trace records it."""
        if recorded:
            return
        ends = {
            kind: sorted(
                (op.end, number) for number, op in enumerate(operations) if op.communicates or kind
            )
            for kind in (True, False)
        }
        lane_end: dict[Any, float] = {}
        for operation in operations:
            since = lane_end.get(operation.lane, 0.0)
            lane_end[operation.lane] = max(since, operation.end)
            others = ends[operation.communicates]
            at = bisect_right(others, (operation.begin, len(operations))) - 1
            while at >= 0 and others[at][0] > since:
                number = others[at][1]
                if operations[number].lane != operation.lane:
                    operation.after.append(number)
                    self.inferred += 1
                    break
                at -= 1

    # --- one operation ----------------------------------------------------------------------------

    def _node(self, number: int, operation: _Operation, after: tuple[int, ...]) -> Node:
        if operation.communicates:
            return self._communication(number, operation, after)
        seconds, recorded = (operation.end - operation.begin) * 1e-6, operation.recorded
        unit, part = str(operation.lane[1]), part_of(operation.name)
        if part == "communication":
            self._leave_out(operation, "no arguments of a collective (record_shapes=True)")
            return Node(number, operation.name, COMPUTE, after, unit="")
        return Node(number, operation.name, COMPUTE, after, seconds, unit, part, recorded=recorded)

    def _communication(self, number: int, operation: _Operation, after: tuple[int, ...]) -> Node:
        kind, given, received = self._payload(operation)
        reason, tag = "", 0
        group: tuple[int, ...] = ()
        if kind in (SEND, RECEIVE):
            peer, tag = self._peer(operation, kind)
            group = () if peer is None else (self.rank, peer) if kind == SEND else (peer, self.rank)
            reason = "" if group else "the trace does not state its peer"
        elif kind in ("gather", "scatter") or kind not in {name for _, name in _OPERATIONS}:
            reason = f"'{kind}' has no algorithm here"
        else:
            group = self._group(operation.args)
            reason = "" if group else "the trace does not state the ranks of its group"
        if reason:
            self._leave_out(operation, reason)
            return Node(number, operation.name, COMPUTE, after, unit="")
        form: Kind = COLLECTIVE if kind not in (SEND, RECEIVE) else kind  # type: ignore[assignment]
        name = str(operation.args.get("Collective name", operation.name))
        return Node(
            number, name, form, after, nan if form == COLLECTIVE else 0.0,
            operation=kind if form == COLLECTIVE else "",
            nbytes=_buffer(kind, given, received, len(group)), ranks=group, tag=tag,
            recorded=operation.recorded,
        )  # fmt: skip

    def _payload(self, operation: _Operation) -> tuple[str, float, float]:
        """Return the operation, and the bytes that a rank gives and receives [B]."""
        args = operation.args
        if "Collective name" in args:
            size = BYTES.get(str(args.get("dtype", "")).lower(), 0)
            given, received = (
                _whole(args.get(key)) * size for key in ("In msg nelems", "Out msg nelems")
            )
            return operation_of(str(args["Collective name"])), given, received
        shapes, types = args.get("Input Dims") or [], args.get("Input type") or []
        nbytes = sum(
            prod(shape) * BYTES.get(str(kind).lower(), 0)
            for shape, kind in zip(shapes, types, strict=False)
            if isinstance(shape, list) and all(isinstance(side, int) for side in shape)
        )
        return operation_of(operation.name.removeprefix(_GLOO)), float(nbytes), 0.0

    def _group(self, args: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the ranks of a collective; none where they are not stated."""
        everyone, groups = tuple(range(self._world)), self.file.groups
        if "Collective name" not in args:
            self.assumed_group = len(groups) != 1
            return next(iter(groups.values())) if len(groups) == 1 else everyone
        if (name := str(args.get("Process Group Name", ""))) in groups:
            return groups[name]
        text = str(args.get("Process Group Ranks", ""))
        ranks = tuple(map(int, re.findall(r"\d+", text)))
        size = args.get("Group size")
        if "..." not in text and ranks and size in (None, len(ranks)):
            return ranks
        return everyone if size == self._world else ()

    def _peer(self, operation: _Operation, kind: str) -> tuple[int | None, int]:
        """Return the other rank of a message, and its tag; None where it is not stated."""
        value = operation.args.get("Dst Rank" if kind == SEND else "Src Rank")
        if isinstance(value, int):
            return value, 0
        return next(self._peers[kind], (None, 0))

    def _called_peers(self) -> dict[str, Iterator[tuple[int | None, int]]]:
        """Return the peers and tags of the calls that send and receive, in their order."""
        names = {SEND: f"{_CALLS}send", RECEIVE: f"{_CALLS}recv_"}
        calls = sorted(
            (event for event in self.file.events if event.get("name") in names.values()),
            key=lambda event: self._time(event, "ts"),
        )
        return {
            kind: iter([_ends(event) for event in calls if event.get("name") == name])
            for kind, name in names.items()
        }

    def _leave_out(self, operation: _Operation, reason: str) -> None:
        self.not_placed.append(NotPlaced(operation.name.partition("(")[0][:60], reason))


def _outer(operations: Iterable[_Operation]) -> Iterator[_Operation]:
    """Yield operations that no other one of their lane contains, in the order of their begins."""
    last: dict[Any, _Operation] = {}
    for operation in operations:
        if operation.lane in last and operation.is_inside(last[operation.lane]):
            continue
        last[operation.lane] = operation
        yield operation


def _buffer(operation: str, given: float, received: float, ranks: int) -> float:
    """Return the whole buffer of a collective, from what a rank gives and receives [B]."""
    if operation == "all-gather":
        return max(given * ranks, received)
    if operation == "reduce-scatter":
        return max(given, received * ranks)
    return max(given, received)


def _whole(value: Any) -> float:
    return float(value) if isinstance(value, int) and 0 <= value < 10**15 else 0.0


def _ends(event: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return the peer and the tag of a call: ``c10d::send(tensors, group, peer, tag)``."""
    inputs = (event.get("args") or {}).get("Concrete Inputs") or []
    numbers = [str(value) for value in inputs[2:4]]
    if len(numbers) < 2 or not all(re.fullmatch(r"\d+", number) for number in numbers):
        return None, 0
    return int(numbers[0]), int(numbers[1])
