"""Measured inference: rows are read tolerantly, graded metric by metric, and near the sources."""

from statistics import median

import numpy as np
import pytest

from clustersim.catalog.finding import shipped
from clustersim.inference.batch import Batch
from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_case
from clustersim.validation.cases.rows import parse_entries, read_entries
from clustersim.validation.inference.cases import inference_case
from clustersim.validation.inference.grading import baseline_predictions
from clustersim.validation.outcome import Outcome
from clustersim.validation.text import KINDS
from tools.explanation.quantities import PARTS

ENTRIES = read_entries(shipped("validation") / "inference_cases.yaml")
ROW = {
    "id": "a",
    "group": "inference-x",
    "family": "inference",
    "source": {"confidence": "high"},
    "system": {"accelerator": "H100-SXM5-80GB", "gpus": 1},
    "model": "llama-7b",
    "precision": {"weights": "fp8", "kv": "fp8"},
    "parallel": {"tp": 1},
    "serving": {
        "mode": "static", "engine": "vLLM 0.9", "batch_or_concurrency": 1, "isl": 128, "osl": 8
    },
    "measured": {"latency_s": 0.1}
}  # fmt: skip


def graded(**changes) -> Outcome:
    """Return the outcome of a row with other sections."""
    [entry] = parse_entries([{**ROW, **changes}])
    return run_case(entry)


def test_all_rows_are_read():
    """No row of the shipped file is malformed, and none belongs to another family."""
    assert len(ENTRIES) == 153
    assert {entry.row.family for entry in ENTRIES if entry.row} == {"inference"}


def test_a_row_without_its_settings_is_listed_with_all_of_them():
    """What a prediction needs and the source leaves out is named, setting by setting."""
    outcome = graded(parallel={}, precision={}, serving={"mode": "agg", "engine": "vllm"})

    assert outcome.answer.why == (
        "not stated: input length, output length, number formats, layout, number of users"
    )


def test_a_layout_of_more_devices_than_the_machine_has_is_no_case():
    """Where it was computed, an answer of a million attention ranks did not come."""
    why = graded(parallel={"tp": 1, "attention_dp": 1_000_000}).answer.why

    assert why is not None
    assert "a layout of 1,000,000 devices, but" in why


def test_fewer_than_no_users_had_a_negative_rate():
    """A row with them was graded, with a prediction below 0."""
    outcome = graded(serving={**ROW["serving"], "batch_or_concurrency": -1})

    assert outcome.answer.why is not None
    assert outcome.answer.why.endswith("batch_or_concurrency: must be from 1 to 1,000,000, not -1")


def test_a_key_of_another_type_is_named():
    """A row that cannot be read is malformed, as a row of a training step is."""
    outcome = graded(parallel={"tp": 0})

    assert outcome.answer.reasons == ("malformed",)
    assert outcome.answer.why == "parallel.tp: 0 is not a count of at least 1"


def test_weights_that_do_not_fit_are_listed_with_the_missing_memory():
    """A model of 180 billion parameters in 16 bits is not served on one device."""
    formats = {"weights": "fp16", "kv": "fp16"}
    outcome = graded(model="falcon-180b", precision=formats)

    assert outcome.answer.why.startswith("exceeds the memory of a device by 28")


@pytest.mark.parametrize(
    ("prefix", "bar"),
    [("ft-", 0.09), ("trtllm061-", 0.12), ("dsv3-", 0.13), ("trtllm05-", 0.20), ("lss-", 0.20)],
)
def test_rows_in_closed_form_are_near_their_source(prefix, bar):
    """The median error of each source is at most today's."""
    outcomes = [run_case(entry) for entry in ENTRIES if entry.id.startswith(prefix)]

    assert median(outcome.absolute_error for outcome in outcomes) < bar


def test_arrivals_of_a_trace_are_read_from_its_words():
    """Rate and limits are words of the load, and the number of requests one of the note."""
    [entry] = [entry for entry in ENTRIES if entry.id == "lss-rtxpro6000-llama-3.1-8b"]
    case = inference_case(entry.row)

    assert case.arrivals == (10.0, 300)
    assert case.changes == {"scheduler": {"sequences": 128, "tokens": 2048}}
    assert case.scenario["engine"]["scheduler"]["tokens"]["value"] == 2048
    assert "half of their means" in case.assumed["serving.lengths"]


@pytest.mark.parametrize(
    ("engine", "weights", "cache"),
    [("vLLM 0.9", "fp8", "bf16"), ("vLLM 0.9", "nvfp4", "fp8"), ("trtllm 1.0", "fp8", "fp8")],
)
def test_an_unstated_cache_has_the_format_of_the_engine(engine, weights, cache):
    """A cache of 8 bits is one of nvfp4 checkpoints in vLLM, of all narrow ones in TensorRT-LLM."""
    changes = {"precision": {"weights": weights}, "serving": {**ROW["serving"], "engine": engine}}
    [entry] = parse_entries([{**ROW, **changes}])
    case = inference_case(entry.row)

    assert case.costs.replica.formats.kv == cache
    assert "precision.kv" in case.assumed


