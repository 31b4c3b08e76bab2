"""What differs between two scenarios: values by their dotted path, once all names are looked up.

    cluster       frontier -> selene (node.accelerator.name mi250x-gcd -> ..., 210 other values)
    plan.pipeline 64 -> 32

A record of the catalogue that is replaced by another one is one line, with its most important
values.  Sources, titles and published numbers change no prediction and are left out.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from clustersim.answers import record
from clustersim.catalog.tree import dotted, is_fact
from clustersim.scenario.load import LoadedScenario

IGNORED: Final = frozenset(
    {"title", "published", "assumed", "scaling", "sources", "source", "note"}
)
"""Keys that describe a scenario and do not change what it predicts."""

RECORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("layers", "hidden", "heads", "experts.count", "vocab", "mlp"),
    "cluster": (
        "node.accelerator.name",
        "node.devices",
        "node.interconnect.bandwidth",
        "nic.bandwidth",
        "fabric.type",
    ),
    "cluster.node": (
        "accelerator.name",
        "devices",
        "interconnect.type",
        "interconnect.bandwidth",
        "nics.bus",
    ),
    "cluster.node.accelerator": ("peak.bf16", "peak.fp16", "memory.capacity", "memory.bandwidth"),
    "cluster.node.library": (),
    "framework": ("kernels.attention", "gradients.overlap", "pipeline.blocking"),
    "engine": ("scheduler.tokens", "scheduler.sequences", "step", "first"),
    "training.failures": ("observed.devices", "observed.duration"),
}
"""Records of the catalogue by their path, outer before inner, and their most important keys."""

MOST: Final = 4
"""Values that are listed for a record."""


@record
class RecordValue:
    """A value that differs in a record.

    Attributes
    ----------
    path : path of the value in the record
    before : the value in SI units; null where there is none
    after : the same of the other run
    """

    path: str
    before: Any
    after: Any


@record
class Input:
    """A value of two scenarios that differs, or a record of the catalogue that is replaced.

    Attributes
    ----------
    path : path of the value once all names are looked up, or of the record, such as `cluster`
    before : the value in SI units, or the name of the record; null where there is none
    after : the same of the other run
    text : both in words, with their units
    values : number of values that differ; more than 1 in a record
    telling : the most important values that differ, of a record
    """

    path: str
    before: Any
    after: Any
    text: str
    values: int = 1
    telling: tuple[RecordValue, ...] = ()


class InputChange(NamedTuple):
    """A single value that differs: plain in SI units, and as texts with their units."""

    path: str
    before: Any
    after: Any
    texts: tuple[str, str]

    @property
    def text(self) -> str:
        """The change in words: ``plan.pipeline 64 -> 32``."""
        return f"{self.path} {self.texts[0]} -> {self.texts[1]}"


def changed_inputs(before: LoadedScenario, after: LoadedScenario) -> list[Input]:
    """Return what differs between two scenarios, replaced records first."""
    remaining = changed_values(before, after)
    records = []
    for key, important in RECORDS.items():
        name = remaining.get(f"{key}.name")
        if name is not None:
            inside = {p: c for p, c in remaining.items() if p.startswith(f"{key}.")}
            inside.pop("cluster.nodes", None)
            records.append(_record(key, name, inside, important))
            remaining = {p: c for p, c in remaining.items() if p not in inside}
    return [*records, *(Input(*c[:3], c.text) for c in remaining.values())]


def changed_values(before: LoadedScenario, after: LoadedScenario) -> dict[str, InputChange]:
    """Return every single value that differs, by its path."""
    old, new = _ScenarioValues(before), _ScenarioValues(after)
    a, b = old.plain, new.plain
    return {
        path: InputChange(path, a.get(path), b.get(path), (old.text(path), new.text(path)))
        for path in a | b
        if a.get(path) != b.get(path)
    }


def _record(
    path: str, name: InputChange, inside: Mapping[str, InputChange], important: tuple[str, ...]
) -> Input:
    """Return one line for a record that is replaced by another."""
    others = {
        key: change._replace(path=key)
        for p, change in inside.items()
        if change is not name and (key := p.removeprefix(f"{path}."))
    }
    first = [key for key in important if key in others] or list(others)
    shown = [others[key] for key in first[:MOST]]
    text = name._replace(path=path).text
    if shown:
        more = len(others) - len(shown)
        listed = [*(change.text for change in shown), *([f"{more:,} other values"] if more else [])]
        text = f"{text} ({', '.join(listed)})"
    values = tuple(RecordValue(*change[:3]) for change in shown)
    return Input(path, name.before, name.after, text, len(others), values)


class _ScenarioValues:
    """The values of a scenario by their dotted path, plain and as they are written."""

    def __init__(self, loaded: LoadedScenario) -> None:
        scenario = loaded.scenario.model_dump(mode="json", by_alias=True)
        self.plain = dict(_flat(scenario, ()))
        self._written = dict(_flat(loaded.tree.data, ()))

    def text(self, path: str) -> str:
        value = self.plain.get(path)
        return _text(self._written.get(path, value) if isinstance(value, float) else value)


def _flat(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values below a path; a list of plain values is one value."""
    if is_fact(value):
        value = value["value"]
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in IGNORED:
                yield from _flat(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, inner in enumerate(value):
            yield from _flat(inner, (*path, i))
    elif path:
        yield dotted(path), value


_QUANTITY: Final = re.compile(r"([-+]?[\d.]+(?:e[-+]?\d+)?) (\S+)")


def _text(value: Any) -> str:
    """Return a value as it is written in a scenario: ``50 GB/s``, ``true``, ``not set``."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "empty"
    match = _QUANTITY.fullmatch(str(value))
    return f"{float(match[1]):.6g} {match[2]}" if match else str(value)
