"""How fast layouts are searched: 175B on 1,024 A100, the bounds of all and the replays of a few."""

from collections.abc import Iterator

from benchmarks.table import Table
from clustersim import search

SCENARIO = "megatron21-t2-175b"
DEVICES = 1024
SETTINGS = ("batch.global=1536",)
JOBS = 2


def searches(repeats: int, folder: str) -> Iterator[Table]:
    """Time a whole search, the best of some."""
    answers = [
        search(SCENARIO, devices=DEVICES, settings=SETTINGS, jobs=JOBS) for _ in range(repeats)
    ]
    answer = min(answers, key=lambda answer: answer.wall_s)
    counts = answer.layouts
    valid = counts.possible - counts.excluded
    row = (
        counts.possible,
        valid,
        counts.replayed,
        answer.tightness or 0.0,
        answer.wall_s,
        valid / answer.wall_s,
    )
    columns = (
        "possible layouts",
        "valid",
        "replayed",
        "median bound / replay",
        "time [s]",
        "valid layouts/s",
    )
    text = f"The best layout of {SCENARIO} on {DEVICES:,} devices, proven, by {JOBS} processes."
    yield Table("search", "Search", columns, [row], text)


__all__ = ["searches"]
