"""From the words of a measured case to the keys of a scenario."""

import pytest

from clustersim.validation.cases.case import FAMILIES
from clustersim.validation.cases.case import case_of as normalised
from clustersim.validation.cases.machines import machine_of
from clustersim.validation.cases.nodes import node_shape
from clustersim.validation.cases.scenario import model_of, scenario_of
from clustersim.validation.cases.settings import case_settings
from clustersim.validation.cases.texts import (
    attention_of,
    finetune_of,
    measured_peak,
    offload_of,
)
from measured_runs import row_of, shipped_cases


@pytest.mark.parametrize(("layers", "chunks"), [(96, 2), (112, 7), (126, 2)])
def test_chunks_that_are_not_stated_are_the_fewest_that_layers_fill(layers, chunks):
    """16 stages of 112 layers have 7 each, 96 are 2 chunks of 3, and 126 and both ends 2 of 4."""
    row = row_of(model={"layers": layers}, parallel={"pp": 16})
    settings = case_settings(row, {"schedule": "interleaved-1f1b"})

    assert (settings.schedule, settings.chunks) == ("interleaved-1f1b", chunks)


# --- models ---------------------------------------------------------------------------------------


def test_a_mixture_of_experts_is_a_llama_with_experts():
    """Widths, counts and what every token sees are those of the case; dense layers come first."""
    given = {
        "family": "moe", "layers": 61, "hidden": 7168, "heads": 128, "experts": 256, "topk": 8,
        "moe_ffn": 2048, "shared_experts": 1, "first_dense_layers": 3,
        "attention": "mla (q_lora 1536, kv_lora 512, nope 128, rope 64, v 128)"
    }  # fmt: skip
    model = model_of(normalised(row_of(model=given)))
    experts = {"count": 256, "top_k": 8, "ffn": 2048, "shared": 1, "first_dense": 3}

    assert (model["family"], model["ffn"]) == ("llama", 2048)
    assert model["experts"] == experts
    assert model["latent"]["keys_values"] == 512
    assert not {"kv_heads", "head_size"} & set(model)


def test_what_a_case_tells_wins_over_its_family():
    """A Llama with a plain MLP and a tied embedding is written down as one."""
    case = row_of(model={"family": "llama", "gated_mlp": False, "tied_embeddings": True})
    model = model_of(normalised(case))

    assert (model["mlp"], model["tied"]) == ("gelu", True)
    assert "positions" not in model


def test_attention_in_unknown_words_is_an_obstacle():
    """Words that the reader does not know are not read as plain attention."""
    case = row_of(model={"attention": "linear, with a gate"})

    assert attention_of("linear, with a gate") is None
    assert attention_of(None) == {}
    assert "unsupported attention 'linear, with a gate'" in [
        r.detail for r in normalised(case).reasons
    ]


# --- sharding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallel", "assumed", "expected"),
    [
        ({}, None, (0, 0, True)),
        ({"zero_stage": 2}, None, (2, 0, True)),
        ({"fsdp": True}, None, (3, 0, True)),
        ({"fsdp": True, "zero_stage": 1}, None, (1, 0, True)),
        ({"sharding": "FULL_SHARD"}, None, (3, 0, True)),
        ({"sharding": "SHARD_GRAD_OP", "zero_stage": 2}, None, (3, 0, False)),
        ({"sharding": "HYBRID_SHARD"}, None, (3, 8, True)),
        ({"fsdp": True}, "FSDP2 over the FSDP column = 8", (3, 8, True)),
        ({"fsdp": True}, "FSDP2 over the FSDP column = 32", (3, 0, True)),
        ({"fsdp": True}, "FSDP2 over the FSDP column = 1", (0, 0, True)),
        ({}, "1 (distributed optimizer)", (1, 0, True)),
    ],
)
def test_sharding_is_told_by_stage_or_by_its_name_in_pytorch(parallel, assumed, expected):
    """ZeRO's stage, how many ranks share (0 for all), and whether weights are gathered twice."""
    case = row_of(
        system={"gpus": 32, "gpus_per_node": 8},
        parallel={"tp": 1, "pp": 1, "dp": 32, **parallel},
        assumed={} if assumed is None else {"zero_stage": assumed},
    )
    settings = case_settings(case)

    assert (settings.zero, settings.shard, settings.reshard) == expected


