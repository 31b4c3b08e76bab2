"""Examples in Markdown: found, run, held against what is shown, and brought up to date.

    ```console
    $ clustersim run frontier-22b       a command, run in a folder of the document's own
    step     215.5 s, 6,083 tokens/s    some of its lines, in their order; last digits may differ
    ...                                 lines that are left out: without it there are none
    ```

A block ```yaml title="lab.yaml" is written into the folder.  ```pycon is a session, run as such.
`<!-- large -->` before a block marks one that takes long; a table after a comment that holds a
command, `<!-- $ python -m tools.validation -->`, is its output, and large as well.

    .venv/bin/python docs/make_examples.py README.md docs/guides/*.md      write true numbers
"""

import doctest
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from itertools import islice
from pathlib import Path
from shutil import copytree
from typing import NamedTuple

from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tools are not installed

from clustersim.cli import app
from tools.validation import main as tool

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
FENCE = re.compile(r'```(\w*)(?: title="([^"]+)")?\s*')
TABLE = re.compile(r"<!-- \$ (.+) -->")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
SKIPPED = "..."
JSON = "| python -m json.tool"
TOOL = "python -m tools.validation"


class Line(NamedTuple):
    """A line of a document, its number, from 1, and whether lines may be left out before it."""

    number: int
    text: str
    gap: bool = True


class Block(NamedTuple):
    """What stands between two fences, or a table after a comment with its command."""

    language: str
    title: str | None
    large: bool
    lines: tuple[Line, ...]
    excerpt: bool = False


class Example(NamedTuple):
    """A command, the lines of its output that are shown, and whether others may follow them."""

    command: Line
    shown: tuple[Line, ...]
    large: bool
    more: bool = True


# --- finding --------------------------------------------------------------------------------------


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a document and its tables with a command, in order."""
    lines = iter([Line(number, line) for number, line in enumerate(text.splitlines(), 1)])
    before = ""
    for line in lines:
        if found := FENCE.fullmatch(line.text):
            inside = tuple(_until_fence(lines))
            yield Block(found[1], found[2], before == "<!-- large -->", inside)
        elif found := TABLE.fullmatch(line.text):
            command = line._replace(text=f"$ {found[1]}")
            yield Block("console", None, True, (command, *_until_gap(lines)), excerpt=True)
        before = line.text.strip() or before


def _until_fence(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if line.text.rstrip() == "```":
            return
        yield line
    raise ValueError("a fence is not closed")


def _until_gap(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if not line.text.strip():
            return
        yield line


def examples(block: Block) -> Iterator[Example]:
    """Yield the commands of a console block."""
    starts = [i for i, line in enumerate(block.lines) if line.text.startswith("$ ")]
    if starts[:1] != [0]:
        raise ValueError(f"line {block.lines[0].number}: a console block begins with '$ '")
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        command, *shown = block.lines[start:end]
        command = command._replace(text=command.text[2:])
        if block.excerpt:
            yield Example(command, tuple(shown), block.large, more=True)
            continue
        kept, gap = list[Line](), False
        for line in shown:
            skipped = line.text.strip() == SKIPPED
            if not skipped and line.text.strip():
                kept.append(line._replace(gap=gap))
            gap = skipped or (gap and not line.text.strip())
        yield Example(command, tuple(kept), block.large, more=gap or not kept)


# --- running --------------------------------------------------------------------------------------


def output_of(command: str) -> str:
    """Run ``clustersim ...`` or a tool in this process and return what it prints.

    At its end may stand ``| python -m json.tool`` or ``> FILE``.
    """
    if command.startswith(TOOL):
        with redirect_stdout(StringIO()) as printed:
            tool(shlex.split(command.removeprefix(TOOL)))
        return printed.getvalue()
    command, _, file = command.partition(" > ")
    plain = command.removesuffix(JSON)
    program, *arguments = shlex.split(plain)
    if program != "clustersim":
        raise ValueError(f"{command}: only clustersim is run here")
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(f"{command}: exit code {result.exit_code}: {result.output}")
    if file:
        Path(file).write_text(result.stdout, encoding="utf-8")
        return ""
    if plain != command:
        return json.dumps(json.loads(result.stdout), indent=4)
    return result.stdout


def prepare(folder: Path, block: Block) -> None:
    """Put what a document needs into its folder: the shipped scenarios, and a file it shows."""
    if not (folder / "scenarios").exists():
        copytree(SCENARIOS, folder / "scenarios")
    if block.title:
        text = "".join(f"{line.text}\n" for line in block.lines)
        (folder / block.title).parent.mkdir(exist_ok=True)
        (folder / block.title).write_text(text, encoding="utf-8")


# --- comparing ------------------------------------------------------------------------------------


def wrong(shown: Iterable[Line], output: str, *, more: bool = True) -> list[str]:
    """Return the shown lines that do not follow each other in the output.

    Without a gap before it a line is the next one that is printed; without `more` the last one that
    is shown is the last one that is printed.
    """
    rest = iter([line for line in output.splitlines() if line.strip()])
    found = [
        line.text
        for line in shown
        if not any(alike(line.text, true) for true in (rest if line.gap else islice(rest, 1)))
    ]
    return found if more or found else [f"{SKIPPED} is missing before: {line}" for line in rest]


def alike(shown: str, true: str) -> bool:
    """Whether two lines have the same words, and numbers that differ in their last digits only.

    >>> alike("step   215.5 s, 6,083 tokens/s", "step  215.51 s, 6,081 tokens/s")
    True
    >>> alike("step   215.5 s", "step   225.5 s"), alike("stage 0", "stage 1")
    (False, False)
    """
    if _words(shown) != _words(true):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(true), strict=True)
    return "wall" in shown or all(close(a, b) for a, b in pairs)


def _words(line: str) -> str:
    return " ".join(NUMBER.sub("#", line).split())


def close(shown: str, true: str) -> bool:
    """Whether a number is within half a percent, or one in the last decimal that is shown."""
    a, b = (float(number.replace(",", "")) for number in (shown, true))
    decimals = len(shown.partition("e")[0].partition(".")[2])
    last = 10.0**-decimals if decimals and "e" not in shown else 1e-9
    return abs(a - b) <= max(5e-3 * abs(b), 1.01 * last)


class Checker(doctest.OutputChecker):
    """Compares the output of a session as that of a command."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether all lines that are wanted come in this order."""
        return not wrong([Line(0, line) for line in want.splitlines()], got) and bool(want) == (
            bool(got)
        )


