"""The command line answers at once, says what it can do, and ends as scripts expect."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clustersim import __version__
from clustersim.cli import VERBS
from clustersim.cli.schemas import SCHEMAS
from commands import ending, output

SLOW = {"matplotlib", "networkx", "numpy", "pandas", "pyarrow", "rich", "simpy"}
"""Libraries that take long to import; typer itself imports pydantic for the options of a verb."""

HELP = f"""
import sys
from clustersim.cli import VERBS, main
for words in ([], *([verb] for verb in VERBS)):
    try:
        main([*words, "--help"])
    except SystemExit as end:
        assert end.code == 0, end.code
    print("slow:", *words, sorted({sorted(SLOW)!r} & sys.modules.keys()))
"""


def test_help_of_a_verb_took_half_a_second():
    """`--help`, of a verb too, does not wait for numpy, matplotlib or their like."""
    text = subprocess.run(
        [sys.executable, "-c", HELP], capture_output=True, text=True, check=True
    ).stdout

    slow = [line for line in text.splitlines() if line.startswith("slow:")]
    assert slow == ["slow: []", *(f"slow: {verb} []" for verb in VERBS)]
    for verb, summary in VERBS.items():
        assert re.search(rf"\n  {verb} +{re.escape(summary)}\n", text)


OF_OTHERS = {
    "clustersim.cli", "clustersim.importers", "clustersim.render", "clustersim.reports",
    "clustersim.runs", "clustersim.simulation.service", "clustersim.studies",
    "clustersim.validation", "jinja2", "networkx", "numpy.ma", "pandas", "rich", "scipy",
}  # fmt: skip
"""What other verbs need, or other kinds of scenarios."""

STEP = f"""
import sys
from clustersim import simulate
from clustersim.answers import to_json
from clustersim.scenario.load import load_any
to_json(simulate(load_any("frontier-1t"), advise=True).answer)
print(sorted({sorted(OF_OTHERS)!r} & sys.modules.keys()))
"""


def test_a_step_imports_only_what_it_needs():
    """The first answer of a process waits for imports longer than for the step."""
    words = [sys.executable, "-c", STEP]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert text == "[]\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(capsys, verb):
    """A verb is imported by its name, and has a sentence about itself."""
    out = output(capsys, verb, "--help")

    assert re.match(rf"Usage: .* {verb} .*\n\n  [A-Z].*\.", out, re.DOTALL)


def test_version_is_the_distribution_s(capsys):
    """`--version` prints one line."""
    assert ending(capsys, "--version") == (0, f"clustersim {__version__}\n", "")


def test_show_prints_a_schedule_as_letters(capsys, here):
    """A row a stage in the order of the steps, its grid in time, and what there is to see."""
    shape = ("--stages", "2", "--microbatches", "3")
    out = output(capsys, "show", "1f1b", *shape, "--figures", "svg,pdf")

    assert out == (
        "# 1f1b: One forward, one backward: few microbatches in flight\n"
        "stage 0   F0 F1 B0 F2 B1 B2\n"
        "stage 1   F0 B0 F1 B1 F2 B2\n"
        "#\n"
        "# a slot for a forward and for each half of a backward:\n"
        "# 0 F0 F1 .  .  B0 B0 F2 B1 B1 .  B2 B2\n"
        "# 1 .  F0 B0 B0 F1 B1 B1 F2 B2 B2 .  .\n"
        "#\n"
        "# bubble 25 % of 12 slots, at most 2 microbatches in flight\n"
        "#\n"
        "# files in runs/show-1f1b/: summary.json, schedule.txt, schedule.svg, schedule.pdf\n"
    )
    assert {path.name for path in Path("runs/show-1f1b").iterdir()} == {
        "schedule.pdf", "schedule.svg", "schedule.txt", "summary.json",
    }  # fmt: skip


def test_show_prints_the_chunk_of_each_step(capsys, here):
    """Steps of the second chunk carry its number."""
    shape = ("--stages", "2", "--microbatches", "2", "--chunks", "2")

    _, out, _ = ending(capsys, "show", "interleaved-1f1b", *shape)

    assert out.splitlines()[1] == "stage 0   F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1"


def test_schema_is_one_json_object_for_editors(capsys):
    """The schema knows the keys of a scenario file."""
    _, out, _ = ending(capsys, "schema", "scenario")

    schema = json.loads(out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert {"title", "cluster", "model", "plan", "batch"} <= schema["properties"].keys()


@pytest.mark.large
def test_a_reader_who_goes_away_is_no_error():
    """`clustersim show ... | head -1` leaves nothing on standard error."""
    command = "import sys; from clustersim.cli import main; sys.argv[0] = 'clustersim'; main()"
    shape = ("--stages", "300", "--microbatches", "300")
    child = subprocess.Popen(
        [sys.executable, "-c", command, "show", "gpipe", *shape],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    with child.stderr:
        complaint = child.stderr.read()
    child.wait()

    assert complaint == b""


def test_dash_h_is_help(capsys):
    """The short option prints what the long one prints, of the command and of a verb."""
    for verb in ([], ["run"]):
        short, long = (ending(capsys, *verb, option) for option in ("-h", "--help"))

        assert short == long
        assert short[0] == 0


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schema_knows_every_kind_of_file_and_every_answer(capsys, kind):
    """Each schema is one JSON object, whose references are defined in it."""
    out = output(capsys, "schema", kind)
    schema = json.loads(out)

    assert set(re.findall(r'"#/\$defs/([^"]+)"', out)) <= schema.get("$defs", {}).keys()


def test_schema_lists_verbs_without_an_answer_of_their_own(capsys):
    """Every verb with `--json` has a schema, and the help names every kind of file."""
    help_text = " ".join(ending(capsys, "schema", "--help")[1].split())

    assert SCHEMAS.keys() >= VERBS.keys() - {"schema", "explore", "completion"}
    assert all(kind in help_text for kind in SCHEMAS.keys() - VERBS.keys())


def test_schema_of_a_cluster_takes_a_name_for_its_node_and_plain_values(capsys):
    """The schema is that of files as they are written, not of the resolved record."""
    schema = json.loads(ending(capsys, "schema", "cluster")[1])
    size = schema["$defs"][schema["properties"]["size"]["$ref"].rpartition("/")[2]]

    assert {"type": "string"} in schema["properties"]["node"]["anyOf"]
    assert "integer" in [choice.get("type") for choice in size["anyOf"]]
