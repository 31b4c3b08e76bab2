"""Launch files of Megatron-Core whose layers are not all attention and an MLP."""

import pytest

from clustersim.catalog.finding import find
from clustersim.errors import ScenarioError
from clustersim.importers.draft import Choices
from clustersim.importers.registry import import_source
from clustersim.importers.source import Source
from clustersim.scenario.load import from_mapping
from clustersim.simulation.step.simulate import simulate

COMMON = (
    "--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --bf16 --normalization RMSNorm"
    " --disable-bias-linear --untie-embeddings-and-output-weights --group-query-attention"
    " --attention-dropout 0 --hidden-dropout 0 --use-distributed-optimizer"
)

NEMOTRON = (
    f"pretrain_mamba.py {COMMON} --is-hybrid-model --hidden-size 4096 --ffn-hidden-size 21504"
    " --num-attention-heads 32 --num-query-groups 8 --position-embedding-type none --squared-relu"
    " --vocab-size 131072 --mamba-num-heads 128"
)

QWEN = (
    f"pretrain_gpt.py {COMMON} --num-layers 48 --hidden-size 2048 --ffn-hidden-size 512 --swiglu"
    " --num-attention-heads 16 --num-query-groups 2 --kv-channels 256 --vocab-size 151936"
    " --position-embedding-type rope --qk-layernorm --attention-output-gate --num-experts 512"
    " --moe-router-topk 10 --moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512"
    " --experimental-attention-variant gated_delta_net"
)

SPARSE = (
    f"pretrain_gpt.py {COMMON} --num-layers 8 --hidden-size 1024 --num-attention-heads 16"
    " --num-query-groups 16 --experimental-attention-variant dsa --dsa-indexer-n-heads 64"
    " --dsa-indexer-head-dim 128 --dsa-indexer-topk 2048"
)


def imported(text):
    """Return the plain scenario of a script."""
    choices = Choices(cluster="dgx-h100", nodes=8)
    return import_source(Source("train.sh", text), choices).draft.data


def step_time(data, model):
    """Return the step time of a scenario with a model."""
    return simulate(from_mapping("train", {**data, "model": model})).step_time


def test_a_pattern_of_layers_is_the_model_of_its_letters():
    """Nemotron-H was read as 52 layers of attention and an MLP each, 1.7 times its step."""
    named = find("model", "nemotron-h-8b").data
    data = imported(f"{NEMOTRON} --hybrid-override-pattern {named['pattern']}/*-")
    model = data["model"]

    assert (model["layers"], model["pattern"]) == (52, named["pattern"])
    assert model["mamba"] == named["mamba"]
    assert step_time(data, model) == step_time(data, "nemotron-h-8b")


def test_linear_attention_is_a_gated_delta_net_in_most_layers():
    """Qwen3-Next was read with attention in each layer; a layer is a mixer and its experts."""
    named = find("model", "qwen3-next-80b-a3b").data
    data = imported(f"{QWEN} --linear-attention-freq 4 --pipeline-model-parallel-size 4")
    listed = imported(f"{QWEN} --linear-attention-freq '([1]*3+[0]*1)*12'")
    model = data["model"]

    assert (model["layers"], model["pattern"]) == (96, named["pattern"])
    assert listed["model"]["pattern"] == named["pattern"]
    assert model["attention_gate"]
    assert model["mamba"] == {"convolution": 4, **named["mamba"]}
    assert step_time(data, model) == step_time(data, "qwen3-next-80b-a3b")


def test_stages_and_chunks_count_layers_of_the_arguments():
    """Layers of a stage are twice those of the arguments, where each is a mixer and an MLP."""
    freq = "--linear-attention-freq 4 --pipeline-model-parallel-size 4"
    ends = "--decoder-first-pipeline-num-layers 11 --decoder-last-pipeline-num-layers 13"
    chunks = "--num-layers-per-virtual-pipeline-stage 3"

    assert imported(f"{QWEN} {freq} {ends}")["plan"]["layers"] == [22, 24, 24, 26]
    assert imported(f"{QWEN} {freq} {chunks}")["plan"]["chunks"] == 4


def test_dense_layers_and_experts_are_letters_of_a_pattern():
    """The first layers without experts have an MLP after their mixer."""
    dense = "--linear-attention-freq 4 --moe-layer-freq '([0]*2+[1]*46)'"

    assert imported(f"{QWEN} {dense}")["model"]["pattern"].startswith("M-M-ME*EME")


def test_an_indexer_is_that_of_latent_attention():
    """DeepSeek-V3.2 was read without its indexer."""
    latent = "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512"
    model = imported(f"{SPARSE} {latent}")["model"]

    assert model["latent"]["indexer"] == {"heads": 64, "head_size": 128, "tokens": 2048}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (NEMOTRON, "--is-hybrid-model: the layers are not known .add --hybrid-override-pattern"),
        (f"{NEMOTRON} --hybrid-layer-pattern MDE", "must have the letters M, G, .*, not D"),
        (f"{NEMOTRON} --hybrid-layer-pattern MG", "M and G in one model are not modelled"),
        (f"{NEMOTRON} --num-layers 3 --hybrid-layer-pattern 'M-'", "the pattern has 2 layers"),
        (f"{QWEN} --linear-attention-freq '[1,1,0]'", "one number for each of the 48 layers"),
        (f"{SPARSE} --swiglu", "is modelled with --multi-latent-attention only"),
        (f"{QWEN} --experimental-attention-variant dsv4_hybrid", "is not modelled .modelled: gat"),
        (f"{QWEN} --moe-latent-size 1024", "experts of a narrower width .* are not modelled"),
    ],
)
def test_layers_that_are_not_known_are_one_line(text, problem):
    """A model that a scenario does not have is an error at its option, not another model."""
    with pytest.raises(ScenarioError, match=problem) as raised:
        imported(text)

    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("train.sh:1: --")
