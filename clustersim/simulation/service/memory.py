"""The memory of a service: whether the longest request fits, and how many requests do."""

from collections.abc import Sequence

from clustersim.simulation.service.answer import ServeMemory
from clustersim.simulation.service.pools import Pool
from clustersim.units import GIB


def service_memory(pools: Sequence[Pool], longest: int, mean: float) -> ServeMemory:
    """Return the memory of the pool with least room.

    Parameters
    ----------
    longest : tokens of the longest request, prompt and output
    mean : the same, mean over requests
    """
    pool = min(pools, key=lambda pool: (not memory_problem(pool, longest), _room(pool)))
    memory, problem = pool.costs.memory, memory_problem(pool, longest)
    free = (memory.capacity - memory.usable) / GIB
    fits = (
        f"fits: {sum(memory.parts.values()) / GIB:.1f} of {memory.capacity / GIB:.1f} GiB,"
        f" {free:.1f} GiB left to others"
    )
    return ServeMemory(
        fits=not problem,
        verdict=problem or fits,
        parts=memory.parts,
        usable_bytes=memory.usable,
        capacity_bytes=memory.capacity,
        largest_batch=int(_room(pool) / mean) * pool.layout.attention_data,
        longest_request=longest,
    )


def memory_problem(pool: Pool, longest: int) -> str:
    """Return why a pool has no memory for a request of some tokens; empty where it has."""
    memory, room = pool.costs.memory, _room(pool)
    where = f" for {pool.name}" if pool.name != "replica" else ""
    if not memory.fits:
        needed = sum(nbytes for part, nbytes in memory.parts.items() if part != "kv")
        over = (needed - memory.usable) / GIB
        return (
            f"does not fit{where}: a device needs {needed / GIB:.1f} GiB without KV cache, of which"
            f" weights {memory.parts['weights'] / GIB:.1f}; usable are {memory.usable / GIB:.1f} of"
            f" {memory.capacity / GIB:.1f} GiB"
            + (f" ({over:.1f} GiB too much)" if over > 0 else " (no room for a block)")
        )
    if room < longest:
        return (
            f"no KV room for one request{where}: the longest has {longest:,} tokens, the cache"
            f" {room:,} ({memory.parts['kv'] / GIB:.1f} GiB of a device)"
        )
    return ""


def _room(pool: Pool) -> int:
    """Return the tokens that the KV cache of one group of attention has room for."""
    return pool.costs.memory.tokens // pool.layout.attention_data
