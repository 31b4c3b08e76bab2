"""The memory of a service: whether the longest request fits, and how many requests do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clustersim.simulation.service.answer import ServeMemory
from clustersim.simulation.service.pools import Pool
from clustersim.units import GIB


@dataclass(frozen=True)
class PoolMemory:
    """Memory of the fullest device of a pool.

    Attributes
    ----------
    parts : by part [B]
    usable, capacity : share of the device that the engine may take, and all of it [B]
    room : tokens that the KV cache of one group of attention has room for
    why : why no request fits; empty where the longest one does
    """

    parts: Mapping[str, float]
    usable: float
    capacity: float
    room: int
    why: str


def pool_memory(pool: Pool, longest: int) -> PoolMemory:
    """Return the memory of a pool whose longest request has some tokens."""
    found, groups = pool.costs.memory, pool.layout.attention_data
    room = found.tokens // groups
    where = f" for {pool.name}" if pool.name != "replica" else ""
    why = ""
    held = sum(nbytes for part, nbytes in found.parts.items() if part != "kv")
    if not found.fits:
        over = (held - found.usable) / GIB
        why = (
            f"does not fit{where}: a device needs {held / GIB:.1f} GiB without KV cache, of which"
            f" weights {found.parts['weights'] / GIB:.1f}; usable are {found.usable / GIB:.1f} of"
            f" {found.capacity / GIB:.1f} GiB"
            + (f" ({over:.1f} GiB too much)" if over > 0 else " (no room for a block)")
        )
    elif room < longest:
        why = (
            f"no KV room for one request{where}: the longest has {longest:,} tokens, the cache"
            f" {room:,} ({found.parts['kv'] / GIB:.1f} GiB of a device)"
        )
    return PoolMemory(found.parts, found.usable, found.capacity, room, why)


def service_verdict(pools: Sequence[Pool], longest: int, mean: float) -> ServeMemory:
    """Return the memory of the pool with least room.

    Parameters
    ----------
    longest : tokens of the longest request, prompt and output
    mean : the same, mean over requests
    """
    each = [pool_memory(pool, longest) for pool in pools]
    fullest = min(each, key=lambda one: (not one.why, one.room))
    pool = pools[each.index(fullest)]
    batch = int(fullest.room / mean) * pool.layout.attention_data
    free = (fullest.capacity - fullest.usable) / GIB
    fits = (
        f"fits: {sum(fullest.parts.values()) / GIB:.1f} of {fullest.capacity / GIB:.1f} GiB,"
        f" {free:.1f} GiB left to others"
    )
    return ServeMemory(
        fits=not fullest.why,
        verdict=fullest.why or fits,
        parts=fullest.parts,
        usable_bytes=fullest.usable,
        capacity_bytes=fullest.capacity,
        largest_batch=batch,
        longest_request=longest,
    )
