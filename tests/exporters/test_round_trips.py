"""What a scenario and a launch file can both state comes back, and nothing else is silent."""

import json
import shlex
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.finding import entry_names
from clustersim.exporters import export
from clustersim.importers.launch.serving import catalogue_model
from clustersim.importers.launch.torchtitan_source import REGISTRY
from clustersim.scenario.entries import entry
from clustersim.scenario.load import from_mapping, load, load_any
from clustersim.simulation.service.serve import serve
from clustersim.simulation.step.simulate import simulate
from commands import ending
from random_jobs import (
    SERVERS,
    any_step,
    plain_step,
    random_services_of,
    random_steps_of,
)

TRAINERS = ("megatron", "megatron-bridge", "torchtitan", "deepspeed", "accelerate")

MEGATRONS = {"megatron": "megatron-core", "megatron-bridge": "megatron-bridge"}

SEEDS = st.integers(0, 2**32 - 1)

OPTIONS = {"--cluster": "cluster.name", "--nodes": "cluster.nodes", "--model": "model"}


def launched(exported, folder):
    """Return the scenario that the command in the comment of a launch file runs."""
    _, verb, name, *words = shlex.split(exported.command)
    file = folder / name
    file.write_text(exported.text, encoding="utf-8")
    pairs = zip(words[::2], words[1::2], strict=True)
    changes = [text if option == "--set" else f"{OPTIONS[option]}={text}" for option, text in pairs]

    assert verb == "run"
    return load_any(file, changes)


def stated_keys(exported):
    """Return the keys of the values that a launch file does not express."""
    return {value.partition(" ")[0] for value in exported.not_expressed}


def check_step(program, loaded, result, folder):
    """Check a launch file of a step; return the keys that it does not express."""
    exported = export(loaded, program)
    found = launched(exported, folder)
    given, read, silent = loaded.scenario, found.scenario, stated_keys(exported)

    for value, why in exported.not_expressed.items():
        line = f"not expressed: {value} ({why})"
        assert line.replace(" ", "") in "".join(exported.text.split()).replace("#", "")
    for key in ("tensor", "pipeline", "data", "context", "expert", "zero"):
        if not silent & {f"plan.{key}", "plan.tensor", "plan.pipeline"}:
            assert getattr(given.plan, key) == getattr(read.plan, key), key
    for key in ("micro", "global_", "sequence"):
        assert getattr(given.batch, key) == getattr(read.batch, key)
    assert given.precision == read.precision or "precision" in silent
    if silent:
        return silent
    again = simulate(found)
    assert again.step_time == pytest.approx(result.step_time, rel=1e-12)
    assert again.memory.fullest.peak == result.memory.fullest.peak
    return silent


@pytest.mark.parametrize("program", TRAINERS)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_step_comes_back_from_its_launch_file(program, seed, tmp_path_factory):
    """What is not expressed is listed in the file; without such a value the time is the same."""
    loaded, result = random_steps_of(program, any_step)(Random(seed))

    check_step(program, loaded, result, tmp_path_factory.mktemp("launch"))


@pytest.mark.parametrize("program", TRAINERS)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_step_of_plain_options_is_launched_as_a_whole(program, seed, tmp_path_factory):
    """Layouts, batches and precisions that a program has options for are expressed."""
    loaded, result = random_steps_of(program, plain_step)(Random(seed))

    assert check_step(program, loaded, result, tmp_path_factory.mktemp("launch")) == set()


@pytest.mark.parametrize("program", SERVERS)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_service_comes_back_from_its_command(program, seed, tmp_path_factory):
    """A server that its command launches as a whole has the same times."""
    loaded, result = random_services_of(program)(Random(seed))
    exported = export(loaded, program)
    found = launched(exported, tmp_path_factory.mktemp("launch"))
    silent = stated_keys(exported)

    assert not silent & {"load", "engine.scheduler.sequences", "engine.scheduler.tokens"}
    assert loaded.scenario.plan.tensor == found.scenario.plan.tensor
    if not silent:
        assert serve(found).answer.latency_s == result.answer.latency_s


@pytest.mark.parametrize(
    ("model", "precision", "missing"),
    [
        ("deepseek-v3", {"weights": "fp8-block"}, []),
        ("gpt-oss-20b", {"weights": "bf16", "experts": "mxfp4"}, []),
        ("deepseek-v3", {"weights": "bf16"}, ["precision.weights bf16"]),
    ],
)
@pytest.mark.parametrize("program", ["vllm", "sglang"])
def test_weights_as_they_were_released_need_no_argument(program, model, precision, missing):
    """The command has no method for them; others than those are stated as not launched."""
    exported = export(
        {
            "title": "A",
            "cluster": {"name": "dgx-h200", "nodes": 1},
            "model": model,
            "plan": {"tensor": 8},
            "engine": program,
            "precision": precision,
            "experts": {"load": "balanced"},
            "load": {"concurrency": 8, "input": 512, "output": 64},
        },
        program,
    )

    assert "--quantization" not in exported.text
    assert [*exported.not_expressed] == missing


