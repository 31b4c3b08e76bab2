"""Several jobs on one machine: alone and together, whom to blame, and what is refused."""

import io
import json
import math

import pytest

import clustersim
from clustersim.catalog import finding
from clustersim.errors import ScenarioError
from clustersim.scenario.load import load_sharing
from clustersim.scenario.machine import load_cluster
from clustersim.simulation.sharing.nodes import Need, assign_nodes
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.cluster import build_cluster
from commands import output, rejected

GPT = {"scenario": "korthikanti-22b-full", "set": {"plan.data": 16, "batch.global": 64}}
SMALL = {"scenario": "korthikanti-22b-full", "set": {"plan.data": 4, "batch.global": 16}}
OVERSUBSCRIBED = {"name": "superpod-a100", "nodes": 32, "fabric": {"leaf_uplinks": 4}}
"""Twenty nodes below a leaf with cables for four."""


EXPERTS = {
    "title": "Experts on eight nodes",
    "model": "mixtral-8x7b",
    "plan": {"tensor": 8, "data": 8, "expert": 8, "expert_tensor": 8, "sequence_parallel": True},
    "batch": {"global": 16, "micro": 1, "sequence": 4096},
    "precision": "bf16",
    "framework": "megatron-core",
}


def exchange(nodes, **keys):
    """Return a job that exchanges 256 MiB between all its devices, again and again."""
    traffic = {"collective": "all-to-all", "bytes": "256 MiB", "nodes": nodes, **keys}
    return {"name": "exchange", "traffic": traffic, "nodes": "interleaved"}


def shared(cluster, *jobs, steps=8, **keys):
    """Return the answer of jobs on a machine."""
    return clustersim.share({"cluster": cluster, "jobs": [*jobs], "steps": steps, **keys})


@pytest.fixture(scope="module")
def contended():
    """A training job whose gradients cross the same narrow cables as an exchange."""
    return shared(OVERSUBSCRIBED, {**GPT, "name": "gpt", "nodes": "interleaved"}, exchange(16))


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("frontier-22b", {"batch.global": 32}),
        ("megatron21-t1-1.7b", {}),
        ("mixtral-ep-imbalance", {}),
    ],
)
def test_a_job_alone_takes_the_time_of_its_run(name, changes):
    """On a machine of its own nodes; next to a job that never communicates nothing changes."""
    plain = simulate(name, changes)
    cluster = plain.scenario.cluster
    nodes = math.prod(getattr(plain.scenario.plan, axis) for axis in ("tensor", "pipeline", "data"))
    nodes //= cluster.node.devices
    alone = shared({"name": cluster.name, "nodes": nodes}, {"scenario": name, "set": changes})

    assert alone.jobs[0].alone_s == pytest.approx(plain.step_time, rel=1e-12)
    assert alone.jobs[0].shared_s == pytest.approx(plain.step_time, rel=1e-12)
    assert alone.jobs[0].blame == ()
    assert alone.fairness == pytest.approx(1)
    assert alone.settled


def test_blame_adds_up_to_the_slowdown(contended):
    """Of each job, to a billionth of its step."""
    assert contended.jobs[0].slowdown > 1.05
    for job in contended.jobs:
        costs = math.fsum(part.seconds for part in job.blame)
        assert costs == pytest.approx(job.shared_s - job.alone_s, abs=1e-9 * job.alone_s)
        assert {part.link for part in job.blame} <= {link.link for link in contended.links}


def test_blame_of_three_jobs_adds_up():
    """Each neighbour has its share, whatever the order in which they come."""
    three = shared(
        OVERSUBSCRIBED | {"nodes": 40},
        {**GPT, "name": "gpt", "nodes": "scattered"},
        exchange(12) | {"name": "one", "nodes": "scattered"},
        exchange(12, pause="5 ms") | {"name": "two", "nodes": "scattered"},
        steps=4,
    )

    for job in three.jobs:
        costs = math.fsum(part.seconds for part in job.blame)
        assert costs == pytest.approx(job.shared_s - job.alone_s, abs=1e-9 * job.alone_s)
    assert {part.job for part in three.jobs[0].blame} == {"one", "two"}


