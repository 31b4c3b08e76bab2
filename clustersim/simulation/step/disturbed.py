"""From the disturbances of a scenario to the causes of delay of its job, and to its faults.

disturbances --ranks--> causes, checked        --links--> faults, which the machine checks
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from clustersim.disturbance import (
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
    FailedSwitchFile,
    JitterFile,
    LateHostFile,
    PausesFile,
    RanksFile,
    SequenceLengthsFile,
    SlowDeviceFile,
    SlowLinkFile,
    SlowNicFile,
)
from clustersim.scenario.load import Loaded, LoadedSharing
from clustersim.simulation.step.answer import DisturbanceAnswer
from clustersim.topology.faults import (
    FailedCable,
    FailedSwitch,
    Fault,
    FaultyNic,
    SlowLink,
    goodput,
)

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


def _cause(disturbance: Disturbance, devices: frozenset[int] | None) -> Cause:
    """Return the cause of delay of a disturbance that concerns some devices; None for all."""
    common = disturbance.title, disturbance.seed, devices
    return _CAUSES[type(disturbance)](disturbance, common)


def is_random(loaded: Loaded) -> bool:
    """Return whether a step differs from the next one."""
    causes = (_cause(d, None) for d in loaded.scenario.disturbances if type(d) not in _FAULTS)
    return any(cause.random for cause in causes)


def shared_causes(loaded: LoadedSharing, devices: frozenset[int]) -> tuple[Cause, ...]:
    """Return the causes of delay of a shared machine that concern a job on some of its devices.

    Raises
    ------
    PlanError
        one line for each disturbance of a device or node that the machine does not have, or of a
        stage, and for each name that is not its own.
    """
    cluster = loaded.scenario.cluster
    size, nodes = cluster.node.devices, cluster.nodes
    limits = {"devices": ("device", nodes * size), "nodes": ("node", nodes), "stages": ("stage", 0)}
    if problems := [*_names(loaded), *_beyond(loaded, limits, "machine")]:
        raise PlanError("\n".join(problems))
    causes = []
    for disturbance in loaded.scenario.disturbances:
        if type(disturbance) not in _FAULTS:
            chosen = _of_nodes(disturbance, size) if isinstance(disturbance, RanksFile) else None
            concerned = None if chosen is None else chosen & devices
            if concerned is None or concerned:
                causes.append(_cause(disturbance, concerned))
    return tuple(causes)


def disturbance_answers(loaded: Loaded, placement: Placement) -> tuple[DisturbanceAnswer, ...]:
    """Return the disturbances of a scenario with the number of devices that each concerns."""
    answers = []
    for disturbance in loaded.scenario.disturbances:
        devices = None
        if isinstance(disturbance, RanksFile):
            chosen = _devices(disturbance, placement, loaded)
            devices = len(placement.devices if chosen is None else chosen)
        answers.append(DisturbanceAnswer(disturbance.title, disturbance.type, devices))
    return tuple(answers)


def _names(loaded: Loaded | LoadedSharing) -> Iterator[str]:
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
    scenario = loaded.scenario
    limits = {
        "devices": ("device", len(placement.devices)),
        "nodes": ("node", scenario.cluster.nodes),
        "stages": ("stage", placement.plan.pipeline),
    }
    yield from _beyond(loaded, limits, "job")


def _beyond(
    loaded: Loaded | LoadedSharing, limits: Mapping[str, tuple[str, int]], whole: str
) -> Iterator[str]:
    for number, disturbance in enumerate(loaded.scenario.disturbances):
        for key, (noun, count) in limits.items():
            for index, chosen in enumerate(getattr(disturbance, key, None) or ()):
                if chosen >= count:
                    has = (
                        f"it has 0 to {count - 1}"
                        if count
                        else "name it in the scenario of its job"
                    )
                    yield (
                        f"{loaded.where('disturbances', number, key, index)}: {chosen} is no"
                        f" {noun} of the {whole} ({has})"
                    )


def _devices(
    disturbance: Disturbance, placement: Placement, loaded: Loaded
) -> frozenset[int] | None:
    """Return the devices that a disturbance concerns; None for all of the job."""
    if not isinstance(disturbance, RanksFile):
        return None
    if disturbance.stages is not None:
        stages = (placement.cells[stage].ravel().tolist() for stage in disturbance.stages)
        return frozenset(device for stage in stages for device in stage)
    return _of_nodes(disturbance, loaded.scenario.cluster.node.devices)


def _of_nodes(disturbance: RanksFile, size: int) -> frozenset[int] | None:
    """Return the devices that a disturbance names, one by one or by nodes; None for all."""
    if disturbance.devices is not None:
        return frozenset(disturbance.devices)
    if disturbance.nodes is None:
        return None
    nodes = (range(node * size, (node + 1) * size) for node in disturbance.nodes)
    return frozenset(device for node in nodes for device in node)


Common = tuple[str, int, frozenset[int] | None]
Value = TypeVar("Value", int, float)


def _jitter(disturbance: JitterFile, common: Common) -> Cause:
    values, weights = _occurring(disturbance.histogram)
    return Jitter(
        *common,
        distribution=disturbance.distribution,
        deviation=disturbance.deviation or 0.0,
        each_step=disturbance.each == "step",
        values=values,
        weights=weights,
    )


def _occurring(
    histogram: Sequence[tuple[Value, float]],
) -> tuple[tuple[Value, ...], tuple[float, ...]]:
    """Return the values of a histogram that occur, and how often each does."""
    occurring = [(value, weight) for value, weight in histogram if weight]
    return tuple(value for value, _ in occurring), tuple(weight for _, weight in occurring)


_CAUSES: Final[Mapping[type, Callable[[Any, Common], Cause]]] = {
    SlowDeviceFile: lambda file, common: SlowDevice(*common, file.factor, file.clock),
    JitterFile: _jitter,
    PausesFile: lambda file, common: Pauses(*common, file.length, file.every, file.planned),
    LateHostFile: lambda file, common: LateHost(*common, file.delay),
    SequenceLengthsFile: lambda file, common: SequenceLengths(
        *common, *_occurring(file.histogram), file.balanced
    ),
}


# --- links ----------------------------------------------------------------------------------------


def faults_of(loaded: Loaded | LoadedSharing, draw: Draw = DRAWN) -> list[Fault]:
    """Return the faults of the network of a machine, without those that are removed."""
    return [
        _FAULTS[type(disturbance)](disturbance, loaded.where("disturbances", number))
        for number, disturbance in enumerate(loaded.scenario.disturbances)
        if type(disturbance) in _FAULTS and disturbance.title not in draw.without
    ]


_FAULTS: Final[Mapping[type, Callable[[Any, str], Fault]]] = {
    SlowLinkFile: lambda file, where: SlowLink(
        file.link, file.bandwidth * goodput(file.loss, file.window), where
    ),
    SlowNicFile: lambda file, where: FaultyNic(file.node, file.nic, file.bandwidth, where),
    FailedNicFile: lambda file, where: FaultyNic(file.node, file.nic, 0.0, where),
    FailedCableFile: lambda file, where: FailedCable(file.link, where),
    FailedSwitchFile: lambda file, where: FailedSwitch(file.switch, where),
}
