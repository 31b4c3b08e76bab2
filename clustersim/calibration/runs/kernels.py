"""Measured kernels: a table of shapes and times, and the time of each in the cost model.

    kind,shape,precision,seconds
    gemm,m=4096 n=4096 k=4096 batch=1,bf16,0.00056

The script of `clustersim calibrate --measure` writes such tables.  Lines that begin with ``#``
describe device and software; the first of them is kept as the remark of the table.
"""

import csv
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from clustersim.calibration.kernels.words import finite_number, reject_rows
from clustersim.catalog.facts import LEAST
from clustersim.catalog.files import read_text, shown
from clustersim.cost.compute import chain_seconds
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.suggestions import nearest
from clustersim.topology.accelerator import Accelerator
from clustersim.workload.kernels import Collective, Flash, Gemm, Head, Stream
from clustersim.workload.slice import PRECISIONS, Precision

Kernel = Gemm | Stream | Flash
Shape = Mapping[str, float]

COLUMNS: Final = ("kind", "shape", "precision", "seconds")


class Kind(NamedTuple):
    """A kind of row: the words of its shape, and its kernel in the cost model, if it is fitted."""

    needs: tuple[str, ...]
    kernel: Callable[[Shape, Precision], Kernel] | None


@dataclass(frozen=True)
class KernelRow:
    """A measured kernel.

    Attributes
    ----------
    place : ``file:line``
    kernel : None where it does not belong to the accelerator: transfers, collectives, the host
    """

    place: str
    kind: str
    shape: Shape
    precision: str
    seconds: float
    kernel: Kernel | None

    @property
    def group(self) -> str:
        """Its kind and precision, by which it is graded."""
        return f"{self.kind} {self.precision}"


@dataclass(frozen=True)
class KernelTable:
    """A file of measured kernels; `remark` describes device and software."""

    file: str
    remark: str
    rows: tuple[KernelRow, ...]


def _gemm(shape: Shape, precision: Precision) -> Kernel:
    m, n, k = (int(shape[letter]) for letter in "mnk")
    row = math.gcd(k, n)
    peak, width = precision.peak, precision.operand
    return Gemm("gemm", m, n, k, int(shape["batch"]), peak=peak, width=width, row=row)


def _attention(shape: Shape, precision: Precision, *, backward: bool, cudnn: bool) -> Kernel:
    r"""Return fused attention: two products over the pairs of tokens forward, five backward.

    .. math:: 2 \cdot 2 d \, b a \, \text{pairs}, \quad \text{pairs} = s^2 / 2 \text{ if causal}

    Dao 2023, arXiv:2307.08691, section 4.1. Moved are queries, keys, values and the result, and
    backward their gradients as well.
    """
    each = shape["batch"] * shape["heads"]
    s, d = shape["sequence"], shape["head_size"]
    pairs = each * s * s / (2 if shape["causal"] else 1)
    numbers = 4 * each * s * d
    products, moved = (5, 2 * numbers) if backward else (2, numbers)
    flops, nbytes = products * 2 * pairs * d, precision.width * moved
    head = Head(int(each), int(each), int(d), int(d), int(2 * d))
    return Flash(
        "attention", flops, nbytes, int(d), backward, int(s), precision.wide, cudnn=cudnn, head=head
    )


def _stream(shape: Shape, _: Precision) -> Kernel:
    return Stream("stream", shape["bytes"])


def _launch(shape: Shape, _: Precision) -> Kernel:
    return Stream("launches", 0.0, int(shape["kernels"]))


_HEADS: Final = ("batch", "heads", "sequence", "head_size", "causal")

LONGEST: Final = 1e4
"""Maximum time of a measured kernel [s]."""

KINDS: Final[Mapping[str, Kind]] = {
    "gemm": Kind(("m", "n", "k", "batch"), _gemm),
    "attention-forward": Kind(_HEADS, partial(_attention, backward=False, cudnn=False)),
    "attention-backward": Kind(_HEADS, partial(_attention, backward=True, cudnn=False)),
    "attention-forward-cudnn": Kind(_HEADS, partial(_attention, backward=False, cudnn=True)),
    "attention-backward-cudnn": Kind(_HEADS, partial(_attention, backward=True, cudnn=True)),
    "elementwise": Kind(("bytes",), _stream),
    "reduction": Kind(("bytes",), _stream),
    "optimiser": Kind(("bytes",), _stream),
    "launch": Kind(("kernels",), _launch),
    "optimiser-foreach": Kind(("bytes",), None),
    "dispatch": Kind(("kernels",), None),
    "host-to-device": Kind(("bytes",), None),
    "device-to-host": Kind(("bytes",), None),
    "all-reduce": Kind(("bytes", "devices"), None),
    "all-gather": Kind(("bytes", "devices"), None),
    "reduce-scatter": Kind(("bytes", "devices"), None),
    "all-to-all": Kind(("bytes", "devices"), None),
}
"""Kinds of rows.  `bytes` is the sum of bytes read and written; `launch` is a replay of empty
kernels without the host, `dispatch` the host issuing them one by one.  Kinds without a kernel are
reported and not fitted: they belong to the host, to links, or to software."""

