"""Every shipped serving scenario runs, and comes as close to what was published as we claim."""

from functools import cache

import pytest

from clustersim.catalog.finding import entry_names, find
from clustersim.errors import PlanError, ScenarioError
from clustersim.simulation.service.result import ServeResult
from clustersim.simulation.service.serve import serve
from descriptions import undescribed

NEAR = 0.13
"""Greatest error of a published number of a service."""

FARTHER = {"gpt-175b-a100-fastertransformer": 0.25, "llama2-70b-h100-mlperf-offline": 0.22}
"""Services that are further off: an older release, and lengths of which only means are known."""

SERVING = tuple(name for name in entry_names("scenario") if "load" in find("scenario", name).data)


@cache
def result(name: str) -> ServeResult:
    return serve(name)


@pytest.mark.parametrize("name", SERVING)
def test_every_serving_scenario_runs_and_states_what_was_published(name):
    """A shipped service fits if it did, and has a published number or states why it has none."""
    found = result(name)
    verdicts = [check for check in found.published if check.metric == "fits"]

    assert found.memory.fits == all(check.value for check in verdicts)
    assert found.published or "published" in found.scenario.assumed
    assert all(check.source for check in found.published)
    assert undescribed(found.answer, "run", "serve") == []
    for check in found.published:
        assert check.error is None or abs(check.error) <= FARTHER.get(name, NEAR), check


@pytest.mark.parametrize("name", SERVING)
def test_the_causes_of_a_time_add_up_to_it(name):
    """The parts of the time per token, and of the first token, add up to their means."""
    found = result(name)
    if found.ttft is None:
        return

    assert sum(found.first_attribution.values()) == pytest.approx(found.ttft.mean)
    if found.tpot is not None:
        assert sum(found.attribution.values()) == pytest.approx(found.tpot.mean)
        assert min(found.attribution.values()) >= 0


def test_70b_on_eight_h100_over_concurrency():
    """More users: tokens come later for each, and more of them for all."""
    name = "llama3-70b-h100-serving"
    found = [serve(name, {"load.concurrency": users}) for users in (1, 16, 128)]
    times = [each.tpot.mean for each in found]
    rates = [each.rates["output_tokens_per_s"] for each in found]

    assert times == sorted(times)
    assert rates == sorted(rates)
    assert rates[-1] > 20 * rates[0]


def test_530b_on_16_and_32_devices_and_a_pipeline():
    """More tensor ranks shorten a request; three stages of 8 do not, as measured."""
    layouts = ("tp32", "tp16", "tp8-pp3")
    latencies = [result(f"megatron-530b-a100-{layout}").latency.mean for layout in layouts]

    assert latencies == sorted(latencies)


def test_narrow_formats_pay_for_one_user_and_where_they_multiply():
    """int4 is twice as fast for one user and slower for many prompts; fp8 is faster there too."""
    name = "llama3-8b-h100-formats"
    one = [serve(name, {"precision": form}).tpot.mean for form in ("bf16", "int8", "int4")]
    many = {"load.batch": 64, "load.input": 2048, "load.output": 2}
    wide, fp8, a100, int4 = (
        serve(name, many | {"precision": form, "cluster.name": f"dgx-{cluster}"}).ttft.mean
        for cluster, form in (("h100", "bf16"), ("h100", "fp8"), ("a100", "bf16"), ("a100", "int4"))
    )

    assert one == sorted(one, reverse=True)
    assert one[0] > 1.5 * one[2]
    assert int4 > a100
    assert fp8 < 0.8 * wide


def test_fused_kernels_pay_at_a_small_batch():
    """Without fusion a token of one user takes some percent more."""
    fused, unfused = (result(f"llama3-8b-h100-{name}").tpot.mean for name in ("formats", "unfused"))

    assert 1.02 < unfused / fused < 1.5


@pytest.mark.parametrize(
    ("name", "most"),
    [("mixtral-h100-skewed-serving", 0.97), ("moe-translation-hard-gate-serving", 0.9)],
)
def test_uneven_experts_cost_throughput(name, most):
    """The slowest rank decides: skew lowers the rate, a hard gate to one expert more."""
    even = serve(name, {"experts": {"load": "balanced"}}).rates["output_tokens_per_s"]

    assert result(name).rates["output_tokens_per_s"] < most * even


@pytest.mark.large
def test_separate_pools_shorten_the_time_of_a_token():
    """With prefill elsewhere no prompt is in a decode step; the first token waits for the cache."""
    name = "llama3-70b-h100-serving"
    base = {"cluster.nodes": 2, "load.concurrency": 32, "load.requests": 64}
    pools = {"prefill": {"tensor": 8}, "decode": {"tensor": 8}}
    both = serve(name, base | {"plan.replicas": 2})
    split = serve(name, base | {"plan": pools})

    assert "prompts" in both.attribution
    assert "prompts" not in split.attribution
    load = {"batch": 1, "input": 8000, "output": 2}
    alone = {"cluster.nodes": 2, "engine": "tensorrt-llm", "load": load}
    layers, whole = (
        serve(name, alone | {"plan": {**pools, "transfer": way}}).first_attribution["transfer"]
        for way in ("layers", "whole")
    )
    assert whole > 10 * layers


