"""Values that earlier processes have checked: equal to new ones, and none that is of no use."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from clustersim.catalog import disk_cache
from clustersim.catalog.disk_cache import MOST_ENTRIES, MOST_WRITTEN, find, keep, kept
from clustersim.scenario.load import load_any
from clustersim.simulation.step.simulate import simulate

NAMES = ("frontier-1t", "llama3-70b-h100-serving", "llama3-405b-54-days")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a new process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_WRITTEN", set())
    disk_cache._folder.cache_clear()
    yield tmp_path / "clustersim"
    disk_cache._folder.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_records_are_equal_with_their_sources(folder, name):
    """Values, facts and dumps of the records of a scenario, and the place of each value."""
    loaded = load_any(name)
    records = {key: getattr(loaded.scenario, key) for key in ("cluster", "model")}
    for key, record in records.items():
        keep(record, key)
    keep(loaded.origin.document, "document")

    for key, record in records.items():
        read = find(key)
        assert (read, type(read)) == (record, type(record))
        assert read.model_dump(mode="json") == record.model_dump(mode="json")
        assert read._sourced == record._sourced
    assert find("document") == loaded.origin.document


def test_a_process_reads_no_file_twice(folder, here):
    """The second one parses and validates none; a changed file is another one, with its errors."""
    command = (
        "import json, sys; from clustersim.scenario.load import load_any\n"
        "found = load_any(sys.argv[1]).scenario\n"
        "has_validator = type(found).__pydantic_complete__\n"
        "parsed = 'ruamel.yaml' in sys.modules\n"
        "print(json.dumps([found.model_dump_json(), [parsed, has_validator]]))\n"
    )

    def loaded():
        words = [sys.executable, "-c", command, "own.yaml"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr.splitlines()[-1]

    text = "\n".join(f"{key}: {value}" for key, value in OWN.items())
    (here / "own.yaml").write_text(text, encoding="utf-8")
    first, again = loaded(), loaded()
    assert first[0] == again[0]
    assert (first[1], again[1]) == ([True, True], [False, False])
    (here / "own.yaml").write_text(f"{text}\nfold: maybe\n", encoding="utf-8")
    assert "own.yaml:8: fold: must be true or false, not 'maybe'" in loaded()


OWN = {
    "title": "a job",
    "cluster": "{name: frontier, nodes: 1}",
    "model": "gpt-22b",
    "framework": "megatron-deepspeed",
    "precision": "fp16",
    "plan": "{tensor: 8}",
    "batch": "{global: 8, micro: 1, sequence: 2048}",
}


def test_an_entry_that_cannot_be_used_is_none(folder):
    """One that is cut off, of other bytes, or of a class that is gone."""
    keep(("a", 1), "content")
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    for wrong in (b"", whole[:10], whole[:-1], whole[:20] + b"x" + whole[21:]):
        entry.write_bytes(wrong)
        assert find("content") is None
    gone = b"cclustersim.gone\nGone\n."
    entry.write_bytes(disk_cache._digest(gone) + gone)
    assert find("content") is None
    assert kept(lambda: ("a", 2), "content") == ("a", 2) == find("content")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no modes")
def test_a_folder_that_others_may_write_to_is_not_used(folder):
    """They could write an entry that runs code."""
    keep("value", "content")
    folder.chmod(0o777)
    disk_cache._folder.cache_clear()

    assert find("content") is None
    assert kept(lambda: "new", "content") == "new"


def test_no_folder_is_no_problem(monkeypatch):
    """Where none can be made, and without a home."""
    disk_cache._folder.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert kept(lambda: 1, "content") == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError))
    assert kept(lambda: 2, "content") == 2


def test_other_code_has_other_entries(folder, monkeypatch):
    """A module that is changed or another version of the library checks a file again."""
    keep("value", "content")
    monkeypatch.setattr(disk_cache, "_code", lambda: b"other")

    assert find("content") is None


def test_entries_are_bounded(folder, monkeypatch):
    """Those of a process, and those of the folder, where the oldest are deleted."""
    for number in range(2 * MOST_WRITTEN):
        keep(number, number)
    assert len([*folder.iterdir()]) == MOST_WRITTEN
    for number in range(MOST_ENTRIES):
        (folder / f"old{number}").touch()
        os.utime(folder / f"old{number}", (number, number))
    monkeypatch.setattr(disk_cache, "_WRITTEN", set())
    keep("value", "content")
    assert len([*folder.iterdir()]) <= MOST_ENTRIES
    assert (find("content"), find(0)) == ("value", 0)


def test_an_answer_is_that_of_new_records(folder):
    """A step with records that are read is the same to the bit."""
    loaded = load_any("frontier-22b")
    keep(loaded.scenario, "scenario")

    read = replace(loaded, scenario=find("scenario"))
    assert simulate(read).step_time == simulate(loaded).step_time
