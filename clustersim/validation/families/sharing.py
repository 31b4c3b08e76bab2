"""Jobs that share links: closed forms, and measured gains of other paths.

    link_gb_s           jobs that compute and send over one cable, in phase and shifted
    uplinks, flows      flows that are hashed to the cables of a leaf
    oversubscription    jobs whose flows all cross the only cable of a leaf
    ideal_busbw_gbps    collectives of a job on NICs of two ports, hashed and spread
    leaf, spine         collectives of several jobs on a tree, hashed and spread
    racks, pods         collectives of a job, with one queue pair and with several
    tiers               a training step, hashed and spread

Fabrics are built from the rows and simulated as a scenario of jobs is (``validation/sharing.yaml``
has what sources leave out).  Gains are compared as ratios of throughput.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from statistics import mean
from typing import Annotated, Any, Final

import numpy as np
from pydantic import BeforeValidator

from clustersim.arrays import Integers
from clustersim.catalog.finding import find
from clustersim.cost.closed_form import bus_factor
from clustersim.scenario.machine import load_cluster
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.sharing.share import share
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.fabrics import build_fabric
from clustersim.topology.fabrics.fat_tree import FatTreeFabric
from clustersim.topology.paths import Flows, chosen_paths
from clustersim.validation.cases.reasons import Reason, Ungradable, not_stated
from clustersim.validation.cases.rows import Row, Section, family_row, part
from clustersim.validation.cases.texts import Count, Number, Text, Word, measured_number
from clustersim.validation.grading import Grade, Graded, at_least, at_most, graded

FAMILY: Final = "sharing"
"""The family of rows that are graded here."""

STEPS: Final = 32
"""Steps of each job of a closed form."""

SHIFTS: Final = 8
"""Phases of the second job that are tried for the shortest period, evenly over its period."""

HASHES: Final = 2**22
"""Flows that are hashed for an expected maximum, in all samples."""

SEEDS: Final = 16
"""Seeds of the hash over which numbers are averaged."""


def _range(value: object) -> tuple[float, float] | None:
    """Return a pair of numbers; None for any other value."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    least, most = value
    plain = isinstance(least, int | float) and isinstance(most, int | float)
    return (float(least), float(most)) if plain else None


def _middle(value: object) -> object:
    """Return a number, or the middle of a pair of them."""
    pair = _range(value)
    return measured_number(value) if pair is None else (pair[0] + pair[1]) / 2


Range = Annotated[tuple[float, float] | None, BeforeValidator(_range)]
"""Two numbers of a row, the lower one first."""

Middle = Annotated[float | None, BeforeValidator(_middle)]
"""A number of a row, or the middle of two."""


class JobOfRow(Section):
    """A job of a row, or several equal ones."""

    compute_s: Number = None
    bytes_g: Number = None
    copies: Count = None
    crossing_share: Number = None
    collective: Word = None
    nodes_each: Count = None
    nodes: Range = None
    queue_pairs: Range = None
    model: Text = None
    gpus: Count = None


class SharingRow(Section):
    """What a row states in addition to a `Row`, in the units of the names."""

    kind: Text = None
    reproducible_by_maxmin: Word = None
    link_gb_s: Number = part("topology", "link_gb_s")
    uplinks: Count = part("topology", "uplinks")
    flows: Count = part("topology", "flows")
    oversubscribed: Text = part("topology", "oversubscription")
    nodes: Count = part("topology", "nodes")
    leaf: Count = part("topology", "leaf")
    spine: Count = part("topology", "spine")
    tiers: Text = part("topology", "tiers")
    gpus_per_rack: Count = part("topology", "gpus_per_rack")
    ideal_busbw_gbps: Number = part("topology", "ideal_busbw_gbps")
    jobs: tuple[JobOfRow, ...] = ()
    period_s_in_phase: Number = part("measured", "period_s_in_phase")
    period_s_interleaved: Number = part("measured", "period_s_interleaved")
    period_s_lower_bound: Number = part("measured", "period_s_lower_bound")
    link_load: Number = part("measured", "link_load")
    slowdown_bounds: Range = part("measured", "slowdown_bounds")
    expected_busiest_flows: Number = part("measured", "expected_busiest_flows")
    expected_busiest_over_mean: Number = part("measured", "expected_busiest_over_mean")
    probability_no_collision: Number = part("measured", "probability_no_collision")
    throughput_share: Number = part("measured", "throughput_share")
    busbw_gbps_before: Middle = part("measured", "busbw_gbps_before")
    busbw_gbps_before_max: Number = part("measured", "busbw_gbps_before_max")
    busbw_gbps_after: Middle = part("measured", "busbw_gbps_after")
    mean_gain: Number = part("measured", "mean_gain")
    allreduce_gain: Number = part("measured", "allreduce_gain")
    throughput_gap_to_ideal: Number = part("measured", "throughput_gap_to_ideal")


