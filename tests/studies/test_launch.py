"""Launch arguments launch what was predicted: each fact that a flag controls has its flag."""

import pytest

from clustersim.catalog import finding
from clustersim.errors import ScenarioError
from clustersim.scenario.entries import entry
from clustersim.scenario.load import from_mapping
from clustersim.studies.search import search
from clustersim.studies.search.step.launch import launch_arguments
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


def words(framework, *settings, **changes):
    """Return the words that launch a step with a framework."""
    loaded = from_mapping("a", STEP | {"framework": framework} | changes, settings)
    launch = loaded.scenario.framework.launch
    return " ".join(launch_arguments(loaded, launch.program).arguments)


def facts_of(name):
    """Return the facts of a profile that a flag controls, with the flags by value."""
    launch = None if name is None else entry("framework", name).record.launch
    return {} if launch is None else launch.facts


def controlled_facts():
    """Yield each fact of a profile that a flag controls, with each of its values.

    Facts of a profile that it extends are those of the other one.
    """
    for name in finding.entry_names("framework"):
        extended = facts_of(entry("framework", name).record.extends)
        for key, texts in facts_of(name).items():
            if key not in extended:
                for value, text in texts.items():
                    yield pytest.param(name, key, value, text, id=f"{name}-{key}-{value}")


def in_use(name, key):
    """Return the changes of a scenario with which a fact has an argument."""
    needed = (entry("framework", name).record.launch.only or {}).get(key, {})
    changes = {"precision": needed.get("precision", "bf16")}
    if needed.get("model.experts"):
        changes["model"] = "mixtral-8x7b"
    if any(other.startswith("plan.") for other in needed):
        changes["plan"] = SHARED if needed.get("plan.pipeline") is None else STEP["plan"]
    return changes


@pytest.mark.parametrize(("name", "key", "value", "text"), [*controlled_facts()])
def test_each_flag_of_a_profile_follows_its_fact(name, key, value, text):
    """A fact has the flag of its value, and of its other values those that this one lacks."""
    texts = facts_of(name)[key]
    value = f"[{value.replace('-', ',')}]" if key == "graphs.parts" else value
    found = words(name, f"framework.{key}={7 if value == 'other' else value}", **in_use(name, key))
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
    for name in finding.entry_names("framework"):
        launch = entry("framework", name).record.launch
        if launch is not None:
            assert {*launch.arguments["precision"]} <= {*PRECISIONS}, name
            assert words(name, precision="bf16").split()


@pytest.mark.parametrize("program", ["torchtitan", "megatronn"])
def test_a_search_for_another_program_leaves_no_run_cache(tmp_path, program):
    """The run cache was created before the program was rejected."""
    store = tmp_path / "runs" / "studies.db"
    with pytest.raises(ScenarioError, match=r"^--as "):
        search("frontier-22b", program=program, store=store, jobs=1)

    assert not store.parent.exists()
