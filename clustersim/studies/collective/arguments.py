"""The arguments of a collective, parsed and checked.

32KiB:16GiB    0-31,64    MOD 8    all-to-all 64MiB on 0-31
"""

import re
from collections.abc import Sequence
from math import prod
from typing import Final

from clustersim import units
from clustersim.catalog.changes import Settings
from clustersim.catalog.fabrics import Torus
from clustersim.catalog.facts import MAX_DEVICES
from clustersim.catalog.libraries import OPERATIONS
from clustersim.catalog.tree import nearest
from clustersim.errors import ScenarioError
from clustersim.program.collectives.algorithms import ALGORITHMS
from clustersim.program.collectives.communicator import Prescribed
from clustersim.runs.arguments import settings_of
from clustersim.scenario.load import load_cluster
from clustersim.scenario.ranges import sizes_in
from clustersim.scenario.schema import ClusterUse
from clustersim.studies.collective.benchmark import COPIES, Background, Benchmark
from clustersim.topology.cluster import build_cluster

MAXIMUM: Final = 200
"""Sizes of one table."""


def benchmark_of(
    cluster: str,
    op: str,
    *,
    devices: int | None = None,
    on: str | Sequence[int] | None = None,
    split: str | None = None,
    algorithm: str | None = None,
    background: Sequence[str] = (),
    settings: Settings = (),
) -> Benchmark:
    """Return the benchmark that the options describe.

    Raises
    ------
    ScenarioError, CatalogError
        when an option is invalid, in one line.
    """
    if (devices is None) == (on is None):
        raise ScenarioError("--devices, --on: give one of the two (--devices 8 or --on 0-7)")
    if devices is not None and devices > MAX_DEVICES:
        raise ScenarioError(f"--devices {devices}: more than {MAX_DEVICES:,} devices")
    ranks = devices_of(on, "--on") if on is not None else tuple(range(devices or 0))
    others = tuple(map(background_of, background))
    record = load_cluster(cluster, None, settings_of(settings))
    last = max([*ranks, *(device for other in others for device in other.devices)], default=0)
    machine = build_cluster(record, _nodes(record, last, f"--cluster {cluster}"))
    _check(ranks, op, f"--op {op}", OPERATIONS)
    for text, other in zip(background, others, strict=True):
        _check(other.devices, other.operation, f"--with '{text}'", (*OPERATIONS, *COPIES))
    return Benchmark(machine, split_of(ranks, split), op, _prescribed(op, algorithm), others)


def _check(devices: Sequence[int], operation: str, option: str, operations: Sequence[str]) -> None:
    """Reject an unknown operation, and a group that is too small for it."""
    if operation not in operations:
        known = ", ".join(operations)
        hint = nearest(operation, operations)
        raise ScenarioError(f"{option}: unknown operation '{operation}'{hint} (known: {known})")
    if len(devices) < 2 and operation not in COPIES:
        raise ScenarioError(f"{option}: a collective needs at least 2 devices")


def _nodes(record: ClusterUse, last: int, option: str) -> int:
    """Return the nodes that are built: up to the `last` device, or the job of a torus."""
    size, fabric = record.node.devices, record.fabric
    nodes = prod(fabric.job) if isinstance(fabric, Torus) and fabric.job else record.nodes
    if last >= nodes * size:
        raise ScenarioError(
            f"{option}: device {last} is out of range (devices 0 to {nodes * size - 1})"
        )
    return nodes if nodes < record.nodes else last // size + 1


def _prescribed(operation: str, algorithm: str | None) -> dict[str, Prescribed]:
    """Return the algorithm of an operation, where one is given."""
    if algorithm is None:
        return {}
    able = [name for name, each in ALGORITHMS.items() if operation in each.operations]
    if algorithm not in able:
        hint = nearest(algorithm, able)
        raise ScenarioError(
            f"--algorithm {algorithm}: not an algorithm of {operation}{hint}"
            f" (allowed: {', '.join(able)})"
        )
    return {operation: Prescribed(algorithm, f"--algorithm {algorithm}")}


def sizes_of(sizes: str | Sequence[float]) -> list[float]:
    """Return sizes of a buffer [B]: one, a list ``1MiB,4MiB``, or doublings ``32KiB:16GiB``.

    Raises
    ------
    ScenarioError
        when a size is invalid, in one line.

    >>> sizes_of("1KiB:4KiB")
    [1024.0, 2048.0, 4096.0]
    """
    text = sizes if isinstance(sizes, str) else ",".join(f"{size} B" for size in sizes)
    try:
        values = sizes_in(text)
    except ValueError as problem:
        raise ScenarioError(f"--bytes {text}: {problem}") from None
    if len(values) > MAXIMUM:
        raise ScenarioError(f"--bytes {text}: more than {MAXIMUM} sizes")
    return values


def devices_of(devices: str | Sequence[int], option: str) -> tuple[int, ...]:
    """Return devices from a list of numbers and ranges.

    >>> devices_of("0-3,8", "--on")
    (0, 1, 2, 3, 8)
    """
    text = devices if isinstance(devices, str) else ",".join(map(str, devices))
    numbers: dict[int, None] = {}
    for item in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", item)
        if match is None:
            raise ScenarioError(f"{option}: '{item}' is not a device or a range (example: 0-31,64)")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ScenarioError(f"{option}: range {item} ends before it begins")
        if last >= MAX_DEVICES:
            raise ScenarioError(f"{option}: device {last} is above the last one, {MAX_DEVICES - 1}")
        for number in range(first, last + 1):
            if number in numbers:
                raise ScenarioError(f"{option}: device {number} is listed twice")
            numbers[number] = None
    return tuple(numbers)


def split_of(devices: Sequence[int], text: str | None) -> tuple[tuple[int, ...], ...]:
    """Return groups of equal size, as nccl-tests splits ranks: ``MOD 8`` or ``DIV 8``.

    ``MOD n`` makes n groups, of ranks whose numbers leave the same remainder; ``DIV n`` makes
    groups of n consecutive ranks.

    >>> split_of(range(4), "MOD 2"), split_of(range(4), "DIV 2")
    (((0, 2), (1, 3)), ((0, 1), (2, 3)))
    """
    if text is None:
        return (tuple(devices),)
    match = re.fullmatch(r"\s*(MOD|DIV)\s+(\d{1,7})\s*", text, re.IGNORECASE)
    count = int(match[2]) if match else 0
    if match is None or count == 0:
        raise ScenarioError(f"--split {text}: not of the form 'MOD 8' or 'DIV 8'")
    size = len(devices) // count if match[1].upper() == "MOD" else count
    if len(devices) % count or size < 2:
        raise ScenarioError(
            f"--split {text}: {len(devices)} devices do not split into equal groups of 2 or more"
        )
    if match[1].upper() == "MOD":
        return tuple(tuple(devices[first::count]) for first in range(count))
    return tuple(tuple(devices[first : first + size]) for first in range(0, len(devices), size))


def background_of(text: str) -> Background:
    """Return concurrent traffic from a text such as ``all-to-all 64MiB on 0-31``.

    Raises
    ------
    ScenarioError
        in one line.
    """
    option = f"--with '{text}'"
    match = re.fullmatch(r"\s*(\S+)\s+(\S+)\s+on\s+(\S+)\s*", text)
    if match is None:
        raise ScenarioError(f"{option}: not of the form 'all-to-all 64MiB on 0-31'")
    try:
        nbytes = units.parse_size(match[2])
    except ValueError as problem:
        raise ScenarioError(f"{option}: {problem}") from None
    return Background(match[1], nbytes, devices_of(match[3], option))
