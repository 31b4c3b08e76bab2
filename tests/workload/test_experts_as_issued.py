"""How the host issues experts: launches for each of them, its wait for row counts, overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import training
from clustersim.cost.compute import followed_seconds
from clustersim.program.blocks.blocks import Blocks
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.timeline import FORWARD
from clustersim.workload.kernels import Collective, Gemm, flat
from clustersim.workload.model import Layer
from clustersim.workload.ops import backward, forward

EXPERTS = Layer(experts=True)
SECONDS = st.floats(0, 10)


def scenario(*changes, framework="megatron-bridge", precision="bf16"):
    """Sixteen small experts for each of eight ranks of one node."""
    model, plan = {"name": "qwen3-30b-a3b", "layers": 4}, {"data": 8, "expert": 8}
    batch = (64, 1, 4096)
    return training("dgx-h100", 1, model, plan, batch, framework, *changes, precision=precision)


def kernels(*changes, back=False, **wish):
    """All kernels of one layer, forward or backward."""
    job = build_job(scenario(*changes, **wish))
    ops = job.layers.ops(EXPERTS)
    return flat(backward(ops) if back else forward(ops))


def products(*changes, **wish):
    """The products of experts."""
    found = kernels(*changes, **wish)
    return [k for k in found if isinstance(k, Gemm) and k.name.startswith("expert")]


def step_time(*changes, **wish):
    """Step time of a scenario."""
    return simulate(scenario(*changes, **wish)).step_time


def test_experts_issued_separately_are_a_launch_each_and_the_same_work():
    """Sixteen local experts take sixteen launches for a product, with the FLOPs of one."""
    together = products("framework.experts.separate=false")
    separate = products()

    assert [each.launches for each in together] == [1, 1]
    assert [each.launches for each in separate] == [16, 16]
    assert [each.flops for each in separate] == [each.flops for each in together]


@pytest.mark.parametrize(
    ("name", "back", "tokens", "copies"),
    [
        ("permute", False, 1, 8),
        ("permute backward", True, 1, 3 * 8),
        ("unpermute", False, 1, 5 * 8),
        ("unpermute backward", True, 0, 8 * 8),
    ],
)
def test_an_unfused_permutation_passes_over_the_copies_of_its_kernels(name, back, tokens, copies):
    """Of 4,096 tokens of 2,048 numbers with eight experts each; fused, over both once."""
    row = 2 * 4096 * 2048

    def moved(*changes):
        return next(each.nbytes for each in kernels(*changes, back=back) if each.name == name)

    assert moved() == row * (1 + 8)
    assert moved("framework.experts.permute_fused=false") == row * (tokens + copies)


def test_the_weight_of_each_expert_has_a_hook():
    """The gradient of an expert's weight is two launches, that of its input one."""
    launches = {each.name: each.launches for each in products(back=True)}

    assert launches["expert up weight gradient"] == 2 * launches["expert up input gradient"] == 32


def test_biases_of_experts_are_added_expert_by_expert():
    """gpt-oss was 45 % too fast on H100: its biases are three kernels for each expert."""
    plain = kernels()
    biased = kernels("model.biases=[mlp]")
    [added] = [each for each in biased if each.name == "expert bias"]

    assert not any(each.name == "expert bias" for each in plain)
    assert added.launches == 3 * 16 + 2


@pytest.mark.parametrize(("precision", "copies"), [("bf16", 0), ("fp8", 2)])
def test_rows_are_padded_for_products_in_8_bits(precision, copies):
    """Rows are copied before the products and after them, in 8 bits only."""
    found = kernels(precision=precision)

    assert sum(each.name == "expert padding" for each in found) == copies


def test_a_tensor_scaled_by_its_maximum_is_read_once_more():
    """Current scaling reads 2 bytes more per element than delayed scaling, MXFP8 does not."""

    def moved(precision, searched):
        change = f"framework.kernels.cast_searched={searched}"
        found = kernels(change, precision=precision)
        return sum(each.nbytes for each in found if each.name == "qkv cast")

    assert moved("fp8", "true") == moved("fp8", "false") * (2 + 2 + 2) / (2 + 2)
    assert moved("mxfp8", "true") == moved("mxfp8", "false")


def test_inside_a_node_a_token_is_sent_once_to_each_rank():
    """Of eight experts on eight ranks some share a rank, so that 5.3 copies leave."""

    def sent(framework):
        found = kernels(framework=framework)
        exchange = [k for k in found if isinstance(k, Collective) and k.name == "dispatch"]
        return exchange[0].nbytes

    assert sent("megatron-bridge-hybridep") / sent("megatron-bridge") == pytest.approx(
        0.667, abs=0.002
    )


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=8))
def test_a_followed_device_ends_after_the_host_and_after_its_own_work(chain):
    """The makespan is at least the time of either, and at most their sum."""
    host, device = (sum(each[place] for each in chain) for place in (0, 1))
    end = device + followed_seconds(chain)

    assert max(host, device) - 1e-9 <= end <= host + device + 1e-9


def test_a_host_that_waits_for_row_counts_is_never_faster():
    """The lead over the device that it loses in each layer shows in the forward."""
    waits, leads = (
        Blocks(build_job(scenario(f"framework.experts.synchronised={value}")))
        for value in ("true", "false")
    )

    def seconds(blocks):
        return blocks.block(0, 0, FORWARD, blocks.communicators.pattern(0, 0))[0]

    assert seconds(waits).dispatch > seconds(leads).dispatch
    assert seconds(waits).busy == seconds(leads).busy


def test_an_overlapped_exchange_is_hidden_but_for_the_first_and_last_microbatch():
    """Of eight microbatches seven exchange next to the computation of another one."""
    graphs = "megatron-bridge-0.5-graphs"
    alone, beside = (
        Blocks(build_job(scenario(f"framework.experts.overlapped={value}", framework=graphs)))
        for value in ("false", "true")
    )

    def exposed(blocks):
        return blocks.block(0, 0, FORWARD, blocks.communicators.pattern(0, 0))[0].expert

    assert exposed(beside) == pytest.approx(exposed(alone) / 8)
    assert step_time(framework=graphs) < step_time(
        "framework.experts.overlapped=false", framework=graphs
    )


def test_a_graph_of_the_iteration_leaves_nothing_to_issue():
    """With all parts captured the host issues no kernel of a layer."""
    job = build_job(scenario(framework="megatron-bridge-0.1-graphs"))
    blocks = Blocks(job)
    stacked = job.layers.stacked(0, 0)[0]
    own, _ = blocks._times.layer(stacked, FORWARD, blocks.communicators.pattern(0, 0))

    assert own.launches == 0
