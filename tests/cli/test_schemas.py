"""`clustersim schema VERB` describes each key that `clustersim VERB --json` prints, of any kind."""

import json
import re
from functools import cache

import pytest

from clustersim.catalog.finding import entry_names, find
from clustersim.cli.schemas import ANSWERS, SCHEMAS
from clustersim.scenario.load import LoadedService, load_any
from commands import output

ALL = sorted(entry_names("scenario"))
CHEAP = {"frontier-22b", "gpt-175b-a100-fastertransformer", "korthikanti-22b-full"}
"""Shipped scenarios whose answers are compared in every run of the tests."""

STEP, RUN = "frontier-22b batch.global=16", "megatron-1t-84-days training.replications=20"
SERVICE = "llama3-70b-h100-serving load.concurrency=4 load.requests=8"
SCENARIOS = {"step": STEP, "training run": RUN, "service": SERVICE}
CHANGES = {
    "step": "recompute=none", "training run": "training.checkpoint.every=4h",
    "service": "precision=bf16",
}  # fmt: skip
WRONG = {"step": "plan.data=4", "training run": "plan.data=7", "service": "plan.tensor=3"}
"""Layouts that are not allowed."""

TYPES = {
    dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null",
    int: "integer", float: "number",
}  # fmt: skip

described = cache(lambda verb: SCHEMAS[verb]())


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_a_schema_has_no_words_of_python(kind):
    """Facts of catalogue files were defined as Fact_Annotated_float__FieldInfo_annotation_..."""
    text = json.dumps(SCHEMAS[kind]())

    assert not re.search(r"None\b|NoneType|FieldInfo|Annotated|Union", text)
    references = {each.rpartition("/")[2] for each in re.findall(r'"#/\$defs/([^"]*)"', text)}
    assert references <= {*SCHEMAS[kind]().get("$defs", {})}


def undescribed(schema, data, whole, path="$"):
    """Return the keys of an object that its schema does not describe, and those that it lacks."""
    if "$ref" in schema:
        return undescribed(whole["$defs"][schema["$ref"].rpartition("/")[2]], data, whole, path)
    if "anyOf" in schema:
        results = (undescribed(each, data, whole, path) for each in schema["anyOf"])
        return min(results, key=len)
    allowed = schema.get("type", TYPES.get(type(data)))
    kinds = {"integer", "number"} if type(data) is int else {TYPES[type(data)]}
    if kinds.isdisjoint([allowed] if isinstance(allowed, str) else allowed):
        return [f"{path}: is no {allowed}"] * 1000  # another branch of anyOf is
    problems = []
    if isinstance(data, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", False)
        if known and "description" not in (rest or {}):
            rest = False
        problems += [f"{path}.{key}: missing" for key in {*schema.get("required", ())} - {*data}]
        for key, value in data.items():
            inner = known.get(key, rest)
            if not inner or (key in known and "description" not in inner):
                problems.append(f"{path}.{key}: not described")
            elif inner is not True:
                problems += undescribed(inner, value, whole, f"{path}.{key}")
    for i, item in enumerate(data if isinstance(data, list) else ()):
        inner = schema["prefixItems"][i] if "prefixItems" in schema else schema.get("items", {})
        problems += undescribed(inner, item, whole, f"{path}[{i}]")
    return problems


def check(capsys, verb, *arguments):
    """Check that all keys that a verb prints are in its schema."""
    out = output(capsys, verb, *arguments, "--json")

    assert undescribed(described(verb), json.loads(out), described(verb)) == []


@pytest.mark.parametrize(
    "name", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.large) for name in ALL]
)
def test_the_answer_of_a_shipped_scenario_is_described(capsys, name):
    """`run` of any kind, and the verb of each kind, print what schemas describe."""
    loaded = None if "jobs" in find("scenario", name).data else load_any(name)
    verbs = ["run"]
    if loaded is None:
        verbs.append("share")
    elif isinstance(loaded, LoadedService):
        verbs.append("serve")
    elif loaded.scenario.training is not None:
        verbs.append("train")
    for verb in verbs:
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
