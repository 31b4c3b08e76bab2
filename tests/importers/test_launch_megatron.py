"""Launch files of programs on Megatron-Core: NeMo, Megatron-Bridge and Primus."""

import re
import time
from pathlib import Path

import pytest

from clustersim.errors import ClustersimError
from clustersim.importers.draft import Choices
from clustersim.importers.launch.formats import LAUNCHES, launch_format
from clustersim.importers.registry import import_file, import_source
from clustersim.importers.source import Source, as_source
from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate
from commands import ending, rejected

FILES = Path(__file__).parents[1] / "data" / "launch"

BRIDGE = """from megatron.bridge.recipes.llama import llama3_8b_pretrain_config
cfg = llama3_8b_pretrain_config()
cfg.model.seq_length = 8192
cfg.train.micro_batch_size = 1
"""

NEMO = """import nemo_run as run
from nemo.collections import llm
recipe = llm.llama3_8b.pretrain_recipe(num_nodes=8)
recipe.data.seq_length = 8192
recipe.data.micro_batch_size = 1
"""

LAUNCHER = """trainer: {devices: 8, precision: bf16}
model:
  tensor_model_parallel_size: 2
  micro_batch_size: 1
  encoder_seq_length: 2048
  num_layers: 24
  hidden_size: 2048
  num_attention_heads: 16
"""

DUMP = """_target_: megatron.bridge.training.config.ConfigContainer
dataset: {seq_length: 4096}
train: {micro_batch_size: 1, global_batch_size: 128}
mixed_precision: bf16_mixed
model:
  _target_: megatron.bridge.models.GPTModelProvider
  num_layers: 24
  hidden_size: 2048
  num_attention_heads: 16
"""

PRIMUS = """modules:
  pre_trainer:
    framework: megatron
    model: llama3_8B.yaml
    overrides:
      micro_batch_size: 1
      seq_length: 8192
"""


def drafted(text, name="job.py", **choices):
    """Return the import of a text."""
    choices = {"cluster": "dgx-h100", "nodes": 8, **choices}
    return import_source(Source(name, text), Choices(**choices)).draft


def at(data, key):
    """Return the value of a dotted key; none where a table on the way is only a name."""
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


