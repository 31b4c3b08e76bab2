"""Launch files by their form: a shell script, the command of a server, or a file of settings.

words --script, command--> text
      --toml, yaml, json--> nested tables --> text
"""

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from clustersim.exporters.arguments import option_lines
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.table import Read, Reads
from clustersim.records import dataclass

ENDINGS: Final[Mapping[str, str]] = {
    "script": ".sh",
    "command": ".sh",
    "toml": ".toml",
    "yaml": ".yaml",
    "json": ".json",
}
"""Endings of the names of launch files, by form."""

CONFIG: Final = "ds_config.json"
"""JSON file of settings that a script writes."""

COMMENT: Final = "_comment"
"""Key of a JSON file with its comments, which JSON does not have."""


@dataclass(frozen=True)
class Job:
    """What a launch file is made of.

    Attributes
    ----------
    words : arguments of the program
    remarks : lines of the comment above them
    command : the program
    exports : variables of its environment
    config : arguments that are settings of a JSON file of the program; none if empty
    nodes, devices : of the machine, and of each node
    reads : how options are imported, which states the type of their values
    """

    words: tuple[str, ...]
    remarks: tuple[str, ...]
    command: str
    exports: Mapping[str, str]
    config: tuple[str, ...]
    nodes: int
    devices: int
    reads: Reads


def script(job: Job) -> str:
    """Return a batch file of Slurm that starts a program on every device."""
    options = "\n".join(f"    {line}" for line in option_lines(job.words))
    batch = {"nodes": job.nodes, "ntasks-per-node": 1, "gpus-per-node": job.devices}
    settings = json.dumps(tables(job.config, job.reads), indent=2)
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH --{name}={value}" for name, value in batch.items()),
            *comment_lines(job.remarks),
            "",
            *(f"export {name}={value}" for name, value in job.exports.items()),
            *([f"cat > {CONFIG} <<END", settings, "END", ""] if job.config else []),
            f"ARGUMENTS=(\n{options}\n)",
            "",
            f"srun torchrun --nnodes {job.nodes} --nproc-per-node {job.devices} \\",
            "    --rdzv-backend c10d \\",
            '    --rdzv-endpoint "$(scontrol show hostnames | head -n 1):29500" \\',
            f'    {job.command} "${{ARGUMENTS[@]}}"',
            "",
        ]
    )


def command(job: Job) -> str:
    """Return a shell script with the command of a server."""
    first, *others = option_lines(job.words)
    shown = " \\\n    ".join([f"{job.command} {first}", *others])
    return "\n".join(["#!/bin/bash", *comment_lines(job.remarks), "", shown, ""])


def toml(job: Job) -> str:
    """Return settings as TOML, a section for each table."""
    lines = comment_lines(job.remarks)
    for section, settings in tables(job.words, job.reads).items():
        lines += ["", f"[{section}]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join([*lines, ""])


def yaml(job: Job) -> str:
    """Return settings as YAML in order, texts in quotes: 'no' is a text to some readers only."""
    lines = comment_lines(job.remarks)
    return "\n".join([*lines, *_yaml_lines(tables(job.words, job.reads), ""), ""])


def _yaml_lines(table: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in sorted(table.items()):
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _yaml_lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {json.dumps(value)}"


def json_text(job: Job) -> str:
    """Return settings as JSON, with the comment as one of them."""
    return json.dumps({COMMENT: [*job.remarks], **tables(job.words, job.reads)}, indent=2) + "\n"


FORMS: Final[Mapping[str, Callable[[Job], str]]] = {
    "script": script,
    "command": command,
    "toml": toml,
    "yaml": yaml,
    "json": json_text,
}
"""The text of a launch file by its form."""


def tables(words: Sequence[str], reads: Reads) -> dict[str, Any]:
    """Return arguments as nested tables: ``--training.seq_len=8`` is a value of `training`.

    >>> tables(("--a.b=8", "--a.c", "--d=x"), {})
    {'a': {'b': 8, 'c': True}, 'd': 'x'}
    """
    found: dict[str, Any] = {}
    for word in words:
        key, _, text = word.removeprefix("--").partition("=")
        *outer, name = key.split(".")
        table = found
        for part in outer:
            table = table.setdefault(part, {})
        table[name] = _value(text, reads.get(Option.plain_name(key)))
    return found


def _value(text: str, read: Read | None) -> Any:
    """Return a value as its option has it: a list, a text, or what JSON makes of it."""
    if read is not None and read.convert is Option.words:
        return text.split(",")
    if read is not None and read.convert is Option.word:
        return text
    try:
        return json.loads(text or "true")
    except ValueError:
        return text


def comment_lines(remarks: Sequence[str]) -> list[str]:
    """Return remarks as lines of a comment; commands, which begin with `clustersim`, stay whole."""
    lines: list[str] = []
    for remark in remarks:
        if remark.startswith("clustersim "):
            lines.append(f"#   {remark}")
        else:
            wrapped = textwrap.wrap(
                remark, 98, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
            )
            lines += [f"# {line}" for line in wrapped]
    return lines