def test_the_order_and_the_names_of_jobs_change_nothing(contended):
    """The same jobs on the same nodes."""
    nodes = [job.nodes for job in contended.jobs]
    other = shared(
        OVERSUBSCRIBED,
        exchange(16) | {"name": "other", "nodes": nodes[1]},
        {**GPT, "name": "mine", "nodes": nodes[0]},
    )

    for before, after in zip(contended.jobs, reversed(other.jobs), strict=True):
        assert after.shared_s == pytest.approx(before.shared_s, rel=1e-9)
        assert after.nodes == before.nodes


def test_a_neighbour_that_leaves_slows_no_one():
    """On one bottleneck: leaves with a cable each, which all three jobs cross."""
    cluster = {"name": "superpod-a100", "nodes": 32, "fabric": {"leaf_uplinks": 1}}
    gpt = {**GPT, "nodes": "4-11,20-27"}
    others = [exchange(4) | {"nodes": nodes} for nodes in ("0-1,28-29", "2-3,30-31")]
    few, many = (shared(cluster, gpt, *others[:count], steps=4).jobs for count in (1, 2))

    assert 1.2 < few[0].slowdown < many[0].slowdown
    assert 1.2 < few[1].slowdown < many[1].slowdown


def test_the_same_seed_scatters_alike():
    """Another seed gives other nodes."""
    first, again, other = (
        shared({"name": "selene", "nodes": 32}, {**SMALL, "nodes": "scattered"}, steps=2, seed=seed)
        for seed in (1, 1, 2)
    )

    assert first == again
    assert first.jobs[0].nodes != other.jobs[0].nodes


def test_no_link_carries_more_than_its_capacity(contended):
    """The loads of all jobs together, over the time of their steps."""
    assert max(math.fsum(link.load.values()) for link in contended.links) <= 1 + 1e-6
    assert any(link.contended for link in contended.links)


# --- physics --------------------------------------------------------------------------------------


def test_spread_paths_isolate_neighbours_and_hashed_ones_do_not():
    """As Slingshot and InfiniBand are measured to isolate, and Ethernet with hashing is not."""
    jobs = [{**GPT, "name": "gpt", "nodes": "interleaved", "copies": 4}]
    spread, hashed = (
        shared(
            {"name": "superpod-a100", "nodes": 64, "fabric": {"routing": routing}}, *jobs, steps=2
        )
        for routing in ("adaptive", "hashed")
    )

    assert [job.slowdown for job in spread.jobs] == pytest.approx([1] * 4)
    assert max(job.slowdown for job in hashed.jobs) > 1.3


def test_an_exchange_takes_as_many_flows_on_a_cable_as_ranks_cross_it(contended):
    """One flow of the gradients against those of ten nodes: it had half of the cable before."""
    gpt, other = contended.jobs

    assert gpt.slowdown > 1.05
    assert other.slowdown < 1.2


def test_experts_of_two_jobs_share_the_links_between_nodes():
    """Collectives inside blocks wait for those of the neighbour where both need a cable."""
    first = {"name": "first", "scenario": EXPERTS, "nodes": "0-3,20-23"}
    second = {"name": "second", "scenario": EXPERTS, "nodes": "4-7,24-27"}
    alone = shared(OVERSUBSCRIBED, first, steps=2).jobs[0]
    both = shared(OVERSUBSCRIBED, first, second, steps=2).jobs[0]

    assert alone.shared_s == pytest.approx(alone.alone_s, rel=1e-9)
    assert both.alone_s == pytest.approx(alone.alone_s, rel=1e-9)
    assert both.slowdown > 1.01


def test_experts_whose_links_have_room_for_both_jobs_take_their_time_alone():
    """Collectives in the network that no other delays are those of the closed form."""
    places = ("0-3,20-23", "4-7,24-27")
    jobs = [{"scenario": EXPERTS, "nodes": nodes} for nodes in places]
    answer = shared({"name": "superpod-a100", "nodes": 40}, *jobs, steps=3)

    assert answer.links
    assert [job.slowdown for job in answer.jobs] == pytest.approx([1, 1], rel=1e-9)


def test_a_job_that_does_not_fit_says_so():
    """The verdict is that of `run`."""
    big = {**SMALL, "set": {"plan.tensor": 1, "plan.data": 8, "batch.global": 32,
                            "plan.sequence_parallel": False}}  # fmt: skip
    answer = shared({"name": "selene", "nodes": 1}, big, steps=2)

    assert answer.jobs[0].memory.verdict.startswith("does not fit: ")
    assert not answer.memory.fits


