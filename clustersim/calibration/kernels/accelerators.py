"""The accelerators of the catalogue by their names in tables of measured kernels.

    NVIDIA H100 SXM, H100-SXM5-80GB --measured_as--> h100-sxm

Rows of others are left out, and counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from clustersim.calibration.kernels.surfaces import SurfaceRows
from clustersim.calibration.kernels.tables import KernelTables, MeasuredKernel
from clustersim.calibration.linear import Array
from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.records.accelerators import (
    AcceleratorRecord,
    KernelFit,
    KernelsRecord,
    find_kernel_fits,
)
from clustersim.catalog.tree import Tree
from clustersim.cost.surfaces.kernel_kinds import SURFACES
from clustersim.errors import CatalogError
from clustersim.records import dataclass
from clustersim.topology.accelerator import build_accelerator


@dataclass(frozen=True)
class MeasuredGroup:
    """The rows of one kind and variant on one accelerator.

    Attributes
    ----------
    engine, releases : that issued them, where it has fits of its own; else empty
    fits : files of fits: of the accelerator, then of the one that is like it
    """

    record: AcceleratorRecord
    rows: SurfaceRows
    sources: tuple[str, ...]
    fits: tuple[KernelsRecord, ...]
    engine: str = ""
    releases: str = ""

    @property
    def fit(self) -> tuple[str, KernelFit] | None:
        """The fit of this kind and variant, and its accelerator; None without any."""
        of_engine = [(record.name, record.engines.get(self.engine)) for record in self.fits]
        sets = [(name, fits.kernels) for name, fits in of_engine if fits is not None]
        for name, kernels in [*sets, *((record.name, record.kernels) for record in self.fits)]:
            variants = kernels.get(self.rows.kind, {})
            if self.rows.variant in variants:
                return name, variants[self.rows.variant]
        return None

    @property
    def terms(self) -> dict[str, float]:
        """The terms of the fit; none without one."""
        terms = {} if self.fit is None else self.fit[1].found
        return {name: term.value for name, term in terms.items()}

    @cached_property
    def ratios(self) -> Array:
        """The logarithms of predicted over measured time of its rows, with these terms."""
        return self.rows.ratios(self.terms)


@dataclass(frozen=True)
class MeasuredGroups:
    """The rows of tables by accelerator, kind and variant; rows left out, by reason."""

    groups: tuple[MeasuredGroup, ...]
    left_out: Mapping[str, int]


def measured_groups(tables: KernelTables, accelerator: str | None = None) -> MeasuredGroups:
    """Return the rows of tables by accelerator, kind and variant, in order.

    Parameters
    ----------
    accelerator : only rows of this one, which a file in the working folder may describe

    Raises
    ------
    CatalogError
        when there is no such accelerator.
    """
    by_name = _by_name(accelerator)
    left_out = Counter(tables.left_out)
    rows: dict[tuple[str, ...], list[MeasuredKernel]] = {}
    for row in tables.rows:
        record = by_name.get(row.accelerator)
        reason = _obstacle(row, record)
        if record is None or reason is not None:
            left_out[reason or ""] += 1
        else:
            rows.setdefault((record.name, *row.group), []).append(row)
    records = {record.name: record for record in by_name.values()}
    fits = {name: _fits_of(records[name]) for name in sorted({key[0] for key in rows})}
    groups = [
        _group(records[name], kernels, fits[name]) for (name, *_), kernels in sorted(rows.items())
    ]
    return MeasuredGroups(tuple(groups), dict(sorted(left_out.items())))


def _obstacle(row: MeasuredKernel, record: AcceleratorRecord | None) -> str | None:
    """Return why a row cannot be used; None if it can."""
    if record is None:
        return f"no accelerator is measured as '{row.accelerator}'"
    peak = SURFACES[row.measured.kind].peak(row.measured.variant)
    if peak is not None and peak not in record.peak:
        return f"'{record.name}' has no peak in {peak}"
    return None


def _by_name(accelerator: str | None) -> dict[str, AcceleratorRecord]:
    """Return accelerators by each of their names."""
    if accelerator is not None:
        document = finding.find("accelerator", accelerator, Path.cwd(), "--accelerator: ")
        documents = [document]
    else:
        documents = [finding.find("accelerator", n) for n in finding.entry_names("accelerator")]
    records = [checked(AcceleratorRecord, Tree.of(one), CatalogError) for one in documents]
    return {name: record for record in records for name in (*record.measured_as, record.name)}


def _fits_of(record: AcceleratorRecord) -> tuple[KernelsRecord, ...]:
    """Return the fits of an accelerator, then those of the accelerator that it is like."""
    names = [record.name, *([] if record.kernels_like is None else [record.kernels_like])]
    files = [find_kernel_fits(name, Path.cwd()) for name in names]
    return tuple(fits for fits in files if fits is not None)


def _group(
    record: AcceleratorRecord, rows: Sequence[MeasuredKernel], fits: tuple[KernelsRecord, ...]
) -> MeasuredGroup:
    engine, kind, variant = rows[0].group
    measured = tuple(row.measured for row in rows)
    surface_rows = SurfaceRows(build_accelerator(record), kind, variant, measured)
    sources = _sources(row.source for row in rows)
    releases = ", ".join(sorted({row.release for row in rows} - {""}))
    return MeasuredGroup(record, surface_rows, sources, fits, engine, releases)


def _sources(sources: Iterable[str]) -> tuple[str, ...]:
    """Return sources, those of several files of one repository in one.

    >>> _sources(["a@1:x.csv", "a@1:y.csv", "b@2:z.csv", "a@1:y.csv"])
    ('a@1 (2 files)', 'b@2:z.csv')
    """
    files: dict[str, set[str]] = {}
    for source in sources:
        repository, _, file = source.partition(":")
        files.setdefault(repository, set()).add(file)
    return tuple(
        f"{repository} ({len(names)} files)"
        if len(names) > 1
        else f"{repository}:{min(names)}".rstrip(":")
        for repository, names in sorted(files.items())
    )
