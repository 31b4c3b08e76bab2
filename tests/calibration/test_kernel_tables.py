"""Tables of measured kernels: words and columns of several collections mean the same here."""

import pytest

from clustersim.calibration.kernels.expert_loads import expert_loads
from clustersim.calibration.kernels.tables import has_accelerators, read_tables
from clustersim.errors import ScenarioError
from wrong_values import wrong_values


def table(folder, *lines):
    file = folder / "kernels.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def only(folder, *lines):
    """Return the only measurement of a table."""
    (row,) = read_tables([table(folder, *lines)]).rows
    return row.measured


PRODUCT = "accelerator,kernel,dtype,m,n,k,seconds"
DECODE = "accelerator,kernel,dtype,kv_dtype,batch,heads,kv_heads,head_dim,seq_q,seq_kv,seconds"
ROWS = {
    "a result is written in 16 bits": (
        PRODUCT,
        "x,gemm,fp8_block,8,16,32,2e-6",
        ("gemm", "fp8-block", 2e-6),
        {"batch": 1, "m": 8, "n": 16, "k": 32, "result": 2, "rotated": 0, "repeats": 30},
    ),
    "a gradient that is added in 32 bits moves 8 bytes": (
        "accelerator,kernel,dtype,layout,out_dtype,accumulate,b,m,n,k,seconds",
        "x,matmul,bf16,NT,fp32,True,2,8,16,32,2e-6",
        ("training-gemm", "bf16", 2e-6),
        {"batch": 2, "result": 8},
    ),
    "100 TFLOP/s on 2 x 1000^3 FLOPs are 20 us": (
        "accelerator,dtype,m,n,k,achieved_tflops",
        "x,bf16,1000,1000,1000,100",
        ("gemm", "bf16", 2e-5),
        {},
    ),
    "a cache of 8 bits under queries of 16 is a variant": (
        DECODE,
        "x,attn_decode,bfloat16,fp8,4,32,8,128,1,1000,1e-5",
        ("attention-decode", "bf16/fp8", 1e-5),
        {"keys": 1000, "read": 256, "packed": 32},
    ),
    "FlashAttention packs 64 query heads on one of keys, TensorRT-LLM 32": (
        DECODE,
        "x,mha_decode,bf16,bf16,4,64,1,128,1,1000,1e-5",
        ("attention-decode", "bf16/bf16", 1e-5),
        {"packed": 64},
    ),
    "a token of latent attention stores 576 numbers, which a tile packs": (
        "accelerator,kernel,dtype,kv_dtype,batch_size,num_heads,tp_size,seq_q,seq_kv,seconds",
        "x,mla_decode,bfloat16,bfloat16,4,128,1,1,1000,1e-5",
        ("latent-decode", "bf16/bf16", 1e-5),
        {"kv_heads": 1, "read": 576, "packed": 128},
    ),
    "2 tokens for each of 32 experts here, of 64 of each of 8 devices": (
        "accelerator,kernel,dtype,distribution,tokens,hidden,inter,topk,experts,moe_tp,moe_ep,seconds",
        "x,moe_grouped_gemm,bfloat16,balanced,64,7168,2048,8,256,2,8,1e-4",
        ("experts", "bf16", 1e-4),
        {"routed": 64, "active": 32, "local": 32, "inner": 1024},
    ),
}


@pytest.mark.parametrize("which", ROWS)
def test_a_row_has_kind_format_time_and_shape(tmp_path, which):
    """Names of kernels and number formats are translated, and a rate is a time."""
    head, line, named, shape = ROWS[which]
    row = only(tmp_path, head, line)

    assert (row.kind, row.variant, row.seconds) == (*named[:2], pytest.approx(named[2]))
    assert shape.items() <= row.shape.items()


def test_a_benchmark_that_rotates_weights_is_known_by_its_source(tmp_path):
    """Releases of TensorRT-LLM from 1.3 are measured so, earlier ones have five copies of any size.

    Both have three runs, three graphs and six measured ones in a row.
    """
    shapes = [
        only(
            tmp_path,
            "accelerator,kernel,dtype,m,n,k,seconds,source",
            f"x,gemm,bf16,8,16,32,2e-6,a@1:data/x/gemm/trtllm/{release}/gemm_perf.parquet",
        ).shape
        for release in ("1.0.0", "1.3.0rc20")
    ]

    assert [(shape["rotated"], shape["repeats"]) for shape in shapes] == [(0, 60), (1, 12)]


def test_what_a_benchmark_of_attention_includes_is_known_by_its_source(tmp_path):
    """TensorRT-LLM's operator rotates and writes the cache; Intel's devices have no graphs."""
    found = [
        only(
            tmp_path,
            "accelerator,kernel,dtype,kv_dtype,batch,heads,kv_heads,head_dim,seq_q,seq_kv,seconds,source",
            f"x,attn_prefill,bf16,bf16,1,32,8,128,64,64,2e-6,a@1:data/{where}/context.parquet",
        ).shape
        for where in ("x/attention/trtllm/1.3.0rc20", "b60/attention/vllm/0.20.0")
    ]

    assert [shape["prepared"] for shape in found] == [1, 0]
    assert [shape["issued"] for shape in found] == [0, 1]


