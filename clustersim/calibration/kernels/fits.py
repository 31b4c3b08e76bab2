"""The answer of `clustersim calibrate --from` for tables of kernels: fitted terms by accelerator.

    tables --rows of a kind and format on an accelerator--> terms, errors --> files of fits

The rows themselves are in no file.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim.calibration.kernels.accelerators import MeasuredGroup, measured_groups
from clustersim.calibration.kernels.surfaces import (
    LEAST_ROWS,
    FittedTerm,
    KernelErrors,
    SurfaceRows,
    fit_surface,
    found_terms,
    held_out_ratios,
    kernel_errors,
)
from clustersim.calibration.kernels.tables import read_tables
from clustersim.calibration.runs.files import four_digits
from clustersim.catalog.accelerators import KernelsRecord, find_kernel_fits
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import facts
from clustersim.catalog.reading import parse_yaml
from clustersim.catalog.tree import Tree
from clustersim.catalog.writing import to_yaml
from clustersim.errors import CatalogError, ScenarioError


@dataclass(frozen=True)
class SurfaceFit:
    """The fit of one kind of kernel in one format or library on one accelerator.

    Attributes
    ----------
    kind : of kernel
    variant : number format, formats of queries and of keys, or library
    accelerator : the accelerator
    rows : number of measurements
    measured : their source
    terms : the terms of its surface
    before : errors with priors only
    after : errors with the fitted terms
    held_out : errors of each row by a fit without its shape
    """

    kind: str
    variant: str
    accelerator: str
    rows: int
    measured: str
    terms: tuple[FittedTerm, ...]
    before: KernelErrors
    after: KernelErrors
    held_out: KernelErrors


@dataclass(frozen=True)
class KernelFits:
    """Fits of surfaces to tables of measured kernels.

    Attributes
    ----------
    fits : by kind, format or library, and accelerator
    left_out : number of rows without a grade or a fit, by reason
    files : files that were written
    """

    fits: tuple[SurfaceFit, ...]
    left_out: Mapping[str, int]
    files: tuple[str, ...] = ()


def fit_kernels(
    paths: Sequence[Path], executor: Executor, accelerator: str | None = None
) -> KernelFits:
    """Fit the surfaces of all kinds of kernels in tables, accelerator by accelerator.

    Parameters
    ----------
    executor : where the fits run
    accelerator : only rows of this one

    Raises
    ------
    ScenarioError
        when a table cannot be used, or no row of any.
    """
    measured = measured_groups(read_tables(paths), accelerator)
    if not measured.groups:
        reasons = "".join(f"; {why}: {count}" for why, count in measured.left_out.items())
        raise ScenarioError(f"calibrate: no row of the tables can be used{reasons}")
    left_out = dict(measured.left_out)
    enough = []
    for group in measured.groups:
        rows = group.rows
        if len(rows.rows) >= LEAST_ROWS:
            enough.append(group)
        else:
            where = f"{rows.kind} {rows.variant} on '{group.record.name}'"
            left_out[f"fewer than {LEAST_ROWS} rows of {where}"] = len(rows.rows)
    submitted = [
        executor.submit(_fit, group.rows, group.record.name, _measured(group)) for group in enough
    ]
    fits = [future.result() for future in submitted]
    ordered = sorted(fits, key=lambda one: (one.kind, one.variant, one.accelerator))
    return KernelFits(tuple(ordered), left_out)


def _measured(group: MeasuredGroup) -> str:
    return ", ".join(source for source in group.sources if source) or "no source given"


def _fit(rows: SurfaceRows, accelerator: str, measured: str) -> SurfaceFit:
    terms = fit_surface(rows)
    return SurfaceFit(
        kind=rows.kind,
        variant=rows.variant,
        accelerator=accelerator,
        rows=len(rows.rows),
        measured=measured,
        terms=terms,
        before=kernel_errors(rows.ratios({})),
        after=kernel_errors(rows.ratios(found_terms(terms))),
        held_out=kernel_errors(held_out_ratios(rows)),
    )


# --- files ----------------------------------------------------------------------------------------


def kernel_files(answer: KernelFits, folder: Path) -> dict[Path, str]:
    """Return the files of fits, one for each accelerator, by path in a folder.

    Fits of kinds that the tables lack are those of the file before.
    """
    texts = {}
    for name in sorted({one.accelerator for one in answer.fits}):
        own = [one for one in answer.fits if one.accelerator == name]
        data = {
            "kind": "kernels",
            "name": name,
            "title": f"Measured kernels of {name}",
            **_measured_links(name),
            "kernels": _merged(name, own),
        }
        text = to_yaml(data, ["Fitted by clustersim calibrate; values in SI units."])
        tree = Tree.of(parse_yaml(text, f"{name}.yaml, calibrated", CatalogError))
        checked(KernelsRecord, tree, CatalogError)
        texts[folder / f"{name}.yaml"] = text
    return texts


def _measured_links(name: str) -> dict[str, Any]:
    """Return the links of the machine on which collectives were measured, as the file before."""
    before = find_kernel_fits(name, Path.cwd())
    return {
        key: {"value": f"{fact.value / 1e9:g} GB/s", "assumed": fact.assumed}
        for key, fact in ({} if before is None else dict(facts(before))).items()
    }


def _merged(name: str, fits: Sequence[SurfaceFit]) -> dict[str, Any]:
    """Return the fits of a file: those before, and the new ones in their place."""
    before = find_kernel_fits(name, Path.cwd())
    block = {} if before is None else before.model_dump()["kernels"]
    for one in fits:
        block.setdefault(one.kind, {})[one.variant] = _entry(one)
    return {kind: dict(sorted(variants.items())) for kind, variants in sorted(block.items())}


def _entry(one: SurfaceFit) -> dict[str, Any]:
    """Return a fit as plain values."""
    return {
        "rows": one.rows,
        "measured": one.measured,
        "median": round(one.held_out.median, 4),
        "p90": round(one.held_out.p90, 4),
        "found": {
            term.name: {"value": four_digits(term.value), "error": round(term.error, 4)}
            for term in one.terms
            if term.fitted
        },
    }
