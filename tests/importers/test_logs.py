"""Logs: each program's lines are read in their exact form, with their warts."""

import json

import pytest

from clustersim.errors import CatalogError
from clustersim.importers.logs.formats import LOGS, QUANTITIES
from clustersim.importers.logs.services import BENCHMARKS, benchmark_of
from clustersim.importers.logs.steps import read_log, steps_of
from clustersim.importers.source import MOST_LINES, Source
from clustersim.simulation.measures import measures_of
from clustersim.units import GIB

MEGATRON = (
    " [2026-11-24 15:23:07] iteration      {n}/    5000 | consumed samples:  {n}024 | elapsed time"
    " per iteration (ms): {ms} | throughput per GPU (TFLOP/s/GPU): 400.1 | learning rate: 1.5E-06 |"
    " global batch size:   256 | lm loss: 1.192634E+01 | number of skipped iterations:    0 |"
)
MEMORY = (
    "[Rank 0] (after {n} iterations) memory (MB) | allocated: 20034.75 | max allocated: {mb} |"
    " reserved: 31086.0 | max reserved: 31086.0"
)
PRIMUS = (
    "[\x1b[32m20251202 09:12:08\x1b[0m][\x1b[36mrank-7/8\x1b[0m][\x1b[1mINFO \x1b[0m] : iteration"
    " 126/ 5000 | consumed samples: 16128 | elapsed time per iteration (ms): 13372.8/13364.7 | hip"
    " mem usage/free/total/usage_ratio: 153.81GB/102.17GB/255.98GB/60.09% | throughput per GPU"
    " (TFLOP/s/GPU): 567.6/568.0 | tokens per GPU (tokens/s/GPU): 9801.4/9807.3 | global batch"
    " size: 128 | lm loss: 6.5E-03 |\x1b[0m"
)
NEOX = (
    " samples/sec: 51.234 | iteration       10/      50 | elapsed time per iteration (ms): 9876.5 |"
    " learning rate: 1.234E-04 | approx flops per GPU: 150.3TFLOPS | lm_loss: 7.123456E+00 |"
)
BRIDGE = (
    "Step Time : 2.34s GPU utilization: 645.2MODEL_TFLOP/s/GPU\n iteration        7/      50 |"
    " consumed samples:          896 | elapsed time per iteration (ms): 2341.7 | global batch size:"
    "   128 |\n[Rank 1] (after 7 iterations) memory (GB) | mem-allocated-gigabytes: 63.66 |"
    " mem-max-allocated-gigabytes: 153.4 | mem-max-reserved-gigabytes: 182.2"
)
TITAN = (
    "[rank0]:[titan] 2026-04-01 00:25:47,084 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:"
    "  8.2116  \x1b[38;2;54;234;195mgrad_norm:  1.2  \x1b[33mmemory: 43.55GiB(46.00%)  \x1b[34mtps:"
    " 5,432  \x1b[36mtflops: 312.40  \x1b[35mmfu: 31.59%\x1b[39m"
)
TITAN_JSON = json.dumps(
    {
        "step": 20,
        "loss_metrics/global_avg_loss": 8.1,
        "throughput(tps)": 5432.5,
        "tflops": 312.4,
        "mfu(%)": 31.59,
        "time_metrics/end_to_end(s)": 1.508,
        "memory/max_active(GiB)": 43.55,
    }
)
NEMO = (
    "Training epoch 0, iteration 1/249 | lr: 3.922e-06 | global_batch_size: 8 | global_step: 1 |"
    " reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16"
)
NEMO_BAR = (
    "Epoch 0: : 98%|█████| 98/100 [10:42<00:13, global_step=97.00, train_step_timing in s=9.812]\r"
    "Epoch 0: : 99%|█████| 99/100 [10:45<00:06, global_step=98.00, train_step_timing in s=9.804]\r"
)
DLLL = "DLLL " + json.dumps(
    {
        "timestamp": "1739210331.7",
        "type": "LOG",
        "step": 16,
        "data": {"reduced_train_loss": 10.9, "global_step": 16.0, "train_step_timing in s": 92.287},
    }
)
MAXTEXT = (
    "completed step: 12, seconds: 5.432, TFLOP/s/device: 210.3, Tokens/s/device: 2070.487,"
    " total_weights: 33554432, loss: 11.825"
)
TRAINER = (
    "{'train_runtime': 437.8544, 'train_samples_per_second': 25.132, 'train_steps_per_second':"
    " 3.145, 'train_loss': 0.45, 'epoch': 3.0}"
)
COMPOSER = (
    "[batch=12/100]:\n\t Train memory/peak_allocated_mem: 29.5\n\t Train loss/train/total: 8.4\n"
    "\t Train throughput/batches_per_sec: 0.1085\n\t Train throughput/samples_per_sec: 2.7330\n"
    "\t Train throughput/device/batches_per_sec: 0.0136\n"
    "\t Train throughput/device/tokens_per_sec: 1255.1776\n"
    "\t Train throughput/device/flops_per_sec: 150000000000000.0\n"
    "\t Train throughput/device/mfu: 0.4807\n"
)
DEEPSPEED = (
    "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10,"
    " RunningAvgSamplesPerSec=25.0257, CurrSamplesPerSec=25.5, MemAllocated=4.32GB,"
    " MaxMemAllocated=38.49GB"
)
LINES = {
    "megatron": (
        "megatron",
        f"{MEGATRON.format(n=100, ms=1234.5)}\n{MEMORY.format(n=100, mb=30227.5)}",
        (100, {"step_time_s": 1.2345, "tflops_per_device": 400.1, "batch": 256,
               "memory_peak_bytes": 30227.5 * 2**20}),
    ),
    "primus": (
        "megatron",
        PRIMUS,
        (126, {"step_time_s": 13.3728, "tokens_per_s_per_device": 9801.4, "batch": 128,
               "tflops_per_device": 567.6, "memory_peak_bytes": 153.81 * GIB}),
    ),
    "gpt-neox": (
        "megatron",
        NEOX,
        (10, {"step_time_s": 9.8765, "samples_per_s": 51.234, "tflops_per_device": 150.3}),
    ),
    "bridge": (
        "megatron",
        BRIDGE,
        (7, {"step_time_s": 2.3417, "tflops_per_device": 645.2, "batch": 128,
             "memory_peak_bytes": 153.4e9}),
    ),
    "torchtitan": (
        "torchtitan",
        TITAN,
        (10, {"tokens_per_s_per_device": 5432, "tflops_per_device": 312.4, "mfu": 0.3159,
              "memory_peak_bytes": 43.55 * GIB}),
    ),
    "torchtitan as JSON": (
        "torchtitan",
        TITAN_JSON,
        (20, {"step_time_s": 1.508, "tokens_per_s_per_device": 5432.5, "mfu": 0.3159,
              "tflops_per_device": 312.4, "memory_peak_bytes": 43.55 * GIB}),
    ),
    "nemo": ("nemo", NEMO, (1, {"step_time_s": 2.505, "batch": 8})),
    "nemo's bar": ("nemo", NEMO_BAR, (98, {"step_time_s": 9.804})),
    "nemo's dllogger": ("nemo", DLLL, (16, {"step_time_s": 92.287})),
    "maxtext": (
        "maxtext",
        MAXTEXT,
        (12, {"step_time_s": 5.432, "tflops_per_device": 210.3,
              "tokens_per_s_per_device": 2070.487}),
    ),
    "hugging face": (
        "hugging-face-trainer",
        TRAINER,
        (None, {"samples_per_s": 25.132, "steps_per_s": 3.145}),
    ),
    "llm-foundry": (
        "llm-foundry",
        COMPOSER,
        (12, {"steps_per_s": 0.1085, "samples_per_s": 2.733, "tflops_per_device": 150.0,
              "tokens_per_s_per_device": 1255.1776, "mfu": 0.4807, "memory_peak_bytes": 29.5e9}),
    ),
    "deepspeed": (
        "deepspeed",
        DEEPSPEED,
        (10, {"samples_per_s": 25.5, "memory_peak_bytes": 38.49 * GIB}),
    ),
}  # fmt: skip


