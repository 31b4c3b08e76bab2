"""A version does not break what the last release promised."""

import tomllib
from pathlib import Path

import pytest

from tools.interfaces import (
    PYTHON,
    REQUIRED,
    broken,
    forms_of,
    interface,
    latest,
    read,
    text_of,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def now():
    """The interface of this version."""
    return interface()


def test_nothing_of_the_last_release_is_broken(now):
    """A key that is gone needs a new minor version, before 1.0, and a file of its interface."""
    assert broken(read(latest().read_text(encoding="utf-8")), now) == []


def test_the_last_release_is_this_version_or_an_earlier_one():
    """The version names the release that its interface is compared with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    released = latest().stem

    assert project["version"].split(".")[:2] == released.split(".")[:2]
    assert f"## {released} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_an_interface_is_its_text(now):
    """Nothing is lost on the way to the file and back."""
    assert read(text_of(now)) == now


def test_a_removed_key_is_named(now):
    """Of an answer, of a file, and a function."""
    later = {kind: dict(paths) for kind, paths in now.items()}
    del later["run"]["memory.fits"], later["scenario"]["plan.tensor"], later[PYTHON]["simulate"]

    assert broken(now, later) == [
        "scenario: plan.tensor: is gone",
        "run: memory.fits: is gone",
        "python: simulate: is gone",
    ]


BEFORE = {"scenario": {"": {"object"}, "plan": {"object"}}, "run": {"mfu": {"number", REQUIRED}}}


@pytest.mark.parametrize(
    ("kind", "path", "forms", "problems"),
    [
        ("scenario", "plan.new", {"integer"}, []),
        ("scenario", "plan", {"object", "string"}, []),
        ("scenario", "plan.new", {"integer", REQUIRED}, ["scenario: plan.new: is required now"]),
        ("scenario", "plan", {"string"}, ["scenario: plan: object is not taken any more"]),
        ("run", "hfu", {"number"}, []),
        ("run", "mfu", {"number", "null", REQUIRED}, ["run: mfu: may be null now"]),
        ("run", "mfu", {"number"}, ["run: mfu: may be missing now"]),
    ],
)
def test_files_may_take_more_and_answers_may_have_more(kind, path, forms, problems):
    """What a reader or a file of before relies on stays."""
    before = {each: {key: frozenset(of) for key, of in of.items()} for each, of in BEFORE.items()}
    later = {each: dict(of) for each, of in before.items()}
    later[kind][path] = frozenset(forms)

    assert broken(before, later) == problems


def test_an_argument_that_moves_is_named():
    """Its place is part of what is promised, as far as it is given by place."""
    before = {PYTHON: {"run.a": frozenset({"position 0"}), "run.b": frozenset({"keyword"})}}
    later = {PYTHON: {"run.a": frozenset({"position 1"}), "run.b": frozenset({"keyword"})}}

    assert broken(before, later) == ["python: run.a: position 0 is not taken any more"]


def test_a_record_inside_itself_is_opened_once():
    """A recursive schema has a finite interface."""
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}

    assert set(forms_of({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}})) == {"", "left"}
