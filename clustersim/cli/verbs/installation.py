"""`clustersim doctor` and `clustersim completion`: this installation, and its shell."""

from pathlib import Path
from typing import Annotated

import typer

from clustersim.cli.options import STORE, StoreFile, print_json
from clustersim.cli.output import echo
from clustersim.completion.shells import SHELLS, script
from clustersim.errors import ScenarioError
from clustersim.suggestions import nearest


def doctor(
    store: StoreFile = STORE,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check this installation: versions, cores, memory, folders, catalogue.

    Each line is ok, a warning (some commands are slower or fail) or a problem (most commands
    fail), with what to do. The exit code is 1 if there is a problem.
    """
    from clustersim.reports.doctor.answer import diagnose
    from clustersim.reports.doctor.text import lines

    diagnosis = diagnose(Path(store))
    if json_output:
        print_json(diagnosis)
    else:
        echo("\n".join(lines(diagnosis)))
    if diagnosis.status == "problem":
        raise typer.Exit(1)


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="Shell: bash, zsh or fish.")],
) -> None:
    """Print the script by which a shell completes verbs, options, names and keys.

    Install it for bash or zsh by a line in ~/.bashrc, or in ~/.zshrc after compinit:
    source <(clustersim completion bash). For fish, write it to
    ~/.config/fish/completions/clustersim.fish.
    """
    if shell not in SHELLS:
        known = ", ".join(SHELLS)
        raise ScenarioError(f"{shell}: no script for this shell{nearest(shell, SHELLS)} ({known})")
    echo(script(shell), end="")
