"""Models: counts by shape are the published ones, FLOPs follow from them, configurations are read.

The configurations in `tests/data/import` state facts about public models; none is a copy.
"""

import json
import re
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog import finding
from clustersim.catalog.records.models import (
    FAMILIES,
    ExpertShape,
    IndexerShape,
    LatentShape,
    ModelRecord,
    WindowShape,
)
from clustersim.errors import CatalogError
from clustersim.importers.draft import Choices
from clustersim.importers.models import READERS, WITH_TEXT, import_config
from clustersim.importers.registry import import_source
from clustersim.importers.source import Source
from clustersim.reports.show.answer import page
from clustersim.scenario.entries import entry, entry_of_file
from clustersim.workload.flops import attention_flops, layer_forward_flops, model_flops
from clustersim.workload.model import Layer, Transformer, build_model
from clustersim.workload.parameters import (
    active_parameters,
    layer_parameters,
    model_parameters,
    model_parts,
)
from wrong_values import wrong_values

DATA = Path(__file__).parents[1] / "data" / "import"
NAMES = finding.entry_names("model")
CONFIGURATIONS = sorted(
    path.stem for path in DATA.glob("*.json") if "model_type" in path.read_text(encoding="utf-8")
)
SHIPPED = [name for name in CONFIGURATIONS if name in NAMES]
COUNTS = {
    "deepseek-v2-lite": 15_706_484_224,
    "pythia-6.9b": 6_857_302_016,
    "qwen2-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "released-mpt-7b": 6_649_286_656,
}
"""Weights of public models that are not shipped, as their model cards count them; recalled."""

PUBLISHED = {
    "gemma-2-9b": (9.24e9, None, 0.001, "the model's page on Hugging Face, 9.24 B"),
    "gemma-2-27b": (27.2e9, None, 0.002, "the model's page on Hugging Face, 27.2 B"),
    "gemma-3-27b": (27.0e9, None, 0.002, "arXiv:2503.19786, table 1: 1,416 M + 25,600 M"),
    "gemma-3-1b": (1.0e9, None, 0.002, "arXiv:2503.19786, table 1: 302 M + 698 M"),
    "phi-3-mini": (3.8e9, None, 0.01, "arXiv:2404.14219, section 2: 3.8 B"),
    "phi-4": (14.7e9, None, 0.005, "the model's page on Hugging Face, 14.7 B"),
    "nemotron-3-nano": (31.6e9, 3.5e9, 0.001, "the model's pages: 31.6 B, 3.5 B a token"),
    "qwen3.5-4b": (4.0e9, None, 0.06, "the model's name: 4 B, with the images"),
    "glm-4.5": (355e9, 32e9 + 2 * 151552 * 5120, 0.01, "arXiv:2508.06471, table 1: 355 B, 32 B"),
    "llama4-scout": (109e9, 17e9, 0.02, "the model's card: 109 B, 17 B, with the images"),
    "llama4-maverick": (400e9, 17e9, 0.01, "the model's card: 400 B, 17 B, with the images"),
}
"""Published parameters, active ones, the tolerance and the source.

Approximate where the tolerance is above 0.5 %: Phi-3 states two digits, Llama 4 counts the part of
images (0.9 billion in Scout) that is not imported, and GLM-4.5 counts as the test after this says.
"""

MODEST = settings(max_examples=20, deadline=None)


@cache
def record_of(name) -> ModelRecord:
    return entry("model", name).record


def built(name):
    record = record_of(name)
    return build_model(record, record.sequence, multiple=1, tensor=1)


def last_digit(name, key="parameters"):
    """Return what the last digit is worth that a file prints of its parameters."""
    text = (finding.shipped("model") / f"{name}.yaml").read_text(encoding="utf-8")
    pattern = rf"^{key}: \{{value: ([\d.]+)(?:e\+?(\d+))?"
    digits, exponent = re.search(pattern, text, re.M).groups()
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