def grade_sharing_case(row: Row) -> Graded:
    """Return the grades of a row of the family `FAMILY`, and what was assumed for them.

    Raises
    ------
    Ungradable
        for rows that no scenario expresses.
    """
    fields = family_row(row, SharingRow)
    if fields.reproducible_by_maxmin == "no":
        raise Ungradable.because(_REASONS.get(fields.kind or "", UNSHARED))
    grades = [*_closed_forms(fields)]
    if grades:
        return grades, {}
    for states, grader in _MEASURED.items():
        if all(getattr(fields, name) is not None for name in states.split()):
            return grader(fields)
    raise Ungradable(*_missing(fields))


UNSHARED: Final = "an effect of more than shares of links, such as congestion in buffers"

_REASONS: Final[Mapping[str, str]] = {
    "statistics": "a number over many jobs or runs, of which none is stated",
    "counterfactual": "a change of a fleet, and not of one job",
}
"""Why rows of a kind that shares of links do not explain are not predicted."""


def _missing(fields: SharingRow) -> list[Reason]:
    """Return what a row leaves out."""
    if not any(job.collective or job.model for job in fields.jobs):
        return [not_stated("shape and phases of its jobs")]
    return [not_stated("cables between switches, or a measured number that is predicted")]


# --- closed forms ---------------------------------------------------------------------------------


def _closed_forms(fields: SharingRow) -> Iterator[Grade]:
    """Yield the grades of what a row measures in closed form, of a fabric that it states whole."""
    if fields.link_gb_s is not None and fields.jobs:
        yield from _periods(fields, fields.link_gb_s)
    if fields.uplinks is not None and fields.flows is not None:
        yield from _collisions(fields, fields.uplinks, fields.flows)
    if fields.throughput_share is not None and fields.oversubscribed is not None:
        yield _crossing(fields, fields.throughput_share)


def _periods(fields: SharingRow, link: float) -> Iterator[Grade]:
    jobs = [job for job in fields.jobs for _ in range(job.copies or 1)]
    lengths = [(job.bytes_g or 0.0) / link for job in jobs]

    def together(starts: Sequence[float]) -> ShareAnswer:
        return _on_one_cable(jobs, link, starts)

    in_phase = [0.0] * len(jobs)
    if fields.period_s_in_phase is not None:
        predicted = together(in_phase).jobs[0].shared_s
        yield graded("period_s_in_phase", fields.period_s_in_phase, predicted, is_time=True)
    if fields.period_s_interleaved is not None:
        predicted = together([fsum(lengths[:i]) for i in range(len(jobs))]).jobs[0].shared_s
        yield graded("period_s_interleaved", fields.period_s_interleaved, predicted, is_time=True)
    if fields.period_s_lower_bound is not None:
        period = fields.period_s_lower_bound
        shifts = [
            [i * shift * period / SHIFTS for i in range(len(jobs))] for shift in range(SHIFTS)
        ]
        predicted = min(together(starts).jobs[0].shared_s for starts in shifts)
        yield graded("period_s_lower_bound", period, predicted, is_time=True)
    if fields.link_load is not None:
        found = together(in_phase)
        alone = {job.name: job.slowdown for job in found.jobs}
        load = fsum(share * alone[name] for name, share in found.links[0].load.items())
        yield graded("link_load", fields.link_load, load)
    if fields.slowdown_bounds is not None:
        least, most = fields.slowdown_bounds
        times = zip(jobs, together(in_phase).jobs, strict=True)
        slowed = [
            (found.shared_s - (job.compute_s or 0.0)) / (found.alone_s - (job.compute_s or 0.0))
            for job, found in times
        ]
        yield at_least("slowdown_lower_bound", least, min(slowed))
        yield at_most("slowdown_upper_bound", most, max(slowed))


