"""Measured inference: rows are read tolerantly, graded metric by metric, and near the sources."""

from statistics import median

import pytest

from clustersim.catalog.finding import shipped
from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_case
from clustersim.validation.cases.rows import parse_entries, read_entries
from clustersim.validation.outcome import Outcome

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
        "mode": "static", "engine": "vLLM 0.9", "batch_or_concurrency": 1, "isl": 128, "osl": 8,
    },
    "measured": {"latency_s": 0.1},
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
    [("ft-", 0.09), ("trtllm061-", 0.12), ("dsv3-", 0.12), ("trtllm05-", 0.20)],
)
def test_rows_in_closed_form_are_near_their_source(prefix, bar):
    """The median error of each source is at most today's."""
    outcomes = [run_case(entry) for entry in ENTRIES if entry.id.startswith(prefix)]

    assert median(outcome.absolute_error for outcome in outcomes) < bar


def test_each_metric_has_errors_of_its_own():
    """A case with two metrics counts once for each of them."""
    chosen = [entry for entry in ENTRIES if entry.id.startswith("sil-h100_sxm_vllm_agg_1024x128")]
    answer = validation_of([run_case(entry) for entry in chosen])

    assert [errors.metric for errors in answer.metrics] == ["tpot_ms", "ttft_ms"]
    assert [metric.metric for metric in answer.cases[0].metrics] == ["tpot_ms", "ttft_ms"]
    [token, _] = answer.metrics
    assert token.same_median_abs_error < token.roofline_median_abs_error