def test_a_trace_without_a_rate_is_listed():
    """Arrivals cannot be replayed without their rate."""
    outcome = graded(serving={**ROW["serving"], "mode": "trace", "batch_or_concurrency": "bursts"})

    assert outcome.answer.why == "not stated: rate of arrivals"


def test_the_baseline_predicts_all_metrics_of_a_static_batch():
    """Its latency is that of the prompts and of all further tokens."""
    [entry] = [entry for entry in ENTRIES if entry.id == "ft-gpt-20b-tp1-b2-200x200"]
    found = baseline_predictions(inference_case(entry.row))
    token = (found["latency_s"] - found["ttft_ms"] / 1e3) / 199

    assert token == pytest.approx(2 * 2.0e10 / (2.039e12 * 0.82), rel=0.15)
    assert found["output_tok_s"] == pytest.approx(2 * 200 / found["latency_s"])


def test_each_metric_has_errors_of_its_own():
    """A case with two metrics counts once for each of them."""
    chosen = [entry for entry in ENTRIES if entry.id.startswith("sil-h100_sxm_vllm_agg_1024x128")]
    answer = validation_of([run_case(entry) for entry in chosen])

    assert [errors.metric for errors in answer.metrics] == ["tpot_ms", "ttft_ms"]
    assert [metric.metric for metric in answer.cases[0].metrics] == ["tpot_ms", "ttft_ms"]
    [token, _] = answer.metrics
    assert token.same_median_abs_error < token.roofline_median_abs_error