def _on_one_cable(jobs: Sequence[JobOfRow], link: float, starts: Sequence[float]) -> ShareAnswer:
    """Return the answer of jobs that each send from one leaf to the other, over one cable."""
    cluster = _two_leaves(len(jobs), 1, link)
    sending = [
        _sender(job, number, len(jobs), start)
        for number, (job, start) in enumerate(zip(jobs, starts, strict=True))
    ]
    return share({"cluster": cluster, "jobs": sending, "steps": STEPS})


def _sender(job: JobOfRow, number: int, below: int, start: float) -> dict[str, Any]:
    """Return a job that computes and sends from a node of the first leaf to one of the second."""
    traffic = {
        "collective": "send", "bytes": f"{job.bytes_g or 1.0} GB",
        "pause": f"{job.compute_s or 0.0} s", "nodes": 2,
    }  # fmt: skip
    return {"traffic": traffic, "nodes": f"{number},{below + number}", "start": f"{start} s"}


def _two_leaves(below: int, uplinks: int, link: float, nic: float | None = None) -> dict[str, Any]:
    """Return a machine of two leaves with some nodes below each, of links of some GB/s."""
    cluster: dict[str, Any] = _stated("ideal")["cluster"]
    shape = {"nodes_per_leaf": below, "leaf_uplinks": uplinks}
    fabric = cluster["fabric"] | {
        key: {**cluster["fabric"][key], "value": value} for key, value in shape.items()
    }
    wide = {**fabric["link"]["bandwidth"], "value": f"{link} GB/s"}
    fabric["link"] = fabric["link"] | {"bandwidth": wide}
    port = {} if nic is None else {"bandwidth": f"{nic} GB/s"}
    return cluster | {"nodes": 2 * below, "fabric": fabric, "nic": cluster["nic"] | port}


def _collisions(fields: SharingRow, uplinks: int, flows: int) -> Iterator[Grade]:
    most = busiest(uplinks, flows)
    if fields.expected_busiest_flows is not None:
        yield graded("expected_busiest_flows", fields.expected_busiest_flows, float(most.mean()))
    if fields.expected_busiest_over_mean is not None:
        over_mean = float(most.mean()) * uplinks / flows
        yield graded("expected_busiest_over_mean", fields.expected_busiest_over_mean, over_mean)
    if fields.probability_no_collision is not None:
        alone = float((most == 1).mean())
        yield graded("probability_no_collision", fields.probability_no_collision, alone)


def busiest(uplinks: int, flows: int) -> Integers:
    """Return the flows of the busiest cable of each of many leaves, whose flows are hashed.

    Each leaf sends to another one; the leaves are pairs of one machine, with several seeds.

    >>> busiest(uplinks=1, flows=3).max()
    np.int64(3)
    """
    use = load_cluster(_two_leaves(flows, uplinks, 1.0), None)
    fabric, pairs = build_fabric(use, 2 * flows), HASHES // flows // SEEDS
    assert isinstance(fabric, FatTreeFabric)
    a = np.arange(2 * flows * pairs).reshape(pairs, 2, flows)[:, 0].ravel()
    paths = np.full(len(a), fabric.path_count(0, 1))
    each = Flows(paths, a, a + flows, a + flows, np.zeros_like(a))
    chosen = np.concatenate(
        [chosen_paths(replace(fabric, seed=seed), each) for seed in range(SEEDS)]
    )
    leaves = SEEDS * pairs
    cables = np.repeat(np.arange(leaves), flows) * uplinks + chosen
    counts: Integers = np.bincount(cables, minlength=leaves * uplinks)
    return np.asarray(counts.reshape(-1, uplinks).max(axis=1))


def _crossing(fields: SharingRow, measured: float) -> Grade:
    """Return the grade of the throughput of jobs below a leaf, of which a share crosses."""
    ratio = float((fields.oversubscribed or "").removesuffix(":1"))
    crossing = ratio * (fields.jobs[0].crossing_share or 1.0 if fields.jobs else 1.0)
    if crossing != int(crossing):
        raise Ungradable.because("a share of crossing flows that is no whole number of jobs")
    jobs = [JobOfRow(bytes_g=1.0)] * int(crossing)
    cluster = _two_leaves(len(jobs), 1, 1.0, nic=1.0)
    sending = [_sender(job, number, len(jobs), 0.0) for number, job in enumerate(jobs)]
    answer = share({"cluster": cluster, "jobs": sending, "steps": STEPS})
    return graded("throughput_share", measured, 1 / max(job.slowdown for job in answer.jobs))


