"""The page to explore in, with several people at the same time."""

import time
from collections.abc import Iterator
from functools import partial
from statistics import median, quantiles
from threading import Thread

from benchmarks.table import Table
from clustersim.explore import Site
from clustersim.explore.pool import Pool
from clustersim.explore.question import Home

USERS = 20
SECONDS = 60.0
LOOK = 1.0
"""Time for which a person looks at an answer [s]."""


def explore(repeats: int, folder: str) -> Iterator[Table]:
    """Yield the times of answers with `USERS` people, each with questions of their own."""
    pool = Pool(2)
    try:
        site = Site(Home(), pool)
        times = ask_all(site, USERS, SECONDS)
    finally:
        pool.close()
    ends = quantiles(times, n=10)
    row = (USERS, len(times), median(times), ends[8], len(times) / SECONDS)
    names = ("users", "answers", "median [s]", "90th percentile [s]", "answers per second")
    text = (
        f"{USERS} people for {SECONDS:.0f} s, two processes: each changes nodes and batch of a step"
        f" of 70B on 64 to 1,024 devices, and looks at the answer for {LOOK:g} s.\n"
        "The median may be 2 s."
    )
    yield Table("explore", "A page with many people", names, [row], text)


def ask_all(site: Site, users: int, seconds: float, turns: int = 10_000) -> list[float]:
    """Return the times of all answers of some users for some time [s].

    Raises
    ------
    AssertionError
        when an answer is an error.
    """
    times: list[float] = []
    kinds: set[str] = set()
    end = time.monotonic() + seconds
    work = partial(_ask, site, end, turns, times, kinds)
    threads = [Thread(target=work, args=(user,)) for user in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds == {"answer"}, f"answers are {kinds}"
    return times


def _ask(
    site: Site, end: float, turns: int, times: list[float], kinds: set[str], user: int
) -> None:
    for turn in range(turns):
        begin = time.monotonic()
        if begin > end:
            return
        nodes = 8 * (1 + (7 * user + turn) % 16)
        query = f"kind=step&cluster.nodes={nodes}&batch.global={8 * nodes}"
        kinds.update(
            message.kind for message in site.answer(query, {}) if message.kind != "progress"
        )
        times.append(time.monotonic() - begin)
        time.sleep(min(LOOK, max(0.0, end - time.monotonic())))