def log(*lines):
    """Return the log of some lines."""
    return steps_of(Source("train.log", "\n".join(lines)))


def times(read):
    """Return number, attempt and time of each step of a log."""
    return [(step.number, step.attempt, step.values["step_time_s"]) for step in read.steps]


def iterations(*pairs):
    """Return lines of Megatron-LM."""
    return [MEGATRON.format(n=n, ms=ms) for n, ms in pairs]


@pytest.mark.parametrize("case", LINES)
def test_each_program_states_its_steps_in_its_own_form(case):
    """Number and values of the last step, in SI units; the format is found by content."""
    form, text, (number, values) = LINES[case]
    read = log("some line before", text, "some line after")

    assert read.format == form
    assert read.steps[-1].number == number
    assert read.steps[-1].values == pytest.approx(values)


def test_every_format_has_a_line_and_states_known_quantities():
    """No format without a test; no value that the study does not know."""
    assert {form for form, _, _ in LINES.values()} == set(LOGS)
    assert {field.name for form in LOGS.values() for field in form.fields} == set(QUANTITIES)


def test_interleaved_ranks_are_one_step():
    """The median of the ranks, the largest memory, also where one rank is a line behind."""
    titan = [TITAN.replace("step: 10", f"step: {n}") for n in (10, 10, 11, 10, 11, 11)]
    titan[3] = titan[3].replace("43.55", "50.00").replace("5,432", "5,400")
    read = log(*titan)

    assert [step.number for step in read.steps] == [10, 11]
    assert read.steps[0].values["memory_peak_bytes"] == 50 * GIB
    assert read.steps[0].values["tokens_per_s_per_device"] == 5432