def test_what_recipes_usually_set_stands_between_the_case_and_our_defaults():
    """The usual value of the software overrides a default, not a stated or assumed value."""
    usual = {"sequence_parallel": True, "zero": 1}
    parallel = {"tp": 2, "pp": 1, "dp": 4}
    silent = case_settings(row_of(parallel=parallel), usual)
    stated = case_settings(row_of(parallel={**parallel, "zero_stage": 0}), usual)

    assert (silent.zero, silent.sequence_parallel) == (1, True)
    assert {"zero", "sequence_parallel"} <= set(silent.assumed)
    assert stated.zero == 0


def test_context_ranks_count_as_devices():
    """The replicas of a job follow from its devices and all of its other degrees."""
    case = row_of(system={"gpus": 64}, parallel={"tp": 4, "pp": 2, "cp": 2})

    assert case_settings(case).data == 4


# --- fine-tuning and offload ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finetune", "expected"),
    [
        (None, None),
        ("none", None),
        ({"method": "sft"}, None),
        ("full decoder", None),
        (
            {"method": "full decoder; embedding, output head and vision tower frozen"},
            {"method": "full", "frozen": ["embedding", "logits"]},
        ),
        ("full; LM head is frozen", {"method": "full", "frozen": ["logits"]}),
        ({"method": "lora"}, {"method": "lora"}),
        ({"method": "qlora", "rank": 64}, {"method": "qlora", "bits": 4, "rank": 64}),
        ({"method": "lora", "bits": 16}, {"method": "lora", "bits": 16}),
        (
            {"method": "hqq-dora", "bits": 4, "rank": 64},
            {"method": "dora", "bits": 4, "quantiser": "hqq", "rank": 64},
        ),
    ],
)
def test_finetuning_of_all_weights_is_training(finetune, expected):
    """Adapters are named with rank and bits; supervised fine-tuning trains every weight."""
    assert finetune_of(finetune) == expected


def test_frozen_parts_of_the_layers_are_not_understood():
    """Only the ends of a model can be frozen in training without adapters."""
    with pytest.raises(ValueError, match="unsupported finetuning: frozen 'first ten layers'"):
        finetune_of("full, first ten layers frozen")


# --- what is not stated ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accelerator", "system", "expected"),
    [("MI250X-GCD-64GB", "frontier", "bf16"), ("V100-SXM2-32GB", "cluster", "fp16")],
)
def test_a_precision_that_is_not_stated_has_16_bits(accelerator, system, expected):
    """It is that of the devices with the wider range, and assumed."""
    given = {"accelerator": accelerator, "name": system, "gpus_per_node": 8}
    settings = normalised(row_of(system=given)).settings

    assert settings.precision == expected
    assert "16 bits" in settings.assumed["precision"]


def test_a_batch_that_is_not_stated_is_one_microbatch_of_each_replica():
    """A pipeline with a single microbatch is unusual, so its batch remains missing."""
    parallel = {"tp": 1, "pp": 1, "dp": 8}
    flat = case_settings(row_of(parallel=parallel, batch={"micro": 2}))
    usual = case_settings(row_of(parallel=parallel, batch={"micro": 2}), {"grad_accum": 4})
    deep = case_settings(row_of(parallel={**parallel, "pp": 2}, batch={"micro": 2}))

    assert (flat.sequences, usual.sequences, deep.sequences) == (16, 64, None)
    assert not flat.complete


def test_runs_of_one_group_have_the_release_that_their_source_names():
    """The first entry with matching words applies, by the id or the note of the source."""
    group = {"group": "frontier-torchtitan"}
    earlier = normalised(row_of(**group, id="a-fsdp-run")).framework
    later = normalised(row_of(**group, id="a-run")).framework

    assert (earlier.framework, later.framework) == ("pytorch-fsdp", "torchtitan-rocm6")


def test_offloaded_parameters_take_the_optimiser_along():
    """PyTorch offloads gradients with parameters, so that the optimiser runs on the host."""
    assert offload_of("cpu-params") == {"parameters": True, "optimiser": True}
    assert offload_of("none") == offload_of(None) == {}


