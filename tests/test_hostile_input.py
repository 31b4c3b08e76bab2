"""Input that nobody means well: names too long, values that break lines, folders under files."""

import time

import pytest

from clustersim.cli import main
from small import small


def refused(capsys, *arguments):
    """Return the one line with which a command refuses its input."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, complaint = capsys.readouterr()

    assert end.value.code == 2
    assert out == ""
    assert complaint.count("\n") == 1
    return complaint


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

    assert "name too long" in refused(capsys, verb, "x" * 300, *rest)


@pytest.mark.parametrize("option", ["--out", "--store"])
def test_a_target_that_no_file_system_takes_is_refused_in_one_line(
    option, tmp_path, capsys, monkeypatch
):
    """An --out or --store whose name is too long is refused before anything is written."""
    file = str(small(tmp_path))
    monkeypatch.chdir(tmp_path)
    there = sorted(tmp_path.iterdir())

    assert "name too long" in refused(
        capsys, "sweep", file, "--over", "plan.zero=0", option, "x" * 300
    )
    assert sorted(tmp_path.iterdir()) == there


def test_an_out_below_a_file_is_refused_before_anything_runs(tmp_path, capsys, monkeypatch):
    """An --out that cannot be made is told at once, not after an hour of runs."""
    file = str(small(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("mine")

    assert "notes is no folder" in refused(
        capsys, "sweep", file, "--over", "plan.zero=0", "--out", "notes/deep/er"
    )
    assert not (tmp_path / "runs").exists()


def test_a_value_with_a_line_break_is_refused_in_one_line(tmp_path, capsys):
    """A value of an axis that has a line break in it is told with what is wrong with it."""
    complaint = refused(capsys, "sweep", str(small(tmp_path)), "--over", "plan.tensor=1\n2")

    assert complaint.startswith("--over plan.tensor=1 2: plan.tensor: input should be a valid int")


def test_a_huge_degree_is_refused_at_once(tmp_path, capsys):
    """What divides a model is found by looking at the model, however large the degree is."""
    begin = time.perf_counter()
    complaint = refused(capsys, "run", str(small(tmp_path)), "--set", "plan.tensor=1000000000")

    assert "1000000000 does not divide" in complaint
    assert time.perf_counter() - begin < 10
