"""Malformed input, and output that cannot be written: one line each, and no traceback."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from errno import ENOSPC

import pytest

from clustersim.cli.options import print_table
from clustersim.errors import ScenarioError
from clustersim.render.folder import replacing
from clustersim.reports.step.files import FILES
from clustersim.runs.execution import run_all, run_study
from clustersim.runs.store import Store, Study
from clustersim.runs.variants import RAN, Variant
from clustersim.runs.workers import InProcess
from commands import output, rejected
from small import small, wait_until


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("scale", "--weak", "8"),
        ("whatif", "--set", "plan.zero=0"),
        ("sweep", "--over", "plan.zero=0"),
        ("compare", "gpt"),
    ],
)
def test_a_name_that_no_file_system_takes_is_refused_in_one_line(command, capsys):
    """A scenario whose name is too long for any file ends no verb in a traceback."""
    verb, *rest = command

    assert ": no such file" in rejected(capsys, verb, "x" * 300, *rest)


@pytest.mark.parametrize("option", ["--out", "--store"])
def test_a_target_that_no_file_system_takes_is_refused_in_one_line(option, here, capsys):
    """An --out or --store whose name is too long is rejected before any file is written."""
    command = "sweep", small(here), "--over", "plan.zero=0", option, "x" * 300

    assert "name too long" in rejected(capsys, *command)
    assert [path.name for path in here.iterdir()] == ["small.yaml"]


def test_a_value_with_a_line_break_is_refused_in_one_line(tmp_path, capsys):
    """A value of an axis with a line break has a message of one line."""
    complaint = rejected(capsys, "sweep", str(small(tmp_path)), "--over", "plan.tensor=1\n2")

    assert complaint.startswith("--over plan.tensor=1 2: plan.tensor: must be a whole num")


def test_a_run_that_another_file_left_has_the_name_of_this_one(tmp_path):
    """Two files of one content share a run in the store, and each answer has its own name."""
    first = small(tmp_path)
    second = first.rename(tmp_path / "other.yaml")
    first.write_text(second.read_text())
    with Store(tmp_path / "store.db") as store:
        (one,) = run_all(Study("a", "scale", "a title"), [Variant(str(first))], store)
        (other,) = run_all(Study("b", "scale", "a title"), [Variant(str(second))], store)

    assert not other.fresh
    assert (one.answer.name, other.answer.name) == (first.stem, "other")


def test_a_store_with_damaged_answers_is_refused_in_one_line(tmp_path, capsys):
    """A run cache with answers that are not JSON is one line, not a traceback."""
    file = tmp_path / "store.db"
    with Store(file) as store:
        run_all(Study("a", "sweep", "a title"), [Variant(str(small(tmp_path)))], store)
    with closing(sqlite3.connect(file)) as base:
        base.execute("UPDATE runs SET answer = '{damaged'")
        base.commit()

    assert "cannot be used as a run cache" in rejected(capsys, "study", str(file))


# --- who reads, and where there is no room --------------------------------------------------------


def ended(command, folder, **options):
    """Return how a command line in a shell ends: exit code and standard error."""
    line = f"{sys.executable} -m clustersim {command}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder, stderr=subprocess.PIPE, text=True, timeout=60, **options,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("reader", ["| true", pytest.param(">&-", marks=pytest.mark.large)])
def test_a_reader_who_goes_away_loses_no_file(reader, tmp_path):
    """`run NAME | head -1` leaves the files that `run NAME` leaves, and does not complain."""
    small(tmp_path)

    assert ended(f"run small.yaml --out there {reader}", tmp_path) == (0, "")
    assert {path.name for path in (tmp_path / "there").iterdir()} == {*FILES}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is always full")
def test_a_full_disk_behind_standard_output_is_told_in_one_line(tmp_path):
    """An answer that cannot be written is no success, and no traceback."""
    small(tmp_path)
    code, complaint = ended("run small.yaml --json > /dev/full", tmp_path)

    assert (code, complaint) == (2, "output: cannot be used (No space left on device)\n")


def test_a_disk_that_fills_up_leaves_no_folder(tmp_path):
    """A disk that fills up while files are written is one line about --out, and no file remains."""
    with pytest.raises(ScenarioError, match="out: cannot be written"):  # noqa: SIM117
        with replacing(tmp_path / "out"):
            raise OSError(ENOSPC, "No space left on device")

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.large)]
)
def test_a_run_that_is_told_to_end_leaves_nothing_half_written(number, tmp_path):
    """However far the files are, a signal leaves the input alone, or all of the output."""
    small(tmp_path)
    command = [sys.executable, "-m", "clustersim", "run", "small.yaml", "--out", "there"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until(lambda: any(tmp_path.glob(".there.*.new")), "files are being written")
    process.send_signal(number)

    assert process.wait(30) == 128 + number
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


@pytest.mark.parametrize("width", ["40", "200"])
def test_no_number_of_a_table_is_cut_on_a_narrow_terminal(width, capsys, monkeypatch):
    """A terminal shows each cell of a table in full, however narrow it is."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", width)
    print_table([["micro", "tokens/s", "TFLOP/s"] * 3, ["1,024", "123,456", "98.7"] * 3])
    shown = capsys.readouterr().out

    assert "…" not in shown
    assert shown.count("123,456") == 3


