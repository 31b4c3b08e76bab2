"""Collectives by size, with the columns of nccl-tests, alone or with concurrent traffic."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clustersim.answers import Presentable, record
from clustersim.catalog.changes import Settings
from clustersim.catalog.facts import MAX_DEVICES
from clustersim.catalog.libraries import OPERATIONS
from clustersim.cost.closed_form import bus_factor
from clustersim.errors import ScenarioError
from clustersim.runs.arguments import settings_of
from clustersim.scenario.machine import load_cluster
from clustersim.studies.collective.benchmark import (
    COPIES,
    Benchmark,
    background_of,
    check_operation,
    devices_of,
    measured_times,
    nodes_for,
    prescribed_of,
    sizes_of,
    split_of,
)
from clustersim.topology.cluster import build_cluster


@record
class Timing:
    """A collective of one size.

    Attributes
    ----------
    bytes : the whole buffer; for an all-to-all, what each rank sends [B]
    time_s : time without other traffic [s]
    algbw : algorithm bandwidth, the buffer over the time [B/s]
    busbw : bus bandwidth, what each link of a ring would need for it [B/s]
    algorithm : algorithm that the library chooses
    protocol : its protocol
    bottleneck : the link that limits it; `latency` where that is more than half of the time, and
        `library` where a measured limit of the library is below the rate of the links
    time_with_s : time with background traffic; null without any [s]
    slowdown : time with background over time without; null without any
    shared_link : the link at which contention limits it longest; null where there is none
    measured_s : time in the log `against`; null without one, or where it has no such size [s]
    """

    bytes: float
    time_s: float
    algbw: float
    busbw: float
    algorithm: str
    protocol: str
    bottleneck: str
    time_with_s: float | None = None
    slowdown: float | None = None
    shared_link: str | None = None
    measured_s: float | None = None

    @property
    def ratio(self) -> float | None:
        """Measured time over predicted time; None where none was measured."""
        return None if self.measured_s is None else self.measured_s / self.time_s


@record
class CollectiveAnswer(Presentable):
    """A collective by size of its buffer; `collective --json` prints the list `timings`.

    Attributes
    ----------
    name : machine, operation and number of devices
    title : what is measured, in one line
    timings : one for each size
    """

    name: str
    title: str
    timings: tuple[Timing, ...]

    @property
    def ratios(self) -> list[float]:
        """Measured over predicted time of each size that was measured, in ascending order."""
        return sorted(timing.ratio for timing in self.timings if timing.ratio is not None)


def collective(
    cluster: str | Mapping[str, Any],
    op: str,
    *,
    devices: int | None = None,
    on: str | Sequence[int] | None = None,
    split: str | None = None,
    bytes: str | float | Sequence[float] | None = None,
    algorithm: str | None = None,
    background: Sequence[str] = (),
    settings: Settings = (),
    against: str | Path | None = None,
) -> CollectiveAnswer:
    """Return the time of a collective by size of its buffer, its algorithm, and what limits it.

    Parameters
    ----------
    cluster : file or name of a shipped cluster, or keys and values as those of the section
        `cluster` of a scenario: ``{"name": "polaris", "node": "my-node"}``
    op : operation: all-reduce, reduce-scatter, all-gather, broadcast, reduce, all-to-all, send or
        barrier
    devices : use the first N devices
    on : use these devices, in rank order, ``"0-31,64"`` or ``[0, 1, 64]``
    split : concurrent groups as in nccl-tests, ``"MOD 8"`` or ``"DIV 8"``
    bytes : sizes of the buffer, ``"32KiB:16GiB"`` (doublings), ``2**20`` or ``[2**20, 2**30]`` [B];
        None for ``"32KiB:16GiB"``, or for the sizes of the log
    algorithm : instead of what the library chooses
    background : concurrent traffic, the option ``--with``: ``["all-to-all 64MiB on 0-31"]``
    settings : changes of the cluster, ``["cluster.nic.bandwidth=x2"]`` or a mapping
    against : log of nccl-tests or rccl-tests, whose times are shown next to the predicted ones

    Raises
    ------
    ScenarioError, CatalogError
        when an argument is invalid, in one line.

    >>> import clustersim
    >>> answer = clustersim.collective("dgx-h100", "all-reduce", devices=8, bytes="1GiB")
    >>> answer.timings[0].bottleneck
    'n0.dev0>n0.switch'
    """
    if (devices is None) == (on is None):
        raise ScenarioError(
            "devices, on: state one of the two (--devices 8 or --on 0-7; in Python devices=8 or"
            " on='0-7')"
        )
    if devices is not None and devices > MAX_DEVICES:
        raise ScenarioError(f"--devices {devices}: more than {MAX_DEVICES:,} devices")
    ranks = devices_of(on, "--on") if on is not None else tuple(range(devices or 0))
    others = tuple(map(background_of, background))
    record = load_cluster(cluster, None, settings_of(settings))
    last = max([*ranks, *(device for other in others for device in other.devices)], default=0)
    machine = build_cluster(record, nodes_for(record, last, f"--cluster {record.name}"))
    check_operation(ranks, op, f"--op {op}", OPERATIONS)
    for text, other in zip(background, others, strict=True):
        check_operation(other.devices, other.operation, f"--with '{text}'", (*OPERATIONS, *COPIES))
    fixed = prescribed_of(op, algorithm)
    benchmark = Benchmark(machine, split_of(ranks, split), op, fixed, others)
    measured = {} if against is None else measured_times(Path(against), benchmark)
    usual = [*measured] or "32KiB:16GiB"
    sizes = [0.0] if op == "barrier" else sizes_of(usual if bytes is None else bytes)
    timings = tuple(_timing(benchmark, nbytes, measured.get(nbytes)) for nbytes in sizes)
    return CollectiveAnswer(benchmark.name, benchmark.title, timings)


def _timing(benchmark: Benchmark, nbytes: float, measured: float | None) -> Timing:
    cost = benchmark.cost(nbytes)
    bandwidth = nbytes / cost.seconds
    contended = benchmark.contended(nbytes) if benchmark.background else None
    return Timing(
        bytes=nbytes,
        time_s=cost.seconds,
        algbw=bandwidth,
        busbw=bandwidth * bus_factor(benchmark.operation, benchmark.communicator.span.ranks),
        algorithm=cost.algorithm,
        protocol=cost.protocol,
        bottleneck=benchmark.bottleneck(nbytes),
        time_with_s=contended and contended.time,
        slowdown=contended and contended.time / cost.seconds,
        shared_link=contended and contended.link,
        measured_s=measured,
    )
