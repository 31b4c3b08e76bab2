"""Lines of programs that log their steps, and results of benchmarks, in the form of each."""

import json

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
"""Lines by case: their format, and number and values of their last step."""

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
"""Results with their program, and measures of them."""

RESULTS_AS_TEXT = {
    name: json.dumps(result, indent=1)
    for name, result in (("vllm", VLLM), ("sglang", SGLANG), ("trtllm", TRTLLM), ("aiperf", AIPERF))
}
"""Results as their programs write them."""

NCCL_TESTS = """\
# Collective test starting: all_reduce_perf
#  Rank  0 Group  0 Pid  10012 on   node-1 device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  7 Group  0 Pid  10012 on   node-1 device  7 [0xdf] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
     1048576        262144     float     sum      -1    41.10   25.51   44.65      0    40.86 \
  25.66   44.91      0
[1,0]<stdout>:  67108864  16777216  bfloat16  sum  -1  392.3  171.06  299.36  0  390.8  171.7 \
300.51  N/A
     1048576        262144     float     sum      -1    43.10   24.51   42.65      0    40.86 \
  25.66   44.91      0
  1073741824     268435456     float     sum
# Avg bus bandwidth    : 267.5
"""
"""A log with a prefix of MPI, a size that is repeated, and a line that is cut."""
