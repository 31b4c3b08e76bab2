r"""The formats of logs: one record each, which the one reader of `steps` follows.

A format is the line that ends a step, with its number, and the values on this line or on those
next to it.  Values are in SI units after the factor.  Of ``now/mean`` the first number is taken.

    Megatron-LM  training_log, report_memory      1 MB of report_memory is 2^20 B
    Primus       the same with `now/mean`, hip mem usage/free/total       1 GB is 2^30 B
    gpt-neox     samples/sec, approx flops per GPU
    Bridge       Step Time ... GPU utilization, on the line before; mem-max-allocated-gigabytes
    torchtitan   components/metrics.py, on the console and as JSON
    NeMo         the progress printer, the progress bar and DLLogger
    MaxText      metric_logger.py
    Trainer      the summary at the end of `Trainer.train`
    llm-foundry  Composer's ConsoleLogger and SpeedMonitor, one value a line after the batch
    DeepSpeed    ThroughputTimer (utils/timer.py)
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from clustersim.records import dataclass
from clustersim.units import GIB

Where = Literal["line", "before", "after"]

NUMBER: Final = r"[ \t]*([0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
"""A number that is not negative, with separators of thousands."""


@dataclass(frozen=True)
class Field:
    """A value of a step.

    Attributes
    ----------
    name : one of `QUANTITIES`
    pattern : its one group is the number
    factor : to the unit of the quantity
    where : on the line that ends the step, on one before it or after it as well
    """

    name: str
    pattern: re.Pattern[str]
    factor: float = 1.0
    where: Where = "line"


@dataclass(frozen=True)
class LogFormat:
    """The steps of a program's log.

    Attributes
    ----------
    sign : a text of its logs
    step : line that ends a step; its group, if it has one, is the number of the step
    fields : values of the step
    """

    sign: re.Pattern[str]
    step: re.Pattern[str]
    fields: Sequence[Field]


QUANTITIES: Final[Mapping[str, str]] = {
    "step_time_s": "time of a step [s]",
    "tokens_per_s_per_device": "tokens of a device in a second",
    "samples_per_s": "sequences of the job in a second",
    "steps_per_s": "steps in a second",
    "tflops_per_device": "rate of a device in the convention of the program [10^12 FLOP/s]",
    "mfu": "share of the peak that the program assumes",
    "memory_peak_bytes": "largest memory of a device [B]",
    "batch": "sequences of a step",
}
"""What a step may state."""


def _field(name: str, text: str, factor: float = 1.0, where: Where = "line") -> Field:
    return Field(name, re.compile(text + NUMBER), factor, where)


MEGATRON: Final = LogFormat(
    re.compile(r"elapsed time per iteration \(ms\):"),
    re.compile(r"iteration\s+([0-9]{1,12})/\s*[0-9]+.*elapsed time per iteration \(ms\):"),
    (
        _field("step_time_s", r"elapsed time per iteration \(ms\):", 1e-3),
        _field("tokens_per_s_per_device", r"tokens per GPU \(tokens/s/GPU\):"),
        _field("tokens_per_s_per_device", r"tokens per gpu per second \(tgs\):"),
        _field("samples_per_s", r"samples(?:/sec| per second):"),
        _field("tflops_per_device", r"throughput per GPU \(TFLOP/s/GPU\):"),
        _field("tflops_per_device", r"\| TFLOPs:"),
        Field("tflops_per_device", re.compile(rf"approx flops per GPU:{NUMBER}TFLOPS")),
        _field("tflops_per_device", r"GPU utilization:", where="before"),
        _field("batch", r"global batch size:"),
        _field("memory_peak_bytes", r"hip mem usage/free/total/usage_ratio:", GIB),
        _field("memory_peak_bytes", r"mem-max-allocated-gigabytes:", 1e9, "after"),
        _field("memory_peak_bytes", r"memory \(MB\) \|.*\| max allocated:", 2.0**20, where="after"),
    ),
)

TORCHTITAN: Final = LogFormat(
    re.compile(r"\bstep:\s*[0-9]+.*\b(?:tps|wps):|\"throughput\(tps\)\":"),
    re.compile(
        r"\bstep:\s*([0-9]{1,12}).*\b(?:tps|wps):|\"step\":\s*([0-9]{1,12}).*\"throughput\(tps\)\":"
    ),
    (
        _field("step_time_s", r"\"time_metrics/end_to_end\(s\)\":"),
        _field("tokens_per_s_per_device", r"\b(?:tps|wps):"),
        _field("tokens_per_s_per_device", r"\"throughput\(tps\)\":"),
        _field("tflops_per_device", r"\btflops\"?:"),
        Field("mfu", re.compile(rf"\bmfu:{NUMBER}%"), 0.01),
        _field("mfu", r"\"mfu\(%\)\":", 0.01),
        Field("memory_peak_bytes", re.compile(rf"\bmemory:{NUMBER}GiB"), GIB),
        _field("memory_peak_bytes", r"\"memory/max_active\(GiB\)\":", GIB),
    ),
)

NEMO: Final = LogFormat(
    re.compile(r"train_step_timing in s"),
    re.compile(
        r"global_step\"?\s*[:=]\s*([0-9]{1,12}).*train_step_timing in s"
        r"|\"step\":\s*([0-9]{1,12}).*train_step_timing in s"
    ),
    (
        _field("step_time_s", r"train_step_timing in s\"?\s*[:=]"),
        _field("tflops_per_device", r"tflops_per_sec_per_gpu\"?\s*[:=]", 1.0),
        _field("batch", r"global_batch_size\"?\s*[:=]"),
    ),
)

MAXTEXT: Final = LogFormat(
    re.compile(r"completed step: [0-9]+, seconds:"),
    re.compile(r"completed step: ([0-9]{1,12}), seconds:"),
    (
        _field("step_time_s", r", seconds:"),
        _field("tokens_per_s_per_device", r"Tokens/s/device:"),
        _field("tflops_per_device", r"TFLOP/s/device:"),
    ),
)

TRAINER: Final = LogFormat(
    re.compile(r"['\"]train_runtime['\"]:"),
    re.compile(r"['\"]train_runtime['\"]:"),
    (
        _field("samples_per_s", r"['\"]train_samples_per_second['\"]: ['\"]?"),
        _field("steps_per_s", r"['\"]train_steps_per_second['\"]: ['\"]?"),
    ),
)

COMPOSER: Final = LogFormat(
    re.compile(r"\[batch=[0-9]+/[0-9]+\]:"),
    re.compile(r"\[batch=([0-9]{1,12})/[0-9]+\]:"),
    tuple(
        Field(name, re.compile(rf"(?:^|\s){key}:{NUMBER}"), factor, "after")
        for name, key, factor in (
            ("steps_per_s", "throughput/batches_per_sec", 1.0),
            ("samples_per_s", "throughput/samples_per_sec", 1.0),
            ("tokens_per_s_per_device", "throughput/device/tokens_per_sec", 1.0),
            ("tflops_per_device", "throughput/device/flops_per_sec", 1e-12),
            ("mfu", "throughput/device/mfu", 1.0),
            ("memory_peak_bytes", "memory/peak_allocated_mem", 1e9),
        )
    ),
)

DEEPSPEED: Final = LogFormat(
    re.compile(r"CurrSamplesPerSec="),
    re.compile(r"(?:global_step=|\] [0-9]+/)([0-9]{1,12}), RunningAvgSamplesPerSec="),
    (
        _field("samples_per_s", r"CurrSamplesPerSec="),
        Field("memory_peak_bytes", re.compile(rf"MaxMemAllocated={NUMBER}GB"), GIB),
    ),
)

LOGS: Final[Mapping[str, LogFormat]] = {
    "megatron": MEGATRON,
    "torchtitan": TORCHTITAN,
    "nemo": NEMO,
    "maxtext": MAXTEXT,
    "hugging-face-trainer": TRAINER,
    "llm-foundry": COMPOSER,
    "deepspeed": DEEPSPEED,
}
"""Formats by name; a log with lines of two, as of DeepSpeed below Megatron, is of the first."""

INTERRUPTED: Final = re.compile(
    r"sav(?:ing|ed).{0,40}checkpoint|checkpoint.{0,60}(?:saved|written)|load(?:ing|ed).{0,20}"
    r"checkpoint|validation loss at|validation results|['\"]eval_(?:loss|runtime)['\"]"
    r"|\beval(?:uation)?\b.{0,40}(?:loss|batch|step|finished|started)|\bvalidate step:"
    r"|running (?:validation|evaluation)|validation dataloader",
    re.IGNORECASE,
)
"""Lines of a checkpoint or of an evaluation: the steps next to them take other time."""
