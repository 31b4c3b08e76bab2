"""What a person asks of a bench, as it is written on a command line, checked and made plain.

32KiB:16GiB    0-31,64    MOD 8    all-to-all 64MiB on 0-31
"""

import re
from collections.abc import Sequence
from math import prod
from typing import Final

from clustersim import units
from clustersim.catalog.fabrics import Torus
from clustersim.catalog.libraries import OPERATIONS
from clustersim.catalog.tree import nearest
from clustersim.errors import ScenarioError
from clustersim.program.collectives.communicator import RUNS, Prescribed
from clustersim.scenario.ranges import quantities_of
from clustersim.scenario.schema import ClusterUse
from clustersim.studies.collective.answer import COPIES, Background

MOST_SIZES: Final = 200
"""Sizes of one table, at most."""


def check(
    devices: Sequence[int], operation: str, what: str, operations: Sequence[str] = OPERATIONS
) -> None:
    """Refuse a group that cannot run one of the operations.

    Raises
    ------
    ScenarioError
        in one line that begins with `what`.
    """
    if operation not in operations:
        known = ", ".join(operations)
        raise ScenarioError(
            f"{what}: no operation '{operation}'{nearest(operation, operations)} (known: {known})"
        )
    if len(devices) < 2 and operation not in COPIES:
        raise ScenarioError(f"{what}: a collective needs at least 2 devices")


def nodes_of(record: ClusterUse, last: int, what: str) -> int:
    """Return the nodes of a machine that are built: up to device `last`, or the job of a torus.

    Raises
    ------
    ScenarioError
        in one line that begins with `what`, when the machine has no such device.
    """
    size, fabric = record.node.devices.value, record.fabric
    nodes = prod(fabric.job) if isinstance(fabric, Torus) and fabric.job else record.nodes
    if last >= nodes * size:
        raise ScenarioError(
            f"{what}: has {nodes * size} devices, 0 to {nodes * size - 1}, and device {last} is"
            " asked for"
        )
    return nodes if nodes < record.nodes else last // size + 1


def prescribed(operation: str, algorithm: str | None) -> dict[str, Prescribed]:
    """Return the algorithm that is to run an operation, where one is named.

    Raises
    ------
    ScenarioError
        when there is none of that name, or it cannot do the operation.
    """
    if algorithm is None:
        return {}
    able = [name for name, operations in RUNS.items() if operation in operations]
    if algorithm not in able:
        hint = nearest(algorithm, able)
        raise ScenarioError(
            f"--algorithm {algorithm}: does no {operation}{hint} (these do: {', '.join(able)})"
        )
    return {operation: Prescribed(algorithm, f"--algorithm {algorithm}")}


def sizes_of(text: str) -> list[float]:
    """Return buffer sizes [B]: one, a list ``1MiB,4MiB``, or doublings ``32KiB:16GiB``.

    Raises
    ------
    ScenarioError
        when a size is invalid, in one line.

    >>> sizes_of("1KiB:4KiB")
    [1024.0, 2048.0, 4096.0]
    """
    try:
        sizes = quantities_of(text, "bytes")
    except ValueError as problem:
        raise ScenarioError(f"--bytes {text}: {problem}") from None
    if len(sizes) > MOST_SIZES:
        raise ScenarioError(f"--bytes {text}: more than {MOST_SIZES} sizes")
    return sizes


def devices_of(text: str, what: str) -> tuple[int, ...]:
    """Return devices from a list of numbers and ranges.

    >>> devices_of("0-3,8", "--on")
    (0, 1, 2, 3, 8)
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part)
        if match is None:
            raise ScenarioError(f"{what}: '{part}' is no device and no range (write 0-31,64)")
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, last + 1)
    if len(set(found)) != len(found) or not found:
        raise ScenarioError(f"{what}: names a device twice, or a range backwards: '{text}'")
    return tuple(found)


def split_of(devices: Sequence[int], text: str | None) -> tuple[tuple[int, ...], ...]:
    """Return groups of equal size, as nccl-tests splits ranks: ``MOD 8`` or ``DIV 8``.

    ``MOD n`` puts those ranks together whose numbers leave the same remainder, ``DIV n`` those
    that follow each other.

    >>> split_of(range(4), "MOD 2"), split_of(range(4), "DIV 2")
    (((0, 2), (1, 3)), ((0, 1), (2, 3)))
    """
    if text is None:
        return (tuple(devices),)
    match = re.fullmatch(r"\s*(MOD|DIV)\s+(\d{1,7})\s*", text, re.IGNORECASE)
    count = int(match[2]) if match else 0
    if match is None or count == 0:
        raise ScenarioError(f"--split {text}: not understood (write 'MOD 8' or 'DIV 8')")
    each = len(devices) // count if match[1].upper() == "MOD" else count
    if len(devices) % count or each < 2:
        raise ScenarioError(
            f"--split {text}: makes no equal groups of 2 or more of {len(devices)} devices"
        )
    if match[1].upper() == "MOD":
        return tuple(tuple(devices[first::count]) for first in range(count))
    return tuple(tuple(devices[first : first + each]) for first in range(0, len(devices), each))


def background_of(text: str) -> Background:
    """Return background traffic as it is written: ``all-to-all 64MiB on 0-31``.

    Raises
    ------
    ScenarioError
        in one line.
    """
    what = f"--with '{text}'"
    match = re.fullmatch(r"\s*(\S+)\s+(\S+)\s+on\s+(\S+)\s*", text)
    if match is None:
        raise ScenarioError(f"{what}: not understood (write 'all-to-all 64MiB on 0-31')")
    try:
        nbytes = units.parse(match[2], "bytes")
    except ValueError as problem:
        raise ScenarioError(f"{what}: {problem}") from None
    return Background(match[1], nbytes, devices_of(match[3], what))
