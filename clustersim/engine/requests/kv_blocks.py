"""The KV cache of a replica: blocks of tokens, taken at admission and as sequences grow.

What is kept at every instant: 0 <= used <= total, and `used` is the sum of what requests hold.
"""


class BlockPool:
    """Blocks of the KV cache of one replica.

    Attributes
    ----------
    total : blocks of the pool
    used : blocks that requests hold
    peak : most blocks that were used
    tokens : tokens of a block

    >>> pool = BlockPool(total=4, tokens=16)
    >>> pool.blocks_of(17)
    2
    >>> pool.take(2)
    >>> pool.free
    2
    """

    __slots__ = ("peak", "tokens", "total", "used")

    def __init__(self, total: int, tokens: int) -> None:
        assert total > 0
        assert tokens > 0
        self.total, self.tokens = total, tokens
        self.used = self.peak = 0

    @property
    def free(self) -> int:
        """Blocks that no request holds."""
        return self.total - self.used

    def blocks_of(self, tokens: int) -> int:
        """Return the number of blocks of some tokens of one sequence."""
        return -(-tokens // self.tokens)

    def take(self, blocks: int) -> None:
        """Take blocks; there must be enough."""
        self.used += blocks
        assert self.used <= self.total, "a KV pool above its size"
        self.peak = max(self.peak, self.used)

    def release(self, blocks: int) -> None:
        """Return blocks to the pool."""
        self.used -= blocks
        assert self.used >= 0, "more KV blocks released than taken"
