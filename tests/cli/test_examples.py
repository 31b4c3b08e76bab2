"""The examples with which the help of each verb ends."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.main import get_command

from clustersim.cli import VERBS, app
from clustersim.cli.examples import EXAMPLES
from clustersim.scenario.load import load_any
from commands import ending, output

LINES = [line for lines in EXAMPLES.values() for line in lines]

DATA = Path(__file__).resolve().parents[1] / "data"

FILES = {"train.sh": "launch/megatron-llama3-8b.sh", "config.json": "import/llama3-8b.json"}
"""Files that examples name, and what stands in for them here."""

RUN = frozenset({
    "run", "collective", "share", "show", "schema", "list", "import", "export", "completion",
})  # fmt: skip
"""Verbs whose examples are run here, in seconds."""


def words(line):
    """Return the words of an example after `clustersim`, without what the shell does."""
    inside = re.search(r"clustersim ([^>)]*)", line)
    assert inside is not None
    return shlex.split(inside[1])


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_ends_with_two_examples(capsys, verb):
    """Each is a line of the verb that a terminal of 80 columns does not wrap."""
    end = output(capsys, verb, "--help").partition("\nExamples:\n")[2].splitlines()

    assert end == [f"  {line}" for line in EXAMPLES[verb]]
    assert len({*end}) == 2
    assert [words(line)[0] for line in end] == [verb, verb]
    assert max(map(len, end)) <= 80


@pytest.mark.parametrize("line", LINES)
def test_an_example_is_a_valid_command_line(line):
    """The verb takes its options, and its shipped scenarios take their settings."""
    verb, *arguments = words(line)
    command = get_command(app).get_command(None, verb)
    context = command.make_context(verb, arguments)

    given = {name: value for name, value in context.params.items() if value is not None}
    named = given.get("scenarios") or [given.get("scenario")]
    settings = given.get("settings") or []
    each = [[change] for change in settings] if verb == "whatif" else [settings]
    for name in named:
        scenario, *changes = (name or "train.sh").split()
        if not scenario.endswith(".sh"):
            assert all(load_any(scenario, [*changes, *change]) for change in each)


@pytest.mark.parametrize("line", [line for line in LINES if words(line)[0] in RUN])
def test_an_example_runs(capsys, here, line):
    """It ends without an error."""
    for name, file in FILES.items():
        shutil.copy(DATA / file, name)

    code, out, _ = ending(capsys, *words(line))
    assert code == 0
    assert out
