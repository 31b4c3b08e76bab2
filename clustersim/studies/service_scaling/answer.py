"""Scaling curves of a service.

weak      users, arrivals or requests grow with the devices; so do the replicas, or --axis
strong    the load is constant; the tensor degree grows with the devices, or --axis
efficiency = tokens/s of a device over those of the reference point
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from clustersim.catalog.changes import Settings, changes_of
from clustersim.errors import ScenarioError
from clustersim.runs.arguments import parse_settings, study_of
from clustersim.runs.execution import OnProgress, ignore_progress, run_study
from clustersim.runs.variants import RAN, Run, Value, Variant
from clustersim.scenario.load import LoadedService, load_service
from clustersim.scenario.ranges import counts_of
from clustersim.simulation.service.measures import service_measures

Kind = Literal["weak", "strong"]

AXES: Final = ("replicas", "tensor", "pipeline")
"""Keys of the layout that may grow with the devices."""

USUAL: Final[Mapping[Kind, str]] = {"weak": "replicas", "strong": "tensor"}
"""The axis of each kind of curve, unless another one is given."""

FACTORS: Final = (1, 2, 4, 8)
"""Times the scenario's own devices, where no curve is given."""

SIZED: Final = ("concurrency", "rate", "offline", "batch")
"""Loads that can grow."""


@dataclass(frozen=True)
class ServedDevices:
    """A point of a curve.

    Attributes
    ----------
    devices : devices of all replicas
    load : users, requests in a second, or requests; null of a trace
    set : changes of the scenario
    why : the reason in one line, where it does not run
    measures : by name: times are means [s], rates in a second; empty where it does not run
    efficiency : tokens/s of a device over those of the reference point; null where it does not run
    attribution : seconds of the mean time per token by cause [s]
    """

    devices: int
    load: float | None
    set: Mapping[str, Any]
    why: str | None
    measures: Mapping[str, float]
    efficiency: float | None
    attribution: Mapping[str, float]


@dataclass(frozen=True)
class ServiceCurve:
    """A scaling curve.

    Attributes
    ----------
    kind : `weak` or `strong`
    axis : key of the layout that grows with the devices
    against : devices of the reference point; null where no point runs
    points : by number of devices
    """

    kind: Kind
    axis: str
    against: int | None
    points: tuple[ServedDevices, ...]


@dataclass(frozen=True)
class ServiceScaling:
    """The scaling curves of a service.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    curves : weak before strong
    """

    name: str
    title: str
    curves: tuple[ServiceCurve, ...]


