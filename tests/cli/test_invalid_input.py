"""Invalid input of every verb: each command of the golden file ends with the message below it.

A paragraph of the file is a command and the lines that it prints on standard error; a line that
ends with ``...`` goes on. A line before it that begins with ``+`` ends the scenario `mine.yaml`.
"""

import shlex
import time
from pathlib import Path

import pytest

from chakra_files import node, write_traces
from clustersim import sweep
from commands import ending
from small import EIGHT, small

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "invalid_input.txt"
PARAGRAPHS = GOLDEN.read_text(encoding="utf-8").split("\n\n")


def case(paragraph):
    """Return the command of a paragraph, its message and the end of `mine.yaml`, if it has one."""
    lines = paragraph.splitlines()
    end = lines.pop(0).removeprefix("+ ") if lines[0].startswith("+ ") else ""
    command, *message = lines
    words = command.removeprefix("$ clustersim ")
    return pytest.param(shlex.split(words), message, end, id=words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a scenario, a run cache of two studies, and files that are neither."""
    folder = tmp_path_factory.mktemp("invalid")
    (folder / "taken").mkdir()
    for name, text in (
        ("taken/theirs", ""),
        ("notes", "mine"),
        ("other.yaml", "name: x\nkind: nodes\n"),
        ("kindless.yaml", "name: x\nnode: dgx-h100\nfabric: {type: switch}\n"),
    ):
        (folder / name).write_text(text)
    chakra_traces(folder)
    for axis in ({"batch.micro": [1, 2]}, {"plan.tensor": [2, 16]}):
        sweep(small(folder), over=axis, store=folder / "studies.db", jobs=1)
    return folder


def chakra_traces(folder):
    """Write traces with a cycle, with a send that no rank receives, and cut short."""
    send = node(1, "COMM_SEND", name="s", comm_dst=1, comm_size=8)
    cycle = [node(1, "COMP", [2], name="a", micros=1), node(2, "COMP", [1], name="b", micros=1)]
    write_traces(folder / "cyclic", cycle)
    write_traces(folder / "lonely", [send], [])
    file = write_traces(folder / "truncated", [node(1, "COMP", name="whole", micros=9, num_ops=1)])
    (file / "job.0.et").write_bytes((file / "job.0.et").read_bytes()[:-3])


def contents(folder):
    """Return the bytes of all files of a folder, by path."""
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def printed(error, folder):
    """Return the lines of an error without the usage of the verb and the folders of files."""
    for place in (folder, ROOT):
        error = error.replace(f"{place}/", "")
    lines = [line for line in error.splitlines() if not line.startswith(("Usage: ", "Try "))]
    return list(filter(None, lines))


@pytest.mark.parametrize(("words", "message", "end"), [*map(case, PARAGRAPHS)])
def test_invalid_input_is_rejected_at_once_with_its_reason(
    words, message, end, folder, capsys, monkeypatch
):
    """Exit code 2 and the message, within seconds; no file is created or changed."""
    monkeypatch.chdir(folder)
    (folder / "mine.yaml").write_text(EIGHT + end)
    before, begin = contents(folder), time.process_time()
    code, out, error = ending(capsys, *words)
    lines = printed(error, folder)

    assert (code, out) == (2, "")
    assert len(lines) == len(message)
    for line, expected in zip(lines, message, strict=True):
        start = expected.removesuffix(" ...")
        assert line == expected or (start != expected and line.startswith(start))
    assert contents(folder) == before
    assert time.process_time() - begin < 10
