"""Shipped scenarios of shared machines run, and have the findings that their titles promise."""

import pytest

import clustersim
from clustersim.catalog.finding import entry_names, find

SHARED = [name for name in entry_names("scenario") if "jobs" in find("scenario", name).data]

SLOWED = {
    "h800-decode-next-to-training": 1.367,
    "superpod-hashed-neighbours": 1.373,
    "superpod-two-175b": 1.0,
    "selene-checkpoint-storm": 1.340,
}
"""Slowdown of the job that is slowed most."""


@pytest.mark.parametrize("name", SHARED)
def test_every_shared_machine_runs(name):
    """Each job has its steps, and blame that adds up."""
    answer = clustersim.share(name, settings={"steps": 2})

    assert max(job.slowdown for job in answer.jobs) == pytest.approx(SLOWED[name], abs=1e-3)
    for job in (job for job in answer.jobs if job.blame is not None):
        costs = sum(part.seconds for part in job.blame)
        assert costs == pytest.approx(job.shared_s - job.alone_s, abs=1e-9 * job.alone_s)
