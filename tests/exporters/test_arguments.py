"""Launch arguments launch what was predicted: each fact that a flag controls has its flag."""

import pytest

from clustersim.catalog import finding
from clustersim.errors import ScenarioError
from clustersim.exporters.arguments import argument_lines, launch_of, layout_arguments
from clustersim.importers.launch.formats import LAUNCHES
from clustersim.importers.launch.options import Option
from clustersim.importers.reasons import reason_of
from clustersim.scenario.entries import entry
from clustersim.scenario.load import from_mapping, load
from clustersim.scenario.schema import PlanFile
from clustersim.studies.search import search
from clustersim.workload.slice import PRECISIONS

STEP = {
    "title": "a step",
    "cluster": {"name": "selene", "nodes": 2},
    "model": "gpt-22b",
    "plan": {"tensor": 1, "pipeline": 1, "data": 16},
    "batch": {"global": 16, "micro": 1, "sequence": 2048},
    "recompute": "none",
}
SHARED = {"tensor": 2, "pipeline": 1, "data": 8, "zero": 1, "sequence_parallel": True}


def words(framework, *settings, program="megatron", **changes):
    """Return the words that launch a step with a framework."""
    loaded = from_mapping("a", STEP | {"framework": framework} | changes, settings)
    return " ".join(layout_arguments(loaded, launch_of(loaded, program)).words)


def profiles():
    """Yield the launch arguments of each profile: its kind, its name, the program."""
    for kind in ("framework", "engine"):
        for name in finding.entry_names(kind):
            for program, launch in (entry(kind, name).record.launch or {}).items():
                if launch is not None:
                    yield kind, name, program, launch


def facts_of(name, program):
    """Return the facts of a framework that a flag of a program controls, with the flags."""
    launch = None if name is None else (entry("framework", name).record.launch or {}).get(program)
    return {} if launch is None else launch.facts or {}


def controlled_facts():
    """Yield each fact of a framework that a flag controls, with each of its values.

    Facts of a profile that it extends are those of the other one.
    """
    for kind, name, program, _ in profiles():
        if kind == "framework":
            extended = facts_of(entry("framework", name).record.extends, program)
            for key, texts in facts_of(name, program).items():
                if key not in extended:
                    for value in texts:
                        yield pytest.param(name, program, key, value)


def in_use(name, program, key):
    """Return the changes of a scenario with which a fact has an argument."""
    needed = (entry("framework", name).record.launch[program].only or {}).get(key, {})
    changes = {"precision": needed.get("precision", "bf16")}
    if needed.get("model.experts"):
        changes["model"] = "mixtral-8x7b"
    if needed.get("plan.zero") == "3":
        changes["plan"] = STEP["plan"] | {"zero": 3}
    elif any(other.startswith("plan.") for other in needed):
        changes["plan"] = SHARED if needed.get("plan.pipeline") is None else STEP["plan"]
    return changes


@pytest.mark.parametrize(("name", "program", "key", "value"), [*controlled_facts()])
def test_each_flag_of_a_profile_follows_its_fact(name, program, key, value):
    """A fact has the flag of its value, and of its other values those that this one lacks."""
    texts = facts_of(name, program)[key]
    text = texts[value].replace("{value}", "7")
    value = f"[{value.replace('-', ',')}]" if key == "graphs.parts" else value
    setting = f"framework.{key}={7 if value == 'other' else value}"
    found = words(name, setting, program=program, **in_use(name, program, key))
    others = {flag for other in texts.values() for flag in other.split() if flag.startswith("--")}

    assert text in found
    assert not (others - {*text.split()}) & {*found.split()}


def test_overlapped_gradients_that_were_predicted_are_launched():
    """Predictions assumed an overlap that the arguments did not request."""
    assert "--overlap-grad-reduce" in words("megatron-core", precision="bf16")
    bridge = words("megatron-bridge", precision="fp8", plan=SHARED)
    for flag in ("--overlap-param-gather", "--tp-comm-overlap", "--fp8-recipe tensorwise"):
        assert flag in bridge


