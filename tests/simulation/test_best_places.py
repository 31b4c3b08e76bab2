"""Nodes that are to be the best: of all candidates, with a bound that no replay is below."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clustersim
from clustersim.arrays import Floats
from clustersim.errors import ScenarioError
from clustersim.scenario.machine import load_cluster
from clustersim.simulation.sharing.bound import least_slowdown
from clustersim.simulation.sharing.candidates import Chooser, candidate_places
from clustersim.simulation.sharing.nodes import Need
from clustersim.topology.cluster import build_cluster

GPT = {"scenario": "korthikanti-22b-full", "set": {"plan.data": 16, "batch.global": 64}}
BEST = {"nodes": "best"}


def exchange(nodes, **keys):
    """Return a job that exchanges 256 MiB between all its devices, again and again."""
    traffic = {"collective": "all-to-all", "bytes": "256 MiB", "nodes": nodes}
    return {"name": "exchange", "traffic": traffic, "nodes": "interleaved", **keys}


def narrow(*jobs, **keys):
    """Return the answer of jobs on leaves of twenty nodes with cables for four."""
    cluster = {"name": "superpod-a100", "nodes": 40, "fabric": {"leaf_uplinks": 4}}
    return clustersim.share({"cluster": cluster, "jobs": [*jobs], "steps": 4, **keys})


@pytest.fixture(scope="module")
def chosen():
    """A training job and an exchange, both on the nodes with which they are slowed least."""
    return narrow({**GPT, "name": "gpt", **BEST}, exchange(20) | BEST, best={"replays": 99})


# --- the choice -----------------------------------------------------------------------------------


def test_no_candidate_is_better(chosen):
    """Of those that were replayed; the others cannot be by their bounds."""
    first, *others = chosen.choice.candidates

    assert chosen.choice.gap == 0
    assert all(each.slowdown >= first.slowdown for each in others if each.slowdown is not None)
    assert all(each.bound >= first.slowdown - 1e-9 for each in others if each.slowdown is None)
    assert len({each.rule for each in chosen.choice.candidates if each.slowdown}) >= 4


def test_no_replay_is_below_its_bound(chosen):
    """The bound counts bytes of links; every candidate is on it or above."""
    for each in chosen.choice.candidates:
        if each.slowdown is not None:
            assert each.slowdown >= each.bound * (1 - 1e-6)
            mean = sum(each.slowdowns.values()) / len(each.slowdowns)
            assert each.slowdown == pytest.approx(mean)


def test_the_answer_is_that_of_the_chosen_nodes(chosen):
    """As if a file named them, and the jobs have no others."""
    nodes = chosen.choice.candidates[0].nodes
    named = narrow(
        {**GPT, "name": "gpt", "nodes": nodes["gpt"]},
        exchange(20) | {"nodes": nodes["exchange"]},
    )

    assert [job.nodes for job in chosen.jobs] == [*nodes.values()]
    for job, other in zip(chosen.jobs, named.jobs, strict=True):
        assert job.shared_s == pytest.approx(other.shared_s, rel=1e-9)
        assert job.alone_s == pytest.approx(other.alone_s, rel=1e-9)


@pytest.mark.parametrize("rule", ["contiguous", "interleaved", "scattered", "leaves", "pods"])
def test_no_rule_is_better(chosen, rule):
    """Each job over its shortest time alone, as candidates are compared."""
    jobs = narrow({**GPT, "name": "gpt", "nodes": rule}, exchange(20) | {"nodes": rule}).jobs
    first = chosen.choice.candidates[0]
    least = [job.shared_s / first.slowdowns[job.name] for job in chosen.jobs]

    mean = sum(job.shared_s / s for job, s in zip(jobs, least, strict=True)) / 2
    assert mean >= first.slowdown * (1 - 1e-9)


def test_other_jobs_keep_their_nodes():
    """The best ones are among those that they leave free."""
    answer = narrow(
        exchange(6) | {"name": "fixed", "nodes": "3-5,30-32"}, exchange(8) | {"copies": 2, **BEST}
    )
    fixed, *others = answer.jobs

    assert fixed.nodes == "3-5,30-32"
    assert [job.name for job in others] == [*answer.choice.candidates[0].nodes]


@pytest.mark.large
def test_the_largest_slowdown_is_another_objective():
    """It is the largest of each candidate, and the chosen one has the least of these."""
    job = {**GPT, "name": "gpt", **BEST}
    answer = narrow(job, exchange(20) | BEST, best={"objective": "largest"})

    for each in answer.choice.candidates:
        if each.slowdown is not None:
            assert each.slowdown == max(each.slowdowns.values())
            assert each.slowdown >= each.bound * (1 - 1e-6)


@pytest.mark.large
def test_replays_are_limited_and_what_remains_is_stated():
    """One replay of the best bound; others may be better by the gap at most."""
    answer = narrow({**GPT, "name": "gpt", **BEST}, exchange(20) | BEST, best={"replays": 1})
    all_of_them = narrow({**GPT, "name": "gpt", **BEST}, exchange(20) | BEST)
    value, best = (each.choice.candidates[0].slowdown for each in (answer, all_of_them))

    assert answer.choice.replayed == 1
    assert value * (1 - answer.choice.gap) <= best * (1 + 1e-9)


def test_jobs_of_a_torus_have_blocks():
    """Scattered nodes of Fugaku meet; boxes do not, and no candidate is better."""
    answer = clustersim.share(
        "fugaku-blocks", settings={"jobs.0.nodes": "best", "steps": 2, "best.replays": 20}
    )

    assert answer.choice.candidates[0].slowdown == pytest.approx(1)
    assert "in blocks" in {each.rule for each in answer.choice.candidates}
    assert max(each.slowdown or 0 for each in answer.choice.candidates) > 1.05


# --- candidates -----------------------------------------------------------------------------------


def candidates(name, total, *counts, files=None, alike=True):
    """Return the candidates of jobs on all nodes of a machine."""
    fabric = build_cluster(load_cluster(name, total), total).fabric
    jobs = [
        Chooser(f"job {number}", number if files is None else files[number], Need(n, "best", ""))
        for number, n in enumerate(counts)
    ]
    return candidate_places(jobs, range(total), 0, fabric, alike=alike and fabric.alike)


@pytest.mark.parametrize(
    ("name", "total", "counts"),
    [("superpod-a100", 80, (30, 20)), ("frontier", 300, (64, 64, 64)), ("fugaku", 48, (12, 8))],
)
def test_candidates_are_nodes_of_the_machine_each_of_one_job(name, total, counts):
    """By several rules, no candidate twice."""
    found = candidates(name, total, *counts)

    assert len({each.nodes for each in found}) == len(found) > 8
    for each in found:
        nodes = [node for of_job in each.nodes for node in of_job]
        assert len({*nodes}) == len(nodes)
        assert {*nodes} <= {*range(total)}
        assert [*map(len, each.nodes)] == [*counts]


def test_nodes_that_are_alike_are_one_candidate():
    """On one switch all are; of two copies it does not matter which has which nodes."""
    assert len(candidates("dgx-h100", 8, 4, 2)) == 1
    different = candidates("superpod-a100", 80, 20, 20)
    copies = candidates("superpod-a100", 80, 20, 20, files=(0, 0))

    assert len(copies) < len(different)


# --- the bound ------------------------------------------------------------------------------------


def least_mean(demand: Floats, alone: Floats) -> float:
    """Return the least mean slowdown of two jobs on one link, of many speeds of the first."""
    speeds = np.linspace(1e-3, 1, 20_001) / alone[0]
    rest = np.minimum(1 / alone[1], np.maximum(0, 1 - demand[0] * speeds) / demand[1])
    valid = rest > 0
    return float(((1 / speeds[valid] + 1 / rest[valid]) / 2).min())


@given(st.tuples(*[st.floats(0.05, 3)] * 2), st.tuples(*[st.floats(1, 1.5)] * 2))
def test_the_bound_of_two_jobs_on_a_link_is_their_least_mean_slowdown(demand, alone):
    """By trying all speeds with which the link is not full."""
    of_link, alone = np.array(demand), np.array(alone)
    bound = least_slowdown(of_link[:, None], alone, "mean")

    assert bound == pytest.approx(least_mean(of_link, alone), rel=1e-3)


@given(st.lists(st.floats(0, 3), min_size=6, max_size=6), st.integers(0, 2))
def test_a_bound_grows_with_the_traffic(flat, job):
    """More bytes of a job on its links lower no bound; the largest is at least the mean."""
    demand, alone = np.array(flat).reshape(3, 2), np.ones(3)
    more = demand.copy()
    more[job] *= 1.5
    mean, largest = (least_slowdown(demand, alone, each) for each in ("mean", "largest"))

    assert 1 <= mean <= largest * (1 + 1e-9)
    assert least_slowdown(more, alone, "mean") >= mean * (1 - 1e-9)


# --- invalid input --------------------------------------------------------------------------------


def test_the_key_best_needs_a_job_that_has_the_best_nodes():
    with pytest.raises(ScenarioError, match=r"best: has no effect \(no job has nodes: best\)"):
        narrow(exchange(4), best={"replays": 4})


def test_too_few_nodes_are_rejected():
    with pytest.raises(ScenarioError, match=r"all jobs together need 48 nodes, and the machine"):
        narrow(exchange(24) | {"copies": 2, **BEST})