def test_both_layers_of_a_row_are_measurements(tmp_path):
    """A table with the times of both layers gives two products of the same experts."""
    file = table(
        tmp_path,
        "accelerator,kernel,dtype,local_experts,hidden,inter,tokens_per_expert,up_seconds,down_seconds",
        "x,grouped_gemm_decode,fp8_block(DeepGEMM),4,2048,512,3,2e-5,1e-5",
    )
    up, down = (row.measured for row in read_tables([file]).rows)

    assert (up.shape["n"], up.shape["k"], up.seconds) == (1024, 2048, 2e-5)
    assert (down.shape["n"], down.shape["k"], down.seconds) == (2048, 512, 1e-5)


def test_libraries_of_collectives_are_variants(tmp_path):
    """Launches by the host are in the time of one and not of the other."""
    file = table(
        tmp_path,
        "accelerator,kernel,impl,dtype,gpus,bytes,seconds",
        "x,all_reduce,vLLM_custom_graph,bfloat16,8,1024,5e-6",
        "x,all_reduce,vLLM_custom_eager,bfloat16,8,1024,3e-5",
    )
    graph, eager = (row.measured for row in read_tables([file]).rows)

    assert (graph.variant, eager.variant) == ("vllm-custom-graph", "vllm-custom-eager")
    assert graph.shape == {"devices": 8, "bytes": 1024}


def test_collectives_over_several_nodes_are_left_out(tmp_path):
    """Sixteen devices on two nodes are limited by a network that the table does not describe."""
    file = table(
        tmp_path,
        "accelerator,kernel,dtype,gpus,gpus_per_node,bytes,seconds",
        "x,all_reduce,fp16,16,8,1024,5e-5",
        "x,all_reduce,fp16,8,8,1024,3e-5",
    )
    read = read_tables([file])

    assert [row.measured.variant for row in read.rows] == ["torch"]
    assert read.left_out == {"all-reduce over several nodes: it belongs to their links": 1}


def test_kernels_without_a_surface_are_counted(tmp_path):
    """Elementwise kernels are left out with their reason."""
    file = table(
        tmp_path,
        PRODUCT,
        "x,elementwise:add,fp16,8,16,0,2e-6",
        "x,gemm:mlp_up_proj,fp16,8,16,32,2e-6",
    )
    read = read_tables([file])

    assert [row.measured.kind for row in read.rows] == ["gemm"]
    assert list(read.left_out.values()) == [1]


@pytest.mark.parametrize(("lines", "complaint"), wrong_values("tables of kernels"))
def test_a_wrong_table_is_one_line(here, lines, complaint):
    """A row that cannot be used is named with its line, its column and what is allowed."""
    file = table(here, lines)

    with pytest.raises(ScenarioError) as problem:
        read_tables([file])

    assert str(problem.value).startswith(complaint)
    assert "\n" not in str(problem.value)


def test_tables_of_one_device_are_another_format(tmp_path):
    """The table of `--measure` has no accelerator in its rows."""
    assert has_accelerators(table(tmp_path, "accelerator,kernel,seconds"))
    assert not has_accelerators(table(tmp_path, "# a device", "kind,shape,precision,seconds"))


# --- loads of experts -------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["power_law_1.01", "power_law_1.2"])
def test_the_measured_device_has_the_hottest_expert(distribution):
    """Skewed routing gives one expert of the device more tokens than balanced routing."""
    loads = expert_loads(4096, 8, 256, 32, distribution)

    assert len(loads) == 8
    assert max(loads) > 4096 * 8 / 256
    assert sum(loads) > 4096 * 8 / 32


def test_one_device_with_all_experts_has_all_tokens():
    """Quantiles of a power law add up to the routed tokens, but for rounding."""
    assert sum(expert_loads(4096, 8, 256, 1, "power_law_1.2")) == pytest.approx(4096 * 8, rel=0.05)


def test_tokens_that_rounding_leaves_reach_experts_without_tokens():
    """16 tokens of experts, of which 9 round to one each: the other 7 go to further experts."""
    assert sorted(expert_loads(4, 4, 128, 1, "power_law_1.2"))[-16:] == [1.0] * 16


def test_few_tokens_under_skewed_routing_reach_some_expert_each():
    """4 tokens with 4 experts each are 16 tokens of experts, also where most round to none."""
    assert sum(expert_loads(4, 4, 128, 1, "power_law_1.2")) == 16


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("zipf", "distribution: no 'zipf'"),
        ("power_law_x", "distribution: 'power_law_x' has no number"),
        ("power_law_1", "distribution: 'power_law_1' needs an exponent"),
    ],
)
def test_unknown_routings_are_named(name, complaint):
    """A distribution that is not known is an error with those that are."""
    with pytest.raises(ValueError, match=complaint):
        expert_loads(64, 8, 256, 8, name)
