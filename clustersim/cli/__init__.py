"""The command line: one module a verb, which parses and prints; one `except` for them all.

Verb modules import nothing slow at their top, so that `clustersim --help` answers at once.
"""

import gc
import os
import sys
from collections.abc import Sequence
from errno import ENOSPC
from typing import Annotated, Final

import typer

from clustersim.cli.calibrate import calibrate
from clustersim.cli.collective import collective
from clustersim.cli.compare import compare
from clustersim.cli.flows import flows
from clustersim.cli.import_ import import_
from clustersim.cli.list import list_
from clustersim.cli.run import run
from clustersim.cli.scale import scale
from clustersim.cli.schema import schema
from clustersim.cli.show import show
from clustersim.cli.signals import end_in_order
from clustersim.cli.streams import outlive_readers
from clustersim.cli.study import study
from clustersim.cli.sweep import sweep
from clustersim.cli.validate import validate
from clustersim.cli.whatif import whatif
from clustersim.errors import CatalogError, ClustersimError, ScenarioError

RARELY: Final = 1_000_000
"""Objects that are made before the garbage collector looks for some that are left over [count].

Commands build much and throw little away: a run took a tenth longer with the 700 of Python.
"""

app = typer.Typer(
    name="clustersim",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # importing rich would double the time of `--help`
    pretty_exceptions_enable=False,
)
for verb in (
    run,
    scale,
    compare,
    whatif,
    sweep,
    study,
    validate,
    calibrate,
    collective,
    flows,
    show,
    schema,
):
    app.command()(verb)
app.command("list")(list_)
app.command("import")(import_)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"clustersim {version('clustersim')}")
        raise typer.Exit


@app.callback()
def clustersim(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Simulate large-model training on clusters, event by event."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; what goes wrong on purpose ends in a message, not a traceback."""
    gc.set_threshold(RARELY)
    if arguments is None:
        outlive_readers()
        end_in_order()
    try:
        app(arguments)
    except ClustersimError as error:
        print(error, file=sys.stderr)
        sys.exit(2 if isinstance(error, CatalogError | ScenarioError) else 1)
    except OSError as problem:  # a name too long, no permission, a full disk: nobody's bug
        if problem.filename is None and problem.errno != ENOSPC:
            raise
        what = problem.filename or "output"
        print(f"{what}: cannot be used ({problem.strerror})", file=sys.stderr)
        sys.exit(2)
    finally:
        _flush()
        if arguments is None:
            gc.freeze()  # the process ends, and would first look at all it holds once more


def _flush() -> None:
    """Write out what is left, or say that there is no room for it."""
    try:
        sys.stdout.flush()
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):
            print(f"output: cannot be used ({problem.strerror})", file=sys.stderr)
            sys.exit(2)


__all__ = ["app", "main"]
