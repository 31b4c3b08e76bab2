"""Results of serving benchmarks: the JSON of four programs as measures of a service.

    vLLM, SGLang   mean_ttft_ms, p99_tpot_ms, request_throughput, ...
    trtllm-bench   performance.*, streaming_metrics.*
    AIPerf         time_to_first_token.avg, inter_token_latency.p99, ...

Each program has a table from its keys, joined by points, to measures and the factor to SI units.
The time between two tokens of AIPerf is the latency after the first token over the tokens after
it, which is the time per token of the others.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from clustersim.importers.source import Source
from clustersim.records import dataclass

MS: Final = 1e-3

PERCENTILES: Final = ("p50", "p90", "p95", "p99")

MOST: Final = 1e18
"""Numbers beyond it are no results of a benchmark, nor are those that are not finite."""

MOST_DEPTH: Final = 4
"""Tables inside tables that are read; the results are in the outer ones."""

Keys = Mapping[str, tuple[str, float]]
"""Measure and factor by key."""


def _times(names: Mapping[str, str], means: str, percentiles: str, median: str = "p50") -> Keys:
    """Return the keys of times in milliseconds; `{}` is the name, `{q}` the percentile."""
    keys = {}
    for name, measure in names.items():
        keys[means.format(name)] = (measure, MS)
        for q in PERCENTILES:
            own = median if q == "p50" else q
            keys[percentiles.format(name, q=own)] = (f"{measure}_{q}", MS)
    return keys


_TIMES: Final = {"ttft": "ttft", "tpot": "tpot", "e2el": "latency", "e2e_latency": "latency"}

BENCHMARKS: Final[Mapping[str, Keys]] = {
    "vllm-or-sglang": {
        **_times(_TIMES, "mean_{}_ms", "{q}_{}_ms", "median"),
        "request_throughput": ("requests_per_s", 1.0),
        "output_throughput": ("tokens_per_s", 1.0),
        "total_token_throughput": ("total_tokens_per_s", 1.0),
        "total_throughput": ("total_tokens_per_s", 1.0),
    },
    "trtllm-bench": {
        **_times(
            {"ttft": "ttft", "tpot": "tpot"},
            "streaming_metrics.avg_{}_ms",
            "streaming_metrics.{}_percentiles.{q}",
        ),
        "performance.avg_request_latency_ms": ("latency", MS),
        **{
            f"performance.request_latency_percentiles_ms.{q}": (f"latency_{q}", MS)
            for q in PERCENTILES
        },
        "performance.request_throughput_req_s": ("requests_per_s", 1.0),
        "performance.system_output_throughput_tok_s": ("tokens_per_s", 1.0),
        "performance.system_total_throughput_tok_s": ("total_tokens_per_s", 1.0),
    },
    "aiperf": {
        **_times(
            {
                "time_to_first_token": "ttft",
                "inter_token_latency": "tpot",
                "request_latency": "latency",
            },
            "{}.avg",
            "{}.{q}",
        ),
        "request_throughput.avg": ("requests_per_s", 1.0),
        "output_token_throughput.avg": ("tokens_per_s", 1.0),
        "total_token_throughput.avg": ("total_tokens_per_s", 1.0),
    },
}
"""Programs by name."""


@dataclass(frozen=True)
class Benchmark:
    """The result of a benchmark of a service.

    Attributes
    ----------
    file : as messages name it
    format : name of its program in `BENCHMARKS`
    measures : by name of a service's measure, in SI units
    """

    file: str
    format: str
    measures: dict[str, float]


def benchmark_of(source: Source) -> Benchmark | None:
    """Return the result of a benchmark; None where the text is none.

    Of JSON lines, to which SGLang appends, the last is read.
    """
    values = dict(_flat(_table(source.text)))
    read = {
        program: {
            measure: values[key] * factor
            for key, (measure, factor) in keys.items()
            if values.get(key, 0.0) > 0
        }
        for program, keys in BENCHMARKS.items()
    }
    program = max(read, key=lambda name: len(read[name]))
    return Benchmark(source.file, program, read[program]) if read[program] else None


def _table(text: str) -> Any:
    """Return the JSON object of a text, or of its last line."""
    for candidate in (text, text.strip().rpartition("\n")[2]):
        if candidate.lstrip().startswith("{"):
            try:
                return json.loads(candidate)
            except (ValueError, RecursionError):
                continue
    return None


def _flat(table: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested tables by their keys, joined by points."""
    if not isinstance(table, dict) or depth > MOST_DEPTH:
        return
    for key, value in table.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) < MOST:
                yield f"{path}{key}", float(value)
        else:
            yield from _flat(value, f"{path}{key}.", depth + 1)
