"""The curves that are requested: those of scenarios, or of the options.

    key `scaling`, or --weak and --strong, or doublings --> curves --> points, each a variant

All curves of one kind share a figure; weak ones come before strong ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, get_args

from clustersim.errors import CatalogError, ScenarioError
from clustersim.records import dataclass
from clustersim.runs.arguments import settings_of
from clustersim.runs.variants import in_a_line
from clustersim.scenario.load import (
    Loaded,
    LoadedService,
    LoadedSharing,
    LoadedWork,
    load_work,
)
from clustersim.scenario.origins import name_of
from clustersim.scenario.ranges import counts_of
from clustersim.scenario.scaling import Axis, CurveFile, PublishedPoint, Scaling
from clustersim.studies.compare import check_one_kind
from clustersim.studies.scale.points import (
    Kind,
    PlannedPoint,
    ScaledScenario,
    devices_of,
    point_of_file,
)

KINDS: Final[tuple[Kind, ...]] = ("weak", "strong")
AXES: Final[tuple[str, ...]] = get_args(Axis)
"""Keys of the layout of a training step that may grow with the devices."""

AXES_OF_SERVICE: Final[Mapping[str, str]] = {"replicas": "weak", "tensor": "strong", "pipeline": ""}
"""The same of a service, and the kind of curve of which each is the usual one."""

AXES_OF_JOBS: Final = ("copies",)
"""The same of the jobs of a shared machine."""

FACTORS: Final = (1, 2, 4, 8)
"""Times the scenario's own devices, where no curve is given."""


@dataclass(frozen=True)
class ScalingRequest:
    """What is requested in addition to the scenarios.

    Attributes
    ----------
    weak, strong : numbers of devices instead of those of the scenario
    axis : parallel axis that grows with the number of devices
    against : devices of the reference point
    settings : changes of all points
    """

    weak: tuple[int, ...] = ()
    strong: tuple[int, ...] = ()
    axis: str | None = None
    against: int | None = None
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class CurveRequest:
    """A curve of a scenario, its points by number of devices.

    Attributes
    ----------
    against : devices of the reference point; the fewest that run if None
    changed : settings of every point, of the curve and of the request
    guessed : whether the numbers of devices were chosen by doubling
    base : devices of the point that published efficiencies are relative to: the reference of the
        scenario's own curve; that of the request if None
    """

    name: str
    title: str
    kind: Kind
    axis: str
    points: tuple[PlannedPoint, ...]
    against: int | None = None
    changed: tuple[str, ...] = ()
    guessed: bool = False
    published: tuple[PublishedPoint, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)
    base: int | None = None