# --- shipped files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_parameters_by_shape_are_the_published_number(name):
    """Within 0.5 %, or half of the last digit where the source prints fewer than three."""
    published = record_of(name).parameters
    coarse = last_digit(name) if published / last_digit(name) < 100 else 0.0

    expected = pytest.approx(published, rel=0.005, abs=coarse / 2)
    assert model_parameters(built(name)) == expected


def test_few_sources_print_fewer_than_three_digits():
    """Only five models are held to less than 0.5 %, because no source states more digits."""
    loose = [
        name
        for name in NAMES
        if model_parameters(built(name)) != pytest.approx(record_of(name).parameters, 0.005)
    ]

    assert loose == [
        "fugaku-llm-13b", "megatron-1.7b", "megatron-3.6b", "nemotron-h-56b", "nemotron-h-8b",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if record_of(name).active])
def test_active_parameters_are_the_published_number(name):
    """Within 2 % of the count with the embedding or without it; sources count either way.

    Or half of the last of two digits, and without the logits: Qwen3-Next has 3 billion, of 3.25.
    """
    model, published = built(name), record_of(name).active
    active, ends = active_parameters(model), model.vocab * model.hidden
    coarse = last_digit(name, "active") / 2 if published < 2e10 else 0.0
    counts = [active - part * ends for part in range(1 if model.tied else 3)]

    assert min(abs(count - published) for count in counts) < max(0.02 * published, coarse)


def test_mixtures_of_experts_state_what_is_active():
    """Sources of mixtures of experts state their active parameters."""
    mixtures = {name for name in NAMES if record_of(name).experts}

    assert mixtures - {name for name in NAMES if record_of(name).active} == {"moe-translation"}


def test_some_layers_have_experts_or_windows():
    """24 of 128 layers of the translation model, the last one included; every second of gpt-oss."""
    stack = built("moe-translation").stack

    assert (len(stack), sum(layer.experts for layer in stack)) == (128, 24)
    assert stack[-1].experts
    assert [layer.window for layer in built("gpt-oss-20b").stack] == [128, None] * 12


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up_to_all_parameters(name):
    """Attention, MLP, experts, norms, embedding and logits are all there is."""
    model = built(name)

    assert sum(model_parts(model).values()) == pytest.approx(model_parameters(model), rel=1e-12)


def test_editors_ask_for_no_key_that_the_family_sets():
    """The schema lets out what follows from the family, and the record has it."""
    required = ModelRecord.model_json_schema()["required"]

    assert not set(required) & set(FAMILIES["llama"])
    assert {"family", "layers", "hidden", "heads", "ffn", "vocab"} <= set(required)
    assert record_of("llama3-8b").norm == "rms"


def test_layers_of_a_pattern_are_those_of_its_letters():
    """Nemotron-H 56B has 54 layers of Mamba-2, 54 MLPs and 10 of attention, each a layer."""
    stack = built("nemotron-h-56b").stack

    mixers = [layer.mixer for layer in stack]
    assert [mixers.count(each) for each in ("mamba", None, "attention")] == [54, 54, 10]
    assert all(layer.mlp == (layer.mixer is None) for layer in stack)


# --- FLOPs ----------------------------------------------------------------------------------------


