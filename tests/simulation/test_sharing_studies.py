"""A shared machine is one more answer of the studies: its measures, accounts, draws and limits."""

import json
from dataclasses import replace
from math import fsum

import pytest
import yaml

import clustersim
from clustersim.errors import ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.scenario.load import load_any
from clustersim.simulation.measures import measures_of
from tests.commands import ending, output, rejected

SHARED = "superpod-hashed-neighbours"
FEW = {"steps": 2, "jobs.0.copies": 2}
DRAWN = FEW | {"jobs.0.nodes": "scattered", "jobs.0.phase": "random", "replications": 3}


@pytest.fixture(scope="module")
def drawn():
    """Two jobs, drawn three times."""
    return clustersim.share(SHARED, settings=DRAWN)


def test_every_measure_of_a_shared_machine_is_known(drawn):
    """Those that its table names, and no other."""
    assert set(drawn.measures()) == set(measures_of(drawn.kinds))


@pytest.mark.parametrize("by", [name for name in measures_of(["shared machine"])
                                if measures_of(["shared machine"])[name].more_is_better is not None
                                and name != "slowdown_most"])  # fmt: skip
def test_studies_rank_shared_machines_by_any_measure(by):
    """A what-if, whose first change is the best."""
    changes = ["jobs.0.nodes=contiguous", "jobs.0.copies=1"]
    answer = clustersim.whatif(SHARED, settings=changes, by=by, jobs=1)
    measure = measures_of(answer.base.kinds)[by]

    values = [change.measures[by] for change in answer.changes]
    assert values == sorted(values, key=measure.order)


def test_the_step_of_a_job_is_its_time_alone_and_what_each_other_costs():
    """The parts of each account add up to the step next to the others."""
    answer = clustersim.share(SHARED, settings={"steps": 2})
    steps = {f"step of {job.name}": job.shared_s for job in answer.jobs}

    assert {each.name: each.total for each in answer.accounts()} == pytest.approx(steps, rel=1e-9)
    assert max(job.slowdown for job in answer.jobs) > 1.3


def test_compared_machines_differ_by_what_their_jobs_wait_for():
    """Nodes next to each other share no hashed uplink; the change is that of the waiting."""
    pair = [SHARED, f"{SHARED} jobs.0.nodes=contiguous"]
    answer = clustersim.compare(pair, settings=FEW, jobs=1)
    compared = answer.comparisons[0]
    changed = [run.answer.accounts()[0].total for run in answer.runs]

    assert answer.by == "slowdown"
    assert compared.account == "step of gpt-22b-1"
    assert fsum(compared.parts.values()) == pytest.approx(changed[1] - changed[0], rel=1e-9)
    assert "waiting for gpt-22b-2" in compared.finding


def test_a_sweep_over_places_names_the_best(capsys, here):
    """Limits hold of shared machines as well."""
    few = [f"--set={key}={value}" for key, value in FEW.items()]
    over = "--over=jobs.0.nodes=contiguous,interleaved"
    shown = output(capsys, "sweep", SHARED, over, *few, "--limit=slowdown=1.2", "--jobs=1")

    assert "1 fits, 1 misses a limit" in shown
    assert "best          nodes contiguous: largest slowdown 1 times" in shown


def test_scenarios_of_two_kinds_share_no_study(capsys):
    """One line names one of each."""
    assert rejected(capsys, "compare", "frontier-22b", SHARED) == (
        f"{SHARED} is several jobs and frontier-22b is training: only scenarios of one kind share a"
        " study\n"
    )


def test_a_file_of_a_job_changes_the_key_of_its_machine(tmp_path):
    """A cached run is not that of an edited job."""
    job = tmp_path / "job.yaml"
    job.write_text("extends: x")
    file = tmp_path / "machine.yaml"
    data = {"title": "t", "cluster": {"name": "superpod-a100", "nodes": 16},
            "jobs": [{"scenario": "job.yaml", "nodes": "contiguous"}]}  # fmt: skip
    file.write_text(json.dumps(data))
    step = load_any("korthikanti-22b-full").origin.document.data
    keys = set()
    for micro in (1, 2):
        job.write_text(yaml.safe_dump(step | {"batch": dict(step["batch"]) | {"micro": micro}}))
        keys.add(key_of(load_any(str(file))))

    assert len(keys) == 2


# --- draws ----------------------------------------------------------------------------------------


def test_draws_are_those_of_the_next_seeds(drawn):
    """Each is the answer with that seed alone, and the same each time."""
    alone = [
        clustersim.share(SHARED, settings=DRAWN | {"replications": 1, "seed": seed})
        for seed in range(3)
    ]
    slowest = [max(job.slowdown for job in each.jobs) for each in alone]

    assert drawn.slowdowns == pytest.approx(slowest, rel=1e-12)
    assert drawn.measures()["slowdown"] == pytest.approx(fsum(slowest) / 3)
    for job, first in zip(drawn.jobs, alone[0].jobs, strict=True):
        assert replace(job, spread=None) == first
        assert job.spread.least <= job.spread.median <= job.spread.p90 <= job.spread.most
    assert clustersim.share(SHARED, settings=DRAWN) == drawn


def test_replications_of_what_is_not_drawn_are_rejected():
    """They would all be equal."""
    with pytest.raises(ScenarioError, match="replications: 3 equal ones, as nothing is drawn"):
        clustersim.share(SHARED, settings=FEW | {"replications": 3})


# --- expectations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["share", "run"])
def test_a_shared_machine_that_misses_its_limits_ends_with_code_3(verb, capsys, here):
    """As a step that misses them."""
    few = [f"--set={key}={value}" for key, value in FEW.items()]

    code, _, error = ending(capsys, verb, SHARED, *few, "--set=expect.slowdown=1.1", "--strict")
    assert code == 3
    assert "expect.slowdown: missed: 1.373 times" in error
    assert output(capsys, verb, SHARED, *few, "--set=expect.slowdown=1.5", "--strict", "--force")
