"""Settings, values of catalogue files and published metrics as text."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from clustersim.render.tables import percent, verdict
from clustersim.units import GIB, format_number, format_seconds, format_watts


def short_keys(keys: Sequence[str]) -> list[str]:
    """Return keys by their last word, in full where two have the same.

    >>> short_keys(["plan.tensor", "batch.micro"]), short_keys(["a.name", "b.name"])
    (['tensor', 'micro'], ['a.name', 'b.name'])
    """
    last = [key.rpartition(".")[2].replace("_", " ") for key in keys]
    return [word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)]


def format_setting(value: object) -> str:
    """Return a value as it is written in a scenario."""
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- values of catalogue files ----------------------------------------------------------------

LONGEST: Final = 120
"""Characters of a value in a table; a list of cables may have thousands."""


def format_value(value: Any) -> str:
    """Return a plain value as its file has it, shortened where it is long.

    >>> format_value([[0, 1, 4], [0, 2]]), format_value(True), format_value("25 GB/s")
    ('[0, 1, 4], [0, 2]', 'true', '25 GB/s')
    """
    text = ", ".join(map(_flow, value)) if isinstance(value, list) else _flow(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4].rpartition(',')[0]}, ..."


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- published metrics --------------------------------------------------------------------------

_METRICS: Final = {
    "step_time_s": "step time",
    "tokens_per_s": "tokens/s",
    "tokens_per_s_per_device": "tokens/s per device",
    "tflops_per_device": "TFLOP/s per device",
    "mfu": "MFU",
    "hfu": "HFU",
    "memory_bytes": "peak memory",
    "power_w": "mean power",
    "fits": "memory",
    "efficiency": "efficiency",
}


def metric_name(metric: str, convention: str | None = None) -> str:
    """Return a metric in words.

    >>> metric_name("tflops_per_device", "hardware")
    'TFLOP/s per device (hardware FLOPs)'
    """
    return _METRICS[metric] + (f" ({convention} FLOPs)" if convention else "")


def metric_value(metric: str, value: float) -> str:
    """Return the value of a metric with its unit, unless the name has it.

    >>> metric_value("memory_bytes", 16 * 2**30), metric_value("mfu", 0.5)
    ('16.0 GiB', '50.0 %')
    """
    formats: dict[str, Callable[[float], str]] = {
        "step_time_s": format_seconds,
        "mfu": percent,
        "hfu": percent,
        "efficiency": percent,
        "power_w": format_watts,
        "memory_bytes": lambda nbytes: f"{nbytes / GIB:.1f} GiB",
        "fits": verdict,
    }
    return formats.get(metric, format_number)(value)


UNMASKED: Final = (
    "counts attention without its causal mask, as published numbers do; HFU counts executed FLOPs"
)
"""Convention of MFU, printed where it exceeds 100 %."""
