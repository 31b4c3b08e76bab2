"""What a Dask cluster costs: a sweep by two of its workers, and by two local processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.layouts import OVER, SCENARIO, SCHEDULES, SETTINGS
from benchmarks.table import Table
from clustersim.runs.arguments import study_of
from clustersim.runs.execution import run_study
from clustersim.runs.variants import Variant
from clustersim.scenario.load import load
from clustersim.studies.sweep.arguments import axis_of
from clustersim.studies.sweep.combinations import grid

WORKERS = 2

LIMIT = 1.15
"""Most time that a Dask cluster may take, over that of local processes."""

PATIENCE = 30.0
"""Time to wait for a scheduler and its workers [s]."""


def executors(repeats: int, folder: str) -> Iterator[Table]:
    """Time a sweep in local processes, on workers that have just started, and on the same again."""
    variants = grid(SCENARIO, load(SCENARIO, SETTINGS), [SCHEDULES, *map(axis_of, OVER)])
    local = min(_seconds(variants, None) for _ in range(repeats))
    fresh, later = [], []
    for _ in range(repeats):
        with _cluster(Path(folder)) as address:
            fresh.append(_seconds(variants, address))
            later.append(_seconds(variants, address))
    count = len(variants)
    rows = [
        (f"{WORKERS} local processes", count, local, None, None),
        (
            "Dask workers that have just started",
            len(variants),
            min(fresh),
            min(fresh) / local,
            LIMIT,
        ),
        ("the same workers, later", count, min(later), min(later) / local, LIMIT),
    ]
    columns = ("executor", "layouts", "time [s]", "over local processes", "limit")
    text = f"The layouts of a sweep of {SCENARIO}, in {WORKERS} processes on one computer."
    yield Table("executors", "Executors", columns, rows, text)


def _seconds(variants: list[Variant], address: str | None) -> float:
    """Return the time of a study, with a run cache of its own [s]."""
    study, began = study_of("sweep", SCENARIO, SCENARIO, variants), time.perf_counter()
    run_study(study, variants, jobs=None if address else WORKERS, executor=address)
    return time.perf_counter() - began


@contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    """Start a scheduler and its workers, and return the address; they end with the context."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    processes = [
        _started(folder, "dask_scheduler", "--host", "127.0.0.1", "--port", "0"),
        *(_started(folder, "dask_worker", "--nthreads", "1", "--no-nanny") for _ in range(WORKERS)),
    ]
    try:
        yield _address(file)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _started(folder: Path, program: str, *words: str) -> subprocess.Popen[bytes]:
    file = str(folder / "scheduler.json")
    command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", file]
    return subprocess.Popen(
        [*command, "--no-dashboard", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _address(file: Path) -> str:
    """Return the address of a scheduler as soon as all of its workers are there."""
    from distributed import Client

    deadline = time.monotonic() + PATIENCE
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    address: str = json.loads(file.read_text())["address"]
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(WORKERS, PATIENCE)
    return "dask://" + address.removeprefix("tcp://")


__all__ = ["executors"]