@st.composite
def transformers(draw):
    """Small transformers of every family, tied, whose weights are matrices and norms only."""
    heads = 4 * draw(st.integers(1, 4))
    layers, size = draw(st.integers(1, 12)), 8 * draw(st.integers(1, 8))
    return Transformer(
        "any",
        layers=layers,
        hidden=heads * size,
        heads=heads,
        ffn=16 * draw(st.integers(1, 64)),
        vocab=draw(st.integers(1, 1000)),
        sequence=draw(st.integers(1, 4096)),
        kv_heads=draw(st.sampled_from([heads, heads // 4])),
        norm="rms",
        mlp=draw(st.sampled_from(["gelu", "gated"])),
        positions="rotary",
        biases=frozenset(),
        experts=draw(st.none() | experts(layers)),
        window=draw(st.none() | st.builds(WindowShape, tokens=counts(), every=counts(4))),
    )


def counts(most=2000):
    return st.integers(1, most)


def experts(layers):
    return st.builds(
        ExpertShape,
        count=st.integers(8, 64),
        top_k=counts(8),
        ffn=counts(),
        shared=st.integers(0, 2),
        first_dense=st.integers(0, layers - 1),
        every=counts(3),
    )


INDEXER = st.builds(IndexerShape, heads=counts(8), head_size=counts(64), tokens=counts())
LATENT = st.none() | st.builds(
    LatentShape,
    query=st.none() | counts(),
    keys_values=counts(),
    nope=counts(256),
    rope=counts(128),
    value=counts(256),
    indexer=st.none() | INDEXER,
)


def norms(model):
    """Return the weights of all norms; latents have norms of their own."""
    latent = model.latent
    inside = (latent.keys_values + (latent.query or 0)) if latent else 0
    inside += 2 * latent.indexer.head_size if latent and latent.indexer else 0
    return model.layers * (2 * model.hidden + inside) + model.hidden


@MODEST
@given(transformers(), LATENT)
def test_a_token_costs_six_flops_for_each_weight_it_meets_and_its_attention(model, latent):
    """Model FLOPs are 6 x active matrix weights x tokens, and three times those of attention."""
    if latent is not None:
        model = replace(model, latent=latent, kv_heads=0, head_size=0)
    weights = active_parameters(model) - norms(model)

    expected = 6 * weights * model.sequence + 3 * attention_flops(model)
    assert model_flops(model, 1) == pytest.approx(expected, rel=1e-12)


def test_a_window_saves_what_lies_outside_of_it():
    """Attention of Mistral over 8,192 tokens with a window of 4,096 costs half."""
    model = built("mistral-7b")
    everywhere = replace(model, window=None)

    assert model.sequence == 8192
    assert attention_flops(model) == attention_flops(everywhere) / 2


def test_heads_in_groups_save_weights_and_no_attention():
    """Eight times fewer key heads: queries and the core cost the same, keys an eighth."""
    model = built("llama3-70b")
    alone = replace(model, kv_heads=model.heads)
    few, many = (layer_forward_flops(each, each.layer(0)) for each in (model, alone))

    assert few["attention"] == many["attention"]
    assert few["qkv"] / many["qkv"] == pytest.approx((64 + 2 * 8) / (64 * 3))


# --- show -----------------------------------------------------------------------------------------


def test_the_page_of_a_model_tells_parts_and_flops():
    """Parts add up to all parameters; FLOPs are those of training on one sequence."""
    shown = page(entry("model", "deepseek-v3"))
    derived = {row.key: row.value for row in shown.derived}
    parts = [value for key, value in derived.items() if key.startswith("parameters_")]

    assert sum(parts) == derived["parameters"] == 671_026_419_200
    assert derived["active_parameters"] == active_parameters(built("deepseek-v3"))
    assert derived["flops_per_token"] * 4096 == model_flops(built("deepseek-v3"), 1)


# --- Hugging Face configurations ------------------------------------------------------------------


def text_of(name):
    return (DATA / f"{name}.json").read_text(encoding="utf-8")


def imported(name, **changes):
    """Return what a configuration makes, some of its keys replaced; None takes one away."""
    data = json.loads(text_of(name)) | changes
    data = {key: value for key, value in data.items() if value is not None}
    return import_source(Source("config.json", json.dumps(data, indent=1)), Choices(name))


def loaded(tmp_path, name):
    """Return the model that the imported file of a configuration is, read back from disk."""
    path = tmp_path / "mine.yaml"
    made = import_source(Source("config.json", text_of(name)), Choices("mine"))
    path.write_text(made.text, encoding="utf-8")
    record = entry_of_file(path).record
    return record, build_model(record, record.sequence, multiple=1, tensor=1)


@pytest.mark.parametrize("name", SHIPPED)
def test_an_imported_configuration_has_the_shape_of_the_shipped_file(tmp_path, name):
    """All but the name is the same; of rotary models a file states how far, not how long."""
    _, made = loaded(tmp_path, name)
    shipped = built(name)
    stated = {"sequence": shipped.sequence, "longest": shipped.longest}
    length = {} if made.positions == "learned" else stated

    assert asdict(replace(made, name=name, **length)) == asdict(shipped)


@pytest.mark.parametrize("name", COUNTS)
def test_imported_configurations_have_as_many_parameters_as_their_weights(tmp_path, name):
    """Every weight is counted, to the last one."""
    record, model = loaded(tmp_path, name)

    assert record.parameters == model_parameters(model) == COUNTS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_imported_configurations_have_the_published_parameters(name):
    """All weights of the text, and those of a token, as the makers print them."""
    total, active, tolerance, _ = PUBLISHED[name]
    data = imported(name).draft.data

    assert data["parameters"]["value"] == pytest.approx(total, rel=tolerance)
    if active is not None:
        assert data["active"]["value"] == pytest.approx(active, rel=0.03)


GROUP = {"num_bits": 8, "type": "float", "strategy": "channel"}


@pytest.mark.parametrize(
    ("stated", "released"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, {"weights": "fp8-block"}),
        ({"quant_method": "fp8", "activation_scheme": "static"}, {"weights": "fp8"}),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
            {"weights": "mxfp4", "attention": "bf16"},
        ),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, {"weights": "int4"}),
        ({"quant_method": "gptq", "bits": 3}, None),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": GROUP}},
            },
            {"weights": "fp8"},
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
            {"weights": "nvfp4"},
        ),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, None),
        ({"quant_method": "compressed-tensors", "config_groups": [[]]}, None),
        ("fp8", None),
    ],
)
def test_formats_of_released_weights_are_those_of_the_configuration(stated, released):
    """By method; one that is not modelled is a note."""
    config = json.loads(text_of("llama3-8b")) | {"quantization_config": stated}
    draft = import_config("config.json", json.dumps(config), "any")

    assert draft.data.get("released") == released
    assert any("is not modelled" in note for note in draft.notes) == (
        released is None and isinstance(stated, dict)
    )


