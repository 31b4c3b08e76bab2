"""The halo exchange of a code on a grid: its faces, the links that they cross, and neighbours."""

from collections import Counter
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.errors import ScenarioError
from clustersim.scenario.load import load_sharing
from clustersim.simulation.sharing.halo import faces
from clustersim.simulation.sharing.machine import SharedMachine

GRIDS = st.lists(st.integers(1, 5), min_size=2, max_size=4).filter(lambda grid: prod(grid) > 1)


def exchange(halo, nodes, **keys):
    """Return a job that exchanges faces of a MB."""
    return {"traffic": {"halo": halo, "bytes": "1 MB", "nodes": nodes, **keys}}


def torus(shape, *jobs, **keys):
    """Return a machine of nodes with one device, whose axes are rings, and its jobs."""
    fabric = {"shape": shape, "ring": shape, "axes": [*"XYZW"[: len(shape)]], "joined": []}
    cluster = {"name": "fugaku", "nodes": prod(shape), "fabric": fabric}
    return {"cluster": cluster, "jobs": [*jobs], **keys}


def loads(scenario):
    """Return the bytes of each link by name, of the first job."""
    placed = SharedMachine(load_sharing(scenario)).placed()
    links, nbytes = placed.jobs[0].carried
    names = placed.cluster.links.names
    return {names[int(link)]: float(sent) for link, sent in zip(links, nbytes, strict=True)}


# --- faces ----------------------------------------------------------------------------------------


@given(GRIDS, st.booleans())
def test_faces_are_sent_between_neighbours_of_the_grid(grid, periodic):
    """One step along one axis, and each device receives as many as it sends."""
    sources, targets = faces(grid, periodic=periodic)
    a, b = (np.array(np.unravel_index(ends, grid)) for ends in (sources, targets))
    steps = np.abs(a - b)
    if periodic:
        steps = np.minimum(steps, np.array(grid)[:, None] - steps)

    assert (steps.sum(axis=0) == 1).all()
    assert Counter(sources.tolist()) == Counter(targets.tolist())
    per_axis = [2 * (prod(grid) - (0 if periodic else prod(grid) // n)) for n in grid if n > 1]
    assert len(sources) == sum(per_axis)


# --- links ----------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=2, max_size=4).filter(lambda grid: prod(grid) <= 200))
def test_on_a_torus_of_its_shape_no_link_carries_more_than_its_faces(shape):
    """Each link between routers has one face, or both of an axis of two; each NIC all of its."""
    carried = loads(torus(shape, exchange(shape, prod(shape))))
    nics = {name: sent for name, sent in carried.items() if _ends(name) == "nr"}
    face = sum(nics.values()) / (2 * len(shape) * prod(shape))
    between = {name: sent / face for name, sent in carried.items() if _ends(name) == "rr"}

    assert max(nics.values()) == pytest.approx(min(nics.values()))
    assert max(between.values()) <= (2 if 2 in shape else 1) + 1e-9
    assert sum(between.values()) == pytest.approx(2 * len(shape) * prod(shape))


def test_bytes_are_conserved():
    """All that leaves a NIC reaches another one, in a grid that is open as well."""
    for periodic in (True, False):
        carried = loads(torus([4, 3, 2], exchange([4, 3, 2], 24, periodic=periodic)))
        sent, received = (
            sum(each for name, each in carried.items() if _ends(name) == ends)
            for ends in ("nr", "rn")
        )
        count = len(faces([4, 3, 2], periodic=periodic)[0])

        assert sent == pytest.approx(received)
        assert sent == pytest.approx(count * 1e6)


def _ends(link):
    """Return whether a link is from and to a node or a router: ``nr``."""
    a, b = link.split(">")
    return a[0] + b[0]


def test_an_exchange_takes_the_time_of_the_faces_of_its_nic():
    """Alone on its torus the NIC is narrower than the links to six neighbours, or they are."""
    machine = torus([4, 4, 4], exchange([4, 4, 4], 64, pause="1 ms"))
    job = clustersim.share(machine).jobs[0]
    placed = SharedMachine(load_sharing(machine)).placed()
    links, nbytes = placed.jobs[0].carried
    longest = float((nbytes / placed.cluster.links.capacities[links]).max())

    assert job.slowdown == 1
    assert job.alone_s == pytest.approx(1e-3 + longest, rel=0.02)


def test_halos_of_blocks_meet_nowhere_and_those_of_scattered_nodes_do():
    """On a torus whose blocks have the shape of the grid."""
    jobs = exchange([4, 4], 16) | {"copies": 4}
    blocks, scattered = (
        clustersim.share(torus([8, 8], jobs | {"nodes": nodes}, steps=4))
        for nodes in ("blocks", "scattered")
    )

    assert [job.slowdown for job in blocks.jobs] == pytest.approx([1] * 4, rel=1e-6)
    assert min(job.slowdown for job in scattered.jobs) > 1.2


# --- invalid input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        ({"halo": [4, 4], "nodes": 8}, "4 x 4 is 16 devices, and 8 nodes have 8 (make them equal)"),
        ({"halo": [8], "nodes": 8}, "halo: must have at least 2"),
        ({"halo": [2, 0], "nodes": 8}, "halo[1]: must be at least 1"),
        ({"halo": [1, 1], "nodes": 1}, "has one device, which has no neighbour (a larger grid)"),
        ({"halo": [4, 2], "collective": "send", "nodes": 8}, "needs a collective, storage or a"),
        ({"collective": "send", "periodic": False, "nodes": 8}, "no effect without a halo"),
    ],
)
def test_grids_that_make_no_sense_are_rejected(traffic, message):
    """In one line, with the place of the key."""
    job = {"traffic": {"bytes": "1 MB", **traffic}}
    with pytest.raises(ScenarioError) as told:
        clustersim.share({"cluster": {"name": "fugaku", "nodes": 48}, "jobs": [job]})

    assert message in str(told.value)
