"""Whole commands, with the limits that they must keep on two cores."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.table import Table
from benchmarks.timing import CLUSTERSIM, cost_of


class Work(NamedTuple):
    """A command, its arguments, and the most that it may take.

    Attributes
    ----------
    wall : limit of the time [s]; None without one
    peak : limit of the memory [B]; None without one
    """

    title: str
    arguments: tuple[str, ...]
    wall: float | None = None
    peak: float | None = None


def replicas(data: int) -> tuple[str, ...]:
    """Return the settings of llama3-405b-16k for a number of replicas of 128 devices.

    Each replica has 16 sequences, as with the 128 replicas of the scenario.
    """
    settings = {
        "cluster.size": max(16_384, 16 * data),
        "cluster.nodes": 16 * data,
        "plan.data": data,
        "batch.global": 16 * data,
    }
    return tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))


PAGE = "{folder}/page"
"""Where the run with a page is written; `{folder}` is a temporary folder."""

COMMANDS = (
    Work("--help", ("--help",)),
    *(
        Work(f"completion of {' '.join(words)}", ("__complete", "zsh", *words), 0.2)
        for words in (("se",), ("run", "front"), ("run", "--set", "plan.te"))
    ),
    *(
        Work(
            f"run llama3-405b-16k --json, {128 * data:,} devices",
            ("run", "llama3-405b-16k", "--json", *(replicas(data) if data > 128 else ())),
            wall,
            peak,
        )
        for data, wall, peak in (
            (128, 1.5, None),
            (256, 2.0, None),
            (512, 2.5, None),
            (1024, 4.0, 400e6),
            (2048, 6.0, 600e6),
            (8192, 30.0, 1.6e9),
        )
    ),
    Work("run fugaku-llm-13b --json, 13,824 devices", ("run", "fugaku-llm-13b", "--json"), 2.0),
    Work("run frontier-1t, with its page", ("run", "frontier-1t", "--out", PAGE), 1.5),
    Work("run frontier-1t --json", ("run", "frontier-1t", "--json"), 0.6),
    Work("run deepseek-v3-h800 --json", ("run", "deepseek-v3-h800", "--json"), 1.0),
    Work("run megatron21-t1-530b --json", ("run", "megatron21-t1-530b", "--json"), 1.0),
    Work(
        "search megatron21-t2-175b --json, 1,024 devices, again from the run cache",
        (
            *("search", "megatron21-t2-175b", "--devices", "1024"),
            *("--set", "batch.global=1536", "--json"),
        ),
    ),
    *(
        Work(
            f"serve llama3-70b-h100-serving --json, {requests:,} requests",
            ("serve", "llama3-70b-h100-serving", "--set", f"load.requests={requests}", "--json"),
            wall,
            peak,
        )
        for requests, wall, peak in ((10_000, 10.0, None), (100_000, 6.0, 200e6))
    ),
    Work(
        "serve llama3-70b-h100-serving, a curve of 8 loads, with its page",
        ("serve", "llama3-70b-h100-serving", "--loads", "1:128", "--out", PAGE, "--force"),
        20.0,
    ),
    Work("train llama3-405b-54-days --json", ("train", "llama3-405b-54-days", "--json")),
    Work(
        "size --cluster dgx-h100 --nodes 64 --days 30 --json",
        ("size", "--cluster", "dgx-h100", "--nodes", "64", "--days", "30", "--json"),
    ),
)


def commands(repeats: int, folder: str) -> Iterator[Table]:
    """Yield the cost of commands as whole processes."""
    rows = []
    for work in COMMANDS:
        arguments = [word.format(folder=folder) for word in work.arguments]
        cost = cost_of([*CLUSTERSIM, *arguments], repeats)
        limit = None if work.peak is None else work.peak / 1e6
        rows.append(
            (work.title, cost.wall, work.wall, cost.processor, round(cost.peak / 1e6), limit)
        )
    yield Table(
        "commands",
        "Commands",
        ("command", "time [s]", "limit [s]", "processor time [s]", "memory [MB]", "limit [MB]"),
        rows,
        "Whole processes, from start to end.",
    )