def test_glm_counts_its_prediction_module_and_no_embeddings(tmp_path):
    """355 billion and 32 billion are without both embeddings and with the module.

    Its weights are those of one more layer with experts, and a projection of two states to one.
    GLM-4.5, arXiv:2508.06471, table 1. An import leaves the module out, and says so.
    """
    record, model = loaded(tmp_path, "glm-4.5")
    tables = 2 * model.vocab * model.hidden
    layer = layer_parameters(model, Layer(experts=True))
    idle = layer.experts * (1 - 8 / 160)
    module = layer.all + 2 * model.hidden**2

    assert record.parameters - tables + module == pytest.approx(355e9, rel=0.002)
    assert record.active - tables + module - idle == pytest.approx(32e9, rel=0.02)
    assert "multi-token prediction" in imported("glm-4.5").draft.notes[0]


def test_windows_of_gemma_and_llama_are_in_their_layers(tmp_path):
    """Every other one in Gemma 2, five of six in Gemma 3, three of four in Llama 4."""
    windows = {
        name: [layer.window for layer in replace(loaded(tmp_path, name)[1], sequence=10**6).stack]
        for name in ("gemma-2-9b", "gemma-3-27b", "gemma-3-1b", "llama4-scout")
    }

    assert windows["gemma-2-9b"] == [4096, None] * 21
    assert windows["gemma-3-27b"] == ([1024] * 5 + [None]) * 10 + [1024] * 2
    assert windows["gemma-3-1b"] == ([512] * 5 + [None]) * 4 + [512] * 2
    assert windows["llama4-scout"] == ([8192] * 3 + [None]) * 12
    assert loaded(tmp_path, "llama4-scout")[1].window.chunked


