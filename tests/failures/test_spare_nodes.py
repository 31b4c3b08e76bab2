"""Spare nodes against published counts, copies on peers against enumeration."""

from itertools import combinations

import pytest

from clustersim.failures.spare_nodes import spares_needed, survival_in_groups


@pytest.mark.parametrize("probability", [0.00117, 0.0012, 0.00125])
def test_one_probability_reproduces_the_published_spares(probability):
    """128, 256, 512 and 1,024 nodes have 2, 2, 3 and 4 spares, by one probability."""
    counts = [spares_needed(nodes, probability) for nodes in (128, 256, 512, 1024)]

    assert counts == [2, 2, 3, 4]


def test_nodes_that_never_fail_need_no_spares():
    """With probability 0 no spare is needed."""
    assert spares_needed(1000, 0.0) == 0


@pytest.mark.parametrize(("nodes", "copies", "lost"), [(8, 2, 2), (12, 3, 4), (8, 4, 5), (9, 3, 3)])
def test_survival_equals_counting(nodes, copies, lost):
    """Inclusion and exclusion equal the count of all sets of lost nodes."""
    groups = [{*range(i, i + copies)} for i in range(0, nodes, copies)]
    sets = [{*chosen} for chosen in combinations(range(nodes), lost)]
    good = sum(not any(group <= chosen for group in groups) for chosen in sets)

    assert survival_in_groups(nodes, copies, lost) == pytest.approx(good / len(sets))


def test_fewer_losses_than_copies_are_survived():
    """Any k - 1 losses leave a copy of everything."""
    assert survival_in_groups(64, 4, 3) == 1.0
