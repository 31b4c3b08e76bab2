"""Scaling studies: the curves of a scenario, as it tells them or as they are asked for.

    key `scaling`, or --weak and --strong, or doublings --> curves --> points, each a variant

All curves of one kind share a figure; weak ones come before strong ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.variants import in_a_line
from clustersim.scenario.load import Loaded, load
from clustersim.scenario.ranges import counts_of
from clustersim.scenario.scaling import Axis, CurveFile, PublishedPoint
from clustersim.studies.scaling.points import Kind, Point, Ruler, other_point, settings_of

KINDS: Final[tuple[Kind, ...]] = ("weak", "strong")
AXES: Final[tuple[str, ...]] = get_args(Axis)

FACTORS: Final = (1, 2, 4, 8)
"""Times the scenario's own devices, where it has no curve and none is asked for."""


@dataclass(frozen=True)
class Wanted:
    """What is asked for beside what scenarios say of themselves.

    Attributes
    ----------
    weak, strong : numbers of devices instead of those of the scenario
    axis : that more devices go to
    against : devices of the point that has efficiency 1
    settings : changes of every run
    """

    weak: tuple[int, ...] = ()
    strong: tuple[int, ...] = ()
    axis: str | None = None
    against: int | None = None
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curve:
    """A curve of a scenario, its points by number of devices.

    Attributes
    ----------
    against : devices of the point that has efficiency 1; the smallest that runs if None
    changed : settings of every point, of the curve and of the one who asks
    guessed : whether nobody named its points
    """

    name: str
    title: str
    kind: Kind
    axis: str
    points: tuple[Point, ...]
    against: int | None = None
    changed: tuple[str, ...] = ()
    guessed: bool = False
    published: tuple[PublishedPoint, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)


def numbers(option: str, text: str | None) -> tuple[int, ...]:
    """Return the numbers of devices that an option lists, in increasing order.

    >>> numbers("--weak", "128,192"), numbers("--weak", "128:1024")
    ((128, 192), (128, 256, 512, 1024))

    Raises
    ------
    ScenarioError
        in one line.
    """
    if text is None:
        return ()
    try:
        return tuple(sorted(counts_of(text)))
    except ValueError as problem:
        raise ScenarioError(f"{option} {text}: {problem}") from None


def curves_of(scenarios: Sequence[str], wanted: Wanted) -> list[Curve]:
    """Return the curves of some scenarios, all of one kind together.

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is wrong, none of the points of a curve can be, or the point that others are
        held against is not among them; one line for each problem.
    """
    if wanted.axis is not None and wanted.axis not in AXES:
        raise ScenarioError(f"--axis {wanted.axis}: is no axis (allowed: {', '.join(AXES)})")
    twice = [name for place, name in enumerate(scenarios) if name in scenarios[:place]]
    if twice:
        raise ScenarioError(f"{twice[0]}: is named twice (each scenario once)")
    plain = [(name, load(name, wanted.settings)) for name in scenarios]
    found = [
        _curve(name, loaded, kind, said, wanted)
        for kind in KINDS
        for name, loaded in plain
        if (said := _said(loaded, kind, wanted)) is not None
    ]
    if not found:
        raise ScenarioError(f"{scenarios[0]}: has no scaling curve of that kind")
    return found


def _said(loaded: Loaded, kind: Kind, wanted: Wanted) -> CurveFile | None:
    """Return what is known of a curve: by the command line, by the file, or by doubling."""
    scaling = loaded.scenario.scaling
    written: CurveFile | None = None if scaling is None else getattr(scaling, kind)
    if listed := list(getattr(wanted, kind)):
        rest = {} if written is None else dict(written)
        against = rest.get("against")
        rest |= {"devices": listed, "points": []}
        rest |= {"against": against if against in listed else None}
        return CurveFile.model_validate(rest)
    if wanted.weak or wanted.strong:
        return None
    if scaling is not None:
        return written
    return CurveFile(devices=[factor * loaded.scenario.devices for factor in FACTORS])


def _curve(name: str, plain: Loaded, kind: Kind, said: CurveFile, wanted: Wanted) -> Curve:
    changed = settings_of(said.set)
    base = _blaming(plain, kind, name, (*changed, *wanted.settings)) if changed else plain
    ruler = Ruler(name, base, kind, wanted.axis or said.axis, (*changed, *wanted.settings))
    points = [ruler.point(devices) for devices in sorted(set(said.devices))]
    for place, each in enumerate(said.points):
        more = settings_of(each.set)
        if each.scenario is None:
            assert each.devices is not None, "a point has devices or a scenario"
            points.append(ruler.point(each.devices, more))
        else:
            points.append(other_point(plain, kind, place, each, (*wanted.settings, *more), name))
    curve = Curve(
        name=plain.name,
        title=plain.scenario.title,
        kind=kind,
        axis=ruler.axis,
        points=tuple(sorted(points, key=lambda point: point.devices)),
        against=wanted.against or said.against,
        changed=_on_top(changed, wanted.settings),
        guessed=plain.scenario.scaling is None and not (wanted.weak or wanted.strong),
        published=tuple(said.published),
        assumed=plain.scenario.assumed,
    )
    _check(curve)
    return curve


def _on_top(changed: Sequence[str], settings: Sequence[str]) -> tuple[str, ...]:
    """Return the changes of every point without those that others replace."""
    replaced = {setting.partition("=")[0] for setting in settings}
    kept = [setting for setting in changed if setting.partition("=")[0] not in replaced]
    return (*kept, *settings)


def _check(curve: Curve) -> None:
    """Refuse a curve without a point, or without the one that others are held against."""
    able = [point.devices for point in curve.points if point.trouble is None]
    if not able:
        first = curve.points[0]
        raise ScenarioError(
            f"{curve.name}: no point of {curve.kind} scaling can be"
            f" run; {first.devices:,} devices: {first.trouble}"
        )
    if curve.against is not None and curve.against not in able:
        known = ", ".join(f"{devices:,}" for devices in able)
        raise ScenarioError(
            f"{curve.name}: {curve.kind} scaling: no point of {curve.against:,} devices to be held"
            f" against (those that can be run: {known})"
        )


def _blaming(plain: Loaded, kind: Kind, name: str, settings: Sequence[str]) -> Loaded:
    """Load a scenario with the changes of its curve; complaints name the curve."""
    try:
        return load(name, settings)
    except (ScenarioError, CatalogError) as problem:
        where = plain.where("scaling", kind, "set")
        raise ScenarioError(f"{where}: {in_a_line(problem)}") from None


__all__ = ["AXES", "KINDS", "Curve", "Wanted", "curves_of", "numbers"]