def test_a_number_that_goes_back_is_a_restart():
    """The steps after it are of another attempt."""
    read = log(*iterations(*[(n, 1000) for n in range(90, 108)], (100, 4000), (101, 1000)))

    assert times(read)[-2:] == [(100, 1, 4.0), (101, 1, 1.0)]
    assert read.restarts == 1


def test_cut_and_missing_lines_are_no_steps():
    """A line that ends before its time has no record, and numbers may be missing."""
    whole = iterations((1, 1000), (2, 1000), (9, 1000))
    read = log(whole[0], whole[1][:60], whole[2], whole[2][:110])

    assert times(read) == [(1, 0, 1.0), (9, 0, 1.0)]


@pytest.mark.parametrize(
    "line",
    [
        "saving checkpoint at iteration      12 to /checkpoints in torch_dist format",
        "  successfully saved checkpoint from iteration      12 to /checkpoints",
        " validation loss at iteration 12 | lm loss value: 6.9E+00 | lm loss PPL: 9.9E+02 |",
        "[titan] Saving the checkpoint (or staging if async is enabled).",
        "{'eval_loss': 0.59, 'eval_runtime': 5.187, 'epoch': 3.0}",
        "[titan] validate step: 12  loss: 8.0  memory: 40.0GiB(42%)  tps: 12,000",
        "[Rank 0] [Torch] Checkpoint global_step10 is about to be saved!",
    ],
)
def test_steps_next_to_a_checkpoint_or_an_evaluation_are_marked(line):
    """The step before and the step after it."""
    first, last = iterations((11, 1000), (12, 1000)), iterations((13, 3000), (14, 1000))

    assert [step.interrupted for step in log(*first, line, *last).steps] == [
        False,
        True,
        True,
        False,
    ]


def test_memory_of_any_rank_belongs_to_the_step_before_it():
    """Megatron prints it once for each rank, after the first step."""
    lines = [MEMORY.format(n=1, mb=mb) for mb in (100.0, 300.0, 200.0)]

    assert log(*iterations((1, 1000)), *lines).steps[0].values["memory_peak_bytes"] == 300 * 2**20


def test_a_text_without_lines_of_a_known_program_is_no_log():
    """Nothing is guessed."""
    assert log("epoch 1: loss 3.2, 1.4 s") is None


def test_a_known_program_without_a_complete_step_is_an_error():
    """With the name of its format."""
    with pytest.raises(CatalogError, match=r"^train.log: has lines of megatron and no complete"):
        log("elapsed time per iteration (ms):")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0", "is binary, not text"),
        (b"", "is empty"),
        (b"\n" * (MOST_LINES + 1), f"has more than {MOST_LINES:,} lines"),
        (b"x" * 16_000_001, r"is larger than 16 MB \(give a part of it: tail -n"),
    ],
)
def test_a_file_that_is_no_log_is_one_clear_line(content, problem, tmp_path):
    """Binary, empty, a million lines, too large."""
    (tmp_path / "a.log").write_bytes(content)

    with pytest.raises(CatalogError, match=problem) as error:
        read_log(tmp_path / "a.log")
    assert "\n" not in str(error.value)