# --- experts, kernels, modules --------------------------------------------------------------------

GROK = {
    "family": "moe", "layers": 2, "hidden": 6144, "heads": 48, "kv_heads": 8, "ffn": 32768,
    "seq": 4096, "experts": 8, "topk": 2, "vocab": 128256, "capacity_factor": 1,
}  # fmt: skip
ON_H100 = {"accelerator": "H100-80GB-SXM", "gpus": 8, "gpus_per_node": 8}


def mixture(**keys):
    """Return the scenario of a mixture of experts in the words of a case."""
    layout = {"tp": 4, "pp": 1, "dp": 2, "ep": 2, "expert_tp": 4, "sequence_parallel": True}
    row = row_of(
        group="nemo-dgxc-h100", model=GROK, system=ON_H100, parallel=layout,
        batch={"global": 8, "micro": 1}, precision="bf16", **keys
    )  # fmt: skip
    return scenario_of(normalised(row)).scenario


def test_experts_have_a_tensor_degree_and_a_capacity_of_their_own():
    """Ranks that share an expert, and tokens over capacity, are those of the case."""
    plan, experts = mixture(recompute="none").plan, mixture(recompute="none").model.experts

    assert (plan.tensor, plan.expert, plan.expert_tensor) == (4, 2, 4)
    assert experts.capacity == 1


def test_a_case_names_the_kernel_of_attention_and_recomputed_modules():
    """Both change the scenario, and words that are none of them are reasons against the case."""
    stated = mixture(
        recompute="selective", recompute_modules=["core_attn", "moe_act"], attention="unfused"
    )
    wrong = row_of(recompute_modules="mlp, mlps", attention="magic")

    assert stated.framework.kernels.attention == "unfused"
    assert stated.recompute.modules == ["core_attn", "moe_act"]
    assert {reason.detail for reason in normalised(wrong).reasons} >= {
        "unsupported recomputed module 'mlps'",
        "unsupported kernel of attention 'magic'",
    }


def test_a_custom_recomputation_is_that_of_its_lists():
    """It names modules, operations or both, and a case without a list states nothing."""
    stated = mixture(recompute="custom", recompute_ops=["qkv"], recompute_modules=["core_attn"])
    silent = normalised(row_of(recompute="custom"))

    assert (stated.recompute.ops, stated.recompute.modules) == (["qkv"], ["core_attn"])
    assert "what is recomputed (recompute_ops or recompute_modules) not stated" in {
        reason.detail for reason in silent.reasons
    }


# --- measured memory ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "usual", "expected"),
    [
        (None, "fullest", ("fullest", False, True)),
        ("GiB, peak reserved, max over ranks", "fullest", ("fullest", False, True)),
        ("GB as nvidia-smi, max over the first and last nodes", "first", ("first", False, True)),
        ("GiB, peak reserved", "reserved", ("fullest", False, False)),
        ("GiB, torch max allocated, last rank", "first", ("last", True, False)),
        ("GiB allocated on the first rank", "fullest", ("first", True, False)),
    ],
)
def test_the_unit_of_memory_names_the_rank_and_what_counts(unit, usual, expected):
    """Allocated tensors leave out runtime and unused blocks; the rank is the stated one."""
    assert measured_peak(unit, usual) == expected


# --- shipped cases --------------------------------------------------------------------------------


def test_no_shipped_case_uses_words_that_the_readers_do_not_know():
    """Families, attention, fine-tuning and offload of every shipped case are understood."""
    rows = [entry.row for entry in shipped_cases()]
    unknown = [
        reason.kind
        for row in rows
        for reason in normalised(row).reasons
        if reason.kind.startswith(("unknown", "unsupported")) and "precision" not in reason.kind
    ]

    assert unknown == []
    assert {row.model.family for row in rows} <= set(FAMILIES)


def test_a_tray_of_a_rack_is_part_of_its_nvlink_domain():
    """Cases count the trays of four of an NVL72 as nodes; the file's node is the whole rack."""
    system = {"accelerator": "GB200-192GB", "gpus_per_node": 4}
    system["interconnect"] = "NVLink domain of 72 GPUs (NVL72)"
    choice = machine_of(row_of(system=system))

    assert choice.take == 64 < node_shape(choice.cluster).devices