@pytest.mark.large
def test_a_pool_is_started_with_options_of_its_own():
    """Limits of a pool are those of its replicas alone, as is whether its steps are graphs."""
    name = "llama3-70b-h100-serving"
    base = {"cluster.nodes": 2, "load.concurrency": 32, "load.requests": 64}
    decode = {"tensor": 8, "sequences": 8, "graphs": False}
    prefill, limited = serve(
        name, base | {"plan": {"prefill": {"tensor": 8, "tokens": 4096}, "decode": decode}}
    ).pools

    engines = [pool.costs.replica.engine for pool in (prefill, limited)]
    assert [engine.scheduler.tokens for engine in engines] == [4096, 8192]
    assert [engine.scheduler.sequences for engine in engines] == [1024, 8]
    assert [engine.graphs is None for engine in engines] == [False, True]


def test_speculation_shortens_the_time_of_a_token_while_accepted():
    """Drafted tokens that are accepted save steps; those that are not cost their verification."""
    name = "llama3-8b-h100-formats"
    times = [
        serve(name, {"speculation": {"tokens": 3, "acceptance": share}}).tpot.mean
        for share in (0.0, 0.7)
    ]

    assert times[1] < 0.7 * result(name).tpot.mean < times[0]


def test_a_draft_model_costs_time_and_memory():
    """A draft model of 8 billion parameters pays for one of 70, and less than free tokens."""
    name, wish = "llama3-70b-h100-serving", {"tokens": 3, "acceptance": 0.7}
    free, drafted = (
        serve(name, {"speculation": {**wish, **draft}}) for draft in ({}, {"draft": "llama3-8b"})
    )

    assert free.tpot.mean < drafted.tpot.mean < result(name).tpot.mean
    assert drafted.answer.attribution["draft"] > 0.1 * drafted.tpot.mean
    assert drafted.memory.parts["draft_model"] > 1e9
    assert sum(drafted.answer.attribution.values()) == pytest.approx(drafted.tpot.mean)


def test_an_engine_that_reserves_whole_requests_preempts_none():
    """With GUARANTEED_NO_EVICT a request waits for the blocks of its whole output; vLLM evicts."""
    load = {"offline": 400, "input": 500, "output": 3_000}
    given = {"load": load, "cluster.nodes": 1, "plan": {"tensor": 1}, "model": "llama3-8b"}
    found = {
        engine: serve("llama3-8b-h100-formats", given | {"engine": engine}).answer
        for engine in ("tensorrt-llm", "vllm")
    }

    assert found["tensorrt-llm"].queue.preemptions == 0
    assert found["vllm"].queue.preemptions > 0
    held = found["tensorrt-llm"].kv.capacity_tokens // 3_500
    assert found["tensorrt-llm"].counts.mean_batch <= held


@pytest.mark.large
def test_a_prompt_recomputed_after_its_first_token_is_no_transfer():
    """With cached prompts the first token waits for admission alone, also of preempted requests."""
    load = {"concurrency": 400, "input": 500, "output": 3_000, "requests": 400, "cached": True}
    found = serve("llama3-8b-h100-formats", {"load": load}).answer

    assert found.queue.preemptions > 0
    assert sum(found.ttft_attribution.values()) == pytest.approx(found.ttft_s.mean)


@pytest.mark.parametrize(("engine", "each"), [("vllm-0.14", 4), ("tensorrt-llm", 8)])
def test_a_pipeline_has_its_most_sequences_in_each_batch_or_in_all(engine, each):
    """TensorRT-LLM limits each batch in flight, vLLM all of them together."""
    changes = {
        "engine.name": engine,
        "engine.scheduler.sequences": 8,
        "plan": {"pipeline": 2},
        "precision.kv": "bf16",
        "load": {"offline": 64, "input": 16, "output": 256},
    }

    found = serve("llama3-70b-h100-serving", changes).answer.counts

    assert found.mean_batch == pytest.approx(each, rel=0.1)


def test_few_requests_of_many_users_ended_together_in_no_time():
    """Two requests of 64 users had 5,600,000 tokens/s, or a negative rate with speculation."""
    service = {
        "title": "Two requests of 64 users",
        "cluster": {"name": "hgx-h20", "nodes": 2},
        "model": "llama2-70b",
        "plan": {"tensor": 2, "replicas": 4},
        "precision": {"weights": "fp8", "kv": "fp8"},
        "engine": "tensorrt-llm",
        "load": {"concurrency": 64, "input": {"histogram": {"128": 3, "1024": 1}},
                 "output": 2, "requests": 2, "warm_up": 5},
    }  # fmt: skip

    with pytest.raises(ScenarioError, match="the measured requests end together"):
        serve(service)


def test_experts_over_a_billion_devices_were_shared_out_without_end():
    """The load of experts is distributed to ranks that have some, before degrees are checked."""
    changes = {"plan.expert": 1_000_000_000, "experts": {"load": "zipf", "exponent": 0.7}}

    with pytest.raises(PlanError, match="1000000000 must divide the 4 devices of a stage"):
        serve("mixtral-h100-serving", changes)
