"""All combinations of some axes, as variants of a scenario.

    axes --product--> combinations --fill--> variants

``plan.data=fill`` takes the devices that remain for the other degrees of a combination.  An invalid
combination is a variant with its problem; a value that is invalid in any combination is an error.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

from clustersim.catalog.changes import Change, changes_of
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.runs.variants import Value, Variant, in_a_line
from clustersim.scenario.load import Loaded, LoadedScenario, one_job
from clustersim.studies.sweep.arguments import FILL, SweepAxis, SweepChoice, value_of

DEGREES: Final = ("tensor", "pipeline", "data", "context")
"""Degrees whose product is the number of devices; each of them can be filled."""


def grid(scenario: str, base: LoadedScenario, axes: Sequence[SweepAxis]) -> list[Variant]:
    """Return a variant for each combination, the last axis changing fastest.

    Parameters
    ----------
    scenario : scenario file, or the bare name of a shipped one
    base : the scenario with the changes of all combinations

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for a value that is invalid.
    """
    _check_fills(axes, layout=isinstance(base, Loaded))
    _check_values(base, axes)
    devices, combinations = _Devices(base), product(*(axis.choices for axis in axes))
    return [_variant(scenario, devices, _joined(choices)) for choices in combinations]


def _joined(choices: Sequence[SweepChoice]) -> dict[str, Change]:
    return {key: change for choice in choices for key, change in choice.changes.items()}


def _variant(scenario: str, devices: "_Devices", changes: Mapping[str, Change]) -> Variant:
    """Return the variant of a combination, with the degrees that are filled."""
    given = _without_fill(changes)
    complete, problem = dict(changes), None
    for key in (key for key, change in changes.items() if change.value == FILL):
        try:
            (complete[key],) = changes_of({key: devices.remaining(key, given)})
        except (ScenarioError, CatalogError) as error:
            problem = in_a_line(error)
    point = {key: value_of(change) for key, change in complete.items()}
    settings = (*devices.base.changes, *_without_fill(complete))
    return Variant(scenario, settings, point, problem, memory_first=True)


def _without_fill(changes: Mapping[str, Change]) -> tuple[Change, ...]:
    return tuple(change for change in changes.values() if change.value != FILL)


class _Devices:
    """The devices that remain for a parallel degree."""

    def __init__(self, base: LoadedScenario) -> None:
        self.base = base
        self._shapes: dict[tuple[str, ...], tuple[int, dict[str, int]]] = {}

    def remaining(self, key: str, changes: Sequence[Change]) -> int:
        """Return the number of devices divided by the product of the other degrees.

        Raises
        ------
        PlanError
            with the arithmetic, when that is not a whole number.
        """
        devices, degrees = self._shape([*filter(_changes_shape, changes)])
        others = {name: n for name, n in degrees.items() if f"plan.{name}" != key}
        share = prod(others.values())
        if devices % share:
            named = " x ".join(f"{name} {n}" for name, n in others.items())
            raise PlanError(
                f"{key}={FILL}: {devices} devices / ({named}) = {devices / share:.4g}, which is not"
                " a whole number"
            )
        return devices // share

    def _shape(self, changes: Sequence[Change]) -> tuple[int, dict[str, int]]:
        """Return devices and degrees; most combinations share one of a few shapes."""
        texts = tuple(change.text for change in changes)
        if texts not in self._shapes:
            scenario = one_job(self.base.changed(changes)).scenario
            degrees = {name: getattr(scenario.plan, name) for name in DEGREES}
            self._shapes[texts] = scenario.devices, degrees
        return self._shapes[texts]


def _changes_shape(change: Change) -> bool:
    """Return whether a change may affect devices or degrees."""
    first, *rest = change.path
    return first == "cluster" or (first == "plan" and (not rest or rest[0] in DEGREES))


# --- values that are invalid in any combination ---------------------------------------------------


def _check_fills(axes: Sequence[SweepAxis], *, layout: bool) -> None:
    """Check that only one degree is filled, and nothing else; only training has such degrees."""
    fillable = [f"plan.{name}" for name in DEGREES] if layout else []
    filled: list[set[str]] = []
    for axis in axes:
        keys_of_axis = set()
        for choice in axis.choices:
            keys = {*choice.filled}
            if wrong := sorted(keys - {*fillable}):
                only = f"only {', '.join(fillable)}" if fillable else "only degrees of training are"
                raise ScenarioError(f"{choice.where}: {wrong[0]}: cannot be filled ({only})")
            if len(keys) > 1:
                raise ScenarioError(f"{choice.where}: {_one_fill(keys)}")
            keys_of_axis |= keys
        filled += [keys_of_axis] if keys_of_axis else []
    if len(filled) > 1:
        raise ScenarioError(f"--over: {_one_fill(set().union(*filled))}")


def _one_fill(keys: set[str]) -> str:
    return f"{' and '.join(sorted(keys))} cannot both be filled (give values to all but one)"


def _check_values(base: LoadedScenario, axes: Sequence[SweepAxis]) -> None:
    """Try each value once: alone, or with the first choices of the other axes."""
    first = [axis.choices[0] for axis in axes]
    valid: set[str] = set()
    for i, axis in enumerate(axes):
        for choice in axis.choices:
            texts = {change.text for change in choice.changes.values()}
            if texts <= valid:  # in a long table, only lines with a new value are tried
                continue
            combination = [*first[:i], choice, *first[i + 1 :]]
            _check_choice(base, choice, _without_fill(_joined(combination)))
            valid |= texts


def _check_choice(base: LoadedScenario, choice: SweepChoice, combination: Sequence[Change]) -> None:
    """Check that a choice is valid alone or in a combination.

    Raises
    ------
    ScenarioError
        in one line, what is wrong with it alone.
    """
    try:
        base.changed(_without_fill(choice.changes))
    except (ScenarioError, CatalogError) as problem:
        try:
            base.changed(combination)
        except (ScenarioError, CatalogError):
            raise ScenarioError(_message(choice, problem)) from None


def _message(choice: SweepChoice, problem: Exception) -> str:
    """Return the first line of an error about a setting, with the origin of the choice instead."""
    message, where = str(problem), " ".join(choice.where.split())
    for change in choice.changes.values():  # its text may have line breaks
        message = message.replace(str(change.place), where)
    first = message.splitlines()[0]
    return first if where in first else f"{where}: {first}"


def filled_keys(axes: Sequence[SweepAxis]) -> tuple[str, ...]:
    """Return the keys that are filled in every choice that sets them."""
    choices = [choice for axis in axes for choice in axis.choices]
    keys = dict.fromkeys(key for axis in axes for key in axis.keys)
    return tuple(
        key
        for key in keys
        if all(key in choice.filled for choice in choices if key in choice.changes)
    )


def points_of(variants: Sequence[Variant]) -> dict[str, tuple[Value, ...]]:
    """Return the values of each axis in the order of the variants."""
    values: dict[str, dict[Value, None]] = {}
    for variant in variants:
        for key, value in variant.point.items():
            values.setdefault(key, {})[value] = None
    return {key: tuple(points) for key, points in values.items()}
