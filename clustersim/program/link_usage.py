"""What every link carries in a step, which links limit it, and a bound of the error of fusion.

inside blocks     bytes for one microbatch, by stage and replica
stage transfers   flows, by replica and name of the traffic
joint             flows of all replicas together, by name; replica -1
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product

from clustersim.plan.parallelism import Plan
from clustersim.program.blocks import Blocks
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.movement.transfers import send_name
from clustersim.program.program import Crossing, Limit, LinkUse
from clustersim.program.steps import FORWARD, WHOLE
from clustersim.traffic import Traffic

JOINT = -1
"""Number of the replica that represents all replicas together."""

Transfers = dict[Name, Traffic]


class LinkUsage:
    """The traffic of a step on the links of the machine.

    Parameters
    ----------
    sends : for each replica its stage transfers, by name
    joint : traffic of all replicas together, by name
    """

    def __init__(
        self, job: Job, blocks: Blocks, sends: Sequence[Transfers], joint: Transfers
    ) -> None:
        self._job, self._blocks = job, blocks
        self._sends, self._joint = sends, joint
        self._links = job.cluster.links

    def _places(self) -> Iterator[tuple[int, int]]:
        """Yield stage and replica of every cell."""
        return product(range(self._job.plan.pipeline), range(self._job.plan.data))

    @cached_property
    def _of_stages(self) -> dict[int, dict[int, float]]:
        """By stage, the bytes of collectives of all its replicas for one microbatch [B]."""
        stages = range(self._job.plan.pipeline)
        return {stage: self._blocks.carried_by_stage(stage) for stage in stages}

    # --- fusion ----------------------------------------------------------------------------------

    def fusion_bound(self) -> float:
        """Return the maximum share by which other traffic can lengthen a forward and backward.

        While a stage runs one microbatch forward and backward, each transfer on the links of its
        tensor group occurs at most once, and so do the collectives of other tensor groups. Each
        delays the group by no more than the time of its own bytes.
        """
        blocks, chunks = self._blocks, self._job.plan.chunks
        if not blocks.axes:
            return 0.0
        stages = self._of_stages
        cells = {place: blocks.carried(*place) for place in self._places()}
        totals = self._bytes_of_microbatch([*cells.values(), *stages.values()])
        delays = {stage: self._delay(totals, carried) for stage, carried in stages.items()}
        worst = 0.0
        for (stage, replica), own in cells.items():
            pattern = blocks.pattern(stage, replica)
            seconds = min(
                sum(blocks.block(stage, chunk, kind, pattern)[0].total for kind in WHOLE)
                for chunk in range(chunks)
            )
            worst = max(worst, max(delays[stage], self._delay(totals, own)) / seconds)
        return worst

    def _bytes_of_microbatch(self, inside: Iterable[Mapping[int, float]]) -> dict[int, float]:
        """Return the bytes on each link while a stage runs one microbatch of a chunk [B]."""
        plan, totals = self._job.plan, dict[int, float]()
        for transfers in self._sends:
            for traffic in transfers.values():
                _add_bytes(totals, traffic, 1.0)
        if self._job.overlapped_reduction:
            for (kind, *_), traffic in self._joint.items():
                if kind == "gradients":
                    _add_bytes(totals, traffic, 1.0 / plan.microbatches)
        for carried in inside:
            for link, nbytes in carried.items():
                totals[link] = totals.get(link, 0.0) + nbytes / plan.chunks
        return totals

    def _delay(self, totals: Mapping[int, float], own: Mapping[int, float]) -> float:
        """Return the longest time of other traffic on a link that carries some of its own [s]."""
        chunks, capacities = self._job.plan.chunks, self._links.capacities
        others = ((totals[link] - nbytes / chunks, link) for link, nbytes in own.items())
        return max((nbytes / capacities[link] for nbytes, link in others), default=0.0)

    # --- the step --------------------------------------------------------------------------------

    def carried(self) -> tuple[LinkUse, ...]:
        """Return the load of every link in the step."""
        plan, totals = self._job.plan, dict[int, float]()
        for traffic in self._joint.values():
            _add_bytes(totals, traffic, 1.0)
        times = _sends_of_step(plan)
        for transfers in self._sends:
            for name, traffic in transfers.items():
                if name[0] == "send":
                    _add_bytes(totals, traffic, float(times[name]))
        inside = [self._blocks.carried(*place) for place in self._places()]
        for carried in [*(inside if self._blocks.axes else []), *self._of_stages.values()]:
            for link, nbytes in carried.items():
                added = nbytes * plan.microbatches / plan.wired.copies
                totals[link] = totals.get(link, 0.0) + added
        return tuple(
            LinkUse(self._links.names[link], self._links.capacities[link], nbytes)
            for link, nbytes in sorted(totals.items())
        )

    def limits(self) -> dict[str, Limit]:
        """Return the link that limits each kind of communication of replica 0, without contention.

        Of several transfers of a kind, the longest decides.
        """
        loads: dict[str, dict[int, float]] = {}
        for axis in self._blocks.axes:
            stages = range(self._job.plan.pipeline)
            on_links = (self._blocks.on_links([axis], stage, 0) for stage in stages)
            loads[axis] = next(filter(None, on_links))
        for kind, prefix, transfers in (
            ("pipeline", "send", self._sends[0]),
            ("data", "gradients", self._joint),
            ("embedding", "embedding", self._joint),
        ):
            moved = [traffic for (name, *_), traffic in transfers.items() if name == prefix]
            if moved:
                longest = max(moved, key=lambda traffic: traffic.nbytes / traffic.cap)
                loads[kind] = dict(longest.crossings())
        links = self._links
        return {
            kind: Limit(links.names[link], links.kinds[link], links.capacities[link])
            for kind, load in loads.items()
            for link in [max(load, key=lambda number: load[number] / links.capacities[number])]
        }

    # --- what crosses a link ---------------------------------------------------------------------

    def crossings(self, carried: Iterable[LinkUse]) -> dict[str, Crossing]:
        """Return what crosses the links with the highest load, by their names.

        A step uses thousands of links, and only the crossings of these few are reported.
        """
        names = self._links.names
        crossings = {names.index(link.name): Crossing({}, {}) for link in most_used(carried)}
        for place, loads in self._inside():
            for link in crossings.keys() & loads.keys():
                crossings[link].inside[place] = loads[link]
        for replica, transfers in [*enumerate(self._sends), (JOINT, self._joint)]:
            for traffic in transfers.values():
                if not crossings.keys().isdisjoint(traffic.links):
                    weights = dict(traffic.crossings())
                    for link in crossings.keys() & weights.keys():
                        crossings[link].moved[traffic.name, replica] = weights[link]
        return {names[link]: crossing for link, crossing in crossings.items()}

    def _inside(self) -> Iterator[tuple[tuple[int, int], Mapping[int, float]]]:
        """Yield the bytes of collectives inside blocks on links, by stage and replica."""
        if self._blocks.axes:
            for place in self._places():
                yield place, self._blocks.carried(*place)
        for stage, carried in self._of_stages.items():
            yield (stage, JOINT), carried


def most_used(links: Iterable[LinkUse], count: int = 10) -> list[LinkUse]:
    """Return the links with the longest time for their bytes, then by name.

    The first link represents others that differ only in the numbers of their names.
    """
    different: dict[tuple[str, str], LinkUse] = {}
    for seconds, link in sorted((-link.nbytes / link.capacity, link) for link in links):
        if len(different) == count:
            break
        different.setdefault((_kind(link.name), f"{seconds:.9g}"), link)
    return list(different.values())


_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def _kind(name: str) -> str:
    """Return a link's name without numbers: ``"n3.dev1>n3.nic0"`` is a ``"n.dev>n.nic"``."""
    return name.translate(_DIGITS)


def _sends_of_step(plan: Plan) -> Counter[Name]:
    """Return how often each stage transfer occurs in a step."""
    wiring, times = plan.wired, Counter[Name]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        if wiring.onward(stage, chunk, forward=kind == FORWARD) is not None:
            count = len(wiring.batch(chunk, plan.microbatches))
            times[send_name(kind, stage, chunk, wiring)] += count
    return times


def _add_bytes(totals: dict[int, float], traffic: Traffic, times: float) -> None:
    for link, weight in traffic.crossings():
        totals[link] = totals.get(link, 0.0) + weight * traffic.nbytes * times
