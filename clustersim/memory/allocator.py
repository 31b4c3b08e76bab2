"""Blocks of a caching allocator, which serve tensors and are kept for later ones.

    a tensor fits a free block    the smallest of those takes it, and is split where much remains
    none is large enough          a new segment of the device
    no room for a segment         segments that are free as a whole are returned before
    a tensor is freed             its block joins free neighbours of the same segment

PyTorch, ``c10/cuda/CUDACachingAllocator.cpp``: ``get_free_block``, ``should_split``,
``get_allocation_size``, ``release_cached_blocks``, ``try_merge_blocks``.  Tensors of at most 1 MiB
have segments of their own there, of 2 MiB, and are not for these blocks.
"""

import math
from bisect import bisect_left, insort
from typing import Final

SMALL: Final = 2**20
"""Tensors up to this size have segments of their own, ``kSmallSize`` [B]."""

ROUND: Final = 512
"""Multiple of the size of a tensor, ``kMinBlockSize`` [B]."""

REMAINDER: Final = SMALL
"""What must remain of a block at least to be split off, ``kSmallSize`` [B]."""

SEGMENT: Final = 20 * 2**20
"""Segment of a tensor below half its size, ``kLargeBuffer`` and ``kMinLargeAlloc`` [B]."""

GRAIN: Final = 2 * 2**20
"""Multiple of the size of larger segments, ``kRoundLarge`` [B]."""


class Block:
    """A part of a segment: a tensor, or free.

    Attributes
    ----------
    nbytes : its size [B]
    before, after : its neighbours in the segment
    """

    __slots__ = ("after", "before", "nbytes", "number", "used")

    def __init__(self, nbytes: int, number: int) -> None:
        self.nbytes, self.number, self.used = nbytes, number, False
        self.before: Block | None = None
        self.after: Block | None = None


class Blocks:
    """The segments of an allocator on a device with room for some.

    Parameters
    ----------
    room : memory that segments can take [B]

    Attributes
    ----------
    reserved : memory of its segments [B]
    most : the most that they ever had [B]
    """

    def __init__(self, room: float = math.inf) -> None:
        self.room, self.reserved, self.most = room, 0, 0
        self._free: list[tuple[int, int]] = []
        self._blocks: dict[int, Block] = {}
        self._made = 0

    @property
    def unused(self) -> int:
        """Free blocks, together [B]."""
        return sum(nbytes for nbytes, _ in self._free)

    def allocate(self, nbytes: float) -> Block:
        """Return the block of a new tensor."""
        size = max(1, -(-int(nbytes) // ROUND)) * ROUND
        index = bisect_left(self._free, (size, 0))
        if index < len(self._free):
            block = self._blocks[self._free.pop(index)[1]]
        else:
            block = self._segment(size)
        if block.nbytes - size > REMAINDER:
            self._split(block, size)
        block.used = True
        return block

    def reserve(self, nbytes: float) -> None:
        """Count segments that stay full."""
        self.reserved += int(nbytes)
        self.most = max(self.most, self.reserved)

    def free(self, block: Block) -> None:
        """Free the block of a tensor."""
        block.used = False
        for neighbour in (block.before, block.after):
            if neighbour is not None and not neighbour.used:
                self._join(block, neighbour)
        insort(self._free, (block.nbytes, block.number))

    def _segment(self, size: int) -> Block:
        """Return a new segment for a tensor, after free ones were returned where room is short."""
        nbytes = SEGMENT if 2 * size < SEGMENT else -(-size // GRAIN) * GRAIN
        if self.reserved + nbytes > self.room:
            self._release()
        self.reserved += nbytes
        self.most = max(self.most, self.reserved)
        return self._new(nbytes)

    def _new(self, nbytes: int) -> Block:
        self._made += 1
        block = self._blocks[self._made] = Block(nbytes, self._made)
        return block

    def _release(self) -> None:
        for nbytes, number in list(self._free):
            block = self._blocks[number]
            if block.before is None and block.after is None:
                self._free.remove((nbytes, number))
                del self._blocks[number]
                self.reserved -= nbytes

    def _split(self, block: Block, size: int) -> None:
        rest = self._new(block.nbytes - size)
        rest.before, rest.after, block.nbytes = block, block.after, size
        if block.after is not None:
            block.after.before = rest
        block.after = rest
        insort(self._free, (rest.nbytes, rest.number))

    def _join(self, block: Block, neighbour: Block) -> None:
        """Merge a free neighbour into a block."""
        self._free.pop(bisect_left(self._free, (neighbour.nbytes, neighbour.number)))
        del self._blocks[neighbour.number]
        block.nbytes += neighbour.nbytes
        if neighbour is block.before:
            block.before = neighbour.before
            if neighbour.before is not None:
                neighbour.before.after = block
        else:
            block.after = neighbour.after
            if neighbour.after is not None:
                neighbour.after.before = block
