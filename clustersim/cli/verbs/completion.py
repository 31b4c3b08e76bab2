"""`clustersim completion SHELL`: the script by which a shell completes command lines."""

from typing import Annotated

import typer

from clustersim.catalog.tree import nearest
from clustersim.cli.output import echo
from clustersim.completion.shells import SHELLS, script
from clustersim.errors import ScenarioError


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
