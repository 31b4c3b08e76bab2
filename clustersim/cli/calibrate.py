"""`clustersim calibrate`: the coefficients of one accelerator, fitted to measurements."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.options import Jobs, print_json
from clustersim.cli.output import echo
from clustersim.cli.validate import WIDTH, make_grid
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped

if TYPE_CHECKING:
    from clustersim.calibration.answer import Calibration
    from clustersim.calibration.arguments import Request
    from clustersim.catalog.reading import Document

SCRIPT = Path("measure.py")
"""Output of `--measure` without --out."""


def calibrate(
    accelerator: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Accelerator that was measured.", show_default=False),
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="Measured kernels (.csv) or runs (.yaml). Repeatable.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Only runs of this group; shipped runs without --from."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            help="Output file [none; measure.py].",
            show_default=False,
        ),
    ] = None,
    jobs: Jobs = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Write the script that measures a device.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output file.")
    ] = False,
) -> None:
    """Fit coefficients of an accelerator to measurements."""
    from clustersim.calibration import arguments
    from clustersim.catalog.writing import check_new

    if measure:
        for option, given in (("accelerator", accelerator), ("from", sources), ("group", group)):
            if given:
                raise ScenarioError(f"--{option}: not allowed with --measure")
        _write_script(out or SCRIPT, force=force)
        return
    if accelerator is None:
        raise ScenarioError("--accelerator: missing (the accelerator to fit, such as a100-80gb)")
    if out is not None and out.suffix != ".yaml":
        raise ScenarioError(f"{out}: must end in .yaml, so that scenarios in its folder find it")
    if out is not None:
        check_new(out, force=force)
    request = arguments.read_request(accelerator, sources or [], group or [])
    answer = _calibrated(request, jobs)
    if not json_output:
        _show(answer)  # before the files are written, which may fail
    if out is not None:
        answer = _write(answer, request.document, out, force=force)
    if json_output:
        print_json(answer)
    else:
        echo("".join(f"written   {path}\n" for path in answer.files), end="")


def _write_script(out: Path, *, force: bool) -> None:
    from clustersim.calibration.files import measuring_script
    from clustersim.catalog.writing import write_new

    write_new(out, measuring_script(), force=force)
    echo(f"written   {out}")
    echo(f"run       python {out} --out measured.csv")
    echo("then      clustersim calibrate --accelerator NAME --from measured.csv --out NAME.yaml")


def _calibrated(request: "Request", jobs: int | None) -> "Calibration":
    """Fit, with a status line on the terminal."""
    from rich.console import Console

    from clustersim.calibration import arguments
    from clustersim.runs.executors import cores, workers

    console = Console(stderr=True)
    with workers(jobs or cores()) as executor:
        if not console.is_terminal:
            return arguments.calibrate(request, executor)
        with console.status("fitting"):
            return arguments.calibrate(request, executor)


def _write(answer: "Calibration", document: "Document", out: Path, *, force: bool) -> "Calibration":
    """Write all files, or none if one already exists; return the answer with their names."""
    from clustersim.calibration.files import catalogue_files
    from clustersim.catalog.writing import check_new, write_new

    texts = catalogue_files(answer, document, out)
    for path in texts:
        check_new(path, force=force)
    for path, content in texts.items():
        write_new(path, content, force=force)
    return replace(answer, files=tuple(map(str, texts)))


def _show(answer: "Calibration") -> None:
    """Print the tables, and why cases are left out."""
    from rich.console import Console

    from clustersim.calibration import text

    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    echo(f"{answer.accelerator}, fitted to {answer.rows_of}")
    for table, rows in text.calibration_tables(answer):
        grid = make_grid(table.title, table.headings)
        for row in rows:
            grid.add_row(*map(escaped, row))
        console.print(grid)
    for name, why in answer.left_out.items():
        echo(f"left out  {name}: {why}")