@pytest.mark.parametrize(
    ("before", "more", "key", "value"),
    [
        (BRIDGE, "cfg.model.tensor_model_parallel_size = 4 * 2", "plan.tensor", 8),
        (BRIDGE, "TP = 4\ncfg.model.tensor_model_parallel_size = TP", "plan.tensor", 4),
        (BRIDGE, "cfg.model.pipeline_model_parallel_size = 4\n"
         "cfg.model.virtual_pipeline_model_parallel_size = 2", "plan.chunks", 2),
        (BRIDGE, "m = cfg.model\nm.context_parallel_size = 2", "plan.context", 2),
        (BRIDGE, "cfg.mixed_precision = 'bf16_with_mxfp8_mixed'", "precision", "mxfp8"),
        (BRIDGE, "cfg.mixed_precision = 'bf16_with_nvfp4_mixed'", "precision", "nvfp4"),
        (BRIDGE, "cfg.mixed_precision = fp16_mixed()", "precision", "fp16"),
        (BRIDGE, "cfg.ddp.grad_reduce_in_fp32 = False", "framework.gradients.bytes_each", 2),
        (BRIDGE, "cfg.ddp.grad_reduce_in_fp32 = False", "framework.state.bf16.gradients", 2),
        (BRIDGE, "cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)",
         "framework.kernels.tensor_pipelined", True),
        (BRIDGE, "cfg.model.attention_backend = AttnBackend.unfused\n"
         "from megatron.core.transformer.enums import AttnBackend",
         "framework.kernels.attention", "unfused"),
        (BRIDGE, "cfg.model.recompute_granularity = 'full'", "recompute", "full"),
        (BRIDGE, "import torch\ncfg.optimizer.exp_avg_dtype = torch.bfloat16",
         "framework.state.bf16.optimiser", 6),
        (NEMO, "recipe.trainer.strategy.tensor_model_parallel_size = 2", "plan.tensor", 2),
        (NEMO, "recipe.trainer.plugins = bf16_with_fp8_mixed()", "precision", "fp8"),
        (NEMO, "recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback,"
         " tp_comm_overlap=True))", "framework.kernels.tensor_pipelined", True),
        (LAUNCHER, "  activation: fast-swiglu", "model.family", None),
        (LAUNCHER, "  ffn_hidden_size: ${multiply:3, ${.hidden_size}}", "model.ffn", 6144),
        (LAUNCHER, "  fp8: True", "precision", "fp8"),
        (LAUNCHER, "  optim: {name: distributed_fused_adam}", "plan.zero", 1),
        (LAUNCHER, "  activations_checkpoint_granularity: selective", "recompute", "selective"),
        (DUMP, "  tensor_model_parallel_size: 2", "plan.tensor", 2),
        (DUMP, "  num_moe_experts: 8\n  moe_layer_freq: [0, 0, 1, 1, 1, 1, 1, 1]",
         "model.experts.first_dense", 2),
        (DUMP, "  window_size: [127, 0]", "model.window.tokens", 128),
        (DUMP, "  attention_backend: {_target_: megatron.core.transformer.enums.AttnBackend,"
         " _args_: [3], _call_: true}", "framework.kernels.attention", "unfused"),
        (DUMP, "  bias_activation_fusion: false", "framework.kernels.bias_gelu_fused", False),
        (DUMP, "  share_embeddings_and_output_weights: false", "model.tied", False),
        (PRIMUS, "      tensor_model_parallel_size: ${PRIMUS_TP:4}", "plan.tensor", 4),
        (PRIMUS, "      fp8: hybrid", "precision", "fp8"),
        (PRIMUS, "      use_distributed_optimizer: false\n      overlap_grad_reduce: true",
         "framework.gradients.overlap", "always"),
    ],
)  # fmt: skip
def test_options_change_the_keys_that_they_mean(before, more, key, value):
    """An option reaches its key, which differs or is missing without it."""
    found, without = drafted(before + more).data, drafted(before).data

    assert at(found, key) == value or (value is None and found["model"] != without["model"])
    assert found != without
    assert value is None or at(without, key) != value


def test_a_recipe_of_a_library_names_its_model_and_what_it_does_not_state_is_assumed():
    """A model of the catalogue stands for the recipe; degrees that are left out are assumed."""
    data = drafted(NEMO).data

    assert data["model"] == "llama3-8b"
    assert data["precision"] == "bf16"
    assert data["plan"]["zero"] == 1
    assert "llm.llama3_8b.pretrain_recipe may set another one" in data["assumed"]["plan.tensor"]
    assert data["cluster"]["nodes"] == 8


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("llama3_8b_16k_pretrain_config", "llama3-8b"),
        ("llama31_405b_pretrain_config", "llama3.1-405b"),
        ("mixtral_8x7b_pretrain_config", "mixtral-8x7b"),
        ("qwen3_30b_a3b_pretrain_config", "qwen3-30b-a3b"),
    ],
)
def test_the_name_of_a_recipe_is_a_model_of_the_catalogue(name, model):
    """The length of the sequence in a name is no part of the model."""
    assert drafted(BRIDGE.replace("llama3_8b_pretrain_config", name)).data["model"] == model


def test_a_dump_states_its_own_model():
    """The shape in the file counts, not the name of its class; the batch is that of the data."""
    name = FILES / "bridge-qwen3-8b-dump.yaml"
    draft = import_file(name, Choices(cluster="dgx-h100", nodes=8)).draft

    assert draft.data["model"]["parameters"]["value"] == 8_190_735_360
    assert draft.data["batch"] == {"global": 128, "micro": 1, "sequence": 4096}
    assert draft.data["framework"]["state"]["fp8"] == {
        "weights": 2, "optimiser": 4, "gradients": 2
    }  # fmt: skip
    assert draft.unknown == ()


