"""The key of a run: the same for the same content, another one for any other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.finding import shipped
from clustersim.runs import cache_key as content
from clustersim.runs.cache_key import key_of
from clustersim.scenario.load import load
from small import SCENARIO, small


def key(file, *changes):
    return key_of(load(file, changes))


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (SCENARIO.replace("title", "# a remark\n\ntitle"), []),
        (
            SCENARIO.replace(
                "{tensor: 2, pipeline: 2, data: 2}", "{data: 2, pipeline: 2, tensor: 2}"
            ),
            [],
        ),
        (SCENARIO.replace("model: gpt3-1.3b", "model: {name: gpt3-1.3b}"), []),
        (SCENARIO.replace("tensor: 2", "tensor: 8"), ["plan.tensor=2"]),
        (SCENARIO.replace("gpt3-1.3b", "gpt3-13b"), ["model=gpt3-1.3b"]),
        (SCENARIO + "fold: true\n", []),
    ],
    ids=["remarks", "order", "spelled out", "set", "set by name", "a default"],
)
def test_two_spellings_of_one_content_have_one_key(tmp_path, text, changes):
    """The key does not depend on where and how a value is written."""
    other = tmp_path / "other.yaml"
    other.write_text(text, encoding="utf-8")

    assert key(other, *changes) == key(small(tmp_path))


NUMBERS = {
    "plan.tensor": st.integers(1, 64),
    "plan.zero": st.integers(0, 3),
    "batch.global": st.integers(1, 4096),
    "batch.sequence": st.integers(1, 2**17),
    "fusion_bound": st.floats(0.001, 0.9),
    "model.layers": st.integers(1, 200),
    "cluster.nodes": st.integers(1, 500),
    "cluster.nic.bandwidth": st.integers(1, 400).map("{} GB/s".format),
    "cluster.node.accelerator.launch_overhead": st.integers(1, 50).map("{} us".format),
}


@given(
    st.sampled_from(sorted(NUMBERS)).flatmap(
        lambda k: st.tuples(st.just(k), NUMBERS[k], NUMBERS[k])
    )
)
@settings(max_examples=20, deadline=None)
def test_any_other_number_has_another_key(tmp_path_factory, setting):
    """A key is that of one value alone, in the scenario, its machine and its model."""
    file = small(tmp_path_factory.getbasetemp())
    name, one, other = setting
    keys = [key(file, f"{name}={value}") for value in (one, other)]

    assert (keys[0] == keys[1]) == (one == other)


def test_other_code_has_another_key(tmp_path, monkeypatch):
    """Other versions of clustersim have other keys."""
    file = small(tmp_path)
    before = key(file)
    monkeypatch.setattr(content, "code", lambda: "0.0.0+of another day")

    assert key(file) != before


CODE = [("engine", True), ("render", False), ("studies", False), ("cli", False)]


@pytest.mark.parametrize(("folder", "counts"), CODE)
def test_a_new_look_of_a_page_leaves_runs_valid(tmp_path, monkeypatch, folder, counts):
    """Only code that predicts is part of the key."""
    file = tmp_path / folder / "page.py"
    file.parent.mkdir()
    monkeypatch.setattr(content, "_PACKAGE", tmp_path)
    digests = []
    for text in ("before = 1", "after = 2"):
        file.write_text(text, encoding="utf-8")
        digests.append(content.code.__wrapped__())

    assert (digests[0] != digests[1]) == counts


def test_steps_of_a_file_are_content(tmp_path):
    """The steps of a schedule file are part of the key, not its name."""
    file = tmp_path / "written.yaml"
    file.write_text(SCENARIO.replace("data: 2", "data: 2, schedule: mine.txt"), encoding="utf-8")
    keys = []
    for steps in ("F0 B0", "B0 F0"):
        (tmp_path / "mine.txt").write_text(steps, encoding="utf-8")
        keys.append(key(file))

    assert keys[0] != keys[1]


def test_a_changed_run_has_not_the_key_of_the_published_one(tmp_path):
    """A file with the values of a changed run has its numbers compared, the changed run has not."""
    text = (shipped("scenario") / "frontier-22b.yaml").read_text()
    (tmp_path / "same.yaml").write_text(text.replace("zero: 1", "zero: 0"))
    changed, same = load("frontier-22b", ["plan.zero=0"]), load(tmp_path / "same.yaml")

    assert changed.scenario.plan == same.scenario.plan
    assert key_of(changed) != key_of(same)
