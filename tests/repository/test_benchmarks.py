"""The benchmark: its tables, its options, and its errors; what it measures is in no test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.parts import PARTS
from benchmarks.simulators import SIMULATORS
from benchmarks.table import Table
from benchmarks.timing import CommandError, cost_of
from clustersim.cli import main as clustersim

ROOT = Path(__file__).parents[2]


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_table_is_an_object_and_markdown():
    """Rows have the names of the columns; numbers have three digits and are aligned right."""
    table = Table("work", "Work", ("what", "time [s]", "count"), [("one", 0.012345, 12345)], "So.")

    assert table.to_json()["rows"] == [{"what": "one", "time [s]": 0.012345, "count": 12345}]
    assert table.to_markdown() == (
        "## Work\n\nSo.\n\n"
        "| what | time [s] | count |\n| --- | ---: | ---: |\n| one | 0.0123 | 12,345 |"
    )


def test_the_cost_of_a_process_is_its_own():
    """A process that holds 300 MB costs so much, and the next one does not.

    Measured by a small process: one that has just been forked is as large as its parent.
    """
    code = (
        "import sys; from benchmarks.timing import cost_of\n"
        "for code in ('bytearray(300_000_000)', 'pass'):\n"
        "    print(cost_of([sys.executable, '-c', code], 1).peak)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    held, plain = map(float, printed.stdout.split())

    assert held > 3e8 > plain


def test_replays_are_measured(monkeypatch):
    """The part of replays called a function that was no longer there."""
    monkeypatch.setattr("benchmarks.replay.SCENARIOS", ("megatron21-t1-1.7b",))
    monkeypatch.setattr("benchmarks.replay.MICROBATCHES", (64,))
    monkeypatch.setattr("benchmarks.replay.DEEP", (("1f1b", 4, 8, 1),))

    tables = list(PARTS["replay"](1, ""))

    assert [len(table.rows) for table in tables] == [1, 1, 1]
    assert all(value > 0 for table in tables for row in table.rows for value in row[1:])


def test_a_command_that_fails_is_one_line():
    """A failed command is an error with its exit code and its last line."""
    with pytest.raises(CommandError, match="no-such-scenario --json: exit code 2: "):
        cost_of([sys.executable, "-m", "clustersim", "run", "no-such-scenario", "--json"], 1)


@pytest.fixture
def rejected(monkeypatch, capsys):
    """Return a function that benchmarks in this process, and returns exit code and error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("name", SIMULATORS)
def test_a_simulator_that_is_not_checked_out_is_one_line(name, tmp_path, rejected):
    """A folder without the simulator is rejected with its name."""
    code, missing = rejected("--against", name, tmp_path / "missing")
    other, empty = rejected("--against", name, tmp_path)

    assert (code, other) == (2, 2)
    assert (missing.count("\n"), empty.count("\n")) == (1, 1)
    assert f"expected a checkout of {name}" in missing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], f"unknown part 'speed' (known: {', '.join(PARTS)})"),
        (["--against", "other", "."], f"unknown (known: {', '.join(SIMULATORS)})"),
        (["--repeats", "0"], "--repeats 0: must be at least 1"),
    ],
)
def test_wrong_arguments_name_what_is_allowed(arguments, message, rejected):
    """A wrong word is answered with the words that are known."""
    code, error = rejected(*arguments)

    assert code == 2
    assert message in error


@pytest.mark.large
def test_a_part_is_printed_and_written(tmp_path):
    """A part prints its tables, and writes them as JSON and as a page."""
    result = benchmark(
        "routing", "--json", tmp_path / "bench.json", "--markdown", tmp_path / "bench.md"
    )
    answer = json.loads((tmp_path / "bench.json").read_text())
    page = (tmp_path / "bench.md").read_text()

    assert result.returncode == 0, result.stderr
    assert [table["name"] for table in answer["tables"]] == ["torus"]
    assert page.startswith("# Performance\n")
    assert result.stdout.strip() in page
    assert answer["machine"]["cores"] >= 1


@pytest.mark.parametrize("name", SIMULATORS)
def test_the_same_work_is_a_valid_command(name, tmp_path, capsys):
    """What clustersim runs against another simulator runs."""
    for work in SIMULATORS[name](tmp_path):
        with pytest.raises(SystemExit):
            clustersim(work.arguments)

        assert json.loads(capsys.readouterr().out)