def test_a_dense_model_has_no_flag_of_experts():
    """The arguments of a dense model had an expert degree."""
    dense = words("megatron-core", precision="bf16")
    experts = words("megatron-core", precision="bf16", model="mixtral-8x7b")

    assert "expert" not in dense
    assert "moe" not in dense
    for flag in ("--expert-tensor-parallel-size 1", "--moe-grouped-gemm", "alltoall"):
        assert flag in experts


def test_each_precision_of_a_profile_has_a_flag_or_is_the_default():
    """Precisions can be searched, so that they are launched as well; others are not expressed."""
    for kind, name, _, launch in profiles():
        if kind == "framework":
            assert {*launch.arguments["precision"]} <= {*PRECISIONS}, name


def test_every_key_of_a_layout_has_an_argument_or_a_reason():
    """Launch arguments of a framework state for each key of a layout how it is expressed."""
    for kind, name, _, launch in profiles():
        if kind == "framework":
            others = [launch.derived, launch.inexpressible, launch.elsewhere]
            stated = {*launch.arguments, *(key for keys in others for key in keys or {})}
            keys = {f"plan.{key}" for key in PlanFile.model_fields}
            keys |= {"batch.micro", "batch.global", "recompute", "precision"}

            assert keys <= stated, name
            assert {*(launch.only or {})} <= stated | {*launch.facts, *(launch.job or {})}, name


def test_launch_arguments_have_a_source_in_their_file():
    """The options of a program are facts as well."""
    for kind, name, _, launch in profiles():
        assert launch.source in entry(kind, name).record.sources, name


def options_of(launch):
    """Return the names of all options in the texts of a profile."""
    tables = [launch.arguments, launch.job or {}, launch.facts or {}]
    texts = [text for table in tables for text in table.values()]
    plain = [[text] if isinstance(text, str) else [*text.values()] for text in texts]
    words = " ".join([*(each for one in plain for each in one), launch.fixed or ""]).split()
    return {Option.plain_name(word.partition("=")[0]) for word in words if word.startswith("--")}


def reader_of(program, launch):
    """Return how the launch file of a profile is imported."""
    name = "megatron" if launch.form == "script" else program
    return LAUNCHES["nemo" if name == "megatron-bridge" else name][0]


def test_an_importer_has_each_option_that_is_exported():
    """The tables of importers and of profiles have the same names: none is unknown."""
    unknown = []
    for _, name, program, arguments in profiles():
        reader = reader_of(program, arguments)
        ignored = reader.ignored()
        for option in options_of(arguments):
            names = {option, option.partition(".")[2]}  # of Megatron-Bridge without the section
            if names.isdisjoint(reader.reads) and not any(
                reason_of(each, ignored) for each in names
            ):
                unknown.append(f"{name}: {option}")

    assert unknown == []


def test_launch_arguments_state_a_layout():
    """Arguments of Megatron-Core: degrees, virtual stages, recomputation, and what has none."""
    layout = {
        **{"plan.tensor": 2, "plan.pipeline": 2, "plan.data": 2, "plan.zero": 1},
        **{"plan.schedule": "interleaved-1f1b", "plan.chunks": 3, "framework": "megatron-core"},
        **{"recompute": {"mode": "full", "every": 2}, "precision": "bf16"},
    }
    loaded = load("frontier-22b", layout)
    launched = layout_arguments(loaded, launch_of(loaded, "megatron"))

    assert "--tensor-model-parallel-size 2" in argument_lines(launched)
    assert "--num-virtual-stages-per-pipeline-rank 3" in argument_lines(launched)
    assert "--use-distributed-optimizer" in launched.words
    assert [*launched.missing] == ["recompute mode full, every 2"]


@pytest.mark.parametrize("program", ["torchtitan", "megatronn"])
def test_a_search_for_another_program_leaves_no_run_cache(tmp_path, program):
    """The run cache was created before the program was rejected."""
    store = tmp_path / "runs" / "studies.db"
    with pytest.raises(ScenarioError, match=r"^--as "):
        search("frontier-22b", program=program, store=store, jobs=1)

    assert not store.parent.exists()
