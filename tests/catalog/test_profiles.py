"""Framework files that extend others: what wins, where it is from, and what is rejected."""

import pytest

from boxes import DATA
from clustersim.catalog import finding
from clustersim.catalog.facts import sourced
from clustersim.errors import ClustersimError
from clustersim.scenario.entries import entry, entry_of_file
from clustersim.scenario.load import from_mapping, load
from wrong_values import wrong_values

DATA = {**DATA, "cluster": {"name": "dgx-h100", "nodes": 1}, "model": "gpt3-2.7b"}

OURS = """\
kind: framework
name: ours
extends: megatron-core
dispatch: {value: 10 us, source: profile}
kernels:
  attention: {value: unfused, assumed: a test}
sources:
  profile: {title: our profile}
"""


@pytest.fixture
def folder(here):
    """A working folder with a framework of one's own, and a scenario that runs it."""
    (here / "ours.yaml").write_text(OURS, encoding="utf-8")
    return here


def complaint(file):
    """Return the message about a file that is wrong."""
    with pytest.raises(ClustersimError) as caught:
        entry_of_file(file)
    return str(caught.value)


def test_a_file_that_extends_another_differs_in_what_it_says(folder):
    """Its own values win, one by one; all others and their sources are those of the other."""
    ours, base = entry_of_file(folder / "ours.yaml").record, entry("framework", "megatron-core")

    assert (ours.name, ours.title, ours.extends) == ("ours", None, "megatron-core")
    assert (ours.dispatch, sourced(ours, "dispatch").source) == (pytest.approx(10e-6), "profile")
    assert ours.kernels.attention == "unfused"
    changed = {"attention": sourced(ours.kernels, "attention")}
    assert ours.kernels == base.record.kernels.model_copy(update=changed)
    assert ours.state == base.record.state
    assert {*ours.sources} == {*base.record.sources, "profile"}


def test_a_scenario_runs_a_file_that_extends_another(folder):
    """A scenario finds the file next to it, and what it extends among the shipped ones."""
    given = {**DATA, "framework": "ours"}
    lines = [f"{key}: {value}".replace("'", "") for key, value in given.items()]
    (folder / "case.yaml").write_text("\n".join(lines), encoding="utf-8")
    loaded = load("case.yaml", ["framework.dispatch=x2"])

    assert loaded.scenario.framework.dispatch == pytest.approx(20e-6)
    assert str(loaded.place("framework", "kernels", "attention")) == "ours.yaml:6"
    assert "megatron-core.yaml" in str(loaded.place("framework", "optimiser", "held"))


def test_files_extend_files_that_extend(folder):
    """What is extended may extend another one in turn."""
    text = OURS.replace("name: ours", "name: own").replace(
        "extends: megatron-core", "extends: ours"
    )
    (folder / "own.yaml").write_text(text.replace("10 us", "5 us"), encoding="utf-8")
    own = entry_of_file(folder / "own.yaml").record

    assert (own.name, own.extends, own.dispatch) == ("own", "ours", pytest.approx(5e-6))
    assert own.kernels.attention == "unfused"
    assert own.runtime_memory == entry("framework", "megatron-core").record.runtime_memory


def test_a_file_may_extend_the_shipped_one_of_its_name(folder):
    """A file next to the scenario that extends its own name changes the shipped one."""
    text = OURS.replace("name: ours", "name: megatron-core")
    (folder / "megatron-core.yaml").write_text(text, encoding="utf-8")
    changed = entry_of_file(folder / "megatron-core.yaml").record

    assert changed.dispatch == pytest.approx(10e-6)
    assert changed.optimiser == entry("framework", "megatron-core").record.optimiser


@pytest.mark.parametrize(("old", "new", "problem"), wrong_values("profiles that extend another"))
def test_what_is_wrong_with_an_extension_is_named(folder, old, new, problem):
    """Each complaint names the file and the line of the extension, not those of the other."""
    assert old in OURS
    (folder / "ours.yaml").write_text(OURS.replace(old, new), encoding="utf-8")

    known = ", ".join(finding.entry_names("framework"))
    assert complaint(folder / "ours.yaml") == problem.replace("...", known)


def test_files_cannot_extend_each_other(folder):
    """A chain that leads back to a file of its own is rejected with its files."""
    (folder / "ours.yaml").write_text(OURS.replace("megatron-core", "own"), encoding="utf-8")
    text = OURS.replace("name: ours", "name: own").replace("megatron-core", "ours")
    (folder / "own.yaml").write_text(text, encoding="utf-8")

    assert complaint(folder / "ours.yaml") == (
        "own.yaml:3: extends: leads back to its own file"
        " (ours.yaml extends own.yaml extends ours.yaml)"
    )


def test_other_kinds_of_files_extend_nothing(folder):
    """Files of other kinds have no key `extends`."""
    text = (finding.shipped("model") / "gpt-22b.yaml").read_text(encoding="utf-8")
    (folder / "model.yaml").write_text(text + "extends: gpt-175b\n", encoding="utf-8")

    assert "extends: unknown key" in complaint(folder / "model.yaml")


@pytest.mark.parametrize(
    ("framework", "settings_", "where"),
    [
        ({"name": "megatron-core", "extends": "nanotron"}, [], "test: framework.extends"),
        ({"kind": "framework", "extends": "nanotron"}, [], "test: framework.extends"),
        (
            "megatron-core-graphs",
            ["framework.extends=nanotron"],
            "--set framework.extends=nanotron: framework.extends",
        ),
    ],
)
def test_a_scenario_extends_nothing_itself(framework, settings_, where):
    """Keys of a framework in a scenario change its values; `extends` is rejected there."""
    with pytest.raises(ClustersimError) as caught:
        from_mapping("test", {**DATA, "framework": framework}, settings_)
    assert str(caught.value) == (
        f"{where}: only a framework file extends another one"
        " (name the framework here, and add the keys that differ)"
    )