def test_a_letter_that_is_cut_does_not_end_the_reading(tmp_path):
    """`tail -c` cuts the bar of a progress bar in the middle of its letters."""
    (tmp_path / "a.log").write_bytes("█".encode()[1:] + b"\n" + MAXTEXT.encode())

    assert steps_of(read_log(tmp_path / "a.log")).format == "maxtext"


# --- results of serving benchmarks ----------------------------------------------------------------

VLLM = {
    "request_throughput": 30.88, "output_throughput": 15440.38, "total_token_throughput": 47062.28,
    "mean_ttft_ms": 5801.0, "median_ttft_ms": 5815.62, "p99_ttft_ms": 11142.44,
    "mean_tpot_ms": 46.5, "median_tpot_ms": 46.02, "p99_tpot_ms": 51.06, "mean_itl_ms": 34.6,
    "mean_e2el_ms": 28743.68, "ttfts": [1.0, 2.0],
}  # fmt: skip
SGLANG = {"mean_ttft_ms": 200.0, "mean_e2e_latency_ms": 2400.0, "total_throughput": 900.0}
TRTLLM = {
    "engine": {"model": "a"},
    "performance": {
        "avg_request_latency_ms": 2000.0,
        "request_throughput_req_s": 3.5,
        "system_output_throughput_tok_s": 1700.0,
        "request_latency_percentiles_ms": {"p50": 1900.0, "p99": 3000.0},
    },
    "streaming_metrics": {"avg_ttft_ms": 90.0, "avg_tpot_ms": 12.0},
}
AIPERF = {
    "request_throughput": {"unit": "requests/sec", "avg": 0.8233},
    "request_latency": {"unit": "ms", "avg": 2413.5, "p50": 2431.75, "p99": 2439.45},
    "time_to_first_token": {"unit": "ms", "avg": 195.84, "p50": 175.05, "p90": 251.45},
    "inter_token_latency": {"unit": "ms", "avg": 35.2, "p99": 35.96},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 52.0},
}
RESULTS = [
    ("vllm-or-sglang", VLLM, {"ttft": 5.801, "ttft_p50": 5.81562, "tpot_p99": 0.05106,
                              "latency": 28.74368, "tokens_per_s": 15440.38}),
    ("vllm-or-sglang", SGLANG, {"ttft": 0.2, "latency": 2.4, "total_tokens_per_s": 900.0}),
    ("trtllm-bench", TRTLLM, {"ttft": 0.09, "tpot": 0.012, "latency_p99": 3.0,
                              "requests_per_s": 3.5}),
    ("aiperf", AIPERF, {"ttft_p90": 0.25145, "tpot": 0.0352, "latency": 2.4135}),
]  # fmt: skip


@pytest.mark.parametrize(("program", "result", "measures"), RESULTS)
def test_the_result_of_a_serving_benchmark_is_measures_of_a_service(program, result, measures):
    """By the keys of its program, in seconds."""
    read = benchmark_of(Source("result.json", json.dumps(result)))

    assert read.format == program
    assert {name: read.measures[name] for name in measures} == pytest.approx(measures)


def test_of_json_lines_the_last_result_is_read():
    """SGLang appends a line for each run."""
    text = "\n".join(json.dumps(SGLANG | {"mean_ttft_ms": ms}) for ms in (100.0, 300.0))

    assert benchmark_of(Source("a.jsonl", text)).measures["ttft"] == pytest.approx(0.3)


def test_all_keys_of_benchmarks_are_measures_of_a_service():
    """No name that a service does not have."""
    names = {measure for keys in BENCHMARKS.values() for measure, _ in keys.values()}

    assert names <= set(measures_of(["service"]))


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "{" * 100_000, MAXTEXT])
def test_other_texts_are_no_result(text):
    """Truncated, of another kind, nested without end, a log."""
    assert benchmark_of(Source("a.json", text)) is None
