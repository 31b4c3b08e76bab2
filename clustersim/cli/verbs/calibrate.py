"""`clustersim calibrate`: coefficients of accelerators, fitted to measurements or graded."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from clustersim.cli.options import Executor, Jobs, option, print_json
from clustersim.cli.output import echo, print_tables
from clustersim.errors import ScenarioError

if TYPE_CHECKING:
    from clustersim.calibration.kernels.fits import KernelFits
    from clustersim.calibration.runs.answer import Calibration
    from clustersim.runs.workers import Workers


SCRIPT = Path("measure.py")
"""Output of `--measure` without --out."""


Accelerator = Annotated[
    str | None,
    option("NAME", "Accelerator that was measured."),
]
Sources = Annotated[
    list[Path] | None,
    option("PATH", "Measured kernels (.csv) or runs (.yaml). Repeatable.", "--from"),
]
Graded = Annotated[
    list[Path] | None,
    option("PATH", "Measured kernels to grade without a fit. Repeatable.", "--grade"),
]
Further = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH]...", help="Further files of --from or --grade.", show_default=False
    ),
]
Group = Annotated[
    list[str] | None,
    option("PATTERN", "Only runs of this group; shipped runs without --from."),
]
Output = Annotated[
    Path | None,
    option("PATH", "Output file; of kernel tables, folder [none; measure.py].", "--out", "-o"),
]

Fit = TypeVar("Fit", "Calibration", "KernelFits")


def calibrate(
    accelerator: Accelerator = None,
    sources: Sources = None,
    graded: Graded = None,
    more: Further = None,
    group: Group = None,
    out: Output = None,
    jobs: Jobs = None,
    executor: Executor = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Write the script that measures a device.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output file.")
    ] = False,
) -> None:
    """Fit coefficients of accelerators to measurements, or grade measured kernels."""
    from clustersim.runs.executors import workers

    given = {"accelerator": accelerator, "from": sources, "grade": graded, "group": group}
    paths = [*(sources or []), *(more or [])]
    if measure:
        _reject(given, "measure", ("accelerator", "from", "grade", "group"))
        _write_script(out or SCRIPT, force=force)
        return
    if graded:
        _reject(given | {"out": out}, "grade", ("from", "group", "out"))
        grade_tables([*graded, *(more or [])], accelerator, json_output=json_output)
        return
    if more and not sources:
        raise ScenarioError(f"{more[0]}: needs --from or --grade before it")
    computing = workers(jobs, executor=executor)
    if tables_among(paths):
        _reject(given, "from of kernel tables", ("group",))
        fit_tables(paths, accelerator, out, computing, force=force, json_output=json_output)
        return
    _fit_runs(accelerator, paths, group, out, computing, force=force, json_output=json_output)


def _fit_runs(
    accelerator: str | None, paths: Sequence[Path], group: Sequence[str] | None, out: Path | None,
    computing: "AbstractContextManager[Workers]", *, force: bool, json_output: bool,
) -> None:  # fmt: skip
    """Fit the coefficients of one accelerator to kernels and runs of its own, and print them."""
    from clustersim.calibration.runs import request as requests
    from clustersim.calibration.runs.files import catalogue_files
    from clustersim.catalog.writing import check_new

    if accelerator is None:
        raise ScenarioError("--accelerator: missing (the accelerator to fit, such as a100-80gb)")
    if out is not None and out.suffix != ".yaml":
        raise ScenarioError(f"{out}: must end in .yaml, so that scenarios in its folder find it")
    if out is not None:
        check_new(out, force=force)
    request = requests.read_request(accelerator, paths, group or [])
    answer = _fitted(partial(requests.calibrate, request), computing)
    files = partial(catalogue_files, answer, request.document)
    _report(answer, _show, files, out, force=force, json_output=json_output)


def _reject(given: Mapping[str, object], option: str, others: Sequence[str]) -> None:
    """Reject options that have no meaning with another one."""
    for name in others:
        if given[name]:
            raise ScenarioError(f"--{name}: not allowed with --{option}")


def _write_script(out: Path, *, force: bool) -> None:
    from clustersim.calibration.runs.files import measuring_script
    from clustersim.catalog.writing import write_new

    write_new(out, measuring_script(), force=force)
    echo(f"written   {out}")
    echo(f"run       python {out} --out measured.csv")
    echo("then      clustersim calibrate --accelerator NAME --from measured.csv --out NAME.yaml")


def _fitted(fit: "Callable[[Workers], Fit]", computing: "AbstractContextManager[Workers]") -> Fit:
    """Return the result of a fit, with a status line on the terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    with computing as executor, console.status("fitting") if console.is_terminal else nullcontext():
        return fit(executor)


def _report(
    answer: Fit,
    show: Callable[[Fit], None],
    files: Callable[[Path], Mapping[Path, str]],
    out: Path | None,
    *,
    force: bool,
    json_output: bool,
) -> None:
    """Print a fit, and write its files: all of them, or none if one already exists."""
    from clustersim.catalog.writing import write_all

    if not json_output:
        show(answer)  # before the files are written, which may fail
    if out is not None:
        texts = files(out)
        write_all(texts, force=force)
        answer = replace(answer, files=tuple(map(str, texts)))
    if json_output:
        print_json(answer)
    else:
        echo("".join(f"written   {path}\n" for path in answer.files), end="")


def _show(answer: "Calibration") -> None:
    """Print the tables, and why cases are left out."""
    from clustersim.calibration import text

    echo(f"{answer.accelerator}, fitted to {answer.rows_of}")
    print_tables(text.calibration_tables(answer))
    for name, why in answer.left_out.items():
        echo(f"left out  {name}: {why}")


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
    from clustersim.calibration.kernels.fits import grade_kernels
    from clustersim.calibration.text import GRADES, left_out_lines

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
    from clustersim.calibration.kernels.fits import fit_kernels, kernel_files

    answer = _fitted(lambda workers: fit_kernels(paths, workers, accelerator), computing)
    files = partial(kernel_files, answer)
    _report(answer, _show_fits, files, out, force=force, json_output=json_output)


def _show_fits(answer: "KernelFits") -> None:
    """Print the tables of fits, and why rows are left out."""
    from clustersim.calibration.text import FITS, left_out_lines

    print_tables((table, list(table.rows(answer))) for table in FITS)
    echo("".join(f"{line}\n" for line in left_out_lines(answer.left_out)), end="")
