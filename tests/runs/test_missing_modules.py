"""Pythons without processes and without SQLite, as in a browser."""

import json
import subprocess
import sys

import pytest

import clustersim

ABSENT = (
    "psutil", "sqlite3", "_sqlite3", "multiprocessing", "_multiprocessing", "subprocess",
    "_posixsubprocess",
)  # fmt: skip
"""Modules that a Python in a browser lacks, or that cannot do anything there."""

SCENARIO, SETTINGS = "frontier-22b", {"batch.global": 16}


def without_modules(code):
    """Return what some code prints where these modules cannot be imported."""
    prelude = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r})); import clustersim\n"
    run = [sys.executable, "-c", prelude + code]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


@pytest.mark.large
def test_a_step_and_studies_run_without_processes_and_sqlite():
    """A step, its JSON and a sweep of one process are those of any Python."""
    shown = without_modules(
        "import json\n"
        "from clustersim.answers import to_json\n"
        f"step = clustersim.simulate({SCENARIO!r}, {SETTINGS!r}).answer\n"
        f"swept = clustersim.sweep({SCENARIO!r}, over={{'plan.zero': [0, 1]}},"
        f" settings={SETTINGS!r})\n"
        "print(json.dumps([to_json(step)['attribution'], [*map(dict, swept.points)]]))"
    )
    swept = clustersim.sweep(SCENARIO, over={"plan.zero": [0, 1]}, settings=SETTINGS, jobs=1)

    attribution, points = json.loads(shown)
    assert attribution == clustersim.simulate(SCENARIO, SETTINGS).answer.attribution
    assert points == [*map(dict, swept.points)]


@pytest.mark.large
@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("store='x.db'", "x.db: a run cache needs the module sqlite3, which this Python does not"
         " have; leave out the store"),
        ("jobs=2", "jobs: 2: this Python cannot start processes (leave it out)"),
    ],
)  # fmt: skip
def test_what_needs_them_is_one_line(argument, complaint):
    """A file of runs and several processes are rejected, not ignored."""
    shown = without_modules(
        "try:\n"
        f"    clustersim.sweep({SCENARIO!r}, over={{'plan.zero': [0, 1]}}, {argument})\n"
        "except clustersim.ScenarioError as error:\n"
        "    print(error)"
    )

    assert shown == f"{complaint}\n"
