"""One change as a text, and other input that was misread."""

import pytest

from clustersim.errors import ScenarioError
from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate
from commands import rejected


def test_one_change_as_a_text_was_read_letter_by_letter():
    """It is one change, as a list of one would be."""
    assert load("frontier-22b", "batch.global=32").scenario.batch.global_ == 32
    with pytest.raises(ScenarioError, match="--set plan: is not of the form key=value"):
        load("frontier-22b", "plan")


def test_a_limit_of_memory_without_a_unit_was_a_number_of_bytes(capsys):
    """70 is neither bytes nor GiB; the name with the unit takes plain numbers."""
    limits = ("sweep", "frontier-22b", "--over", "plan.tensor=1", "--limit")
    assert "'70' has no unit" in rejected(capsys, *limits, "memory=70")
    expect = {"expect": {"memory_peak_bytes": "< 70e9", "memory": "< 70 GiB"}}
    with pytest.raises(ScenarioError, match="'70' has no unit"):
        simulate("frontier-22b", {"expect": {"memory": "< 70"}})

    assert len(simulate("frontier-22b", {"batch.global": 16, **expect}).answer.expectations) == 2


def test_a_tab_is_named(tmp_path, capsys):
    """YAML indents with spaces."""
    (tmp_path / "tab.yaml").write_text("title: a\ncluster:\n\tname: x\n")
    told = rejected(capsys, "run", tmp_path / "tab.yaml")

    assert "tab.yaml:3" in told
    assert "a tab begins the line: indent with spaces" in told


def test_a_model_is_no_scenario_of_a_name_that_is_near(capsys):
    """The verb that writes a scenario with it is named."""
    assert "clustersim new --model llama3-8b" in rejected(capsys, "run", "llama3-8b")


def test_a_share_of_tokens_was_just_below_zero():
    """Shares that add up to one by rounding drop no token."""
    histogram = [1.5, 1.3, 1.1, 1.0, 0.9, 1, 0.7, 0.7]
    result = simulate("mixtral-ep-imbalance", {"experts.histogram": histogram})

    assert result.answer.experts.dropped == 0
