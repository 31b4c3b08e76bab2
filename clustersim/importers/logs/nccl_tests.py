"""Logs of nccl-tests and rccl-tests: the measured time of a collective by size of its buffer.

Columns after the words are root, then time [us], algbw, busbw and wrong values, out of place and in
place; releases before 2.10 print no root.  Times out of place are read, the median of repetitions.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from math import inf
from pathlib import Path
from statistics import median
from typing import Final

from clustersim.importers.source import read_source
from clustersim.records import dataclass

OPERATIONS: Final[Mapping[str, str]] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "alltoall": "all-to-all",
    "sendrecv": "send",
}
"""Operations by the name of the program that measures them."""

_NUMBER: Final = r"\s+(?:-?\d+(?:\.\d+)?|N/A)"
_ROW: Final = re.compile(
    rf"(?:^|[\s:>\]])(\d{{1,15}})\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?((?:{_NUMBER}){{4,9}})\s*$"
)
_PROGRAM: Final = re.compile(rf"\b({'|'.join(OPERATIONS)})_perf\b")
_RANK: Final = re.compile(r"#\s+Rank\s+(\d{1,9})\s")
_WITH_ROOT: Final = (5, 9)
"""Numbers of a row whose first one is the root: out of place alone, or in place as well."""


@dataclass(frozen=True)
class CollectiveLog:
    """What a log states.

    Attributes
    ----------
    file : the log, as shown in messages
    operation, ranks : what was measured; None where it is not stated
    seconds : measured time by size of the buffer [s], [B]
    """

    file: str
    operation: str | None
    ranks: int | None
    seconds: Mapping[float, float]


def read_collective_log(path: Path) -> CollectiveLog:
    """Return what a log of nccl-tests states.

    Raises
    ------
    CatalogError
        in one line, when the file cannot be read or has no row with a time.
    """
    source = read_source(path)
    times: defaultdict[float, list[float]] = defaultdict(list)
    for _, line in source.lines:
        if row := _ROW.search(line):
            numbers = row[2].replace("N/A", "0").split()
            seconds = 1e-6 * float(numbers[len(numbers) in _WITH_ROOT])
            if 0 < seconds < inf and int(row[1]):
                times[float(row[1])].append(seconds)
    if not times:
        raise source.wrong(None, "has no rows of nccl-tests (size, count, type, ..., time, busbw)")
    program = _PROGRAM.search(source.text)
    ranks = [int(rank) for rank in _RANK.findall(source.text)]
    return CollectiveLog(
        source.file,
        OPERATIONS[program[1]] if program else None,
        max(ranks) + 1 if ranks else None,
        {size: median(times[size]) for size in sorted(times)},
    )