def test_experts_of_llama_4_are_in_every_layer_or_in_every_other_one(tmp_path):
    """Scout has them everywhere, Maverick in layers 1, 3, ..., each with a shared one."""
    scout, maverick = (loaded(tmp_path, f"llama4-{name}")[1] for name in ("scout", "maverick"))

    assert [layer.experts for layer in scout.stack] == [True] * 48
    assert [layer.experts for layer in maverick.stack] == [False, True] * 24
    assert (maverick.ffn, maverick.experts.ffn, maverick.experts.shared) == (16384, 8192, 1)


def test_what_a_model_file_cannot_express_is_said():
    """Soft caps, norms, partial rotary positions, images and prediction modules are remarks."""
    gemma, llama = imported("gemma-3-27b"), imported("llama4-scout")

    assert imported("gemma-2-9b").draft.notes[0].startswith("attn_logit_softcapping: has no weigh")
    assert any("different bases" in note for note in gemma.draft.notes)
    assert any("without weights" in note for note in llama.draft.notes)
    assert any("only the text" in note for note in llama.draft.notes)
    assert any("partial rotary" in note for note in imported("glm-4.5").draft.notes)
    assert "# only the text is imported" in llama.text
    assert "multi-token prediction" in imported("deepseek-v3").draft.notes[0]
    assert imported("llama3-8b").draft.notes == ()


def test_norms_of_outputs_take_weights_and_time(tmp_path):
    """Two more norms of a width each in every layer of Gemma 2, without biases."""
    _, model = loaded(tmp_path, "gemma-2-9b")
    without = replace(model, output_norms=False)

    assert model_parameters(model) - model_parameters(without) == 2 * 3584 * 42


def test_qwen3_moe_with_layer_types_and_keys_of_unsloth_is_read():
    """Layers that all see everything, and keys of tools, change no shape."""
    plain = imported("qwen3-30b-a3b").draft.data
    kinds = {"layer_types": ["full_attention"] * 48, "mlp_only_layers": []}
    tools = {"unsloth_version": "2025.9.1", "unsloth_fixed": True, "use_grouped_mm": True}

    assert imported("qwen3-30b-a3b", decoder_sparse_step=1, **kinds, **tools).draft.data == plain


def test_each_architecture_has_an_example():
    """No reader is without a configuration that exercises it."""
    files = [json.loads(text_of(name)) for name in CONFIGURATIONS]
    parts = [part for data in files for part in (data, data.get("text_config"))]
    kinds = {part["model_type"] for part in parts if part}

    assert kinds == READERS.keys() | WITH_TEXT.keys()


@pytest.mark.parametrize(("name", "changes", "complaint"), wrong_values("configurations of models"))
def test_a_configuration_that_cannot_be_read_is_one_line(name, changes, complaint):
    """File, line and key are named, what is wrong, and what is allowed."""
    with pytest.raises(CatalogError) as error:
        imported(name, **json.loads(changes))
    assert str(error.value).startswith("config.json:")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_all_that_is_wrong_is_told_together():
    """Two missing keys and an unknown one are three lines."""
    with pytest.raises(CatalogError) as error:
        imported("llama3-8b", hidden_size=None, vocab_size=None, odd=1)
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        *wrong_values("files that are no configuration"),
        ("[" * 100_000, ": is not valid JSON (nested too deeply"),
        (json.dumps({f"token{i}": i for i in range(2000)}), ": is a vocabulary"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_configuration_is_told_by_what_it_is(text, complaint):
    """A broken file, or one of another kind, is one line."""
    with pytest.raises(CatalogError) as error:
        import_config("config.json", text)
    assert str(error.value).startswith(f"config.json{complaint}")
    assert "\n" not in str(error.value)
    if complaint.startswith((": is a ", ": is the ")):
        assert "not the configuration of a model" in str(error.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(CONFIGURATIONS), st.data())
def test_no_value_makes_the_reader_crash(name, data):
    """Whatever stands in a key, the file is read or rejected with a message of ours."""
    config = json.loads(text_of(name))
    config[data.draw(st.sampled_from(sorted(config)))] = data.draw(VALUES)
    with suppress(CatalogError):
        result = import_config("config.json", json.dumps(config), "any")
        assert result.data["parameters"]["value"] > 0
