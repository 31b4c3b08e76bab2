"""The command of a script that launches a job: its own options, and those of what starts it.

srun --nodes 4 torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32
--- options named launch.nodes, launch.* ---|  program     |- options num-layers -
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.importers.launch.options import Option, is_option, options_of
from clustersim.importers.launch.syntax.shell import Command, Word, batch_options, read_commands
from clustersim.importers.launch.table import Read, Reads
from clustersim.importers.source import Source

Program = Callable[[tuple[str, ...]], int | None]
"""Returns the index of the program in the words of a command; None where it is another one."""


def _stated(option: Option) -> int | None:
    """Return a whole number that a launcher has; none where it is only known when the job runs."""
    if option.unknown or not option.values:
        return None
    text = str(option.values[0]).rpartition(":")[2]
    return int(text) if re.fullmatch("0*[1-9][0-9]{0,8}", text) else None


READS: Final[Reads] = {
    **dict.fromkeys(
        ("launch.nnodes", "launch.nodes", "launch.N", "batch.nodes", "batch.N"),
        Read("of.nodes", _stated),
    ),
    **dict.fromkeys(
        ("launch.nproc-per-node", "batch.gpus-per-node", "batch.gres"),
        Read("of.processes", _stated),
    ),
}
"""Options of launchers and batch files that are read."""


def launching(source: Source, program: Program) -> tuple[Command, int]:
    """Return the command that launches a program, and the index of the program in it.

    Raises
    ------
    CatalogError, ScenarioError
        when the script cannot be read, or launches none, or several with other options.
    """
    found = []
    for command in read_commands(source):
        index = program(tuple(word.text for word in command))
        if index is not None:
            found.append((command, index))
    if not found:
        raise ScenarioError(
            f"{escaped(source.file)}: no command launches the program (its arguments must be in"
            " this file)"
        )
    texts = {tuple(word.text for word in command[index:]) for command, index in found}
    if len(texts) > 1:
        lines = ", ".join(str(command[index].line) for command, index in found)
        raise ScenarioError(
            f"{escaped(source.file)}: launches the program {len(found)} times (lines {lines}), with"
            " other options (keep one)"
        )
    return found[0]


def launched(source: Source, program: Program) -> list[Option]:
    """Return the options of the launched program, and those of its launchers."""
    command, index = launching(source, program)
    for before, word in zip(command[index:], command[index + 1 :], strict=False):
        if word.unknown and word.text.startswith(("$", "`")) and not is_option(before.text):
            raise source.wrong(word.line, f"{word.unknown} (write the options instead)")
    return [*of_launchers(source, command[:index]), *options_of(source, command[index:])]


def of_launchers(source: Source, words: Sequence[Word]) -> list[Option]:
    """Return the options of a batch file and of the launchers before a program.

    ``-m`` of Python is the program itself.
    """
    batch = options_of(source, batch_options(source))
    before = [option for option in options_of(source, words) if option.name != "m"]
    return [
        *(replace(option, name=f"batch.{option.name}") for option in batch),
        *(replace(option, name=f"launch.{option.name}") for option in before),
    ]