def test_what_is_not_a_part_of_the_job_is_ignored_with_its_reason():
    """The executor of a recipe is listed, and a call that may change the recipe is unknown."""
    started = drafted(f"{NEMO}executor = run.SlurmExecutor(partition='batch')\n")
    tuned = drafted(f"{NEMO}recipe = tune(recipe)\nrecipe.model.config.a_new_option = 3\n")

    assert dict(started.ignored)["partition batch"] == "not a part of the job"
    assert tuned.unknown == ("tune(...)", "model.config.a_new_option 3")


def test_a_model_in_another_file_is_named(capsys, tmp_path):
    """A model that is in no file of the catalogue is one line, and --model names another one."""
    text = PRIMUS.replace("llama3_8B", "private_7B")

    with pytest.raises(ClustersimError, match=r":4: model private_7B.yaml: is in no file"):
        drafted(text)
    assert drafted(text, model="mixtral-8x7b").data["model"] == "mixtral-8x7b"
    file = tmp_path / "job.yaml"
    file.write_text(text, encoding="utf-8")
    named = ["--cluster", "dgx-h100", "--nodes", "2", "--model", "llama3-8b"]
    assert "private_7B" in rejected(capsys, "run", file, *named[:4])
    assert ending(capsys, "run", file, *named)[0] == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BRIDGE + "cfg.model.tensor_model_parallel_size = TP", "TP is not set in the file"),
        (BRIDGE + "cfg.model.tensor_model_parallel_size = int(sys.argv[1])",
         ":5: .*int.* would have to be run"),
        (BRIDGE + "if x:\n    cfg.train.micro_batch_size = 2",
         r"depends on a condition \(line 5\)"),
        (BRIDGE + "cfg.model.tensor_model_parallel_size = 3", ":5: .*3 devices of a replica do"),
        (BRIDGE + "cfg.model.tensor_model_parallel_size = 0", ":5: .*must be at least 1"),
        (BRIDGE + "cfg.model.num_layers = 4", ":5: .*'llama3-8b' has 32"),
        (BRIDGE + "cfg.mixed_precision = choose()", ":5: .*recipes of bf16, fp16, fp8 and nvfp4"),
        (BRIDGE + "cfg.peft = LoRA(dim=16)", ":5: .*adapters of this format are not read"),
        (BRIDGE + "cfg.train.global_batch_size = (", ":5: is not Python"),
        (BRIDGE + "other = llama3_70b_pretrain_config()\nother.model.seq_length = 1",
         r"has 2 jobs: cfg \(line 2\), other \(line 5\)"),
        ("import megatron.bridge\nprint(1)", "has no recipe or configuration of a job"),
        (BRIDGE.replace("llama3_8b", "private"), "'private_pretrain_config' is in no file"),
        (BRIDGE + f"cfg.train.micro_batch_size = {'a' * 5000}(1)", ":5: .*would have to be run"),
        (BRIDGE.replace("llama3_8b", "a" * 5000), "is in no file"),
        (NEMO + "recipe.trainer.devices = 16", ":6: .*a node of 'dgx-h100' has 8 devices"),
        (LAUNCHER + "  ffn_hidden_size: ${multiply:4, ${.none}}", ":9: .* is not known from"),
        (LAUNCHER + "  normalization: batchnorm", ":9: .*is not modelled"),
        (LAUNCHER + "  fp8: [", "is not valid YAML"),
        (LAUNCHER.replace("precision: bf16", "precision: int8"), ":1: .*is not modelled"),
        (LAUNCHER.replace("  num_layers: 24\n", ""), "--num-layers: missing"),
        (DUMP + "  num_layers_in_first_pipeline_stage: 7\n  pipeline_model_parallel_size: 4",
         ":10: .*leaves 17 layers for 3 stages"),
        (DUMP + "  virtual_pipeline_model_parallel_size: two", ":10: .*must be a whole number"),
        (PRIMUS.replace("megatron", "torchtitan"), ":3: framework torchtitan: is not modelled"),
        (PRIMUS + "      global_batch_size: ${GLOBAL}", ":8: .*GLOBAL. is not known from the file"),
        (PRIMUS + "      tensor_model_parallel_size: 5", ":8: .*do not divide 64"),
        (PRIMUS + "      recompute_method: blocks", ":8: .*is not modelled"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_line(text, problem):
    """What is truncated, contradictory or would have to be run is an error with its line."""
    with pytest.raises(ClustersimError) as raised:
        drafted(text)

    assert re.search(problem, str(raised.value)), raised.value
    assert str(raised.value).startswith("job.py")
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", [BRIDGE, NEMO, LAUNCHER, DUMP, PRIMUS])
def test_a_binary_or_long_file_is_one_line(text):
    """A null character and a million lines are errors at once."""
    with pytest.raises(ClustersimError, match=r"is binary"):
        as_source("job.py", text.encode() + b"\0")
    with pytest.raises(ClustersimError, match=r"has more than 1,000,000 lines"):
        as_source("job.py", (text + "#\n" * 1_000_000).encode())


@pytest.mark.parametrize("word", ["trainer:\n", "modules:\n  ", "nemo.", "import nemo_run ", " \n"])
def test_a_format_is_looked_for_in_one_pass(word):
    """The start of a sign that is repeated 40,000 times takes no time."""
    begin = time.process_time()

    assert launch_format(word * 40_000) in (None, "nemo")
    assert time.process_time() - begin < 5


def test_a_long_name_of_a_function_takes_no_time():
    """A name of 100,000 letters is no recipe, at once."""
    begin = time.process_time()

    with pytest.raises(ClustersimError, match="has no recipe"):
        drafted(f"import megatron.bridge\nx = {'a_' * 50_000}recipe()")
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("text", [BRIDGE, NEMO, LAUNCHER, DUMP, PRIMUS])
def test_the_content_shows_one_format(text):
    """No other format has the same sign."""
    fitting = [name for name, (_, sign) in LAUNCHES.items() if sign.search(text)]

    assert fitting == [launch_format(text)]


def test_gradients_that_are_reduced_in_16_bits_were_kept_in_32(tmp_path):
    """Megatron-Core reduces the buffer in which it sums them: half of its memory."""
    text = (FILES / "megatron-llama3-8b.sh").read_text()
    reduced = []
    for options in ("--bf16", "--bf16 --grad-reduce-in-bf16"):
        (tmp_path / "train.sh").write_text(text.replace("--bf16", options))
        changes = {"cluster.name": "dgx-h100", "cluster.nodes": 1}
        memory = simulate(tmp_path / "train.sh", changes).answer.memory
        reduced.append(memory.parts["gradients"])

    assert reduced[1] == pytest.approx(reduced[0] / 2)


@pytest.mark.parametrize(
    ("imported", "called", "model"),
    [
        ("llama import llama3_8b_pretrain_config as recipe", "recipe", "llama3-8b"),
        ("llama.llama3_8b import pretrain_config", "pretrain_config", "llama3-8b"),
        ("qwen.qwen3_next import qwen3_next_80b_a3b_pretrain_config as of", "of",
         "qwen3-next-80b-a3b"),
    ],
)  # fmt: skip
def test_an_imported_recipe_has_its_own_name_or_that_of_its_module(imported, called, model):
    """`import ... as recipe` was "'recipe' is in no file of the catalogue"."""
    text = f"from megatron.bridge.recipes.{imported}\ncfg = {called}()\n"
    draft = drafted(f"{text}cfg.train.global_batch_size = 64\n")

    assert draft.data["model"] == model
    assert not draft.notes


def test_devices_of_a_node_that_a_change_states_are_those_of_a_recipe(tmp_path):
    """A recipe on 64 of the 72 devices of a rack was an error: 64 do not divide 288."""
    file = tmp_path / "job.py"
    file.write_text(f"{BRIDGE}cfg.model.tensor_model_parallel_size = 4\n", encoding="utf-8")
    machine = {"cluster.name": "gb200-nvl72", "cluster.nodes": 2, "cluster.node.devices": 64}

    assert load(file, machine).scenario.plan.data == 32