def session(block: Block, name: str) -> str:
    """Run a Python session; return what went wrong, or nothing."""
    text = "".join(f"{line.text}\n" for line in block.lines)
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, block.lines[0].number)
    said: list[str] = []
    doctest.DocTestRunner(Checker(), verbose=False).run(test, out=said.append)
    return "".join(said)


# --- bringing up to date --------------------------------------------------------------------------


def refreshed(text: str) -> tuple[str, list[str]]:
    """Return a document with the numbers that its commands print now, and what does not match.

    Lines that are left out without ``...`` get one.
    """
    lines, problems = text.splitlines(), list[str]()
    for block in blocks(text):
        prepare(Path.cwd(), block)
        for example in examples(block) if block.language == "console" else ():
            if not example.command.text.startswith("clustersim"):
                continue
            printed = output_of(example.command.text).splitlines()
            rest = iter([line for line in printed if line.strip()])
            for line in example.shown:
                left_out = -1
                for true in rest:
                    left_out += 1
                    if _words(true) == _words(line.text):
                        break
                else:
                    problems.append(f"line {line.number}: {line.text}")
                    break
                gap = f"{SKIPPED}\n" if left_out and not line.gap else ""
                lines[line.number - 1] = gap + true
            else:
                if not example.more and any(rest):
                    lines[example.shown[-1].number - 1] += f"\n{SKIPPED}"
        if block.language == "pycon" and (said := session(block, "session")):
            problems.append(said)
    return "\n".join(lines) + "\n", problems


def main(files: list[str]) -> None:
    """Bring documents up to date; tell which lines need a hand."""
    for file in [Path(name).resolve() for name in files]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            new, problems = refreshed(file.read_text(encoding="utf-8"))
            os.chdir(file.parent)
        changed = new != file.read_text(encoding="utf-8")
        file.write_text(new, encoding="utf-8")
        sys.stdout.write(f"{file.name}: {'changed' if changed else 'as it was'}\n")
        sys.stdout.writelines(f"  {problem}\n" for problem in problems)


if __name__ == "__main__":
    main(sys.argv[1:])
