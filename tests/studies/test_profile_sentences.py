"""`clustersim show FRAMEWORK` in words: complete, with values and proof in each sentence."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog import finding
from clustersim.catalog.facts import facts
from clustersim.catalog.frameworks import (
    ExpertFacts,
    FrameworkRecord,
    GradientFacts,
    GraphFacts,
    KernelFacts,
    MemoryFacts,
    OptimiserFacts,
    PipelineFacts,
    ReplayFacts,
    ShardingFacts,
    StateBytes,
)
from clustersim.cli import main
from clustersim.reports.show.profile import DEFAULTS, MISSING, REST, describe_profile
from clustersim.reports.show.rules import (
    as_list,
)
from clustersim.reports.show.text import paragraphs
from clustersim.scenario.entries import entry
from clustersim.units import counted

GOLDEN = Path(__file__).parents[1] / "golden"
FRAMEWORKS = finding.entry_names("framework")
MODEST = settings(max_examples=20, deadline=None)
TABLES = {
    "pipeline": PipelineFacts,
    "kernels": KernelFacts,
    "gradients": GradientFacts,
    "optimiser": OptimiserFacts,
    "sharding": ShardingFacts,
    "experts": ExpertFacts,
    "graphs": GraphFacts,
    "memory": MemoryFacts,
}


def words(name):
    """Return the sentences about a shipped framework."""
    return describe_profile(entry("framework", name).data)


def keys(record):
    """Return all keys that a framework file may have, those of tables dotted."""
    for name in FrameworkRecord.model_fields:
        if name == "state":
            for precision in record.state:
                yield from (f"state.{precision}.{part}" for part in StateBytes.model_fields)
        elif name == "memory" and record.memory is not None and record.memory.replay is not None:
            yield from (f"memory.{key}" for key in MemoryFacts.model_fields if key != "replay")
            yield from (f"memory.replay.{key}" for key in ReplayFacts.model_fields)
        elif name in TABLES:
            yield from (f"{name}.{key}" for key in TABLES[name].model_fields)
        elif name not in ("kind", "name", "title", "sources", "launch"):
            yield name


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_key_is_described_or_listed(name):
    """No key of the schema is skipped, except those of tables that a file does not have."""
    record = entry("framework", name).record
    described = {key for each in words(name) for key in each.keys}
    absent = {key for key in (*TABLES, "extends") if getattr(record, key) is None}
    optional = {
        f"state.{name}.{part}"
        for name, each in record.state.items()
        for part in ("master", "accumulation", "reduced", "collective", "saved", "renewed", "step")
        if getattr(each, part) is None
    }

    for key in keys(record):
        assert key in described or key.partition(".")[0] in absent or key in optional, key
    assert absent - {"extends", "memory"} <= described


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_fact_is_described_once_with_its_proof(name):
    """A fact's source, or the reason for assuming it, is printed after its sentence."""
    found = dict(facts(entry("framework", name).record))
    sentences = [each for each in words(name) if each.topic != REST]

    for key, fact in found.items():
        matching = [each for each in sentences if key in each.keys]
        assert matching, key
        for each in matching:
            assert fact.source is None or fact.source in each.sources
            assert fact.assumed is None or fact.assumed in each.assumed
            assert fact.confidence is None or each.confidence is not None
    first = [each.keys[0] for each in sentences]
    assert len(first) == len({*first})


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_is_not_in_the_file_is_marked(name):
    """A sentence without a proof is of a default, a missing table, or what is extended."""
    found = dict(facts(entry("framework", name).record))

    for each in words(name):
        assert each.text.endswith(".")
        assert "  " not in each.text
        if not (each.sources or each.assumed):
            assert each.default or {*each.keys} <= {*MISSING, "extends"}
            assert not {*each.keys} & {*found}