# --- where the time goes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "metric", "whole"),
    [
        ("ft-gpt-20b-tp2-b32", "latency_s", lambda value, row: value / row["serving"]["osl"]),
        ("lss-rtxpro6000-llama", "tpot_ms", lambda value, _: value / 1e3),
        ("trtllm05-ttft-h100-llama", "ttft_ms", lambda value, _: value / 1e3),
    ],
)
def test_the_parts_of_a_token_add_up_to_its_predicted_time(prefix, metric, whole):
    """Of a batch it is the latency over the output, of users the time per token, or the first."""
    [entry, *_] = [entry for entry in ENTRIES if entry.id.startswith(prefix)]
    answer = run_case(entry).answer

    assert answer.metric == metric
    expected = whole(answer.predicted, entry.row.written)
    assert sum(answer.parts.values()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.large
def test_every_cause_of_a_token_is_in_the_table_and_among_the_quantities():
    """No part of a predicted time is left out of the columns, or of an explanation."""
    columns = {name for names in KINDS.values() for name in names}
    for entry in ENTRIES[::9]:
        parts = run_case(entry).answer.parts
        assert set(parts) <= columns
        assert set(parts) - {"transfer", "queue"} <= set(PARTS)


GAP = "fixed lengths; runs of a configurator"
BENCHMARK = "lengths uniform from 0.8 to 1 of isl and osl"
SERVED = {"mode": "agg", "batch_or_concurrency": 8, "isl": 1024, "osl": 1024}


def served(
    note="",
    *,
    model="meta-llama/Llama-3.1-70B",
    weights="fp8",
    accelerator="B200-SXM-180GB",
    **serving,
):
    """Return the case of a row with some users."""
    changes = {
        "source": {"confidence": "high", "note": note},
        "system": {"accelerator": accelerator},
        "model": model,
        "precision": {"weights": weights},
        "parallel": {"tp": 2},
        "serving": {**SERVED, **serving},
    }
    [entry] = parse_entries([{**ROW, **changes}])
    return inference_case(entry.row)


@pytest.mark.parametrize(
    ("note", "lengths"), [(GAP, "fixed"), (BENCHMARK, {"uniform": 0.8}), ("", "fixed")]
)
def test_lengths_are_those_of_the_benchmark_of_a_row(note, lengths):
    """Requests of InferenceX differ in length; those of other sources do not."""
    case = served(note, engine="vllm 0.12.0")

    stated = case.lengths
    assert (stated if stated == "fixed" else stated.model_dump()) == lengths


def test_stated_lengths_win_over_those_of_the_benchmark():
    """A row that states `lengths` has these, and unknown ones are listed with what is allowed."""
    case = served(BENCHMARK, engine="vllm 0.12.0", lengths={"lognormal": 0.3})
    outcome = graded(serving={**SERVED, "engine": "vllm 0.12.0", "lengths": "odd"})

    assert case.lengths.lognormal == 0.3
    assert outcome.answer.why == "no lengths 'odd' (known: fixed, uniform, lognormal)"


def test_a_cache_that_a_recipe_states_is_read_from_it():
    """Scripts of InferenceX start vLLM with a cache of 8 bits for Llama, where 16 is usual."""
    recipe, usual = served(BENCHMARK, engine="vllm 0.10"), served(GAP, engine="vllm 0.10")

    assert (recipe.costs.replica.formats.kv, usual.costs.replica.formats.kv) == ("fp8", "bf16")
    assert recipe.assumed["precision.kv"].startswith("as in the recipe")


def test_a_recipe_for_some_lengths_is_for_these_alone():
    """TensorRT-LLM gathers prompts in the recipe of 1,024 and 1,024 tokens below tensor 8."""
    gathered = served(BENCHMARK, engine="trtllm 1.1")
    longer = served(BENCHMARK, engine="trtllm 1.1", isl=8192)

    assert gathered.changes["scheduler"] == {"wait_steps": 20, "wait_share": 0.9, "tokens": 2248}
    assert longer.changes["scheduler"] == {"tokens": 9416}


def test_pools_are_started_as_in_their_recipe():
    """Rows have data-parallel-size as a tensor degree, and no limit of the replicas for decode."""
    worker = {"num_workers": 1, "pp_size": 1, "attention_dp_size": 1}
    prefill = {**worker, "tp_size": 4, "moe_ep_size": 4}
    decode = {**worker, "tp_size": 16, "moe_ep_size": 16}
    case = served(
        BENCHMARK, model="moonshotai/Kimi-K2.5", weights="nvfp4", engine="vllm 0.18.0",
        accelerator="GB200", mode="disagg", prefill=prefill, decode=decode,
    )  # fmt: skip

    started = {"tensor": 1, "pipeline": 1, "replicas": 1}
    grouped = {"prefill": 4, "decode": 16}
    limits = {"prefill": {"tokens": 16384, "graphs": False}, "decode": {"sequences": 4096}}
    assert case.scenario["plan"] == {
        name: started | {"expert": devices, "attention_data": devices} | limits[name]
        for name, devices in grouped.items()
    }


def test_steps_of_a_configured_engine_take_its_users_and_a_prompt():
    """The configurator limits a step to the users, a prompt and 1,500 tokens more."""
    case = served(GAP, engine="vllm 0.12.0")

    assert case.costs.replica.engine.scheduler.tokens == 8 + 1024 + 1500


@pytest.mark.parametrize(("release", "ahead"), [("1.0.0rc3", False), ("1.1", True)])
def test_a_release_without_overlap_waits_for_its_host(release, ahead):
    """TensorRT-LLM 1.0.0rc3 was started without its overlapped scheduler, others with it."""
    engine = served(GAP, engine=f"trtllm {release}").costs.replica.engine

    assert engine.scheduler.ahead == ahead
    assert (engine.step > 1e-3) == (not ahead)


def test_experts_of_a_benchmark_are_chosen_by_popularity():
    """Tokens of a benchmark touch fewer experts than tokens that choose any with equal chance."""
    even, uneven = (
        served(note, model="openai/gpt-oss-120b", weights="nvfp4", engine="vllm 0.18.0")
        for note in ("", BENCHMARK)
    )
    tokens = np.array([16.0])

    assert uneven.scenario["experts"] == {"load": "zipf", "exponent": 0.8}
    active = [case.costs.replica.loads.tiles(tokens)["active"].sum() for case in (uneven, even)]
    assert active[0] < 0.85 * active[1]


MOE = "Qwen/Qwen3-235B-A22B-FP8"


def expert_seconds(engine, tensor, tokens):
    """Return the time of the experts of a step under an engine, on H200."""
    changes = {
        "system": {"accelerator": "H200-SXM-141GB"},
        "model": MOE,
        "precision": {"weights": "fp8"},
        "parallel": {"tp": tensor},
        "serving": {**SERVED, "engine": engine},
    }
    [entry] = parse_entries([{**ROW, **changes}])
    costs = inference_case(entry.row).costs
    return costs.step(Batch(tokens, 1024 * tokens)).parts["experts"]


def test_filled_tiles_cost_as_much_as_tokens_would():
    """Where experts have fewer tokens than a tile, steps take nearly as long with few tokens."""
    few, many = (expert_seconds("vllm 0.12.0", 4, tokens) for tokens in (8, 64))
    least, most = (expert_seconds("vllm 0.11.0", 4, tokens) for tokens in (8, 64))

    assert few > 1.5 * least
    assert many > most
    assert many / few < 0.8 * most / least


def test_filled_tiles_end_at_their_tensor_degree():
    """From a tensor degree of 8 experts have the kernels of the other releases."""
    assert expert_seconds("vllm 0.12.0", 8, 16) == expert_seconds("vllm 0.11.0", 8, 16)
