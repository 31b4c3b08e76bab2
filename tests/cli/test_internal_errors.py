"""Faults of clustersim and interrupts: a message to report, never a bare traceback."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from clustersim import __main__
from clustersim.runs.execution import run_study
from clustersim.runs.store import Study
from clustersim.runs.variants import FAILED, INVALID, RAN, Variant
from commands import ending
from small import small


@pytest.fixture
def fault(monkeypatch):
    """A verb `run` with a fault."""

    def broken(*_, **__):
        raise KeyError("a fault\nof clustersim")

    monkeypatch.setattr(import_module("clustersim.simulation.step.simulate"), "build_job", broken)


def test_a_fault_is_reported_with_versions_and_the_command(fault, tmp_path, capsys):
    """An unexpected exception ends in exit code 1 and two lines: what to report, and how to
    repeat it.
    """
    code, _, text = ending(capsys, "run", str(small(tmp_path)), "--set", "plan.zero=0")
    first, second = text.splitlines()

    assert code == 1
    assert first.startswith("internal error: KeyError: ")
    assert "please report it with clustersim " in first
    assert ", Python 3." in first
    assert "-v shows the traceback" in first
    assert second == f"command: clustersim run {tmp_path}/small.yaml --set plan.zero=0"


@pytest.mark.parametrize("option", ["-v", "--verbose"])
@pytest.mark.parametrize("place", [0, 2])
def test_verbose_shows_the_traceback_of_a_fault(option, place, fault, tmp_path, capsys):
    """The option `-v` is accepted before the verb and behind it."""
    command = ["run", str(small(tmp_path))]
    command.insert(place, option)
    code, _, text = ending(capsys, *command)

    assert code == 1
    assert text.startswith("Traceback (most recent call last):")
    assert "internal error: KeyError" in text


def test_a_variable_of_the_environment_shows_the_traceback(fault, tmp_path, capsys, monkeypatch):
    """CLUSTERSIM_TRACEBACK does what `-v` does, also for scripts."""
    monkeypatch.setenv("CLUSTERSIM_TRACEBACK", "1")

    assert ending(capsys, "run", small(tmp_path))[2].startswith("Traceback")


def test_verbose_is_an_option_of_the_help(capsys):
    """`clustersim --help` lists the option."""
    assert "--verbose" in subprocess.run(
        [sys.executable, "-m", "clustersim", "--help"], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip


def test_a_sweep_counts_faults_apart_from_invalid_combinations(tmp_path, monkeypatch):
    """A fault while a scenario is loaded is one failed run; the others are run."""
    load = Variant.load_any

    def broken(variant, files=None):
        if "batch.micro=2" in variant.settings:
            raise KeyError("fault")
        return load(variant, files)

    monkeypatch.setattr(Variant, "load_any", broken)
    file = str(small(tmp_path))
    variants = [Variant(file, (f"batch.micro={n}",)) for n in (1, 2, 7)]
    runs = run_study(Study("a", "sweep", "a title"), variants, jobs=1)

    assert [run.verdict for run in runs] == [RAN, FAILED, INVALID]
    assert runs[1].why == "KeyError: 'fault'"


def test_an_interrupt_while_modules_are_imported_is_no_traceback(monkeypatch):
    """Ctrl-C in the first tenth of a second ends with the exit code of an interrupt."""

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("clustersim.cli"), "main", interrupted)
    with pytest.raises(SystemExit) as end:
        __main__.main()

    assert end.value.code == 130


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_not_enough_memory_is_one_line(fault, tmp_path, capsys, monkeypatch):
    """A lack of memory is no fault of clustersim."""

    def broken(*_, **__):
        raise MemoryError

    monkeypatch.setattr(import_module("clustersim.simulation.step.simulate"), "build_job", broken)

    message = "not enough memory on this computer for this command\n"
    assert ending(capsys, "run", small(tmp_path)) == (1, "", message)
