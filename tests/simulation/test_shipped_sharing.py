"""Shipped scenarios of shared machines run, and have the findings that their titles promise."""

import pytest

import clustersim
from clustersim.catalog.finding import entry_names, find
from descriptions import undescribed

SHARED = [name for name in entry_names("scenario") if "jobs" in find("scenario", name).data]

SLOWED = {
    "frontier-small-jobs": 1.0,
    "fugaku-blocks": 1.0,
    "meta-hashed-neighbours": 1.901,
    "superpod-failed-spine": 1.373,
    "h800-decode-next-to-training": 1.362,
    "superpod-hashed-neighbours": 1.373,
    "superpod-two-175b": 1.0,
    "selene-checkpoint-storm": 1.340,
}
"""Slowdown of the job that is slowed most."""


@pytest.mark.parametrize("name", SHARED)
def test_every_shared_machine_runs(name):
    """Each job has its steps, and blame that adds up."""
    answer = clustersim.share(name, settings={"steps": 2})

    assert undescribed(answer, "run", "share") == []
    assert max(job.slowdown for job in answer.jobs) == pytest.approx(SLOWED[name], abs=1e-3)
    for job in (job for job in answer.jobs if job.blame is not None):
        costs = sum(part.seconds for part in job.blame)
        assert costs == pytest.approx(job.shared_s - job.alone_s, abs=1e-9 * job.alone_s)


def mean_of(name, **settings):
    """Return the mean time of a step of the jobs of a shipped scenario, next to each other [s]."""
    jobs = clustersim.share(name, settings={"steps": 2, **settings}).jobs
    return sum(job.shared_s for job in jobs) / len(jobs)


@pytest.mark.large
def test_more_parts_of_flows_share_the_cables_of_pods_better():
    """Sprayed packets do as well as adaptive routing, and hashed flows better with more parts."""
    name, key = "meta-hashed-neighbours", "cluster.fabric.routing"
    hashed = [
        sum(
            mean_of(name, **{"cluster.fabric.queue_pairs": pairs, "cluster.fabric.seed": seed})
            for seed in range(3)
        )
        / 3
        for pairs in (1, 4, 16)
    ]
    sprayed, adaptive = (mean_of(name, **{key: routing}) for routing in ("sprayed", "adaptive"))

    assert hashed == sorted(hashed, reverse=True)
    assert hashed[0] > 1.3 * hashed[-1] > 1.3 * sprayed
    assert sprayed == pytest.approx(adaptive, rel=1e-6)


def test_scattered_nodes_of_a_torus_meet_and_blocks_do_not():
    """On Fugaku, where messages pass the routers of other jobs."""
    blocks, scattered = (
        mean_of("fugaku-blocks", **{"jobs.0.nodes": place}) for place in ("blocks", "scattered")
    )

    assert scattered > 10 * blocks


@pytest.mark.parametrize("routing", ["adaptive", "sprayed"])
def test_spread_paths_isolate_neighbours_as_measured(routing):
    """GPCNeT on Slingshot and InfiniBand: as fast next to congestion on other nodes as alone."""
    settings = {"steps": 2, "cluster.fabric.routing": routing, "jobs.0.copies": 4}
    answer = clustersim.share("superpod-hashed-neighbours", settings=settings)

    assert [job.slowdown for job in answer.jobs] == pytest.approx([1.0] * 4, rel=1e-6)
