"""The command line: one module a verb, which parses and prints; one `except` for them all.

A verb's module is imported when the verb is run or its own help is printed, so verbs import what
they need at the top, and `clustersim --help` answers at once.
"""

import gc
import os
import sys
from collections.abc import Sequence
from errno import ENOSPC
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from clustersim.cli.examples import EXAMPLES
from clustersim.cli.output import (
    describe,
    echo,
    end_in_order,
    message_of,
    outlive_readers,
    printable_options,
    value_problem,
    without_verbose,
)
from clustersim.errors import CatalogError, ExecutorError, ScenarioError

VERBS: Final = {
    "new": "Write a first scenario with the best layout that fits.",
    "run": "Simulate a scenario of any kind: its time, and where it goes.",
    "serve": "Simulate inference requests: latency, throughput, goodput.",
    "scale": "Scaling curves: efficiency, and causes of lost efficiency.",
    "check": "Compare a log with its prediction: normal, and if not, why.",
    "compare": "Compare runs: inputs, results and causes.",
    "whatif": "Rank changes of a scenario by what they save.",
    "sweep": "Run all combinations of values; find the best that fits.",
    "search": "Find the best layout that fits, with proof.",
    "size": "Find the model that is worth training on a machine.",
    "train": "Predict a whole training run: days, failures, checkpoints.",
    "share": "Several jobs on one machine: what each costs the others.",
    "study": "List the studies of a run cache, or the runs of one.",
    "validate": "Compare predictions with every measured case.",
    "calibrate": "Fit coefficients of an accelerator to measurements.",
    "collective": "Time of a collective by size, and what limits it.",
    "flows": "Finish times of flows that share links (max-min fairness).",
    "show": "Show a machine, a model or a schedule, with sources.",
    "schema": "Print the JSON Schema of files, for editors, or of answers.",
    "list": "List machines, models, scenarios, schedules, measures.",
    "explore": "Explore on a local web page: change a question, see the answer.",
    "import": "Convert a file of another program: machine, model, job, trace.",
    "export": "Write a scenario as the launch file of a program.",
    "doctor": "Check this installation, and what to do about problems.",
    "completion": "Print the completion script of a shell.",
}
"""Verbs in the order of the help, and what it prints about each."""


class Verb(TyperCommand):
    """A verb, whose help ends with examples, and whose invalid values are a line."""

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        """Read the command line of the verb."""
        words = [*args]
        try:
            return super().make_context(info_name, args, *more, **extra)
        except typer.BadParameter as problem:
            if type(problem) is not typer.BadParameter or problem.param is None:
                raise  # a word that is missing
            raise ScenarioError(value_problem(problem.param.opts, words, problem.message)) from None

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Print the examples, a line each."""
        with formatter.section("Examples"):
            for line in EXAMPLES[str(self.name)]:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Verbs(TyperGroup):
    """The verbs; each is imported when it is run or its help is printed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=text) for name, text in VERBS.items()}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb, ready to run; None for any other word."""
        return _load(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Print the list of verbs, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([*VERBS.items()])


MODULES: Final = {"doctor": "installation", "completion": "installation", "import": "import_"}
"""Modules of verbs with another name."""


def _load(name: str) -> Any:
    """Import a verb, whose function has a name of its own where Python has that name already."""
    module = import_module(f"clustersim.cli.verbs.{MODULES.get(name, name)}")
    callback = getattr(module, f"{name}_", None) or getattr(module, name)
    info = CommandInfo(name=name, cls=Verb, callback=callback, context_settings=HELP)
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)


HELP: Final = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="clustersim",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    context_settings=HELP,
    rich_markup_mode=None,  # importing rich would double the time of `--help`
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        echo(f"clustersim {version('clustersim')}")
        raise typer.Exit


@app.callback()
def clustersim(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show the traceback of an internal error."),
    ] = False,
) -> None:
    """Simulate training and inference of large models on clusters, event by event."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an expected error ends in a message, not in a traceback."""
    if arguments is None:
        outlive_readers()
        end_in_order()
    given = [*(sys.argv[1:] if arguments is None else arguments)]  # `list` is a verb here
    words = printable_options(without_verbose(given))
    try:
        app(words)
    except (CatalogError, ScenarioError) as error:
        echo(message_of(error, words), file=sys.stderr)
        sys.exit(2)
    except ExecutorError as error:
        echo(str(error), file=sys.stderr)
        sys.exit(1)
    except MemoryError:
        echo("not enough memory on this computer for this command", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as fault:
        if isinstance(fault, OSError) and (fault.filename or fault.errno == ENOSPC):
            # no permission, a full disk
            what = fault.filename or "output"
            echo(f"{what}: cannot be used ({fault.strerror})", file=sys.stderr)
            sys.exit(2)
        echo(describe(fault, given, verbose=len(words) < len(given)), file=sys.stderr)
        sys.exit(1)
    finally:
        _flush()
        if arguments is None:
            gc.freeze()  # at its end the process would collect all objects first


def _flush() -> None:
    """Flush standard output, or report that the disk is full."""
    try:
        sys.stdout.flush()
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):
            echo(f"output: cannot be used ({problem.strerror})", file=sys.stderr)
            sys.exit(2)


__all__ = ["app", "main"]