# --- measured -------------------------------------------------------------------------------------


def _of_leaves(fields: SharingRow) -> Graded:
    """Grade several jobs on a tree of leaves and spines, hashed and spread."""
    [job] = fields.jobs
    nodes, leaves = fields.nodes or 0, fields.leaf or 1
    if job.collective is None or job.nodes_each is None:
        raise Ungradable(not_stated("jobs"))
    c4, common = _stated("c4"), _stated("collectives")
    assumed = c4["assumed"] | _stated("c4-leaves")["assumed"] | common["assumed"]
    ratio = float((fields.oversubscribed or "1:1").removesuffix(":1"))
    below = nodes // leaves
    fabric = {
        "rail_optimised": False,
        "nodes_per_leaf": below,
        "leaf_uplinks": round(below * NICS / ratio),
    }
    traffic = common["traffic"] | {"collective": job.collective, "nodes": job.nodes_each}
    jobs = [{"traffic": traffic, "nodes": "interleaved", "copies": job.copies or 1}]
    after, before = _rates(c4["cluster"] | {"nodes": nodes, "fabric": fabric}, jobs)
    grades = []
    if fields.mean_gain is not None:
        grades.append(graded("throughput_ratio", 1 + fields.mean_gain, after / before))
    for metric, rate in (("busbw_gbps_after", after), ("busbw_gbps_before", before)):
        measured = getattr(fields, metric)
        if measured is not None:
            grades.append(graded(metric, measured, rate))
    if not grades:
        raise Ungradable(not_stated("gain"))
    return grades, assumed