def scale_service(
    scenario: str,
    *,
    weak: str | Sequence[int] | None = None,
    strong: str | Sequence[int] | None = None,
    axis: str | None = None,
    against: int | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ServiceScaling:
    """Simulate a service on several numbers of devices.

    Parameters
    ----------
    scenario : file or name of a shipped serving scenario
    weak : numbers of devices of a curve whose load grows with them; those of the scenario times 1,
        2, 4 and 8 if both are None
    strong : numbers of devices of a curve with the load of the scenario
    axis : what grows with the devices: replicas, tensor or pipeline; replicas of a weak curve and
        tensor of a strong one if None
    against : devices of the reference point, with efficiency 1; the fewest that run if None
    settings, store, jobs, executor, on_progress : as of `clustersim.scale`

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input, and where no point of a curve is valid.
    """
    if axis is not None and axis not in AXES:
        raise ScenarioError(f"--axis {axis}: unknown axis (allowed: {', '.join(AXES)})")
    fixed = parse_settings(settings)
    base = load_service(scenario, fixed)
    listed: dict[Kind, tuple[int, ...]] = {
        "weak": _counts("--weak", weak), "strong": _counts("--strong", strong),
    }  # fmt: skip
    if not any(listed.values()):
        listed["weak"] = tuple(factor * base.scenario.devices for factor in FACTORS)
    planned = {
        kind: [_variant(str(scenario), base, kind, axis or USUAL[kind], n) for n in counts]
        for kind, counts in listed.items()
        if counts
    }
    variants = [variant for points in planned.values() for variant in points]
    study = study_of("scale", base.name, base.scenario.title, variants)
    runs = iter(
        run_study(
            study, variants, store=store, jobs=jobs, executor=executor, on_progress=on_progress
        )
    )
    curves = [
        _curve(kind, axis or USUAL[kind], points, [next(runs) for _ in points], against)
        for kind, points in planned.items()
    ]
    return ServiceScaling(base.name, base.scenario.title, tuple(curves))


def _counts(option: str, counts: str | Sequence[int] | None) -> tuple[int, ...]:
    """Return the numbers of devices that an option lists, in increasing order."""
    if counts is None:
        return ()
    text = counts if isinstance(counts, str) else ",".join(map(str, counts))
    try:
        return tuple(sorted(counts_of(text)))
    except ValueError as problem:
        raise ScenarioError(f"{option} {text}: {problem}") from None


def _variant(scenario: str, base: LoadedService, kind: Kind, axis: str, devices: int) -> Variant:
    """Return the service on some devices, with the reason if it is not possible."""
    given = base.scenario
    point: dict[str, Value] = {"curve": kind, "devices": devices}
    if given.load.kind in SIZED:
        size = getattr(given.load, given.load.kind)
        point["load"] = size * devices / given.devices if kind == "weak" else size
    try:
        changes = _grown(base, kind, axis, devices)
    except ScenarioError as problem:
        return Variant(scenario, base.changes, point, str(problem))
    node = given.cluster.node.devices.value
    changes["cluster.nodes"] = max(given.cluster.nodes, -(-devices // node))
    return Variant(scenario, (*base.changes, *changes_of(changes)), point)


def _grown(base: LoadedService, kind: Kind, axis: str, devices: int) -> dict[str, Any]:
    """Return the changes of a service on some devices.

    Raises
    ------
    ScenarioError
        in one line, where the layout or the load cannot grow so.
    """
    given, own = base.scenario, base.scenario.devices
    changes: dict[str, Any] = {}
    if given.plan.prefill is None or given.plan.decode is None:
        changes[f"plan.{axis}"] = _times(getattr(given.plan, axis), axis, devices, own)
    else:
        for name, pool in (("prefill", given.plan.prefill), ("decode", given.plan.decode)):
            key = f"plan.{name}.{axis}"
            changes[key] = _times(getattr(pool, axis), key, devices, own)
    if kind == "strong" or devices == own:
        return changes
    load = given.load
    if load.kind not in SIZED:
        raise ScenarioError(f"load.{load.kind}: does not grow with the devices (use --strong)")
    for key in (load.kind, "requests"):
        size = getattr(load, key)
        if size is not None:
            grown = size * devices / own
            changes[f"load.{key}"] = max(1, round(grown)) if isinstance(size, int) else grown
    return changes


def _times(degree: int, key: str, devices: int, own: int) -> int:
    """Return a degree times the devices over those of the scenario."""
    if degree * devices % own:
        raise ScenarioError(
            f"{key}: {degree} x {devices:,} / {own:,} devices is not a whole number"
        )
    return degree * devices // own


def _curve(
    kind: Kind, axis: str, variants: Sequence[Variant], runs: Sequence[Run], against: int | None
) -> ServiceCurve:
    points = [_point(*pair) for pair in zip(variants, runs, strict=True)]
    running = [one for one in points if one.measures]
    if not running:
        raise ScenarioError(
            f"no point of {kind} scaling runs; {points[0].devices:,} devices: {points[0].why}"
        )
    reference = running[0]
    if against is not None:
        found = [one for one in running if one.devices == against]
        if not found:
            known = ", ".join(f"{one.devices:,}" for one in running)
            raise ScenarioError(
                f"--against {against}: is not on the curve of {kind} scaling (points: {known})"
            )
        reference = found[0]
    rate = _rate(reference)
    return ServiceCurve(
        kind, axis, reference.devices,
        tuple(
            one if not one.measures else _with_efficiency(one, _rate(one) / rate) for one in points
        ),
    )  # fmt: skip


def _rate(point: ServedDevices) -> float:
    """Return the tokens/s of a device: output tokens, or all where requests have one token."""
    decodes = bool(point.measures["tpot"])
    return point.measures[f"{'' if decodes else 'total_'}tokens_per_s_per_device"]


def _with_efficiency(point: ServedDevices, efficiency: float) -> ServedDevices:
    return ServedDevices(**{**vars(point), "efficiency": efficiency})


def _point(variant: Variant, run: Run) -> ServedDevices:
    """Return what came of a point."""
    assert run.verdict != RAN, "a serving scenario"
    given = changes_of(variant.settings)
    changes = {change.text.partition("=")[0]: change.value for change in given}
    devices = int(variant.point["devices"])
    load = variant.point.get("load")
    size = None if load is None else float(load)
    if run.service is None:
        return ServedDevices(devices, size, changes, run.why, {}, None, {})
    answer = run.service
    measures = service_measures(answer)
    why = None if measures else answer.memory.verdict
    return ServedDevices(devices, size, changes, why, measures, None, answer.attribution)