@pytest.mark.parametrize(
    "words", ["--fp8-format hybrid --fp8-param-gather", "--fp4-format e2m1 --fp4-param-gather"]
)
def test_weights_that_are_gathered_in_fewer_bits_come_back(words, tmp_path):
    """Weights of 4 bits alone were exported as those of the profile, with 16 bits next to them."""
    shape = "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048"
    file = tmp_path / "job.sh"
    file.write_text(f"torchrun pretrain_gpt.py {shape} --micro-batch-size 1 --bf16 {words}\n")
    given = load_any(file, ["cluster.name=dgx-b200", "cluster.nodes=1"])
    exported = export(given, "megatron")
    state = given.scenario.framework.state[given.scenario.precision]

    assert words.split()[-1] in exported.text
    read = launched(exported, tmp_path).scenario
    assert read.framework.state[read.precision].weights == state.weights


@pytest.mark.parametrize("config", REGISTRY)
def test_a_model_of_the_registry_of_torchtitan_comes_back(config, tmp_path):
    """A Qwen3 that was imported from torchtitan had no flavor of torchtitan."""
    module = config.partition("_")[0]
    command = f"torchrun --nproc-per-node 8 -m torchtitan.train --module {module} --config {config}"
    file = tmp_path / "job.sh"
    file.write_text(f"{command}\n", encoding="utf-8")
    given = load_any(file, ["cluster.name=dgx-h100", "cluster.nodes=8"])
    exported = export(given, "torchtitan")

    assert "model.name" not in stated_keys(exported)
    assert launched(exported, tmp_path).scenario.model == given.scenario.model


def test_a_name_on_hugging_face_is_found_as_its_file():
    """The command of a server names weights, by which an import finds the same model."""
    named = {name: entry("model", name).record.hugging_face for name in entry_names("model")}

    for name, weights in named.items():
        assert weights is None or catalogue_model(weights) == name
    assert sum(weights is not None for weights in named.values()) > 20


def test_replicas_with_experts_were_data_ranks_of_vllm():
    """One server with data ranks divides the experts of all of them."""
    changes = ["engine=vllm", "plan.tensor=4", "plan.replicas=2"]
    exported = export("mixtral-h100-serving", "vllm", changes)

    assert "--data-parallel-size" not in exported.text
    assert "replicas of a model with experts are servers" in " ".join(exported.text.split("\n#   "))


def test_a_changed_machine_and_model_are_in_the_command(tmp_path):
    """What no launch file states is an option of the command, also where it was changed."""
    changes = ["cluster.nic.bandwidth=x2", "model.layers=40"]
    exported = export("llama3-70b-h100-serving", "vllm", changes)
    found = launched(exported, tmp_path).scenario

    assert exported.not_expressed == {}
    assert "--set cluster.nic.bandwidth=x2 --set model.layers=40" in exported.command
    assert found.model.layers == 40
    assert [*exported.elsewhere] == ["cluster", "load", "model"]


def test_a_pipe_of_export_and_run_keeps_the_answer(capsys, tmp_path):
    """The file of `-o` is the text of `--json`, and imports as the same scenario."""
    file = tmp_path / "train.sh"
    words = ("frontier-22b", "--as", "deepspeed", "-o", file)
    code, shown, _ = ending(capsys, "export", *words)
    again = ending(capsys, "export", *words, "--json", "--force")
    answer = json.loads(again[1])

    assert (code, again[0]) == (0, 0)
    assert f"predict it    {answer['command']}" in shown
    assert file.read_text() == answer["text"]
    assert answer["as"] == "deepspeed"
    assert answer["not_expressed"] == {}


def test_a_script_for_megatron_lacked_a_variable_that_it_asserts():
    """Megatron stops without it where tensor ranks overlap their collectives."""
    text = export("frontier-22b", "megatron", {"framework": "megatron-core"}).text

    assert "\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n" in text


@pytest.mark.parametrize("program", ["megatron", "megatron-bridge"])
def test_flash_attention_instead_of_cudnn_is_launched(program, tmp_path):
    """It had no argument, so that a step of 70B of 15.1 s was launched as one of 14.1 s."""
    loaded = load(
        "frontier-22b",
        {
            "cluster.name": "dgx-h100", "framework": MEGATRONS[program], "precision": "bf16",
            "framework.kernels.attention_cudnn": False, "batch.global": 16,
        },
    )  # fmt: skip

    assert check_step(program, loaded, simulate(loaded), tmp_path) == set()


@pytest.mark.parametrize("program", MEGATRONS)
def test_an_indexer_comes_back_from_a_launch_file_of_megatron(program, tmp_path):
    """Sparse attention of DeepSeek-V3.2 was launched as attention to all tokens."""
    loaded = from_mapping(
        "sparse",
        {
            "title": "A",
            "cluster": {"name": "dgx-b200", "nodes": 8},
            "model": {"name": "deepseek-v3.2", "layers": 8},
            "plan": {"data": 64, "expert": 64, "zero": 1},
            "batch": {"global": 64, "micro": 1, "sequence": 4096},
            "precision": "bf16",
            "framework": MEGATRONS[program],
        },
    )

    assert not check_step(program, loaded, simulate(loaded), tmp_path)
