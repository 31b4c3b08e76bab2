"""The answers of `clustersim calibrate` for tables of kernels: fitted terms, or grades alone.

    tables --rows of a kind and format on an accelerator--> terms, errors --> files of fits

The rows themselves are in no file.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

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
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import facts
from clustersim.catalog.files import shown
from clustersim.catalog.reading import parse_yaml
from clustersim.catalog.records.accelerators import (
    EngineFits,
    KernelsRecord,
    find_kernel_fits,
)
from clustersim.catalog.tree import Tree
from clustersim.catalog.writing import to_yaml
from clustersim.errors import CatalogError, ScenarioError
from clustersim.records import dataclass


@dataclass(frozen=True)
class SurfaceFit:
    """The fit of one kind of kernel in one format or library on one accelerator.

    Attributes
    ----------
    kind : of kernel
    variant : number format, formats of queries and of keys, or library
    accelerator : the accelerator
    engine, releases : that issued the kernels, where it has fits of its own; else empty
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
    engine: str
    releases: str
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
    submitted = [executor.submit(_fit, group.rows, _names(group)) for group in enough]
    fits = [future.result() for future in submitted]
    ordered = sorted(fits, key=lambda fit: (fit.engine, fit.kind, fit.variant, fit.accelerator))
    return KernelFits(tuple(ordered), left_out)


def _measured(group: MeasuredGroup) -> str:
    return ", ".join(source for source in group.sources if source) or "no source given"


def _names(group: MeasuredGroup) -> dict[str, str]:
    """Return what a fit states of its group."""
    return {
        "accelerator": group.record.name,
        "engine": group.engine,
        "releases": group.releases,
        "measured": _measured(group),
    }


