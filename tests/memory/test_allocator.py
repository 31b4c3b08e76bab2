"""Blocks of a caching allocator: what it reserves, and for which tensors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.memory.allocator import GRAIN, REMAINDER, ROUND, Blocks

MIB = 2**20

SIZES = st.integers(min_value=MIB, max_value=300 * MIB)

STEPS = st.lists(st.one_of(SIZES, st.integers(min_value=-20, max_value=-1)), max_size=60)
"""Tensors by their size, and numbers of those that are freed, counted from the last."""


def run(blocks, steps):
    """Take and give blocks as steps say; return those that are still held, with their sizes."""
    held = []
    for step in steps:
        if step > 0:
            held.append((step, blocks.allocate(step)))
        elif len(held) >= -step:
            blocks.free(held.pop(step)[1])
    return held


@given(STEPS)
def test_every_byte_of_a_segment_is_a_tensor_or_free(steps):
    """Blocks that are held and free ones add up to what is reserved, and each holds its tensor."""
    blocks = Blocks()
    held = run(blocks, steps)

    assert sum(block.nbytes for _, block in held) + blocks.unused == blocks.reserved
    for nbytes, block in held:
        assert nbytes <= block.nbytes < nbytes + ROUND + REMAINDER + GRAIN + 20 * MIB


@given(STEPS)
def test_freed_neighbours_join(steps):
    """With all tensors freed, every free block is a whole segment again: the largest one fits."""
    blocks = Blocks()
    for _, block in run(blocks, steps):
        blocks.free(block)
    reserved = blocks.reserved
    largest = max((step for step in steps if step > 0), default=0)

    assert blocks.unused == reserved
    if largest:
        blocks.allocate(largest)
    assert blocks.reserved == reserved


def test_a_tensor_takes_the_smallest_free_block_and_the_rest_stays_free():
    """Of free blocks of 40 and 90 MiB one of 30 takes the former, and 10 MiB are left of it."""
    blocks = Blocks()
    small, wall, large = (blocks.allocate(nbytes * MIB) for nbytes in (40, 20, 90))
    blocks.free(small)
    blocks.free(large)
    taken = blocks.allocate(30 * MIB)

    assert taken.nbytes == 30 * MIB
    assert blocks.unused == (10 + 90) * MIB
    assert wall.nbytes == 20 * MIB


def test_small_tensors_share_a_segment():
    """Tensors below 10 MiB split segments of 20 MiB."""
    blocks = Blocks()
    for _ in range(5):
        blocks.allocate(4 * MIB)

    assert blocks.reserved == 20 * MIB


@pytest.mark.parametrize(("room", "reserved"), [(200, 160), (110, 60)])
def test_free_segments_are_returned_before_room_is_short(room, reserved):
    """A device with room keeps free segments; one without returns them, and keeps those in use.

    Two free segments of 50 MiB do not hold 60 MiB, which need one of their own.
    """
    blocks = Blocks(room * MIB)
    for block in [blocks.allocate(50 * MIB), blocks.allocate(50 * MIB)]:
        blocks.free(block)
    blocks.allocate(60 * MIB)

    assert blocks.reserved == reserved * MIB
    assert blocks.most == max(100, reserved) * MIB
