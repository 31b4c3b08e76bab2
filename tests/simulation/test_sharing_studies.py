"""A shared machine is one more answer of the studies: its measures, accounts, draws and limits."""

import json
from dataclasses import replace
from itertools import product
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


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A run cache that the studies share."""
    return tmp_path_factory.mktemp("sharing") / "studies.db"


@pytest.mark.parametrize("by", [name for name in measures_of(["shared machine"])
                                if measures_of(["shared machine"])[name].more_is_better is not None
                                and name != "slowdown_most"])  # fmt: skip
def test_studies_rank_shared_machines_by_any_measure(by, store):
    """A what-if, whose first change is the best."""
    changes = ["jobs.0.nodes=contiguous", "jobs.0.copies=1"]
    answer = clustersim.whatif(SHARED, settings=changes, by=by, jobs=1, store=store)
    measure = measures_of(answer.base.kinds)[by]

    values = [change.measures[by] for change in answer.changes]
    assert values == sorted(values, key=measure.order)


def test_the_step_of_a_job_is_its_time_alone_and_what_each_other_costs():
    """The parts of each account add up to the step next to the others."""
    answer = clustersim.share(SHARED, settings={"steps": 2})
    steps = {f"step of {job.name}": job.shared_s for job in answer.jobs}
    steps["device"] = len(answer.jobs) / fsum(1 / job.shared_s for job in answer.jobs)

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


# --- search ---------------------------------------------------------------------------------------

TWO = {
    "title": "A training job and an exchange on narrow leaves",
    "cluster": {"name": "superpod-a100", "nodes": 40, "fabric": {"leaf_uplinks": 4}},
    "jobs": [
        {"name": "gpt", "scenario": "korthikanti-22b-full", "nodes": "interleaved",
         "set": {"plan.data": 20, "batch.global": 80}},
        {"name": "exchange", "nodes": "interleaved",
         "traffic": {"collective": "all-to-all", "bytes": "256 MiB", "nodes": 20}},
    ],
    "steps": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def every_rule():
    """The measures of all combinations of rules."""
    rules = product(("leaves", "contiguous", "interleaved", "scattered"), repeat=2)
    return [
        clustersim.share(TWO, settings={"jobs.0.nodes": one, "jobs.1.nodes": other}).measures()
        for one, other in rules
    ]


@pytest.mark.large
@pytest.mark.parametrize("by", ["slowdown", "slowdown_mean", "tokens_per_s", "lost_devices"])
def test_a_search_finds_the_best_of_all_rules(by, every_rule):
    """The answer is that of replaying every combination, and no replay beats its bound."""
    found = clustersim.search(TWO, objective=by, jobs=1, top=1)
    measure = measures_of(["shared machine"])[by]

    assert found.ranked[0].value == min((each[by] for each in every_rule), key=measure.order)
    for each in found.ranked:
        better = measure.order(each.value) - measure.order(each.bound or 0.0)
        assert each.bound is None or better >= -1e-6 * abs(each.value)


def test_a_search_compares_its_best_with_the_scenario():
    """Apart from each other no job waits: the exchange that costs most is named."""
    found = clustersim.search(TWO, jobs=1)
    own = next(each for each in found.differences if each.against == "scenario")

    assert found.best.measures()["slowdown"] == pytest.approx(1)
    assert found.best.set_ == {"jobs.0.nodes": "leaves", "jobs.1.nodes": "leaves"}
    assert own.set_ == {"jobs.0.nodes": "interleaved", "jobs.1.nodes": "interleaved"}
    assert own.gain > 1
    assert clustersim.share(found.scenario).measures()["slowdown"] == pytest.approx(1)


def test_other_keys_are_free_as_well():
    """Phases: two equal jobs in turn over one cable wait for each other only in phase."""
    pair = {"traffic": {"collective": "all-to-all", "bytes": "256 MiB", "nodes": 4,
                        "pause": "100 ms"}}  # fmt: skip
    scenario = {
        "title": "Two exchanges over the same cables",
        "cluster": {"name": "superpod-a100", "nodes": 40, "fabric": {"leaf_uplinks": 1}},
        "jobs": [pair | {"nodes": "0-1,20-21"}, pair | {"nodes": "2-3,22-23"}],
    }
    found = clustersim.search(scenario, free=["jobs.1.start=0s,60ms,120ms"], jobs=1)

    assert len(found.ranked) == 3
    assert found.ranked[0].set_["jobs.1.start"] != "0s"
    assert found.ranked[0].value < found.ranked[-1].value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--devices", "8"], "--devices: has no effect on a shared machine (--set cluster.nodes"),
        (["--as", "megatron"], "--as: has no effect on a shared machine (leave it out)"),
        (["--objective", "fairness"], "--objective fairness: has no bound (search slowdown,"),
        (["--set", "jobs.0.nodes=leaves"], "no key is free, all nodes are set (--free jobs.0"),
        (["--free", "jobs.0.nodes=best"], "best has candidates of its own (clustersim share"),
        (["--set", "jobs.0.nodes=best"], "best has candidates of its own (clustersim share"),
        (["--free", "jobs.0.nodes=leafs,pods"], "(did you mean 'leaves'?)"),
        (["--free", "jobs.7.nodes=pods,leaves"], "jobs has entries 0 to 0"),
        (["--free", "seed=1:1100:1"], "4,400 combinations of rules and free values, above 4,096"),
        (["--set", "replications=3", "--set", "jobs.0.nodes=scattered"], "draws nodes once"),
    ],
)
def test_searches_that_make_no_sense_are_rejected(options, message, capsys):
    """In one line."""
    told = rejected(capsys, "search", SHARED, *options)

    assert message in told
    assert len(told.strip().splitlines()) == 1


# --- scale ----------------------------------------------------------------------------------------


def test_a_machine_scales_with_copies_of_its_jobs():
    """Efficiency is that of the steps of all devices, and its loss is the waiting of each other."""
    name = "meta-hashed-neighbours"
    (curve,) = clustersim.scale(name, weak=[224, 448], settings={"steps": 2}, jobs=1).curves
    first, last = curve.points

    assert (curve.axis, curve.work, [first.load, last.load]) == ("copies", "steps", [2, 4])
    assert [first.nodes, last.nodes] == [28, 56]
    rates = [1 / fsum(point.attribution.values()) for point in curve.points]
    assert last.efficiency == pytest.approx(rates[1] / rates[0])
    assert fsum(last.loss.values()) == pytest.approx(1 - last.efficiency)
    assert last.loss["waiting for other jobs"] > 0.5 * (1 - last.efficiency) > 0


def test_isolated_jobs_scale_without_a_loss():
    """On spread paths, whatever their number."""
    settings = {"steps": 2, "cluster.fabric.routing": "adaptive"}
    (curve,) = clustersim.scale(SHARED, weak=[512, 1024], settings=settings, jobs=1).curves

    assert curve.points[-1].efficiency == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--strong", "512"],
            "--strong: superpod-hashed-neighbours has jobs with layouts of",
        ),
        (["--axis", "data"], "--axis data: unknown axis (allowed: copies)"),
        (["--weak", "200"], "jobs.0.copies 4 on 512 devices would be 1.562"),
    ],
)
def test_curves_that_make_no_sense_are_rejected(options, message, capsys):
    """A shared machine has one axis, and no strong curve."""
    assert message in rejected(capsys, "scale", SHARED, *options)