def _rates(cluster: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the mean bus bandwidth of jobs on spread paths, and on hashed ones [Gb/s]."""
    pairs = _stated("collectives")["queue_pairs"]
    hashed = {"routing": "hashed", "queue_pairs": pairs}
    return _bus_rate(cluster, jobs, {"routing": "adaptive"}, 1), _bus_rate(cluster, jobs, hashed)


def _bus_rate(
    cluster: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], paths: Mapping[str, Any],
    seeds: int = SEEDS,
) -> float:  # fmt: skip
    """Return the bus bandwidth of collectives by NIC, the mean of all jobs and seeds [Gb/s]."""
    rates = []
    for seed in range(seeds):
        fabric = {**cluster.get("fabric", {}), **paths, "seed": seed}
        answer = share({"cluster": {**cluster, "fabric": fabric}, "jobs": [*jobs], "steps": 4})
        for job in answer.jobs:
            moved = bus_factor(jobs[0]["traffic"]["collective"], job.devices) * GIB
            rates.append(8e-9 * moved / job.shared_s / NICS)
    return mean(rates)


NICS: Final = 8
"""NICs of a node of the machines of ``validation/sharing.yaml``."""

GIB: Final = 2.0**30
"""Bytes of a collective of ``validation/sharing.yaml`` [B]."""


def _of_ports(fields: SharingRow) -> Graded:
    """Grade a job on NICs of two bonded ports, each on a leaf of its own.

    The highest rate with hashed flows is that of the best of several numbers of nodes.
    """
    c4, common = _stated("c4"), _stated("collectives")
    [job] = fields.jobs
    if job.nodes is None or job.collective is None or fields.ideal_busbw_gbps is None:
        raise Ungradable(not_stated("jobs"))
    least, most = map(int, job.nodes)
    sizes = [least << power for power in range((most // least).bit_length())]

    def rate(nodes: int, seeds: int, routing: str, pairs: int = 1) -> float:
        traffic = common["traffic"] | {"collective": job.collective, "nodes": nodes}
        cluster = _stated("c4-ports")["cluster"] | {
            "nodes": nodes,
            "fabric": _bonded(nodes, routing),
        }
        return _bus_rate(cluster, [{"traffic": traffic}], {"queue_pairs": pairs}, seeds)

    grades = []
    if fields.busbw_gbps_before_max is not None:
        pairs = common["queue_pairs"]
        highest = max(rate(nodes, SEEDS, "hashed", pairs) for nodes in sizes)
        grades.append(graded("busbw_gbps_before_max", fields.busbw_gbps_before_max, highest))
    if fields.busbw_gbps_after is not None:
        spread = max(rate(nodes, 1, "sprayed") for nodes in sizes)
        grades.append(graded("busbw_gbps_after", fields.busbw_gbps_after, spread))
    return grades, c4["assumed"] | common["assumed"]


def _bonded(nodes: int, routing: str) -> dict[str, Any]:
    """Return cables of NICs with two ports of half their bandwidth, on two leaves."""
    cables: list[tuple[str, str, str]] = []
    for node in range(nodes):
        for nic in range(NICS):
            port = f"bond{node}.{nic}"
            cables.append((f"n{node}.nic{nic}", port, "50 GB/s"))
            cables += [(port, leaf, "25 GB/s") for leaf in ("left", "right")]
    return {
        "type": "links",
        "links": {"value": cables, "assumed": "two bonded ports"},
        "routing": {"value": routing, "assumed": "before or after the change"},
        "latency": {"value": "0.6 us", "assumed": "a switch of Ethernet"},
    }


def _of_racks(fields: SharingRow) -> Graded:
    """Grade the gain of an all-reduce by more queue pairs."""
    meta, common = _stated("meta"), _stated("collectives")
    pairs = fields.jobs[0].queue_pairs if fields.jobs else None
    if pairs is None or fields.allreduce_gain is None:
        raise Ungradable(not_stated("queue pairs, or their gain"))
    racks = 16
    nodes = racks * (fields.gpus_per_rack or 0) // NICS
    cluster = meta["cluster"] | {"nodes": nodes}
    jobs = [{"traffic": common["traffic"] | {"nodes": nodes}}]
    few, many = (
        _bus_rate(cluster, jobs, {"routing": "hashed", "queue_pairs": int(count)})
        for count in pairs
    )
    measured = 1 + fields.allreduce_gain
    traffic = {"traffic": common["assumed"]["traffic"]}
    return [graded("throughput_ratio", measured, many / few)], meta["assumed"] | traffic


def _of_a_step(fields: SharingRow) -> Graded:
    """Grade the throughput of a training step with hashed flows against spread ones."""
    c4, step, common = _stated("c4"), _stated("c4-step"), _stated("collectives")
    [job] = fields.jobs
    if job.gpus is None or fields.throughput_gap_to_ideal is None:
        raise Ungradable(not_stated("devices"))
    below, nodes = step["nodes_per_leaf"], job.gpus // NICS
    cluster = {f"nic.{key}": value for key, value in c4["cluster"]["nic"].items()} | {
        "name": c4["cluster"]["name"], "nodes": nodes,
        "fabric.rail_optimised": False, "fabric.nodes_per_leaf": below,
        "fabric.leaf_uplinks": NICS * below,
    }  # fmt: skip
    settings = {f"cluster.{key}": value for key, value in cluster.items()}
    settings |= {"plan.data": nodes, "batch.global": 4 * nodes}

    def seconds(**paths: Any) -> float:
        own = {f"cluster.fabric.{key}": value for key, value in paths.items()}
        return simulate(step["scenario"], settings=settings | own).step_time

    pairs = common["queue_pairs"]
    hashed = [seconds(routing="hashed", queue_pairs=pairs, seed=seed) for seed in range(4)]
    predicted = 1 - seconds(routing="adaptive") / mean(hashed)
    assumed = step["assumed"] | {key: common["assumed"][key] for key in ("flows",)}
    measured = fields.throughput_gap_to_ideal
    return [graded("throughput_ratio", 1 - measured, 1 - predicted)], assumed


_MEASURED: Final[Mapping[str, Callable[[SharingRow], Graded]]] = {
    "nodes leaf spine": _of_leaves,
    "ideal_busbw_gbps": _of_ports,
    "gpus_per_rack allreduce_gain": _of_racks,
    "tiers throughput_gap_to_ideal": _of_a_step,
}
"""What grades rows that state some keys."""


def _stated(name: str) -> dict[str, Any]:
    """Return an entry of ``validation/sharing.yaml``."""
    scenarios: dict[str, dict[str, Any]] = find("validation", "sharing").mapping()["scenarios"]
    return scenarios[name]
