"""Changes of values by name, typed: text such as ``plan.zero=1`` is parsed here and nowhere else.

"plan.zero=1", "cluster.nic.bandwidth=x2"        as ``--set`` takes them
{"plan.zero": 1, "cluster.nic.bandwidth": "x2"}   the same in Python
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from clustersim.catalog.reading import Key, Place, dotted, parse_yaml
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.units import QUANTITY

_MOST: Final = 1e300

_MOST_LETTERS: Final = 200
"""Letters of a change that a message has at most."""


_MOST_DIGITS: Final = 9
"""Digits of a place in a list at most; a longer one is not in any."""


@dataclass(frozen=True)
class Scale:
    """A factor on the number that a key has: ``x2``, or ``/2`` for a half."""

    factor: float


@dataclass(frozen=True)
class Change:
    """A value to be changed.

    Attributes
    ----------
    path : keys that lead to it
    value : the new value, or the `Scale` of the present one
    text : the change as ``--set`` takes it
    origin : what states it, where that is no ``--set``
    """

    path: Key
    value: Any
    text: str
    origin: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Return the change as ``--set`` takes it."""
        return self.text

    @property
    def place(self) -> Place:
        """Where the new value comes from, as messages name it."""
        return Place(self.origin) if self.origin else setting_place(self.text)


Settings = Iterable[str | Change] | Mapping[str, Any]
"""Changes: texts ``key=value``, some of them parsed before; or values by dotted key."""


def changes_of(settings: Settings) -> tuple[Change, ...]:
    """Return changes in the order in which they are given.

    Raises
    ------
    ScenarioError
        when a text is not of the form ``key=value``, or its key or value is not valid.

    Examples
    --------
    >>> [change] = changes_of({"plan.zero": 1})
    >>> change
    Change(path=('plan', 'zero'), value=1, text='plan.zero=1')
    >>> changes_of(["plan.zero=1"]) == changes_of("plan.zero=1") == (change,)
    True
    """
    if isinstance(settings, Mapping):
        return tuple(_of_value(key, value) for key, value in settings.items())
    if isinstance(settings, str):  # one change, and not a list of letters
        settings = [settings]
    return tuple(change if isinstance(change, Change) else _of_text(change) for change in settings)


def without_numpy(value: Any) -> Any:
    """Return a value with numbers and arrays of numpy as plain numbers and lists.

    >>> import numpy as np
    >>> without_numpy({"a": np.int64(4), "b": [np.float64(0.5), range(2)]})
    {'a': 4, 'b': [0.5, [0, 1]]}
    """
    if isinstance(value, Mapping):
        return {key: without_numpy(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [without_numpy(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def setting_text(key: str, value: Any) -> str:
    """Return a change as ``--set`` takes it.

    >>> (
    ...     setting_text("plan.layers", [3, 5]),
    ...     setting_text("plan.schedule", "gpipe"),
    ...     setting_text("fold", False),
    ... )
    ('plan.layers=[3, 5]', 'plan.schedule=gpipe', 'fold=false')
    """
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"


def setting_place(text: str) -> Place:
    """Return a change as messages name it, shortened."""
    return Place(f"--set {text if len(text) <= _MOST_LETTERS else f'{text[:_MOST_LETTERS]}...'}")


def _of_text(text: str) -> Change:
    key, equals, value = text.partition("=")
    place = setting_place(text)
    if not equals or not key:
        raise ScenarioError(f"{place}: is not of the form key=value")
    path = key_path(key)
    limit = value if value.startswith(">") else None  # which YAML takes for a text of several lines
    if value.endswith("x") and _scale(f"x{value[:-1]}"):
        raise ScenarioError(f"{place}: a factor begins with x ({key}=x{value[:-1]})")
    data = _scale(value) or limit or parse_yaml(value, str(place), finite=False).data
    return _finite(Change(path, data, text))


def _of_value(key: str, value: Any) -> Change:
    if isinstance(value, Scale):
        return Change(key_path(key), value, f"{key}=x{value.factor:g}")
    value = without_numpy(value)
    return _finite(Change(key_path(key), _scale(value) or value, setting_text(key, value)))


def _finite(change: Change) -> Change:
    """Return a change; reject a number in its value that is not finite."""
    values = [change.value]
    for value in values:
        if isinstance(value, dict | list):
            values += value.values() if isinstance(value, dict) else value
        elif isinstance(value, float) and not math.isfinite(value):
            key = dotted(change.path)
            raise ScenarioError(f"{change.place}: {key}: must be a finite number, not {value}")
    return change


def key_path(key: str) -> Key:
    """Return the path of a key as a person writes it: ``published[0].value``."""
    words = key.replace("[", ".").replace("]", "").split(".")
    if any(word.startswith("_") for word in words):
        raise ScenarioError("--set: parts of a key begin with a letter, not with '_' (plan.tensor)")
    return tuple(int(word) if _is_index(word) else word for word in words)


def _is_index(word: str) -> bool:
    return word.isdecimal() and len(word) <= _MOST_DIGITS


def _scale(value: Any) -> Scale | None:
    """Return the factor of ``x2`` or ``/2``; None for any other value."""
    if not isinstance(value, str) or len(value) < 2 or value[0] not in "x/":
        return None
    try:
        number = float(value[1:])
    except ValueError:
        return None
    if not math.isfinite(number) or number <= 0:
        return None
    return Scale(number if value[0] == "x" else 1 / number)


def scaled(present: Any, scale: Scale, place: Place) -> Any:
    """Return a number, or a quantity such as ``25 GB/s``, times a factor.

    Raises
    ------
    ScenarioError
        when there is no number.
    """
    if isinstance(present, bool) or not isinstance(present, int | float | str):
        raise ScenarioError(f"{place}: no number here to scale")
    if isinstance(present, str):
        quantity = QUANTITY.match(present)
        if quantity is None:
            raise ScenarioError(f"{place}: '{present}' is not a number that can be scaled")
        return f"{float(quantity[1]) * scale.factor!r} {quantity[2]}"
    product = float(present) * scale.factor if abs(present) < _MOST else math.inf
    if not math.isfinite(product):
        raise ScenarioError(f"{place}: the scaled number is too large")
    return int(product) if isinstance(present, int) and product == int(product) else product
