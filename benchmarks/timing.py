"""Times of whole processes and of functions: the best of several, as other programs also run."""

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

ENOUGH = 20.0
"""A measurement is not repeated after this time in total [s]."""

CLUSTERSIM = (sys.executable, "-m", "clustersim")

T = TypeVar("T")


class Cost(NamedTuple):
    """What a process takes: the least of several runs, each by itself.

    Attributes
    ----------
    wall, processor : time until it ends, and time of all its cores [s]
    peak : resident memory [B]
    """

    wall: float
    processor: float
    peak: int


class CommandError(Exception):
    """A measured command failed; the message is its last line on standard error."""


def cost_of(
    command: Sequence[str],
    repeats: int,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = {},
) -> Cost:
    """Return what a command takes, with its modules compiled as those of an installed package.

    Raises
    ------
    CommandError
        when it fails, or does not exist.
    """
    costs: list[Cost] = []
    compiled = {"PYTHONDONTWRITEBYTECODE": "", **environment}
    while len(costs) < repeats and sum(cost.wall for cost in costs) < ENOUGH:
        costs.append(_cost(command, folder, {**os.environ, **compiled}))
    return Cost(
        min(cost.wall for cost in costs),
        min(cost.processor for cost in costs),
        min(cost.peak for cost in costs),
    )


def _cost(command: Sequence[str], folder: Path | None, environment: Mapping[str, str]) -> Cost:
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        try:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors
            )
        except OSError as problem:
            raise CommandError(f"{command[0]}: cannot be run ({problem.strerror})") from None
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            words = " ".join(" ".join(command).split())
            raise CommandError(f"{words:.120}: exit code {process.returncode}: {last}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def best_of(work: Callable[[], T], repeats: int) -> tuple[float, T]:
    """Return the least processor time of a function in this process [s], and its last value."""
    best, total = math.inf, 0.0
    for _ in range(repeats):
        began = time.process_time()
        value = work()
        seconds = time.process_time() - began
        best, total = min(best, seconds), total + seconds
        if total > ENOUGH:
            break
    return best, value
