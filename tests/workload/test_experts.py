"""Mixtures of experts: how tokens spread, what ranks compute and send, and what skew costs."""

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.errors import ClustersimError
from clustersim.simulation.step.answer import ExpertBalance
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.workload.flops import layer_forward_flops
from clustersim.workload.kernels import Collective, Gemm, Stream, flat
from clustersim.workload.model import Layer
from clustersim.workload.ops import backward, forward
from clustersim.workload.parameters import layer_parameters
from clustersim.workload.routing import nodes_of_token, route, task_shares, zipf_shares
from wrong_values import wrong_values

MODEST = settings(max_examples=20, deadline=None)
SHARES = st.lists(st.floats(0.01, 100), min_size=8, max_size=8)
EXPERTS = Layer(experts=True)


def scenario(*changes, **plan):
    """A mixture of 8 experts, 2 for a token, in four layers on two nodes of eight."""
    model, plan = {"name": "mixtral-8x7b", "layers": 4}, {"data": 16, "expert": 8, **plan}
    return training("dgx-h100", 2, model, plan, (32, 1, 4096), "megatron-core", *changes)


def products(job):
    """Matrix products of the experts of one layer, forward."""
    kernels = flat(forward(job.layers.ops(EXPERTS)))
    return [k for k in kernels if isinstance(k, Gemm) and k.name.startswith("expert")]


# --- how tokens spread ----------------------------------------------------------------------------


@MODEST
@given(SHARES, st.sampled_from([1, 2, 4, 8]), st.none() | st.floats(0.2, 4))
def test_no_rank_has_more_than_all_and_the_fullest_at_least_the_mean(shares, ranks, capacity):
    """The skew lies between 1 and the number of ranks; what is dropped is over the capacity."""
    found = route(shares, ranks, capacity)

    assert 1 - 1e-12 <= found.skew <= ranks + 1e-12
    assert 0 < found.kept <= 1 + 1e-12
    if capacity is not None and capacity <= 1:
        assert found.kept <= capacity + 1e-12


@MODEST
@given(SHARES)
def test_a_capacity_of_one_on_ranks_of_one_expert_evens_out_what_is_full(shares):
    """With room for the mean only, kept tokens and skew make up at most one mean load."""
    found = route(shares, 8, capacity=1.0)

    assert found.kept * found.skew == pytest.approx(1.0)


def test_popular_experts_of_a_zipf_law_are_dealt_out_in_turn():
    """Four experts on two ranks: the first and third in popularity here, the others there."""
    assert zipf_shares(4, 1.0, ranks=2) == [1, 1 / 3, 1 / 2, 1 / 4]
    assert route(zipf_shares(8, 0.0, ranks=4), 4).skew == pytest.approx(1)


@MODEST
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8), st.integers(1, 50))
def test_whole_sequences_go_to_tasks(tasks, sequences):
    """Every sequence goes to one expert, and none has a sequence more than its share rounded up."""
    found = task_shares(tasks, 8, sequences)

    assert sum(found) == sequences
    assert all(
        math.floor(sequences * task / sum(tasks)) <= got <= math.ceil(sequences * task / sum(tasks))
        for task, got in zip(tasks, found, strict=False)
    )


@MODEST
@given(st.integers(1, 6), st.sampled_from([1, 2, 4, 8]))
def test_a_token_is_on_no_more_nodes_than_it_has_experts(top_k, nodes):
    """Nor on more than there are; on one, if there is one."""
    shape = build_job(scenario(f"model.experts.top_k={top_k}")).model.experts
    found = nodes_of_token(shape, nodes)

    assert 1 - 1e-12 <= found <= min(top_k, nodes) + 1e-12


# --- what ranks compute and send ------------------------------------------------------------------


@pytest.mark.parametrize("plan", [{"expert": 1}, {"expert": 2}, {"expert": 4, "expert_tensor": 2}])
def test_all_ranks_together_compute_what_the_model_asks_for(plan):
    """However experts are shared out, ranks add up to the FLOPs of all tokens."""
    job = build_job(scenario(**plan))
    flops = layer_forward_flops(job.model, EXPERTS)

    assert sum(kernel.flops for kernel in products(job)) == pytest.approx(
        flops["expert up"] + flops["expert down"]
    )


def test_a_token_goes_to_each_of_its_experts_and_back():
    """An all-to-all of 2 tokens x hidden x 2 bytes each way, for each of the two experts."""
    job = build_job(scenario("framework.experts.counted=false"))
    moved = [k for k in flat(forward(job.layers.ops(EXPERTS))) if isinstance(k, Collective)]

    assert [(k.operation, k.axis) for k in moved] == [("all-to-all", "expert")] * 2
    assert {k.nbytes for k in moved} == {2 * 4096 * 4096 * 2}


def test_counts_and_weights_of_tokens_are_messages_of_their_own():
    """8 bytes for each of 8 experts from each of 8 ranks, then 4 bytes for each of two copies."""
    job = build_job(scenario())
    moved = {k.name: k for k in flat(forward(job.layers.ops(EXPERTS))) if isinstance(k, Collective)}

    assert moved["token counts"].nbytes == 8 * 8 * 8
    assert moved["dispatch weights"].nbytes == 4 * 2 * 4096
    assert list(moved) == ["token counts", "dispatch", "dispatch weights", "combine"]


