"""A scenario that runs in a tenth of a second, and sweeps of it in processes of their own."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import psutil

SCENARIO = """\
title: A small model on eight A100
cluster: {name: selene, nodes: 1}
model: gpt3-1.3b
plan: {tensor: 2, pipeline: 2, data: 2}
batch: {global: 32, micro: 1, sequence: 2048}
precision: bf16
recompute: none
framework: megatron-lm-2022
"""

EIGHT = """\
title: four devices of a box
cluster: {name: dgx-a100, nodes: 1}
model: gpt-22b
plan: {tensor: 8}
batch: {global: 4, micro: 2, sequence: 2048}
precision: fp16
framework: megatron-lm
"""
"""A scenario of one tensor group."""

AXES = ("plan.tensor=1:4", "plan.pipeline=1:4", "plan.data=fill", "batch.micro=1,2")
"""Of 18 combinations, 16 are runs."""

LONG = (*AXES, "recompute=none,full")
"""Axes of a sweep that runs for about a second, so that it can be disturbed."""


def small(folder, name="small"):
    """Return the file of the scenario, written into a folder."""
    file = folder / f"{name}.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return file


def sweeping(folder, *options, axes=AXES, where=("--jobs", "2")):
    """Start a sweep of the scenario by two workers, in a session of its own."""
    command = [sys.executable, "-m", "clustersim", "sweep", str(small(folder)), "--json"]
    package = Path(__file__).resolve().parents[1]
    return subprocess.Popen(
        [*command, *where, *(f"--over={axis}" for axis in axes), *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(process):
    """Return what a sweep prints, once it has ended well."""
    out, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    return json.loads(out)


def table_of(answer):
    """Return an answer without the number of runs that were computed for it."""
    return {key: value for key, value in answer.items() if key != "fresh"}


def rows_in(store):
    """Return the runs of a store by key, with every byte of them; none where it is not there."""
    if not store.exists():
        return {}
    base = sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=0.02)
    try:
        return {row[0]: row for row in base.execute("SELECT * FROM runs")}
    except sqlite3.OperationalError:  # it is being created or written
        return {}
    finally:
        base.close()


def wait_until(true, what, seconds=60.0):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds:g} s until {what}"
        time.sleep(0.005)


def children_of(process):
    """Return the numbers of the processes that a process has started."""
    return [child.pid for child in psutil.Process(process).children()]


def alive(process):
    """Whether a process exists and has not ended."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
