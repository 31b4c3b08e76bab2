"""`clustersim calibrate`: the coefficients of one accelerator, fitted to measurements."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from clustersim.calibration.arguments import Calibrated

SCRIPT = Path("measure.py")
"""Where `--measure` writes without --out."""


def calibrate(
    accelerator: Annotated[
        str | None,
        typer.Option(help="Chip that was measured, by its name.", show_default=False),
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Measured kernels (.csv) or runs (.yaml); may be repeated.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Runs of this group; of the shipped ones without --from."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write [none; measure.py].", show_default=False),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes to replay runs in.")] = 1,
    measure: Annotated[
        bool, typer.Option("--measure", help="Write the script that measures a device.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
) -> None:
    """Fit an accelerator's coefficients to measured kernels or runs."""
    from clustersim.catalog.writing import check_new
    from clustersim.errors import ScenarioError

    if measure:
        for option, given in (("accelerator", accelerator), ("from", sources), ("group", group)):
            if given:
                raise ScenarioError(f"--{option}: means nothing with --measure, which only writes")
        _write_script(out or SCRIPT, force=force)
        return
    if accelerator is None:
        raise ScenarioError("--accelerator: missing (the chip to fit, such as a100-80gb)")
    if out is not None and out.suffix != ".yaml":
        raise ScenarioError(f"{out}: must end in .yaml, so that a scenario beside it finds it")
    if out is not None:
        check_new(out, force=force)
    found = _calibrated(accelerator, sources or [], group or [], jobs)
    answer = found.to_json()
    if not json_output:
        _show(answer)  # before anything is written: what stands in the way costs no fit
    written = [] if out is None else _write(found, out, force=force)
    if json_output:
        print(json.dumps({**answer, "files": [str(path) for path in written]}))
    else:
        print("".join(f"written   {path}\n" for path in written), end="")


def _write_script(out: Path, *, force: bool) -> None:
    from clustersim.calibration.script import measuring_script
    from clustersim.catalog.writing import write_new

    write_new(out, measuring_script(), force=force)
    print(f"written   {out}")
    print(f"run       python {out} --out measured.csv")
    print("then      clustersim calibrate --accelerator NAME --from measured.csv --out NAME.yaml")


def _calibrated(
    accelerator: str, sources: list[Path], groups: list[str], jobs: int
) -> "Calibrated":
    """Fit, with a word on the terminal while it takes."""
    from rich.console import Console

    from clustersim.calibration.arguments import asked, calibrated
    from clustersim.runs.executors import workers

    request = asked(accelerator, sources, groups)
    console = Console(stderr=True)
    with workers(jobs) as executor:
        if not console.is_terminal:
            return calibrated(request, executor)
        with console.status("fitting"):
            return calibrated(request, executor)


def _write(found: "Calibrated", out: Path, *, force: bool) -> list[Path]:
    """Write the files, all or none where one is in the way."""
    from clustersim.catalog.writing import check_new, write_new

    texts = found.texts(out)
    for path in texts:
        check_new(path, force=force)
    for path, text in texts.items():
        write_new(path, text, force=force)
    return list(texts)


def _show(answer: dict[str, Any]) -> None:
    """Print the tables, and why cases are left out."""
    from rich.console import Console

    from clustersim.calibration.text import for_terminal
    from clustersim.cli.validate import WIDTH, drawn

    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    print(f"{answer['accelerator']}, fitted to {answer['rows_of']}")
    for table, rows in for_terminal(answer):
        made = drawn(table.title, table.headings)
        for row in rows:
            made.add_row(*row)
        console.print(made)
    for name, why in answer["left_out"].items():
        print(f"left out  {name}: {why}")