@pytest.mark.parametrize("name", ["megatron-deepspeed-fugaku", "deepspeed-zero3"])
def test_a_profile_reads_as_before(name):
    """The page of words, to the letter; tests/golden holds it."""
    text = paragraphs(words(name))

    assert text == (GOLDEN / f"profile-{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def base():
    """Return the values of a shipped file, of which a test may change some."""
    return json.loads(json.dumps(entry("framework", "megatron-core").data))


def sentence(data, key):
    """Return the one sentence that begins with a key."""
    (found,) = [each for each in describe_profile(data) if each.keys[0] == key]
    return found


@pytest.mark.parametrize(
    ("table", "flag"),
    [
        (table, name)
        for table, record in TABLES.items()
        for name, field in record.model_fields.items()
        if "bool" in str(field.annotation)
    ],
)
def test_each_flag_has_two_sentences(table, flag):
    """Turning a flag round changes its sentence, and no other but one that names it."""
    made = {}
    for value in (True, False):
        data = base()
        data.setdefault(table, {})[flag] = {"value": value, "assumed": "a test"}
        made[value] = {each.keys[0]: each.text for each in describe_profile(data)}
    key = f"{table}.{flag}"
    others = {k for k in made[True] if made[True][k] != made[False][k]}

    assert made[True][key] != made[False][key]
    assert others - {key} <= ({"pipeline.gathers_forward"} if flag == "sharded" else set())


@MODEST
@given(
    key=st.sampled_from(["optimiser.updated", "kernels.loss_backward", "gradients.bytes_each"]),
    number=st.integers(2, 500),
)
def test_numbers_are_those_of_the_file(key, number):
    """A sentence has the number that stands in the file."""
    data = base()
    table, name = key.split(".")
    data[table][name]["value"] = number

    (matching,) = [each for each in describe_profile(data) if key in each.keys]
    assert str(number) in matching.text


def test_graphs_are_described():
    """Captured parts, launch time and buffers are described."""
    data = entry("framework", "megatron-core-graphs").data

    assert sentence(data, "graphs.parts").text == (
        "CUDA graphs capture attention, mlp and router, with one graph per direction."
    )
    assert sentence(data, "graphs.replay").text == "The host needs 100 us to launch a graph."
    assert sentence(data, "graphs.memory").proof == "bridge; confidence low"
    assert sentence(data, "extends").text == (
        "Values that this file does not set are those of megatron-core."
    )
    assert sentence(base(), "graphs").text == "No kernels are captured in CUDA graphs."


def test_the_default_of_an_omitted_flag_is_described():
    """The default of a kernel's flag is described and marked as default."""
    data = base()
    del data["kernels"]["gated_fused"]
    matching = sentence(data, "kernels.gated_fused")

    assert DEFAULTS["kernels.gated_fused"] is True
    assert (matching.text, matching.proof) == (
        "The activation and product of a gated MLP are fused into one kernel.",
        "default",
    )


def test_words_of_counts_and_lists():
    """One byte is no bytes, and the last of a list has a word before it."""
    assert [counted(number, "byte") for number in (0, 1, 1.5, 4096)] == [
        "0 bytes", "1 byte", "1.5 bytes", "4,096 bytes",
    ]  # fmt: skip
    assert [as_list("a"), as_list("ab"), as_list("abc", "or")] == ["a", "a and b", "a, b or c"]


def shown(capsys, *arguments):
    """Return what `clustersim show` prints."""
    with pytest.raises(SystemExit) as left:
        main(["show", *arguments])
    assert left.value.code == 0
    return capsys.readouterr().out


def test_show_prints_words_above_the_facts(capsys):
    """`clustersim show` describes a framework by topic, then prints its facts as a table."""
    text = shown(capsys, "nanotron")

    assert paragraphs(words("nanotron")) in text
    assert text.index("Schedules and pipeline messages") < text.index("fact  ")


def test_the_words_are_in_json(capsys):
    """`--json` has each sentence with its topic, keys and proof; other kinds have none."""
    page = json.loads(shown(capsys, "nanotron", "--json"))
    other = json.loads(shown(capsys, "gpt-22b", "--json"))

    assert [each["text"] for each in page["words"]] == [each.text for each in words("nanotron")]
    assert {*page["words"][0]} == {
        "topic", "text", "keys", "sources", "assumed", "confidence", "default",
    }  # fmt: skip
    assert other["words"] == []
