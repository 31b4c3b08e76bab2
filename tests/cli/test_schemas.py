"""`clustersim schema VERB` describes each key that `clustersim VERB --json` prints, of any kind."""

import json
import re

import pytest

from clustersim.cli.schemas import ANSWERS, SCHEMAS
from clustersim.scenario.load import load_any
from commands import output
from descriptions import described, undescribed_keys

SHIPPED = [
    ("run", "frontier-22b"),
    ("run", "gpt-175b-a100-fastertransformer"),
    ("serve", "gpt-175b-a100-fastertransformer"),
]

STEP, RUN = "frontier-22b batch.global=16", "megatron-1t-84-days training.replications=20"
SERVICE = "llama3-70b-h100-serving load.concurrency=4 load.requests=8"
SCENARIOS = {"step": STEP, "training run": RUN, "service": SERVICE}
CHANGES = {
    "step": "recompute=none", "training run": "training.checkpoint.every=4h",
    "service": "precision=bf16",
}  # fmt: skip
WRONG = {"step": "plan.data=4", "training run": "plan.data=7", "service": "plan.tensor=3"}
"""Layouts that are not allowed."""


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_a_schema_has_no_words_of_python(kind):
    """Facts of catalogue files were defined as Fact_Annotated_float__FieldInfo_annotation_..."""
    text = json.dumps(SCHEMAS[kind]())

    assert not re.search(r"None\b|NoneType|FieldInfo|Annotated|Union", text)
    references = {each.rpartition("/")[2] for each in re.findall(r'"#/\$defs/([^"]*)"', text)}
    assert references <= {*SCHEMAS[kind]().get("$defs", {})}


def check(capsys, verb, *arguments):
    """Check that all keys that a verb prints are in its schema."""
    out = output(capsys, verb, *arguments, "--json")

    assert undescribed_keys(json.loads(out), verb) == []


@pytest.mark.parametrize(("verb", "name"), SHIPPED)
def test_the_answer_of_a_shipped_scenario_is_described(capsys, verb, name):
    """`run` of any kind, and the verb of each kind; tests of each kind have all its scenarios."""
    check(capsys, verb, name)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A run cache that the studies share."""
    return tmp_path_factory.mktemp("schemas") / "studies.db"


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("verb", ["compare", "whatif", "sweep", "scale"])
def test_the_answer_of_a_study_is_described(capsys, store, kind, verb):
    """Of a step, a training run and a service: results, invalid and unfit ones, and limits."""
    scenario, change = SCENARIOS[kind], CHANGES[kind]
    name, *settings = scenario.split()
    set_all = [f"--set={setting}" for setting in settings]
    own = load_any(name, settings).scenario.devices
    key, _, value = WRONG[kind].partition("=")
    sweep = [name, *set_all, f"--over={key}={value},1", f"--over={change}", "--limit=devices=9999"]
    arguments = {
        "compare": [scenario, f"{scenario} {change}"],
        "whatif": [scenario, f"--set={change}", f"--set={WRONG[kind]}"],
        "sweep": sweep,
        "scale": [name, *set_all, f"--strong={own},{2 * own}", "--against", str(own)],
    }[verb]

    check(capsys, verb, *arguments, "--jobs=1", f"--store={store}")


@pytest.mark.parametrize("kind", ["step", "service"])
def test_the_answer_of_a_search_is_described(capsys, store, kind):
    """Of layouts of training and of services, with limits that some of them miss."""
    name, *settings = SCENARIOS[kind].split()
    layout = [
        "plan.tensor=8",
        "batch.micro=1",
        "recompute=none",
        "plan.schedule=1f1b",
        "plan.zero=1",
    ]
    fixed = {"step": layout, "service": []}[kind]
    limit = {"step": "memory=50GiB", "service": "tpot=9ms"}[kind]
    set_all = [f"--set={setting}" for setting in (*settings, *fixed)]

    check(capsys, "search", name, *set_all, f"--limit={limit}", "--jobs=1", f"--store={store}")


def test_compared_schedules_are_described(capsys):
    """`show` of several schedules."""
    check(capsys, "show", "1f1b", "dualpipe")


@pytest.mark.parametrize("verb", ANSWERS)
def test_every_key_of_a_schema_has_a_meaning(verb):
    """No key of an answer is without a description, at any level."""
    whole = described(verb)
    tables = [whole, *whole.get("$defs", {}).values()]

    assert [
        f"{table.get('title')}.{key}"
        for table in tables
        for key, entry in table.get("properties", {}).items()
        if "description" not in entry
    ] == []
