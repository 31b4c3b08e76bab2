"""The words that can follow a command line, and the table that they are read from."""

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from clustersim.catalog.finding import entry_names
from clustersim.cli import VERBS
from clustersim.completion.candidates import WORDS, candidates
from tools import completion


def texts(*words):
    """Return the candidates of some words, of which the last one is incomplete."""
    return [candidate.text for candidate in candidates(words)]


def test_the_words_are_those_of_the_verbs_and_schemas():
    """An option or a key that is added is completed: write `python -m tools.completion`."""
    assert Path(WORDS).read_text(encoding="utf-8") == completion.table()


def test_every_verb_is_a_candidate_with_its_summary():
    """The verbs are those of the help, in its order."""
    assert [*map(tuple, candidates([""]))] == [*VERBS.items()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("s", ["serve", "scale", "sweep", "search", "size", "share", "study", "show", "schema"]),
        ("--ver", ["--version", "--verbose"]),
        ("run --js", ["--json"]),
        ("run --json --js", []),
        ("run --set plan.zero=1 --se", ["--set"]),
        ("run frontier-22", ["frontier-22b"]),
        ("run frontier-22b --fo", ["--force"]),
        ("show zb-", ["zb-h1", "zb-h2", "zb-v"]),
        ("run x --cluster dgx-h", ["dgx-h100", "dgx-h200"]),
        ("run x --cluster=dgx-h", ["--cluster=dgx-h100", "--cluster=dgx-h200"]),
        ("run --cluster dgx-h100 frontier-1t-", ["frontier-1t-run"]),
        ("run --set plan.te", ["plan.tensor="]),
        ("run --set plan.tensor=", []),
        ("run --set plan.zero=", ["plan.zero=0", "plan.zero=1", "plan.zero=2", "plan.zero=3"]),
        ("run --set cluster.name=frontier", ["cluster.name=frontier"]),
        ("run --set cluster.nic.ba", ["cluster.nic.bandwidth="]),
        ("run --set cluster.nod", ["cluster.node.", "cluster.node=", "cluster.nodes="]),
        ("run --set recompu", ["recompute.", "recompute="]),
        ("run --set=plan.pipe", ["--set=plan.pipeline="]),
        ("run --set collectives.all-to-all=pair", ["collectives.all-to-all=pairwise"]),
        ("sweep x --over fold=true,", ["fold=true,false"]),
        ("run x --figures png,", ["png,svg", "png,pdf"]),
        ("search x --limit ttft_p9", ["ttft_p90=", "ttft_p95=", "ttft_p99="]),
        ("scale frontier-22b frontier-1t frontier-17", ["frontier-175b"]),
        ("schema relia", ["reliability"]),
        ("collective --op all-", ["all-reduce", "all-gather", "all-to-all"]),
        ("list clusters frontier ", ["--json", "-h", "--help"]),
        ("run --nodes ", []),
        ("run -- --js", []),
        ("nosuch ", []),
        ("nosuch --", []),
    ],
)
def test_what_follows(words, expected, here):
    """Verbs, options that are left, names of the catalogue, keys and closed values."""
    assert texts(*words.split(" ")) == expected


def test_an_argument_is_a_name_or_a_file_of_the_working_folder(here):
    """Folders and YAML files of the folder, hidden ones only where a dot is typed."""
    for name in ("lab.yaml", "lab.txt", ".lab.yaml", "jobs/one.yaml"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).touch()

    assert texts("search", "") == [*entry_names("scenario"), "jobs/", "lab.yaml"]
    assert texts("search", "jobs/") == ["jobs/one.yaml"]
    assert texts("search", "./.l") == ["./.lab.yaml"]
    assert texts("search", "no/such/") == []
    assert texts("show", "lab") == ["lab.yaml", "lab.txt"]


def test_the_home_folder_may_be_short(here, monkeypatch):
    """`~/` is listed, and stays as it is typed."""
    monkeypatch.setenv("HOME", str(here))
    (here / "mine.yaml").touch()

    assert texts("run", "~/m") == ["~/mine.yaml"]


def test_a_key_is_the_prefix_of_no_word_of_its_kind():
    """No candidate has a space, a tab or a line break, which would be two words."""
    keys = texts("run", "--set", "")
    below = [text for key in keys for text in texts("run", "--set", key)]

    assert len(below) > 50
    assert [text for text in (*keys, *below) if re.search(r"\s", text)] == []


IMPORTED = """
import sys
sys.argv[1:] = ["__complete", "zsh", "run", "--set", "cluster.name=dgx-h1"]
from clustersim.__main__ import main
main()
print(*sorted({"typer", "pydantic", "ruamel", "rich", "clustersim.cli"} & sys.modules.keys()))
"""


def test_a_completion_took_as_long_as_a_verb():
    """Candidates are printed without an import of the verbs, within 0.2 s of processor time."""
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", IMPORTED]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert text == "cluster.name=dgx-h100\n\n"
    assert min(taken) < 0.2


@pytest.mark.parametrize(("verb", "name"), [("run", "--new-option"), ("scale", "--seeds")])
def test_an_option_without_values_stops_the_tool(verb, name):
    """Whoever adds an option states what it takes."""
    with pytest.raises(SystemExit, match=f"add what {name} of {verb} takes to TAKEN"):
        completion._taken(verb, name)
