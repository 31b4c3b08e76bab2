"""From the disturbances of a scenario to the causes of delay of its job, and to its faults.

disturbances --ranks--> causes, checked        --links--> faults, which the machine checks
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from clustersim.disturbance.causes import (
    Cause,
    Draw,
    Jitter,
    LateHost,
    Pauses,
    SequenceLengths,
    SlowDevice,
)
from clustersim.errors import PlanError
from clustersim.plan.placement import Placement
from clustersim.scenario.disturbances import (
    Disturbance,
    FailedCableFile,
    FailedNicFile,
    JitterFile,
    LateHostFile,
    PausesFile,
    RanksFile,
    SequenceLengthsFile,
    SlowDeviceFile,
    SlowLinkFile,
    SlowNicFile,
)
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.answer import DisturbanceAnswer
from clustersim.topology.faults import FailedCable, Fault, FaultyNic, SlowLink, goodput

DRAWN: Final = Draw()
"""The first step, with all causes."""


def causes_of(loaded: Loaded, placement: Placement, draw: Draw = DRAWN) -> tuple[Cause, ...]:
    """Return the causes of delay of a job, without those that are removed.

    Raises
    ------
    PlanError
        one line for each disturbance of a device, node or stage that the job does not have, and for
        each name that is not its own.
    """
    problems = [*_names(loaded), *_outside(loaded, placement)]
    if problems:
        raise PlanError("\n".join(problems))
    causes = []
    for disturbance in loaded.scenario.disturbances:
        if type(disturbance) in _FAULTS:
            continue
        cause = _cause(disturbance, _devices(disturbance, placement, loaded))
        if cause.name in draw.without:
            remaining = cause.removed()
            causes += [] if remaining is None else [remaining]
        else:
            causes.append(cause)
    return tuple(causes)


def disturbance_answers(loaded: Loaded, placement: Placement) -> tuple[DisturbanceAnswer, ...]:
    """Return the disturbances of a scenario with the number of devices that each concerns."""
    answers = []
    for given in loaded.scenario.disturbances:
        devices = None
        if isinstance(given, RanksFile):
            chosen = _devices(given, placement, loaded)
            devices = len(placement.devices if chosen is None else chosen)
        answers.append(DisturbanceAnswer(given.title, given.type, devices))
    return tuple(answers)


def _names(loaded: Loaded) -> Iterator[str]:
    """Check that each disturbance has a name of its own."""
    seen: set[str] = set()
    for number, disturbance in enumerate(loaded.scenario.disturbances):
        if disturbance.title in seen:
            key = "type" if disturbance.name is None else "name"
            yield (
                f"{loaded.where('disturbances', number, key)}: '{disturbance.title}' is already the"
                " name of another disturbance (give each a name of its own)"
            )
        seen.add(disturbance.title)


def _outside(loaded: Loaded, placement: Placement) -> Iterator[str]:
    """Check the numbers of devices, nodes and stages."""
    given = loaded.scenario
    limits = {
        "devices": ("device", len(placement.devices)),
        "nodes": ("node", given.cluster.nodes),
        "stages": ("stage", placement.plan.pipeline),
    }
    for number, disturbance in enumerate(given.disturbances):
        for key, (noun, count) in limits.items():
            for place, chosen in enumerate(getattr(disturbance, key, None) or ()):
                if chosen >= count:
                    yield (
                        f"{loaded.where('disturbances', number, key, place)}: {chosen} is no"
                        f" {noun} of the job (it has 0 to {count - 1})"
                    )


def _devices(
    disturbance: Disturbance, placement: Placement, loaded: Loaded
) -> frozenset[int] | None:
    """Return the devices that a disturbance concerns; None for all of the job."""
    if not isinstance(disturbance, RanksFile):
        return None
    if disturbance.devices is not None:
        return frozenset(disturbance.devices)
    if disturbance.nodes is not None:
        size = loaded.scenario.cluster.node.devices
        nodes = (range(node * size, (node + 1) * size) for node in disturbance.nodes)
        return frozenset(device for node in nodes for device in node)
    if disturbance.stages is not None:
        stages = (placement.cells[stage].ravel().tolist() for stage in disturbance.stages)
        return frozenset(device for stage in stages for device in stage)
    return None


def _cause(given: Disturbance, devices: frozenset[int] | None) -> Cause:
    return _CAUSES[type(given)](given, (given.title, given.seed, devices))


Common = tuple[str, int, frozenset[int] | None]
Value = TypeVar("Value", int, float)


def _slow_device(given: SlowDeviceFile, common: Common) -> Cause:
    return SlowDevice(*common, given.factor, given.clock)


def _jitter(given: JitterFile, common: Common) -> Cause:
    values, weights = _occurring(given.histogram)
    return Jitter(
        *common,
        distribution=given.distribution,
        deviation=given.deviation or 0.0,
        each_step=given.each == "step",
        values=values,
        weights=weights,
    )


def _pauses(given: PausesFile, common: Common) -> Cause:
    return Pauses(*common, given.length, given.every, given.planned)


def _late_host(given: LateHostFile, common: Common) -> Cause:
    return LateHost(*common, given.delay)


def _sequence_lengths(given: SequenceLengthsFile, common: Common) -> Cause:
    return SequenceLengths(*common, *_occurring(given.histogram), given.balanced)


def _occurring(
    histogram: Sequence[tuple[Value, float]],
) -> tuple[tuple[Value, ...], tuple[float, ...]]:
    """Return the values of a histogram that occur, and how often each does."""
    occurring = [(value, weight) for value, weight in histogram if weight]
    return tuple(value for value, _ in occurring), tuple(weight for _, weight in occurring)


_CAUSES: Final[Mapping[type, Callable[[Any, Common], Cause]]] = {
    SlowDeviceFile: _slow_device,
    JitterFile: _jitter,
    PausesFile: _pauses,
    LateHostFile: _late_host,
    SequenceLengthsFile: _sequence_lengths,
}


# --- links ----------------------------------------------------------------------------------------


def faults_of(loaded: Loaded, draw: Draw = DRAWN) -> list[Fault]:
    """Return the faults of the network of a job, without those that are removed."""
    return [
        _FAULTS[type(disturbance)](disturbance, loaded.where("disturbances", number))
        for number, disturbance in enumerate(loaded.scenario.disturbances)
        if type(disturbance) in _FAULTS and disturbance.title not in draw.without
    ]


def _slow_link(given: SlowLinkFile, where: str) -> Fault:
    return SlowLink(given.link, given.bandwidth * goodput(given.loss, given.window), where)


def _slow_nic(given: SlowNicFile, where: str) -> Fault:
    return FaultyNic(given.node, given.nic, given.bandwidth, where)


def _failed_nic(given: FailedNicFile, where: str) -> Fault:
    return FaultyNic(given.node, given.nic, 0.0, where)


def _failed_cable(given: FailedCableFile, where: str) -> Fault:
    return FailedCable(given.link, where)


_FAULTS: Final[Mapping[type, Callable[[Any, str], Fault]]] = {
    SlowLinkFile: _slow_link,
    SlowNicFile: _slow_nic,
    FailedNicFile: _failed_nic,
    FailedCableFile: _failed_cable,
}
