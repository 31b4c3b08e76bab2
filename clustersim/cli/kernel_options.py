"""`clustersim calibrate` for tables of measured kernels: `--grade`, and `--from` of such tables."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clustersim.cli.options import print_json
from clustersim.cli.output import echo, print_tables
from clustersim.errors import ScenarioError

if TYPE_CHECKING:
    from clustersim.calibration.kernels.fits import KernelFits
    from clustersim.runs.workers import Workers


def tables_among(paths: Sequence[Path]) -> list[Path]:
    """Return the files that are tables of kernels of several accelerators.

    Raises
    ------
    ScenarioError
        when only some of the files are.
    """
    from clustersim.calibration.kernels.tables import has_accelerators
    from clustersim.catalog.files import shown

    tables = [path for path in paths if path.suffix == ".csv" and has_accelerators(path)]
    others = [path for path in paths if path not in tables]
    if tables and others:
        raise ScenarioError(
            f"--from {shown(others[0])}: has no column 'accelerator', unlike {shown(tables[0])}"
            " (fit them in two calls)"
        )
    return tables


def grade_tables(paths: Sequence[Path], accelerator: str | None, *, json_output: bool) -> None:
    """Print the errors of tables of kernels."""
    from clustersim.calibration.kernels.grades import grade_kernels
    from clustersim.calibration.kernels.text import GRADES, left_out_lines

    answer = grade_kernels(paths, accelerator)
    if json_output:
        print_json(answer)
        return
    if not answer.groups:
        echo("No row of the tables can be graded.")
    print_tables((table, list(table.rows(answer))) for table in GRADES if answer.groups)
    echo("".join(f"{line}\n" for line in left_out_lines(answer.left_out)), end="")


def fit_tables(
    paths: Sequence[Path],
    accelerator: str | None,
    out: Path | None,
    computing: "AbstractContextManager[Workers]",
    *,
    force: bool,
    json_output: bool,
) -> None:
    """Fit tables of kernels, print the fits, and write the files of their accelerators."""
    from clustersim.calibration.kernels.fits import kernel_files
    from clustersim.calibration.kernels.text import FITS, left_out_lines
    from clustersim.catalog.writing import write_all

    answer = _fitted(paths, accelerator, computing)
    if not json_output:
        print_tables((table, list(table.rows(answer))) for table in FITS)
        echo("".join(f"{line}\n" for line in left_out_lines(answer.left_out)), end="")
    if out is not None:
        texts = kernel_files(answer, out)
        write_all(texts, force=force)
        answer = replace(answer, files=tuple(map(str, texts)))
    if json_output:
        print_json(answer)
    else:
        echo("".join(f"written   {path}\n" for path in answer.files), end="")


def _fitted(
    paths: Sequence[Path], accelerator: str | None, computing: "AbstractContextManager[Workers]"
) -> "KernelFits":
    """Fit, with a status line on the terminal."""
    from rich.console import Console

    from clustersim.calibration.kernels.fits import fit_kernels

    console = Console(stderr=True)
    with computing as executor:
        if not console.is_terminal:
            return fit_kernels(paths, executor, accelerator)
        with console.status("fitting"):
            return fit_kernels(paths, executor, accelerator)