def test_rows_are_sorted_by_expert_where_a_rank_has_several():
    """Each way two copies of all rows, read and written; none where each rank has one expert."""

    def sorting(experts, chain):
        ops = build_job(scenario(expert=experts)).layers.ops(EXPERTS)
        return [k.nbytes for k in flat(chain(ops)) if isinstance(k, Stream) and "sort" in k.name]

    rows = 2 * 4096

    assert sorting(4, forward) == sorting(4, backward) == [2 * 2 * rows * 4096] * 2
    assert sorting(8, forward) == sorting(1, forward) == []


def test_sharing_out_experts_shares_out_their_memory():
    """Parameters of experts fall with the ranks that share them, the others stay."""
    alone, shared = (simulate(scenario(expert=n)).memory.fullest.parts for n in (1, 8))
    of_experts = 4 * layer_parameters(build_job(scenario()).model, EXPERTS).experts

    assert alone["parameters"] - shared["parameters"] == pytest.approx(2 * of_experts * 7 / 8)


def test_gradients_of_experts_are_summed_up_over_those_that_hold_the_same():
    """Sixteen replicas in two copies of eight shares: both meet once, in groups of two."""
    tail = simulate(scenario("framework.gradients.overlap.value=never")).program.actors[0].tail

    assert [piece.name for pieces in tail.gradients for piece in pieces] == [
        "all-reduce over 16 ranks, stage 0",
        "all-reduce over 2 ranks, expert-data of stage 0",
    ]


# --- what skew costs ------------------------------------------------------------------------------


@MODEST
@given(st.floats(0.0, 2.0))
def test_a_step_grows_as_the_fullest_rank_over_the_mean_of_the_experts_part(exponent):
    """The wait is the experts' compute times max over mean load, less one; products stay."""
    even, part = _even_step_and_its_experts()
    skewed = simulate(scenario(f"experts={{load: zipf, exponent: {exponent}}}"))
    skew = route(zipf_shares(8, exponent, 8), 8).skew

    assert skewed.attribution["imbalance"] == pytest.approx((skew - 1) * part)
    assert skewed.attribution["matmul"] == pytest.approx(even.attribution["matmul"])


@cache
def _even_step_and_its_experts():
    """Return a balanced step, and the seconds that a rank's experts compute, by a skew of two."""
    even = simulate(scenario())
    double = simulate(scenario("experts={load: histogram, histogram: [2, 1, 1, 1, 1, 1, 1, 0]}"))
    assert even.attribution["imbalance"] == 0
    return even, double.attribution["imbalance"]


def test_dropped_tokens_are_not_computed():
    """With room for the mean only, a skewed load takes no longer than an even one."""
    full = simulate(scenario("experts={load: zipf}"))
    limited = simulate(scenario("experts={load: zipf}", "model.experts.capacity=1"))
    even = simulate(scenario())

    assert limited.step_time < full.step_time
    assert limited.step_time == pytest.approx(even.step_time, rel=0.05)


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "complaint"), wrong_values("mixtures of experts"))
def test_an_impossible_mixture_is_told_what_would_do(changes, complaint):
    """One line states the violated rule, and a valid value."""
    with pytest.raises(ClustersimError) as caught:
        build_job(scenario(*changes.split("\n")))

    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_dropped_is_counted():
    """Two experts would take a quarter each; with room for an eighth, a quarter is lost."""
    loads = "experts={load: histogram, histogram: [3, 3, 1, 1, 1, 1, 1, 1]}"
    balance = simulate(scenario(loads, "model.experts.capacity=1")).answer.experts

    assert balance.dropped == pytest.approx(2 * (3 / 12 - 1 / 8))
    assert simulate(scenario()).answer.experts == ExpertBalance(skew=1, dropped=0)


@pytest.mark.parametrize(
    "plan", [{"expert": 8}, {"data": 8, "tensor": 2, "sequence_parallel": True, "expert": 4}]
)
def test_folding_changes_nothing_where_replicas_share_experts(plan):
    """A step takes as long with every rank as an event of its own."""
    folded, alone = (simulate(scenario(f"fold={fold}", **plan)) for fold in ("true", "false"))

    assert alone.step_time == folded.step_time
    assert len(alone.program.actors) > len(folded.program.actors)


def test_ranks_that_share_an_expert_gather_its_tokens():
    """Two ranks an expert: each computes half of its columns on the tokens of both."""
    job = build_job(scenario(expert=4, expert_tensor=2))
    moved = [k for k in flat(forward(job.layers.ops(EXPERTS))) if isinstance(k, Collective)]
    shared = [k for k in moved if k.axis == "expert-tensor"]

    assert [k.operation for k in shared] == ["all-gather", "reduce-scatter"]
    assert {k.nbytes for k in shared} == {2 * 2 * 4096 * 4096 * 2}


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_experts_that_are_not_grouped_run_one_after_another(precision):
    """Four experts a rank: four products of a quarter of the rows, with the same FLOPs in all."""
    settings = [f"precision={precision}", "framework.experts.grouped=false"]
    grouped, apart = (products(build_job(scenario(*settings[:n], expert=2))) for n in (1, 2))

    assert [k.batch for k in grouped] == [4, 4]
    assert [(k.batch, k.launches) for k in apart] == [(1, 1)] * 8
    assert sum(k.flops for k in apart) == sum(k.flops for k in grouped)


def test_the_default_exponent_of_zipf_is_listed_as_assumed():
    """It decides the load, and is no longer assumed where it is stated."""
    stated = scenario("experts={load: zipf, exponent: 1.0}")
    default = scenario("experts={load: zipf}")

    assert simulate(default).assumed["experts.exponent"] == "1, if nothing else is stated"
    assert "experts.exponent" not in simulate(stated).assumed
