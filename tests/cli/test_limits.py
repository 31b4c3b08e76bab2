"""Input without bounds (endless files, deep nesting, huge sizes) is rejected at once."""

import os
import re
import time
from itertools import product
from pathlib import Path

import pytest

from clustersim.errors import CatalogError, ScenarioError
from clustersim.simulation.step.simulate import simulate
from commands import rejected
from small import small


def rejected_at_once(capsys, *arguments):
    """Return the one line with which a command rejects its input, which takes no time."""
    begin = time.process_time()
    complaint = rejected(capsys, *arguments)

    assert time.process_time() - begin < 10
    return complaint


SPECIAL = ["/dev/zero", "fifo.yaml", "folder.yaml", "loop.yaml", "a/b.yaml"]
"""Paths that are no regular files; the last one has a component that leads back to itself."""


@pytest.fixture
def special(here):
    """A working folder with files that are none."""
    os.mkfifo("fifo.yaml")
    os.mkdir("folder.yaml")
    os.symlink("loop.yaml", "loop.yaml")
    os.symlink("a", "a")
    os.mkfifo("fifo.csv")
    small(here)


VERBS = [
    "run {}",
    "scale {} --weak 8",
    "whatif {} --set plan.zero=0",
    "compare {} gpt-6.7b",
    "sweep {} --over plan.zero=0",
    "sweep small.yaml --list {}",
    "sweep small.yaml --over plan.zero=0 --store {}",
    "study {}",
    "validate --cases {}",
    "show {}",
    "import {}",
    "flows {}",
    "collective --cluster {} --devices 8 --op all-reduce --bytes 1KiB",
    "run small.yaml --set plan.schedule={}.txt",
]


@pytest.mark.parametrize(
    ("command", "path"), [*product(VERBS, ["fifo.yaml"]), *product(["run {}", "flows {}"], SPECIAL)]
)
def test_devices_pipes_folders_and_loops_of_links_are_rejected_by_every_verb(
    command, path, special, capsys
):
    """A path that is no regular file is rejected at once, in one line with its name."""
    complaint = rejected_at_once(capsys, *command.format(path).split())

    assert Path(path.removesuffix("/b.yaml")).stem in complaint


@pytest.mark.parametrize("brackets", ["[", "{a: ", "- ", "? ", "[{a: "])
def test_nesting_of_30000_brackets_is_rejected_by_its_line(brackets, here, capsys):
    """A file or a value that is nested too deeply never reaches the parser, which is recursive."""
    (here / "deep.yaml").write_text(f"title: x\nmodel:\n  {brackets * 30_000}")
    small(here)
    changed = rejected_at_once(capsys, "run", "small.yaml", "--set", f"plan={brackets * 30_000}")

    assert rejected_at_once(capsys, "run", "deep.yaml") == (
        "deep.yaml:3: nested more than 40 levels deep\n"
    )
    assert re.fullmatch(r"--set plan=.{195}\.\.\.:1: nested more than 40 levels deep\n", changed)


def test_100000_brackets_in_a_file_of_flows_are_rejected(here, capsys):
    """A file of flows that is nested too deeply is no traceback."""
    (here / "deep.json").write_text("[" * 100_000)

    assert rejected_at_once(capsys, "flows", "deep.json") == (
        "deep.json: is not a file of flows (nested too deeply)\n"
    )


@pytest.mark.large
def test_a_file_of_many_values_is_rejected_before_it_takes_memory(tmp_path):
    """A YAML file of millions of values is counted, not composed."""
    file = tmp_path / "many.yaml"
    file.write_text("a: [" + "1, " * 1_000_000 + "]")
    begin = time.process_time()

    with pytest.raises(ScenarioError, match=r"many\.yaml:1: more than 200,000 values"):
        simulate(file)
    assert time.process_time() - begin < 5


def test_a_file_larger_than_its_limit_is_rejected_unread(tmp_path):
    """A sparse file of a terabyte is as quickly rejected as any other."""
    file = tmp_path / "sparse.yaml"
    with file.open("wb") as stream:
        stream.truncate(10**12)

    with pytest.raises(ScenarioError, match=r"sparse\.yaml: is larger than 64 MB"):
        simulate(file)


@pytest.mark.parametrize("key", ["cluster", "model", "framework"])
def test_a_name_of_300_characters_is_unknown_through_python_too(key, tmp_path):
    """A name that no file system takes is a name that the catalogue does not have."""
    with pytest.raises(CatalogError, match="named 'xxx"):
        simulate(small(tmp_path), {key: "x" * 300})