# --- faults ---------------------------------------------------------------------------------------


def test_a_failed_spine_slows_jobs_by_the_cables_that_are_lost():
    """An exchange that is limited by four cables of a leaf has three."""
    spine = {"type": "failed-switch", "switch": "spine0.1"}
    jobs = [exchange(16) | {"copies": 2}]
    whole, failed = (
        shared(OVERSUBSCRIBED, *jobs, steps=4, disturbances=faults) for faults in ([], [spine])
    )

    for before, after in zip(whole.jobs, failed.jobs, strict=True):
        assert after.shared_s / before.shared_s == pytest.approx(4 / 3, rel=0.01)
        assert after.alone_s > 1.2 * before.alone_s


def test_jobs_that_took_a_failed_spine_meet_others():
    """Rings that had cables of their own by static routing share one after the failure."""
    spine = {"type": "failed-switch", "switch": "spine0.1"}
    cluster = OVERSUBSCRIBED | {"fabric": {"leaf_uplinks": 4, "routing": "static"}}
    jobs = [{**GPT, "nodes": "interleaved", "copies": 2}]
    whole, failed = (
        shared(cluster, *jobs, steps=4, disturbances=faults) for faults in ([], [spine])
    )

    assert [job.slowdown for job in whole.jobs] == pytest.approx([1, 1])
    assert max(job.slowdown for job in failed.jobs) > 1.2


def test_a_disturbance_of_the_machine_is_that_of_the_job_on_it():
    """A slow node slows the job that has it, as much as the same disturbance in its scenario."""
    slow = {"type": "slow-device", "factor": 1.2}
    cluster = {"name": "superpod-a100", "nodes": 32}
    job = {**GPT, "nodes": "interleaved"}
    plain, of_machine, own = (
        shared(cluster, one, {**job, "name": "other"}, steps=2, disturbances=faults).jobs
        for one, faults in (
            (job, []),
            (job, [slow | {"nodes": [6]}]),
            ({**job, "set": {**job["set"], "disturbances": [slow | {"nodes": [3]}]}}, []),
        )
    )

    assert of_machine[0].shared_s > 1.05 * plain[0].shared_s
    assert of_machine[0].shared_s == pytest.approx(own[0].shared_s, rel=1e-12)
    assert of_machine[1].shared_s == pytest.approx(plain[1].shared_s, rel=1e-12)


def test_a_disturbed_job_alone_takes_the_time_of_its_run():
    """With the random numbers of the first step."""
    jitter = [{"type": "jitter", "deviation": 0.1}, {"type": "late-host", "delay": "20 us"}]
    changes = {**SMALL["set"], "disturbances": jitter}
    nodes = {"name": "selene", "nodes": 4}
    answer = shared(nodes, {"scenario": SMALL["scenario"], "set": changes}, steps=2)
    plain = simulate(SMALL["scenario"], {**changes, "cluster.nodes": 4})

    assert answer.jobs[0].alone_s == pytest.approx(plain.step_time, rel=1e-12)
    assert answer.jobs[0].shared_s == pytest.approx(plain.step_time, rel=1e-12)


# --- nodes ----------------------------------------------------------------------------------------


