"""The arguments of a calibration: an accelerator of the catalogue, and files of measurements.

a.csv (kernels), runs.yaml (cases) --read_request--> Request --calibrate--> Calibration
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from clustersim.calibration.runs.answer import Calibration, NotFitted, fit_accelerator
from clustersim.calibration.runs.kernels import KernelRow, KernelTable, read_kernels
from clustersim.calibration.runs.replays import MeasuredRun, read_runs
from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.files import shown
from clustersim.catalog.reading import Document
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError, ScenarioError
from clustersim.records import dataclass
from clustersim.validation.case_runs import select_groups
from clustersim.validation.cases.rows import Entry, read_entries
from clustersim.workload.kernels import Flash


@dataclass(frozen=True)
class Request:
    """An accelerator and its measurements.

    Attributes
    ----------
    document : the accelerator's file
    tables : measured kernels
    entries : measured runs, of this accelerator or of others
    files : names of the files of runs
    """

    record: AcceleratorRecord
    document: Document
    tables: tuple[KernelTable, ...]
    entries: tuple[Entry, ...]
    files: tuple[str, ...]


def read_request(accelerator: str, paths: Sequence[Path], groups: Sequence[str]) -> Request:
    """Read the files of a calibration.

    Parameters
    ----------
    accelerator : name of a file in the working folder, or of a shipped one
    paths : ``.csv`` of kernels, ``.yaml`` of runs
    groups : of the runs, or patterns; without a file of runs, groups of the shipped ones

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
                f"--from {shown(path)}: must end in .csv (of kernels) or .yaml (of runs); a log of"
                f" nccl-tests is compared by clustersim collective --against {shown(path)}"
            )
    if groups and not of_runs:
        of_runs = [finding.shipped("validation") / "cases.yaml"]
    for path in of_runs:
        entries += read_entries(path)
        files.append(path.name)
    chosen = select_groups(entries, groups) if entries else []
    if not tables and not chosen:
        raise ScenarioError(
            "calibrate: needs --from PATH (.csv of kernels from the script of --measure, or .yaml"
            " of runs), or --group of the shipped runs"
        )
    _check_peaks(record, tables)
    return Request(record, document, tuple(tables), tuple(chosen), tuple(files))


def _check_peaks(record: AcceleratorRecord, tables: Sequence[KernelTable]) -> None:
    """Reject kernels in precisions without a peak in the accelerator's file."""
    for table in tables:
        for row in fitted_rows(table, record):
            peak = getattr(row.kernel, "peak", None)
            if peak is not None and peak not in record.peak:
                raise ScenarioError(
                    f"{row.place}: precision: '{record.name}' has no peak in {peak} (it has"
                    f" {', '.join(sorted(record.peak))}): remove the row, or add the peak"
                )


def calibrate(request: Request, executor: Executor) -> Calibration:
    """Fit the coefficients of a request.

    Raises
    ------
    ScenarioError
        when no row is of the accelerator.
    """
    name = request.record.name
    runs, left_out = read_runs(request.entries, name, executor)
    kernels = [row for table in request.tables for row in fitted_rows(table, request.record)]
    for row in (row for table in request.tables for row in table.rows):
        if row.kernel is not None and not has_facts(row, request.record):
            left_out[row.group] = f"'{name}' has no facts of cuDNN's attention"
    if not runs and not kernels:
        reasons = "; ".join(dict.fromkeys(left_out.values()))
        detail = f" (left out: {reasons})" if reasons else ""
        raise ScenarioError(f"calibrate: no row is of '{name}'{detail}")
    return fit_accelerator(
        request.record,
        kernels,
        runs,
        executor,
        rows_of=_description(request, runs),
        not_fitted=tuple(kind for table in request.tables for kind in not_fitted(table)),
        left_out=left_out,
    )


def _description(request: Request, runs: Sequence[MeasuredRun]) -> str:
    """Return the files and their rows in words, as the source of every fitted value."""
    files = []
    for table in request.tables:
        count = len(fitted_rows(table, request.record))
        words = [f"{count} kernels", *([table.remark] if table.remark else [])]
        files.append(f"{table.file} ({'; '.join(words)})")
    if runs:
        groups = Counter(run.group for run in runs)
        counts = ", ".join(f"{name} {count}" for name, count in sorted(groups.items()))
        files.append(f"{', '.join(request.files)} (runs of {counts})")
    return "; ".join(files)


def fitted_rows(table: KernelTable, record: AcceleratorRecord) -> list[KernelRow]:
    """Return the rows with a kernel of the cost model and facts in the accelerator's file."""
    return [row for row in table.rows if row.kernel is not None and has_facts(row, record)]


def has_facts(row: KernelRow, record: AcceleratorRecord) -> bool:
    """Whether the file of an accelerator has facts of a kernel."""
    cudnn = isinstance(row.kernel, Flash) and row.kernel.cudnn
    return not cudnn or record.flash_attention.cudnn is not None


def not_fitted(table: KernelTable) -> list[NotFitted]:
    """Return the best of each kind of row that belongs to the host, to links or to software."""
    kinds = sorted({row.kind for row in table.rows if row.kernel is None})
    return [_best(kind, [row for row in table.rows if row.kind == kind]) for kind in kinds]


def _best(kind: str, rows: Sequence[KernelRow]) -> NotFitted:
    """Return the highest rate of some rows [B/s], or the least time of a kernel [s]."""
    rates = [row.shape["bytes"] / row.seconds for row in rows if "bytes" in row.shape]
    times = [row.seconds / row.shape["kernels"] for row in rows if "kernels" in row.shape]
    return NotFitted(kind, len(rows), max(rates, default=None), min(times, default=None))
