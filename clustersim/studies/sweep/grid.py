"""All combinations of some axes, as variants of a scenario.

    axes --product--> combinations --fill--> variants

``plan.data=fill`` takes up the devices that the other degrees of a combination leave.  A
combination that cannot be is a variant with its problem; a value that cannot be, whatever the
others are, is an error of the one who wrote it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.runs.variants import Value, Variant, in_a_line
from clustersim.scenario.load import load
from clustersim.studies.sweep.axes import Axis, Choice, check_axes, value_of

FILL: Final = "fill"
DEGREES: Final = ("tensor", "pipeline", "data", "context")
"""Degrees whose product is the number of devices: any one of them can be filled."""


def grid(scenario: str, settings: Sequence[str], axes: Sequence[Axis]) -> list[Variant]:
    """Return a variant for each combination, the last axis changing fastest.

    A combination that does not fit in memory is only weighed.

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for axes that cannot be.
    """
    check_axes(axes)
    load(scenario, settings)
    _check_fills(axes)
    _check_values(scenario, settings, axes)
    rest = _Rest(scenario, tuple(settings))
    return [_variant(rest, _joined(choices)) for choices in _combinations(axes)]


def _combinations(axes: Sequence[Axis]) -> Iterator[tuple[Choice, ...]]:
    return product(*(axis.choices for axis in axes))


def _joined(choices: Sequence[Choice]) -> dict[str, str]:
    return {key: text for choice in choices for key, text in choice.texts.items()}


def _variant(rest: "_Rest", texts: Mapping[str, str]) -> Variant:
    """Return the variant with some values, what is to be filled taken from the `rest`."""
    whole = dict(texts)
    why: str | None = None
    for key in (key for key, text in texts.items() if text == FILL):
        try:
            whole[key] = str(rest.left(key, _said(texts)))
        except (ScenarioError, CatalogError) as problem:
            why = in_a_line(problem)
    point = {key: value_of(text) for key, text in whole.items()}
    settings = (*rest.settings, *_said(whole))
    return Variant(rest.scenario, settings, point, why, memory_first=True)


def _said(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return values as settings, without those to be filled."""
    return tuple(f"{key}={text}" for key, text in texts.items() if text != FILL)


class _Rest:
    """The devices that are left for a degree."""

    def __init__(self, scenario: str, settings: tuple[str, ...]) -> None:
        self.scenario, self.settings = scenario, settings
        self._known: dict[tuple[str, ...], tuple[int, dict[str, int]]] = {}

    def left(self, key: str, said: Sequence[str]) -> int:
        """Return devices over the product of the other degrees.

        Raises
        ------
        PlanError
            with the arithmetic, when that is no whole number.
        """
        devices, degrees = self._shape(tuple(filter(_shapes, said)))
        others = {name: n for name, n in degrees.items() if f"plan.{name}" != key}
        share = prod(others.values())
        if devices % share:
            named = " x ".join(f"{name} {n}" for name, n in others.items())
            raise PlanError(
                f"{key}={FILL}: {devices} devices / ({named}) = {devices / share:.4g}, which is no"
                " whole number"
            )
        return devices // share

    def _shape(self, said: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        """Return devices and degrees; a few shapes stand for all combinations."""
        if said not in self._known:
            given = load(self.scenario, [*self.settings, *said]).scenario
            degrees = {name: getattr(given.plan, name) for name in DEGREES}
            self._known[said] = given.devices, degrees
        return self._known[said]


def _shapes(setting: str) -> bool:
    """Whether a setting may change devices or degrees."""
    key = setting.partition("=")[0]
    return key.partition(".")[0] == "cluster" or key in {"plan", *(f"plan.{d}" for d in DEGREES)}


# --- what is wrong with a value by itself ---------------------------------------------------------


def _check_fills(axes: Sequence[Axis]) -> None:
    """Refuse to fill what is no degree, and two degrees at once."""
    fillable = [f"plan.{name}" for name in DEGREES]
    filled: list[set[str]] = []
    for axis in axes:
        here = set()
        for choice in axis.choices:
            keys = {key for key, text in choice.texts.items() if text == FILL}
            if wrong := sorted(keys - {*fillable}):
                raise ScenarioError(
                    f"{choice.where}: {wrong[0]}: cannot be filled (only {', '.join(fillable)})"
                )
            if len(keys) > 1:
                raise ScenarioError(f"{choice.where}: {_one_fill(keys)}")
            here |= keys
        filled += [here] if here else []
    if len(filled) > 1:
        raise ScenarioError(f"--over: {_one_fill(set().union(*filled))}")


def _one_fill(keys: set[str]) -> str:
    return f"{' and '.join(sorted(keys))} cannot both be filled (give values to all but one)"


def _check_values(scenario: str, settings: Sequence[str], axes: Sequence[Axis]) -> None:
    """Try each value once, alone or in the company of the first choices of the other axes."""
    first = [axis.choices[0] for axis in axes]
    good: set[str] = set()
    for place, axis in enumerate(axes):
        for choice in axis.choices:
            said = {*_said(choice.texts)}
            if said <= good:  # of a long table, only lines with something new
                continue
            company = [*first[:place], choice, *first[place + 1 :]]
            _check_choice(scenario, settings, choice, _said(_joined(company)))
            good |= said


def _check_choice(
    scenario: str, settings: Sequence[str], choice: Choice, company: Sequence[str]
) -> None:
    """Refuse a choice that is no value of its key.

    Raises
    ------
    ScenarioError
        the complaint about it alone, in one line.
    """
    said = _said(choice.texts)
    try:
        load(scenario, [*settings, *said])
    except (ScenarioError, CatalogError) as problem:
        try:
            load(scenario, [*settings, *company])
        except (ScenarioError, CatalogError):
            raise ScenarioError(_about(choice, problem)) from None


def _about(choice: Choice, problem: Exception) -> str:
    """Return the first line of a complaint about a setting, told of the choice that it is from."""
    complaint, where = str(problem), " ".join(choice.where.split())
    for setting in _said(choice.texts):  # which may have line breaks of its own
        complaint = complaint.replace(f"--set {setting}", where)
    first = complaint.splitlines()[0]
    return first if where in first else f"{where}: {first}"


def filled(axes: Sequence[Axis]) -> tuple[str, ...]:
    """Return the keys that are filled in every choice that sets them."""
    choices = [choice.texts for axis in axes for choice in axis.choices]
    keys = dict.fromkeys(key for axis in axes for key in axis.keys)
    return tuple(k for k in keys if all(texts.get(k, FILL) == FILL for texts in choices))


def points_of(variants: Sequence[Variant]) -> dict[str, list[Value]]:
    """Return the values of each axis in the order in which they are met."""
    found: dict[str, dict[Value, None]] = {}
    for variant in variants:
        for key, value in variant.point.items():
            found.setdefault(key, {})[value] = None
    return {key: [*values] for key, values in found.items()}


__all__ = ["DEGREES", "FILL", "filled", "grid", "points_of"]