def test_jobs_fill_as_few_units_as_they_can():
    """The fullest unit that has room for a job, else the emptiest ones."""
    fabric = build_cluster(load_cluster("superpod-a100", 140), 140).fabric
    needs = [
        Need(4, "0-3", ""),
        Need(16, "leaves", ""),
        Need(30, "leaves", ""),
        Need(17, "pods", ""),
    ]
    nodes = assign_nodes(needs, 140, 0, fabric)

    assert nodes[1] == tuple(range(4, 20))
    assert {node // 20 for node in nodes[2]} == {1, 2}
    assert len({node // 140 for node in nodes[3]}) == 1


@pytest.mark.large
def test_jobs_in_groups_of_a_dragonfly_share_no_global_cable():
    """Each in a group of its own; interleaved ones share those of all groups."""
    jobs = [{"traffic": {"collective": "all-to-all", "bytes": "64 MiB", "nodes": 96}, "copies": 2}]
    for place, together in (("groups", True), ("interleaved", False)):
        answer = shared({"name": "frontier", "nodes": 256}, jobs[0] | {"nodes": place}, steps=2)
        assert any("world" in link.link for link in answer.links) != together


def test_blocks_of_a_torus_have_the_least_surface():
    """Boxes as near to cubes as the machine allows, of nodes that no other job has."""
    section = {"name": "fugaku", "fabric": {"job": [4, 2, 2, 2, 3, 2]}}
    fabric = build_cluster(load_cluster(section, 192), 192).fabric
    first, second, other = assign_nodes(
        [Need(24, "blocks", "")] * 2 + [Need(8, "blocks", "")], 192, 0, fabric
    )
    lengths = [
        tuple(len({*axis}) for axis in zip(*map(fabric.coordinates, nodes), strict=True))
        for nodes in (first, second, other)
    ]

    assert lengths[0] == lengths[1]
    assert max(lengths[0]) <= 3
    assert len({*first, *second, *other}) == 56


@pytest.mark.parametrize(
    ("cluster", "place", "why"),
    [
        (
            "superpod-a100",
            "groups",
            "the machine has no groups (units of its fabric: leaves, pods)",
        ),
        ("dgx-h100", "pods", "the machine has no pods (nodes: contiguous)"),
        ("superpod-a100", "blocks", "the machine is no torus (nodes: contiguous)"),
    ],
)
def test_a_place_that_the_machine_does_not_have_is_rejected(cluster, place, why):
    """In one line, with what it has."""
    with pytest.raises(ScenarioError) as problem:
        shared({"name": cluster, "nodes": 8}, exchange(2) | {"nodes": place})

    assert why in str(problem.value)
    assert len(str(problem.value).splitlines()) == 1


def test_nodes_are_assigned_by_rule():
    """Explicit ones first, then contiguous, interleaved and scattered ones."""
    jobs = [
        Need(2, "scattered", "a"),
        Need(2, "interleaved", "b"),
        Need(2, "interleaved", "c"),
        Need(3, "contiguous", "d"),
        Need(2, "1,3", "e"),
    ]
    scattered, *others = assign_nodes(jobs, 12, 0)

    assert others == [(5, 7), (6, 8), (0, 2, 4), (1, 3)]
    assert {*scattered} <= {9, 10, 11}


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        ([], "jobs: must have at least 1"),
        ([{"nodes": "0"}], "jobs[0]: needs a scenario, traffic or a trace, and only one of them"),
        ([{**SMALL, "nodes": "0-3"}, {**SMALL, "nodes": "3-6"}], "node 3 is already of"),
        ([{**SMALL, "nodes": "0-2"}], "names 3 nodes, and the job has 4"),
        ([{**SMALL, "nodes": "5-8"}], "the machine has no node 8 (it has 0-7)"),
        ([{**SMALL, "nodes": "left"}], "nodes: 'left' is neither numbers and ranges"),
        ([{**SMALL, "copies": 3}], "all jobs together need 12 nodes, and the machine has 8"),
        ([{**SMALL, "copies": 2, "nodes": "0-3"}], "2 jobs cannot have the same nodes"),
        ([{"scenario": "korthikanti-22b"}], "jobs[0]: korthikanti-22b: no such"),
        ([{**SMALL, "nodes": "contigous"}], "jobs[0]: nodes: 'contigous' is neither numbers"),
        ([{**SMALL, "set": {**SMALL.get("set", {}), "batch.micro": 3}}], "jobs[0]: "),
        ([{"scenario": "superpod-two-175b"}], "a shared machine is no job of another one"),
        ([{**SMALL, "set": {"plan.data": "x"}}], "jobs[0]: --set plan.data=x"),
        ([{**SMALL, "set": {"cluster.nodes": 4}}], "the jobs have one machine"),
        ([{**exchange(2), "set": {"a": 1}}], "set: has no effect on traffic"),
        ([exchange(2, collective="gossip")], "must be an operation with bytes, not 'gossip'"),
        ([exchange(2, bytes="0 B")], "must be greater than 0"),
        ([exchange(2, colour="red")], "jobs[0].traffic.colour: unknown key"),
        ([{"scenario": {**EXPERTS, "plan": {"tensr": 8}}}], "plan.tensr: unknown key"),
    ],
)
def test_bad_jobs_are_one_clear_line(jobs, problem, tmp_path, capsys):
    """Nothing is written."""
    file = tmp_path / "shared.json"
    file.write_text(json.dumps({"title": "t", "cluster": {"name": "selene", "nodes": 8},
                                "jobs": jobs}))  # fmt: skip
    told = rejected(capsys, "share", file, "--out", tmp_path / "out")

    assert problem in told
    assert not (tmp_path / "out").exists()


def test_a_step_that_takes_a_nanosecond_both_one_of_seconds_is_refused(tmp_path, capsys):
    """It would be repeated without end."""
    file = tmp_path / "shared.json"
    quick = {"traffic": {"collective": "send", "bytes": "1 B", "nodes": 1}}
    file.write_text(json.dumps({"title": "t", "cluster": {"name": "selene", "nodes": 8},
                                "jobs": [SMALL, quick], "steps": 10_000}))  # fmt: skip

    assert "would be repeated" in rejected(capsys, "share", file)


def test_the_other_verbs_name_the_verb_of_a_shared_machine(capsys):
    """And this one that of a scenario of one job."""
    told = rejected(capsys, "train", "superpod-hashed-neighbours")
    assert "several jobs on one machine (simulate them with: clustersim share)" in told
    assert "simulated with: clustersim run" in rejected(capsys, "share", "frontier-22b")


# --- the command ----------------------------------------------------------------------------------


def test_the_command_prints_the_finding_and_writes_its_files(capsys, here):
    """Text, JSON and files have the same numbers; `run` answers it as well."""
    name, few = "superpod-hashed-neighbours", ("--set", "steps=2")
    shown = output(capsys, "share", name, *few, "--out", "out", "--figures", "svg")
    answer = json.loads(output(capsys, "share", name, *few, "--json"))

    assert "4 jobs share superpod-a100: gpt-22b-1 takes 1.373 times as long as alone" in shown
    assert f"{answer['jobs'][0]['slowdown']:.3f} times as long" in shown
    assert json.loads((here / "out" / "summary.json").read_text())["jobs"] == answer["jobs"]
    assert {path.name for path in (here / "out").glob("*")} >= {
        "report.html", "jobs.csv", "blame.csv", "links.csv", "slowdown.svg", "blame.svg",
    }  # fmt: skip
    assert json.loads(output(capsys, "run", name, *few, "--json")) == answer


@pytest.mark.parametrize("verb", ["run", "share"])
def test_a_shared_machine_may_come_from_standard_input(verb, capsys, monkeypatch):
    """It is read once."""
    text = (finding.shipped("scenario") / "superpod-hashed-neighbours.yaml").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    answer = json.loads(output(capsys, verb, "-", "--set", "steps=2", "--json"))
    assert (answer["name"], len(answer["jobs"])) == ("stdin", 4)


def test_run_of_standard_input_was_empty_after_its_kind_was_read(capsys, monkeypatch):
    """A training step from a pipe."""
    text = (finding.shipped("scenario") / "frontier-22b.yaml").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    found = json.loads(output(capsys, "run", "-", "--set", "batch.global=16", "--json"))
    assert found["name"] == "stdin"


@pytest.mark.parametrize(("option", "value"), [("--schedule", "gpipe"), ("--replications", "3")])
def test_options_of_run_without_effect_on_several_jobs_are_rejected(option, value, capsys):
    """None is dropped in silence."""
    told = rejected(capsys, "run", "superpod-hashed-neighbours", option, value)

    assert told.startswith(f"{option}: has no effect on several jobs on one machine")


def test_a_loaded_machine_takes_changes():
    """As a loaded scenario of a step does."""
    loaded = load_sharing("superpod-hashed-neighbours", {"steps": 2})

    assert clustersim.share(loaded, settings={"seed": 3}) == clustersim.share(loaded)
    assert loaded.changed({"steps": 4}).scenario.steps == 4


def test_an_answer_shows_itself_in_a_notebook():
    """Tables and charts are those of its files."""
    answer = clustersim.share("superpod-hashed-neighbours", settings={"steps": 2})

    assert answer.to_frame("jobs")["slowdown"].max() == pytest.approx(1.373, abs=1e-3)
    assert "gpt-22b-1" in answer._repr_html_()
