"""Tables of measured kernels of several accelerators, read from CSV and normalised once.

    accelerator,kernel,dtype,m,n,k,seconds,source
    H100-SXM5-80GB,gemm,fp8_block,512,4096,7168,2.6e-05,vllm 0.24

The words of published tables are translated; times are in seconds, messages in bytes.
"""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clustersim.calibration.kernels.words import (
    Cells,
    Measurement,
    UnmodelledKernelError,
    measurements,
    reject_rows,
)
from clustersim.catalog.files import read_text, shown
from clustersim.errors import ScenarioError
from clustersim.records import dataclass

NEEDED: Final = ("accelerator", "seconds")
"""Columns of every table; the others depend on the kernel."""

_TIMES: Final = ("seconds", "up_seconds", "achieved_tflops")
"""Columns of which a table has one."""


_ENGINE: Final = re.compile(r"/(?:gemm|attention|moe)/(?P<engine>vllm|sglang)/(?P<release>[^/]+)/")
"""Sources of kernels of engines that have fits of their own: folders of ai-dynamo/aiconfigurator.
Collectives have the names of their libraries."""


@dataclass(frozen=True)
class MeasuredKernel:
    """A measured kernel, in the words of clustersim.

    Attributes
    ----------
    place : ``file:line``
    accelerator : its name in the table
    measured : kind, format or library, shape and time
    source : where the table has it from
    """

    place: str
    accelerator: str
    measured: Measurement
    source: str

    @property
    def engine(self) -> str:
        """The inference engine that issued it, by its source; empty where it is no other's."""
        found = _ENGINE.search(self.source)
        return "" if found is None else found["engine"]

    @property
    def release(self) -> str:
        """The release of this engine; empty without one."""
        found = _ENGINE.search(self.source)
        return "" if found is None else found["release"]

    @property
    def group(self) -> tuple[str, str, str]:
        """Engine, kind and variant, which are fitted together."""
        return self.engine, self.measured.kind, self.measured.variant


@dataclass(frozen=True)
class KernelTables:
    """The rows of some tables, and the number of rows left out for each reason."""

    rows: tuple[MeasuredKernel, ...]
    left_out: Mapping[str, int]


def has_accelerators(path: Path) -> bool:
    """Whether a file is a table of several accelerators, by its first line."""
    return "accelerator" in read_text(path).partition("\n")[0].split(",")


def read_tables(paths: Sequence[Path]) -> KernelTables:
    """Read tables of measured kernels.

    Raises
    ------
    ScenarioError
        one line for each row that cannot be used.
    """
    rows: list[MeasuredKernel] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        rows += _read_table(path, left_out)
    return KernelTables(tuple(rows), dict(sorted(left_out.items())))


def _read_table(path: Path, left_out: Counter[str]) -> list[MeasuredKernel]:
    file = shown(path)
    lines = read_text(path).splitlines()
    reader = csv.DictReader(lines, restval="", strict=True)
    rows: list[MeasuredKernel] = []
    wrong: list[str] = []
    try:
        _check_columns(file, reader.fieldnames or [])
        for values in reader:
            place = f"{file}:{reader.line_num}"
            try:
                rows += _rows(place, values)
            except UnmodelledKernelError as reason:
                left_out[str(reason)] += 1
            except ValueError as problem:
                wrong.append(f"{place}: {problem}")
    except csv.Error as problem:
        raise ScenarioError(
            f"{file}:{max(1, reader.line_num)}: is not valid CSV ({problem})"
        ) from None
    reject_rows(file, wrong)
    return rows


def _check_columns(file: str, columns: Sequence[str]) -> None:
    if not columns:
        raise ScenarioError(f"{file}: has no rows (the first line names the columns)")
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise ScenarioError(f"{file}:1: column '{twice[0]}' given twice")
    missing = [name for name in NEEDED if name not in columns]
    if "seconds" in missing and any(name in columns for name in _TIMES):
        missing.remove("seconds")
    if missing:
        raise ScenarioError(
            f"{file}:1: no column '{missing[0]}' (a table of kernels has accelerator, kernel,"
            " dtype, the columns of its shape, seconds and source)"
        )


def _rows(place: str, values: Mapping[str | None, str]) -> list[MeasuredKernel]:
    if None in values:
        raise ValueError("has more cells than the first line has columns")
    cells = Cells({str(name): value for name, value in values.items()})
    name, source = cells.name("accelerator"), cells.values.get("source", "").strip()
    return [MeasuredKernel(place, name, measurement, source) for measurement in measurements(cells)]
