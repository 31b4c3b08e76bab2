"""Arrays of whole numbers: ranges one after another, and numbers for equal rows and multisets."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.signedinteger[Any]]
"""Of 64 bits, or of 32 for numbers of all links of a machine."""

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Hashes = NDArray[np.uint64]

SPARSE = 12
"""Numbers to each value above which sorting the values is faster than marking all numbers."""

MERGED = 64
"""Length of parts that ascend, in the mean, from which sorting them by merging is faster."""

FEW = 1024
"""Rows up to which comparing their bytes is faster than sorting their columns."""


def ranges(first: Integers, counts: Integers) -> Integers:
    """Return the numbers of several ranges, one after another.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(counts.sum())


def adjacent(values: Sequence[object]) -> list[range]:
    """Return the places of equal values next to each other.

    >>> adjacent("abbc")
    [range(0, 1), range(1, 3), range(3, 4)]
    """
    first = [at for at in range(len(values)) if not at or values[at] != values[at - 1]]
    return [range(*ends) for ends in pairwise([*first, len(values)])]


def ranked(values: Integers) -> tuple[Integers, Integers]:
    """Return the different values in ascending order, and the place of each value among them.

    As `numpy.unique`, but without sorting where the values lie close together.

    >>> [array.tolist() for array in ranked(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    first = int(values.min(initial=0))
    width = int(values.max(initial=0)) - first + 1
    if width > SPARSE * len(values) + 1024:
        begins = np.concatenate([[True], values[1:] != values[:-1]])
        if 2 * np.count_nonzero(begins) < len(values):  # each run of equal ones once
            different, places = ranked(values[begins])
            counts = np.diff(np.flatnonzero(begins), append=len(values))
            return different, np.repeat(places, counts)
        # With an index it sorts by merging: a tenth of the time where values ascend by parts, as
        # those of rows one after another do, and twice the time where they are hashes.
        if MERGED * np.count_nonzero(values[1:] < values[:-1]) < len(values):
            different, _, places = np.unique(values, return_index=True, return_inverse=True)
            return different, places
        return np.unique(values, return_inverse=True)
    occurs = np.zeros(width, dtype=np.bool_)
    occurs[values - first] = True
    rank = np.cumsum(occurs, dtype=np.int32) - 1
    return np.flatnonzero(occurs) + first, rank[values - first].astype(np.int64)


def numbered(rows: Integers) -> Integers:
    """Return a number for each row, equal for equal rows, in order of first appearance.

    >>> numbered(np.array([[7, 1], [7, 0], [7, 1]])).tolist()
    [0, 1, 0]
    """
    if len(rows) <= FEW:
        known: dict[bytes, int] = {}
        each = np.ascontiguousarray(rows).view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()
        return np.array([known.setdefault(row, len(known)) for row in each], np.int64)
    _, numbers = ranked(rows[:, 0])
    for column in rows.T[1:]:
        if (column == column[0]).all():
            continue
        _, places = ranked(column)
        _, numbers = ranked(numbers * (places.max(initial=0) + 1) + places)
    return np.argsort(np.argsort(first_of(numbers)))[numbers]


def first_of(numbers: Integers) -> Integers:
    """Return where each number appears first, for numbers from 0 without gaps.

    >>> first_of(np.array([1, 0, 1])).tolist()
    [1, 0]
    """
    first = np.zeros(numbers.max(initial=-1) + 1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


def multisets(owner: Integers, items: Integers, owners: int) -> Integers:
    """Return a number for each owner, equal where the multisets of their items are equal.

    The number is the sum of 64-bit hashes of the items: of a million different multisets, two have
    the same number with a probability of 3e-8.  Sorting the items of each owner takes twelve times
    as long.

    >>> numbers = multisets(np.array([0, 1, 2, 0, 1]), np.array([7, 5, 7, 5, 7]), 3)
    >>> (numbers == numbers[0]).tolist()
    [True, True, False]
    """
    numbers = np.zeros(owners, dtype=np.int64)
    add_hashes(numbers, owner, items)
    return numbers


def add_hashes(numbers: Integers, owner: Integers, items: Integers) -> None:
    """Add the hashes of items to the numbers of their owners, as `multisets`."""
    hashes = mixed(items.astype(np.int64, copy=False).view(np.uint64))
    np.add.at(numbers.view(np.uint64), owner, hashes)  # which wraps around


def mixed(values: Hashes) -> Hashes:
    """Return a hash of each value that depends on all its bits: a step of SplitMix64.

    Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195.
    """
    values = values + np.uint64(0x9E3779B97F4A7C15)  # all of it modulo 2^64
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: Hashes = values ^ (values >> np.uint64(31))
    return spread
