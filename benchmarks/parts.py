"""The parts of the benchmark, by the word that picks one."""

from collections.abc import Callable, Iterator

from benchmarks.commands import commands
from benchmarks.executors import executors
from benchmarks.explore import explore
from benchmarks.growth import growth
from benchmarks.layouts import layouts
from benchmarks.network import network
from benchmarks.replay import replays
from benchmarks.routing import routing
from benchmarks.search import searches
from benchmarks.table import Table

PARTS: dict[str, Callable[[int, str], Iterator[Table]]] = {
    "commands": commands,
    "growth": growth,
    "layouts": layouts,
    "executors": executors,
    "replay": replays,
    "network": network,
    "routing": routing,
    "search": searches,
    "explore": explore,
}
"""From the number of repetitions and a temporary folder to tables."""
