"""How the cost of a run grows: with devices, with microbatches, with concurrent flows."""

from collections.abc import Iterator

from benchmarks.network import flows_on_tree
from benchmarks.table import Table
from benchmarks.timing import CLUSTERSIM, Cost, cost_of

DEVICES = (64, 512, 1024, 4096, 16_384, 65_536, 131_072)
MOST_NODES = max(DEVICES) // 8

REFERENCE, LIMIT = 1024, 4.0
"""Devices that others are compared with, and how much longer all of them may take [unitless]."""

MICROBATCHES = (320, 3_200, 32_000, 320_000)
FLOWS = (100, 1_000, 5_000, 10_000)


def growth(repeats: int, folder: str) -> Iterator[Table]:
    """Yield a table for each quantity that grows."""
    yield _devices(repeats)
    yield _microbatches(repeats)
    yield _flows()


def _run(scenario: str, repeats: int, **settings: int) -> Cost:
    words = [
        word
        for key, value in settings.items()
        for word in ("--set", f"{key.replace('__', '.')}={value}")
    ]
    return cost_of([*CLUSTERSIM, "run", scenario, "--json", *words], repeats)


def _devices(repeats: int) -> Table:
    costs: dict[int, Cost] = {}
    for devices in DEVICES:
        data = devices // 64
        costs[devices] = _run(
            "korthikanti-175b-seqsel",
            repeats,
            cluster__size=MOST_NODES,
            cluster__nodes=8 * data,
            plan__data=data,
            batch__global=64 * data,
        )
    rows = [
        (devices, cost.wall, cost.wall / costs[REFERENCE].wall, cost.processor, cost.peak // 10**6)
        for devices, cost in costs.items()
    ]
    return Table(
        "devices",
        "Cost by devices",
        (
            "devices",
            "time [s]",
            f"time over that of {REFERENCE:,} devices",
            "processor time [s]",
            "memory [MB]",
        ),
        rows,
        "A replica of 175B parameters on 64 A100 (tensor 8, pipeline 8, three chunks), more and"
        " more of them.\nEach has 64 microbatches, so all ranks have equal programs.\nFrom"
        f" {REFERENCE:,} to {max(DEVICES):,} devices the time may grow {LIMIT:g}-fold.",
    )


def _microbatches(repeats: int) -> Table:
    rows = []
    for microbatches in MICROBATCHES:
        cost = _run("frontier-22b", repeats, batch__global=2 * microbatches)
        blocks = 8 * 2 * microbatches
        rows.append((microbatches, blocks, cost.wall, cost.processor, round(cost.peak / 1e6)))
    return Table(
        "microbatches",
        "Cost by microbatches",
        ("microbatches", "blocks", "time [s]", "processor time [s]", "memory [MB]"),
        rows,
        "frontier-22b with more and more sequences in a batch: eight stages, each with a forward"
        " and a backward of each microbatch.",
    )


def _flows() -> Table:
    rows = []
    for count in FLOWS:
        run = flows_on_tree(16, 256, "adaptive", count)
        rows.append((count, run.seconds, run.completions / run.seconds, run.solves))
    return Table(
        "flows",
        "Cost by concurrent flows",
        ("flows", "processor time [s]", "flows per second", "solves"),
        rows,
        "Flows of 1 to 100 MB between random pairs of 8,192 devices on a fat tree with half of the"
        " full bisection; all begin at once and share links by max-min fairness.",
    )
