"""What a calibration is asked for: an accelerator of the catalogue, and files of what was measured.

a.csv (kernels), runs.yaml (cases) --read--> Request --calibrated--> Calibration --> files
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim.calibration.files import Told, accelerator_text, framework_texts
from clustersim.calibration.fit_rows import Calibration, calibrate
from clustersim.calibration.kernels import KernelRow, KernelTable, read_kernels
from clustersim.calibration.runs import Run, read_runs
from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.reading import Document, shown
from clustersim.catalog.records import AcceleratorRecord
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError, ScenarioError
from clustersim.validation.cases.cases import Entry, read_cases
from clustersim.validation.validate import select
from clustersim.workload.kernels import Flash


@dataclass(frozen=True)
class Request:
    """An accelerator and what was measured of it.

    Attributes
    ----------
    document : the accelerator's file
    tables : measured kernels
    entries : measured runs, of this accelerator or of others
    files : where the runs were read
    """

    record: AcceleratorRecord
    document: Document
    tables: tuple[KernelTable, ...]
    entries: tuple[Entry, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Calibrated:
    """A calibration with what it was made of.

    Attributes
    ----------
    left_out : why cases of this accelerator are no rows, by id, and kernels by kind
    """

    request: Request
    calibration: Calibration
    runs: tuple[Run, ...]
    left_out: Mapping[str, str]

    @property
    def told(self) -> Told:
        """The rows in words, as the source of every fitted value."""
        parts = []
        for table in self.request.tables:
            count = len(fitted(table, self.request.record))
            words = [f"{count} kernels", *([table.told] if table.told else [])]
            parts.append(f"{table.file} ({'; '.join(words)})")
        if self.runs:
            groups = Counter(run.group for run in self.runs)
            counted = ", ".join(f"{name} {count}" for name, count in sorted(groups.items()))
            parts.append(f"{', '.join(self.request.files)} (runs of {counted})")
        return Told("Fit by clustersim calibrate", "; ".join(parts))

    def texts(self, out: Path) -> dict[Path, str]:
        """Return the files that hold what was fitted, by where they go: beside one another."""
        main = accelerator_text(self.calibration, self.request.document, self.told, out.stem)
        found = {out: main}
        for name, text in framework_texts(self.calibration, self.told).items():
            found[out.parent / f"{name}.yaml"] = text
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            **self.calibration.to_json(),
            "rows_of": self.told.where,
            "not_fitted": [each for table in self.request.tables for each in not_fitted(table)],
            "left_out": dict(self.left_out),
        }


def asked(accelerator: str, paths: Sequence[Path], groups: Sequence[str]) -> Request:
    """Read what a calibration is made of.

    Parameters
    ----------
    accelerator : name of a file in the working folder, or of a shipped one
    paths : ``.csv`` of kernels, ``.yaml`` of runs
    groups : of the runs, patterns as well; without a file of runs, those that are shipped

    Raises
    ------
    ScenarioError, CatalogError
        when a file cannot be used, or there is nothing to fit.
    """
    document = finding.find("accelerator", accelerator, Path.cwd(), "--accelerator: ")
    record = checked(AcceleratorRecord, Tree.of(document), CatalogError)
    tables, entries, files = [], [], []
    of_runs = [path for path in paths if path.suffix in (".yaml", ".yml")]
    for path in paths:
        if path.suffix == ".csv":
            tables.append(read_kernels(path))
        elif path not in of_runs:
            raise ScenarioError(
                f"--from {shown(path)}: must end in .csv (of kernels) or .yaml (of runs)"
            )
    if groups and not of_runs:
        of_runs = [finding.shipped("validation") / "cases.yaml"]
    for path in of_runs:
        entries += read_cases(path)
        files.append(path.name)
    chosen = select(entries, groups) if entries else []
    if not tables and not chosen:
        raise ScenarioError(
            "calibrate: needs --from FILE (.csv of kernels that the script of --measure wrote, or"
            " .yaml of runs), or --group of the shipped runs"
        )
    _check_peaks(record, tables)
    return Request(record, document, tuple(tables), tuple(chosen), tuple(files))


def _check_peaks(record: AcceleratorRecord, tables: Sequence[KernelTable]) -> None:
    """Refuse kernels in precisions that the accelerator's file has no peak of."""
    for table in tables:
        for row in fitted(table, record):
            peak = getattr(row.kernel, "peak", None)
            if peak is not None and peak not in record.peak:
                raise ScenarioError(
                    f"{row.place}: precision: '{record.name}' has no peak in {peak} (it has"
                    f" {', '.join(sorted(record.peak))}: take the row out, or add the peak)"
                )


def calibrated(request: Request, executor: Executor) -> Calibrated:
    """Fit what was asked for.

    Raises
    ------
    ScenarioError
        when no row is of the accelerator.
    """
    name = request.record.name
    runs, left = read_runs(request.entries, name, executor)
    kernels = [row for table in request.tables for row in fitted(table, request.record)]
    for row in (row for table in request.tables for row in table.rows):
        if row.kernel is not None and not known(row, request.record):
            left[row.group] = f"'{name}' has no facts of cuDNN's attention"
    if not runs and not kernels:
        reasons = "; ".join(dict.fromkeys(left.values()))
        told = f" (left out: {reasons})" if reasons else ""
        raise ScenarioError(f"calibrate: none of the rows is one of '{name}'{told}")
    found = calibrate(request.record, kernels, runs, executor)
    return Calibrated(request, found, tuple(runs), left)


def fitted(table: KernelTable, record: AcceleratorRecord) -> list[KernelRow]:
    """Return the rows that stand for a kernel of the cost model and of the accelerator's file."""
    return [row for row in table.rows if row.kernel is not None and known(row, record)]


def known(row: KernelRow, record: AcceleratorRecord) -> bool:
    """Whether the file of an accelerator tells of a kernel at all."""
    cudnn = isinstance(row.kernel, Flash) and row.kernel.cudnn
    return not cudnn or record.flash_attention.cudnn is not None


def not_fitted(table: KernelTable) -> list[dict[str, Any]]:
    """Return the best of each kind of row that belongs to the host, to links or to software."""
    kinds = sorted({row.kind for row in table.rows if row.kernel is None})
    return [_best(kind, [row for row in table.rows if row.kind == kind]) for kind in kinds]


def _best(kind: str, rows: Sequence[KernelRow]) -> dict[str, Any]:
    """Return the highest rate of some rows [B/s], or the least time of a kernel [s]."""
    rates = [row.shape["bytes"] / row.seconds for row in rows if "bytes" in row.shape]
    each = [row.seconds / row.shape["kernels"] for row in rows if "kernels" in row.shape]
    return {
        "kind": kind,
        "rows": len(rows),
        "bytes_per_s": max(rates, default=None),
        "seconds_each": min(each, default=None),
    }