def device_counts(option: str, counts: str | int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the numbers of devices that an option lists, in increasing order.

    >>> device_counts("--weak", "128,192"), device_counts("--weak", "128:1024")
    ((128, 192), (128, 256, 512, 1024))
    >>> device_counts("strong", 64)
    (64,)

    Raises
    ------
    ScenarioError
        in one line.
    """
    if counts is None:
        return ()
    several = [counts] if isinstance(counts, int) else counts
    text = several if isinstance(several, str) else ",".join(map(str, several))
    try:
        return tuple(sorted(counts_of(text))) if text or counts == "" else ()
    except ValueError as problem:
        raise ScenarioError(f"{option} {text}: {problem}") from None


def curves_of(scenarios: Sequence[str], request: ScalingRequest) -> list[CurveRequest]:
    """Return the curves of some scenarios, all of one kind together.

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is invalid, no point of a curve is valid, or the reference point is not;
        one line for each problem.
    """
    repeated = [name for place, name in enumerate(scenarios) if name in scenarios[:place]]
    if repeated:
        raise ScenarioError(f"{name_of(repeated[0])}: is listed twice (each scenario once)")
    plain = [(name, load_work(name, request.settings)) for name in scenarios]
    check_one_kind([loaded for _, loaded in plain])
    for _, loaded in plain:
        allowed = _axes_of(loaded)
        if request.axis is not None and request.axis not in allowed:
            raise ScenarioError(
                f"--axis {request.axis}: unknown axis (allowed: {', '.join(allowed)})"
            )
        if request.strong and isinstance(loaded, LoadedSharing):
            raise ScenarioError(
                f"--strong: {loaded.name} has jobs with layouts of their own (--weak, or on the"
                " same nodes: clustersim sweep --over jobs.0.copies=1,2,4)"
            )
    curves = [
        _curve(name, loaded, kind, given, request)
        for kind in KINDS
        for name, loaded in plain
        if (given := _given(loaded, kind, request)) is not None
    ]
    if not curves:
        names = ", ".join(loaded.name for _, loaded in plain)
        raise ScenarioError(f"{names or 'no scenario'}: no scaling curve")
    return curves


def _axes_of(loaded: LoadedWork) -> Sequence[str]:
    """Return the axes that may grow with the devices."""
    if isinstance(loaded, LoadedSharing):
        return AXES_OF_JOBS
    return [*AXES_OF_SERVICE] if isinstance(loaded, LoadedService) else AXES


def _given(loaded: LoadedWork, kind: Kind, request: ScalingRequest) -> CurveFile | None:
    """Return a curve as the options give it, or the file; else by doubling."""
    scaling = _scaling(loaded)
    written: CurveFile | None = None if scaling is None else getattr(scaling, kind)
    if listed := list(getattr(request, kind)):
        keys = {} if written is None else dict(written)
        against = keys.get("against")
        keys |= {"devices": listed, "points": []}
        keys |= {"against": against if against in listed else None}
        return CurveFile.model_validate(keys)
    if request.weak or request.strong:
        return None
    if scaling is not None:
        return written
    if not isinstance(loaded, Loaded) and kind == "strong":
        return None
    return CurveFile(devices=[factor * devices_of(loaded) for factor in FACTORS])


def _scaling(loaded: LoadedWork) -> Scaling | None:
    return loaded.scenario.scaling if isinstance(loaded, Loaded) else None


def _usual_axis(loaded: LoadedWork, kind: Kind, given: CurveFile) -> str:
    """Return the axis of a curve that no option states."""
    if isinstance(loaded, LoadedSharing):
        return AXES_OF_JOBS[0]
    if not isinstance(loaded, LoadedService):
        return given.axis
    return next(axis for axis, usual in AXES_OF_SERVICE.items() if usual == kind)


def _curve(
    name: str, plain: LoadedWork, kind: Kind, given: CurveFile, request: ScalingRequest
) -> CurveRequest:
    changed = settings_of(given.set)
    base = _changed(plain, kind, name, (*changed, *request.settings)) if changed else plain
    axis = request.axis or _usual_axis(plain, kind, given)
    scaled = ScaledScenario(name, base, kind, axis, (*changed, *request.settings))
    points = [scaled.point(devices) for devices in sorted(set(given.devices))]
    for place, point in enumerate(given.points):
        more = settings_of(point.set)
        if point.scenario is None:
            assert point.devices is not None, "a point has devices or a scenario"
            points.append(scaled.point(point.devices, more))
        else:
            settings = (*request.settings, *more)
            points.append(point_of_file(plain, kind, place, point, settings, name))
    curve = CurveRequest(
        name=plain.name,
        title=plain.scenario.title,
        kind=kind,
        axis=axis,
        points=tuple(sorted(points, key=lambda point: point.devices)),
        against=request.against or given.against,
        changed=_on_top(changed, request.settings),
        guessed=_scaling(plain) is None and not (request.weak or request.strong),
        published=tuple(given.published),
        assumed=plain.scenario.assumed,
        base=_base(getattr(_scaling(plain), kind, None)),
    )
    _check(curve)
    return curve


def _base(written: CurveFile | None) -> int | None:
    """Return the devices of the reference point of the curve of a file, if it names any."""
    if written is None or written.against is not None:
        return None if written is None else written.against
    points = (point.devices for point in written.points if point.devices is not None)
    return min([*written.devices, *points], default=None)


def _on_top(changed: Sequence[str], settings: Sequence[str]) -> tuple[str, ...]:
    """Return the changes of every point without those that others replace."""
    replaced = {setting.partition("=")[0] for setting in settings}
    kept = [setting for setting in changed if setting.partition("=")[0] not in replaced]
    return (*kept, *settings)


def _check(curve: CurveRequest) -> None:
    """Reject a curve without a valid point, or without its reference point."""
    valid = [point.devices for point in curve.points if point.problem is None]
    if not valid:
        first = curve.points[0]
        raise ScenarioError(
            f"{curve.name}: no point of {curve.kind} scaling is valid;"
            f" {first.devices:,} devices: {first.problem}"
        )
    if curve.against is not None and curve.against not in valid:
        known = ", ".join(f"{devices:,}" for devices in valid)
        raise ScenarioError(
            f"{curve.name}: {curve.kind} scaling: the reference point of {curve.against:,} devices"
            f" is not on the curve (valid points: {known})"
        )


def _changed(plain: LoadedWork, kind: Kind, name: str, settings: Sequence[str]) -> LoadedWork:
    """Load a scenario with the changes of its curve; errors name the curve."""
    try:
        return load_work(name, settings)
    except (ScenarioError, CatalogError) as problem:
        where = plain.where("scaling", kind, "set")
        raise ScenarioError(f"{where}: {in_a_line(problem)}") from None