assumed_widths: Final[Mapping[str, Precision]] = {
    **PRECISIONS,
    "fp64": Precision("fp64", "fp64", 8, 8),
    "int8": Precision("int8", "int8", 2, 1),
}
"""Precisions of rows: those of training, and two that are only measured."""


def read_kernels(path: Path) -> KernelTable:
    """Read a table of measured kernels.

    Raises
    ------
    ScenarioError
        one line for each row that cannot be used.
    """
    file = shown(path)
    lines = list(enumerate(read_text(path).splitlines(), 1))
    remark = next((line[1:].strip() for _, line in lines if line.startswith("#")), "")
    rows = [(number, line) for number, line in lines if line.strip() and line[0] != "#"]
    if not rows:
        raise ScenarioError(f"{file}: has no rows (columns: {','.join(COLUMNS)})")
    header = [name.strip() for name in _cells(f"{file}:{rows[0][0]}", rows[0][1])]
    for column in COLUMNS:
        if column not in header:
            where = f"{file}:{rows[0][0]}"
            raise ScenarioError(
                f"{where}: no column '{column}' (the first line names: {','.join(COLUMNS)})"
            )
    parsed, wrong = [], []
    for number, line in rows[1:]:
        values = dict(zip(header, _cells(f"{file}:{number}", line), strict=False))
        try:
            parsed.append(_row(f"{file}:{number}", values))
        except ValueError as problem:
            wrong.append(f"{file}:{number}: {problem}")
    reject_rows(file, wrong)
    if not parsed:
        raise ScenarioError(f"{file}: has no rows below its heading")
    return KernelTable(file, remark, tuple(parsed))


def _cells(place: str, line: str) -> list[str]:
    """Return the cells of a line."""
    try:
        return next(csv.reader([line]))
    except csv.Error as problem:
        raise ScenarioError(f"{place}: is not valid CSV ({problem})") from None


def _row(place: str, values: Mapping[str, str]) -> KernelRow:
    """Return a row, or raise a `ValueError` with the problem."""
    name = values.get("kind", "").strip()
    kind = KINDS.get(name)
    if kind is None:
        hint = nearest(name, KINDS) or f" (known: {', '.join(KINDS)})"
        raise ValueError(f"kind: no kind '{name}'{hint}")
    word = values.get("precision", "").strip()
    precision = assumed_widths.get(word)
    if precision is None:
        raise ValueError(f"precision: no '{word}' (known: {', '.join(assumed_widths)})")
    shape = _shape(values.get("shape", ""), kind.needs)
    seconds = finite_number("seconds", values.get("seconds", ""))
    if seconds <= 0:
        raise ValueError(f"seconds: must be greater than 0, not {seconds:g}")
    if not LEAST <= seconds <= LONGEST:
        raise ValueError(f"seconds: {seconds:g} is no time of a kernel ({LEAST:g} to {LONGEST:g})")
    kernel = None if kind.kernel is None else kind.kernel(shape, precision)
    return KernelRow(place, name, shape, precision.name, seconds, kernel)


def _shape(text: str, needs: tuple[str, ...]) -> Shape:
    shape = {}
    for word in text.split():
        key, _, value = word.partition("=")
        shape[key] = finite_number(f"shape: {key}", value)
    for key in needs:
        if shape.get(key, -1.0) < (0 if key == "causal" else 1):
            raise ValueError(f"shape: '{text}' needs {key} (write it like '{_like(needs)}')")
    return shape


def _like(needs: tuple[str, ...]) -> str:
    return " ".join(f"{key}={1 if key in ('batch', 'causal') else 4096}" for key in needs)


def kernel_seconds(kernel: Kernel, device: Accelerator) -> float:
    """Return the time of a kernel in the cost model [s]."""
    return chain_seconds([kernel], device, _no_collective).total


def _no_collective(collective: Collective) -> float:
    raise AssertionError(f"{collective.name} is not a kernel of one device")
