"""The same scenario gives the same bytes, whatever the order in which Python keeps its sets."""

import json
import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "clustersim", "run", "frontier-175b", "--json"]


def answer(seed: str) -> dict:
    done = subprocess.run(
        [*COMMAND, "--set", "batch.global=32"],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        text=True,
    )
    found = json.loads(done.stdout)
    found.pop("wall_s")
    return found


@pytest.mark.large
def test_two_hash_seeds_give_the_same_answer():
    """No number of the answer depends on PYTHONHASHSEED."""
    assert answer("1") == answer("4242")
