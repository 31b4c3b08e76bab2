"""The memory of a service: whether the longest request fits, and how many requests do."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from clustersim.memory.room import UNFIT
from clustersim.simulation.service.answer import ServeMemory
from clustersim.simulation.service.pools import Pool
from clustersim.units import GIB

LARGEST_SHARE: Final = 0.98
"""Share of a device that an engine may take at most: the rest holds its context (assumed)."""


def service_memory(pools: Sequence[Pool], longest: int, mean: float) -> ServeMemory:
    """Return the memory of the pool with least room, and the largest batch of the last one.

    Parameters
    ----------
    longest : tokens of the longest request, prompt and output
    mean : the same, mean over requests
    """
    pool = min(pools, key=lambda pool: (not memory_problem(pool, longest), _room(pool)))
    memory, problem = pool.costs.memory, memory_problem(pool, longest)
    free = (memory.capacity - memory.usable) / GIB
    cache = memory.parts.get("kv", 0.0)
    fixed, longest_cache = sum(memory.parts.values()) - cache, _cache_of(pool, longest)
    fits = (
        f"fits: {sum(memory.parts.values()) / GIB:.1f} of {memory.capacity / GIB:.1f} GiB,"
        f" {free:.1f} GiB left to others"
    )
    return ServeMemory(
        need_bytes=fixed + longest_cache,
        reserve_bytes=max(0.0, cache - longest_cache),
        fits=not problem,
        verdict=problem or fits,
        parts=memory.parts,
        usable_bytes=memory.usable,
        capacity_bytes=memory.capacity,
        largest_batch=_largest_batch(pools[-1], mean),
        longest_request=longest,
    )


def _largest_batch(pool: Pool, mean: float) -> int:
    """Return the sequences of some tokens that a replica has room for, with states in blocks."""
    block = pool.costs.replica.engine.scheduler.block
    states = -(-pool.costs.memory.state // block) * block
    return int(_room(pool) / (mean + states)) * pool.layout.attention_data


def memory_problem(pool: Pool, longest: int) -> str:
    """Return why a pool has no memory for a request of some tokens; empty where it has."""
    memory, room = pool.costs.memory, _room(pool)
    where = f" for {pool.name}" if pool.name != "replica" else ""
    if not memory.fits:
        needed = sum(nbytes for part, nbytes in memory.parts.items() if part != "kv")
        over = (needed - memory.usable) / GIB
        return (
            f"{UNFIT}: a device{where} needs {needed / GIB:.1f} GiB without KV cache, of which"
            f" weights {memory.parts['weights'] / GIB:.1f}; usable are {memory.usable / GIB:.1f} of"
            f" {memory.capacity / GIB:.1f} GiB"
            + (f" ({over:.1f} GiB too much)" if over > 0 else " (no room for a block)")
            + _larger_share(pool, longest)
        )
    if room < longest + memory.state:
        states = f" and states of {memory.state:,}" if memory.state else ""
        return (
            f"{UNFIT}: no KV room for one request{where}, the longest has {longest:,} tokens"
            f"{states}, the cache {room:,} ({memory.parts['kv'] / GIB:.1f} GiB of a device)"
            + _larger_share(pool, longest)
        )
    return ""


def _larger_share(pool: Pool, longest: int) -> str:
    """Return the share of a device with which the longest request fits, where it is possible."""
    facts, memory = pool.costs.replica.engine.memory, pool.costs.memory
    if facts.of_free:
        return ""
    fixed = sum(nbytes for part, nbytes in memory.parts.items() if part != "kv")
    tokens = longest + pool.costs.replica.engine.scheduler.block
    share = ceil(100 * (fixed + _cache_of(pool, tokens)) / memory.capacity) / 100
    fits = facts.share < share <= LARGEST_SHARE
    return f"; fits with --set engine.memory.share={share:g}" if fits else ""


def _cache_of(pool: Pool, tokens: int) -> float:
    """Return the KV cache of a sequence on a device, with its states [B]."""
    memory, layout = pool.costs.memory, pool.layout
    tokens += memory.state
    if _room(pool):
        return memory.parts["kv"] * tokens / _room(pool)
    return memory.token * tokens / (layout.tensor * layout.pipeline)


def _room(pool: Pool) -> int:
    """Return the tokens that the KV cache of one group of attention has room for."""
    return pool.costs.memory.tokens // pool.layout.attention_data