def _fit(rows: SurfaceRows, names: Mapping[str, str]) -> SurfaceFit:
    terms = fit_surface(rows)
    return SurfaceFit(
        kind=rows.kind,
        variant=rows.variant,
        **names,
        rows=len(rows.rows),
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
    for name in sorted({fit.accelerator for fit in answer.fits}):
        own = [fit for fit in answer.fits if fit.accelerator == name]
        data = {
            "kind": "kernels",
            "name": name,
            "title": f"Measured kernels of {name}",
            **_measured_links(name),
            **_merged(name, own),
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
        if "." not in key
    }


def _merged(name: str, fits: Sequence[SurfaceFit]) -> dict[str, Any]:
    """Return the fits of a file: those before, and the new ones in their place."""
    before = find_kernel_fits(name, Path.cwd())
    kernels = {} if before is None else before.model_dump()["kernels"]
    engines = {} if before is None else {key: _engine(own) for key, own in before.engines.items()}
    for fit in fits:
        block = kernels
        if fit.engine:
            own = engines.setdefault(fit.engine, {})
            own["releases"] = f"measured in {fit.releases}"
            block = own.setdefault("kernels", {})
        block.setdefault(fit.kind, {})[fit.variant] = _entry(fit)
    for own in engines.values():
        own |= {"kernels": _ordered(own["kernels"])} if "kernels" in own else {}
    return {"kernels": _ordered(kernels)} | ({"engines": engines} if engines else {})


def _engine(own: EngineFits) -> dict[str, Any]:
    """Return the fits of an engine as plain values."""
    like = {key: {"value": fact.value, "assumed": fact.assumed} for key, fact in facts(own)}
    kernels = {"kernels": own.model_dump()["kernels"]} if own.kernels else {}
    return {"releases": own.releases, **like, **kernels}


def _ordered(kernels: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {kind: dict(sorted(variants.items())) for kind, variants in sorted(kernels.items())}


def _entry(fit: SurfaceFit) -> dict[str, Any]:
    """Return a fit as plain values."""
    return {
        "rows": fit.rows,
        "measured": fit.measured,
        "median": round(fit.held_out.median, 4),
        "p90": round(fit.held_out.p90, 4),
        "found": {
            term.name: {"value": four_digits(term.value), "error": round(term.error, 4)}
            for term in fit.terms
            if term.fitted
        },
    }


@dataclass(frozen=True)
class KernelGrade:
    """Errors of one kind of kernel in one format or library on one accelerator.

    Attributes
    ----------
    kind : of kernel
    variant : number format, formats of queries and of keys, or library
    accelerator : the accelerator; empty for all of them together
    engine : that issued the kernels, where it has fits of its own; else empty
    rows : number of measurements
    fitted : whether there is a fit of them; priors are graded otherwise
    like : the similar accelerator whose fit it is; `null` where it is its own
    errors : errors of the predicted time
    """

    kind: str
    variant: str
    accelerator: str
    engine: str
    rows: int
    fitted: bool
    like: str | None
    errors: KernelErrors


@dataclass(frozen=True)
class TableGrade:
    """Errors of the rows of one table of one kind, format or library, and accelerator.

    Attributes
    ----------
    file : the table
    accelerator : the accelerator
    engine : that issued the kernels, where it has fits of its own; else empty
    kernel : kind of kernel
    dtype : number format, formats of queries and of keys, or library
    count : number of measurements
    median : median of the absolute errors of the predicted time
    p90 : 90th percentile of the absolute errors
    bias : mean error; above 0 where predictions are too slow
    """

    file: str
    accelerator: str
    engine: str
    kernel: str
    dtype: str
    count: int
    median: float
    p90: float
    bias: float


@dataclass(frozen=True)
class KernelGrades:
    """Errors of measured kernels with the fitted terms of their accelerators.

    Attributes
    ----------
    tables : by table, kind, format or library, and accelerator
    groups : by kind, format or library, and accelerator
    kinds : by kind and format or library, over all accelerators
    left_out : number of rows without a grade or a fit, by reason
    """

    tables: tuple[TableGrade, ...]
    groups: tuple[KernelGrade, ...]
    kinds: tuple[KernelGrade, ...]
    left_out: Mapping[str, int]


def grade_kernels(paths: Sequence[Path], accelerator: str | None = None) -> KernelGrades:
    """Grade tables of measured kernels.

    Parameters
    ----------
    accelerator : only rows of this one

    Raises
    ------
    ScenarioError
        when a table cannot be used.
    """
    measured = measured_groups(read_tables(paths), accelerator)
    kinds: dict[tuple[str, str, str], list[MeasuredGroup]] = {}
    for group in measured.groups:
        kinds.setdefault((group.engine, group.rows.kind, group.rows.variant), []).append(group)
    grades = [_grade([group], group.record.name) for group in measured.groups]
    return KernelGrades(
        tables=tuple(chain.from_iterable(_of_table(path, accelerator) for path in paths)),
        groups=tuple(
            sorted(
                grades, key=lambda each: (each.kind, each.variant, each.accelerator, each.engine)
            )
        ),
        kinds=tuple(_grade(kinds[name]) for name in sorted(kinds)),
        left_out=measured.left_out,
    )


def _grade(groups: Sequence[MeasuredGroup], accelerator: str = "") -> KernelGrade:
    """Return the errors of groups of one kind and variant: of one accelerator, or of all."""
    ratios = np.concatenate([group.ratios for group in groups])
    fit = groups[0].fit if accelerator else None
    return KernelGrade(
        kind=groups[0].rows.kind,
        variant=groups[0].rows.variant,
        accelerator=accelerator,
        engine=groups[0].engine,
        rows=len(ratios),
        fitted=all(group.fit is not None for group in groups),
        like=None if fit is None or fit[0] == accelerator else fit[0],
        errors=kernel_errors(ratios),
    )


def _of_table(path: Path, accelerator: str | None) -> Iterator[TableGrade]:
    """Yield the errors of one table."""
    for group in measured_groups(read_tables([path]), accelerator).groups:
        grade = _grade([group], group.record.name)
        yield TableGrade(
            file=shown(path),
            accelerator=grade.accelerator,
            engine=grade.engine,
            kernel=grade.kind,
            dtype=grade.variant,
            count=grade.rows,
            median=grade.errors.median,
            p90=grade.errors.p90,
            bias=grade.errors.bias,
        )