def test_the_best_of_one_layout_is_named(tmp_path, capsys):
    """Where no axis has two values the best layout is still printed with its values."""
    places = "--out", tmp_path / "out", "--store", tmp_path / "store.db"
    command = "sweep", small(tmp_path), "--over", "batch.micro=1", "--jobs", "1"

    assert re.search(r"^best +micro 1: ", output(capsys, *command, *places), re.MULTILINE)


def test_a_thousand_jobs_start_no_more_processes_than_there_are_runs(tmp_path, monkeypatch):
    """However many processes are allowed, two runs are done in two."""
    counts = []
    monkeypatch.setattr(
        "clustersim.runs.executors._Pool", lambda jobs: counts.append(jobs) or InProcess()
    )
    variants = [Variant(str(small(tmp_path)), (f"batch.micro={n}",)) for n in (1, 2)]
    runs = run_study(Study("a", "sweep", "a title"), variants, jobs=1000)

    assert counts == [2]
    assert [run.verdict for run in runs] == [RAN, RAN]


def test_an_export_replaces_neither_its_store_nor_its_sister(tmp_path, capsys):
    """--force allows an older file to be replaced, not the store that is read or the other file."""
    store, other = tmp_path / "store.db", tmp_path / "runs.csv"
    with Store(store) as kept:
        run_all(Study("a", "sweep", "a title"), [Variant(str(small(tmp_path)))], kept)
    before = store.read_bytes()

    for csv, parquet in ((store, other), (other, store), (other, other)):
        files = ("--csv", str(csv), "--parquet", str(parquet), "--force")
        assert "given twice" in rejected(capsys, "study", str(store), *files)
    assert store.read_bytes() == before
    assert not other.exists()


def test_a_file_without_its_ending_is_suggested(here, capsys):
    """``show lab`` next to ``lab.yaml`` suggested a model of another name."""
    (here / "lab.yaml").write_text("kind: cluster\nname: lab\n", encoding="utf-8")

    for verb in ("show", "run"):
        assert "(did you mean the file 'lab.yaml'?)" in rejected(capsys, verb, "lab")


def test_a_pipe_and_a_loop_of_links_are_named_as_what_they_are(here, capsys):
    """A scenario that is a pipe is no missing file, and --out in a loop of links no traceback."""
    os.mkfifo(here / "pipe")
    (here / "a").symlink_to("b")
    (here / "b").symlink_to("a")

    assert rejected(capsys, "run", "pipe") == "pipe: is a device, pipe or socket, not a file\n"
    assert "symbolic links" in rejected(capsys, "run", "a")
    assert "loop of symbolic links" in rejected(capsys, "run", str(small(here)), "--out", "a")


def test_an_unknown_measure_has_one_short_line(here, capsys):
    """The nearest measures and where to list all of them, not 900 letters of names."""
    command = "sweep", str(small(here)), "--over", "plan.zero=0", "--by"
    near = rejected(capsys, *command, "throughput")
    far = rejected(capsys, *command, "qqqq")

    assert "did you mean 'tokens_per_s' or 'tokens_per_s_per_device'? all: clustersim list" in near
    assert "such as 'step_time_s'" in far
    assert max(len(near), len(far)) < 160


@pytest.mark.parametrize("key", ["plan.foo", "batch.globl", "cluster.nic.bandwidht"])
def test_a_reason_for_a_key_that_no_scenario_has_is_rejected(key, here, capsys):
    """``assumed: {plan.foo: x}`` was accepted, since a scenario has a plan."""
    complaint = rejected(capsys, "run", str(small(here)), "--set", f"assumed={{{key}: x}}")

    assert f"assumed.{key}: a scenario has no key '{key}'" in complaint
