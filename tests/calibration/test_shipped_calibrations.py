"""Shipped accelerators name the fit that made or checked their coefficients."""

import shlex

import pytest
from typer.main import get_command

from clustersim.calibration.runs.coefficients import accelerator_coefficients, fact_at
from clustersim.catalog.checking import checked
from clustersim.catalog.finding import entry_names, find
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.tree import Tree
from clustersim.cli import app
from clustersim.validation.case_runs import select_groups
from commands import output
from measured_runs import shipped_cases


def record(name):
    return checked(AcceleratorRecord, Tree.of(find("accelerator", name)))


CHECKED = {
    name: found for name in entry_names("accelerator") if (found := record(name)).calibration
}


def options_of(command):
    """Return the options of a command that a file states, read as the command line reads them."""
    program, verb, *arguments = shlex.split(command)
    command = get_command(app).get_command(None, verb)
    with command.make_context(verb, arguments) as context:
        return program, verb, context.params


def test_accelerators_with_many_runs_say_what_they_were_held_to():
    """Those that most of the measured runs are of have a documented fit."""
    assert CHECKED.keys() >= {"a100-80gb", "h100-sxm"}


@pytest.mark.parametrize("name", CHECKED)
def test_the_stated_command_can_be_run(name):
    """It is a calibration of this very chip, to groups that there are."""
    program, verb, options = options_of(CHECKED[name].calibration.command)

    assert (program, verb) == ("clustersim", "calibrate")
    assert options["accelerator"] == name
    assert options["group"]
    for group in options["group"]:
        assert select_groups(shipped_cases(), [group])


@pytest.mark.parametrize("name", CHECKED)
def test_what_is_held_out_are_the_groups_that_were_fitted(name):
    """Each group is graded by a fit that did not see it, and nothing else is."""
    fit = CHECKED[name].calibration
    chosen = select_groups(shipped_cases(), options_of(fit.command)[2]["group"])

    assert fit.held_out.keys() <= {entry.group for entry in chosen}
    assert fit.rows <= len(chosen)


@pytest.mark.parametrize("name", CHECKED)
def test_values_are_those_of_the_fit_or_say_why_they_are_not(name):
    """A file that gives no reason has the values that its command found, to four digits."""
    chip = CHECKED[name]
    assert chip.calibration.found.keys() <= {
        c.path for c in accelerator_coefficients(chip, alone=False)
    }
    if chip.calibration.kept is None:
        for path, found in chip.calibration.found.items():
            assert fact_at(chip, path).value == pytest.approx(found.value, rel=1e-3), path


@pytest.mark.parametrize("name", CHECKED)
def test_show_tells_of_the_fit(name, capsys):
    """`clustersim show` prints the command, and why its values are not taken."""
    out = output(capsys, "show", name)
    shown = " ".join(out.split())

    assert " ".join(CHECKED[name].calibration.command.split()) in shown
