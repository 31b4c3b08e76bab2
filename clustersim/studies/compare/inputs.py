"""What differs between two scenarios: values by their dotted path, once all names are looked up.

    cluster       frontier -> selene (214 values, of which node.accelerator.name ...)
    plan.pipeline 64 -> 32

A record of the catalogue that was replaced by another one is one line, with what tells most of
it.  Proofs, titles and published numbers change no prediction and are left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clustersim.catalog.tree import dotted, is_fact
from clustersim.scenario.load import Loaded

_SAID: Final = frozenset({"title", "published", "assumed", "scaling", "sources", "source", "note"})
"""Keys that tell about a scenario and do not change what it predicts."""

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
}
"""Records of the catalogue by their path, outer before inner, and the keys that tell most."""

MOST: Final = 4
"""Values that stand for all that differ in a record."""


@dataclass(frozen=True)
class Input:
    """A value that differs, or a record that was replaced.

    Attributes
    ----------
    before, after : plain values in SI units; None where there is none
    texts : the same as they are written
    values : that differ; more than one of a record
    telling : some of these, of a record
    """

    path: str
    before: Any
    after: Any
    texts: tuple[str, str]
    values: int = 1
    telling: tuple["Input", ...] = ()

    @property
    def text(self) -> str:
        """The change in words: ``plan.pipeline 64 -> 32``."""
        said = f"{self.path} {self.texts[0]} -> {self.texts[1]}"
        if not self.telling:
            return said
        names = ", ".join(each.text for each in self.telling)
        more = self.values - len(self.telling)
        return f"{said} ({names}{f', {more:,} other values' if more else ''})"

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "text": self.text,
            "values": self.values,
            "telling": [
                {"path": each.path, "before": each.before, "after": each.after}
                for each in self.telling
            ],
        }


def changed(before: Loaded, after: Loaded) -> list[Input]:
    """Return what differs between two scenarios, replaced records first."""
    left = differences(before, after)
    found = []
    for record, telling in RECORDS.items():
        named = left.get(f"{record}.name")
        if named is not None:
            inside = {p: each for p, each in left.items() if p.startswith(f"{record}.")}
            inside = {p: each for p, each in inside.items() if p != "cluster.nodes"}
            found.append(_record(record, named, inside, telling))
            left = {p: each for p, each in left.items() if p not in inside}
    return [*found, *left.values()]


def differences(before: Loaded, after: Loaded) -> dict[str, Input]:
    """Return every single value that differs, by its path."""
    old, new = _Values(before), _Values(after)
    return {
        path: Input(path, old.get(path), new.get(path), (old.text(path), new.text(path)))
        for path in [*old.plain, *(path for path in new.plain if path not in old.plain)]
        if old.get(path) != new.get(path)
    }


def _record(
    path: str, named: Input, inside: Mapping[str, Input], telling: tuple[str, ...]
) -> Input:
    """Return one line for a record that was replaced by another."""
    others = {p.removeprefix(f"{path}."): each for p, each in inside.items() if each is not named}
    first = [key for key in telling if key in others] or list(others)
    shown = tuple(
        Input(key, others[key].before, others[key].after, others[key].texts) for key in first[:MOST]
    )
    return Input(path, named.before, named.after, named.texts, len(others), shown)


class _Values:
    """The values of a scenario by their dotted path, plain and as they are written."""

    def __init__(self, loaded: Loaded) -> None:
        said = loaded.scenario.model_dump(mode="json", by_alias=True)
        self.plain = dict(_flat(said, ()))
        self._written = dict(_flat(loaded.tree.data, ()))

    def get(self, path: str) -> Any:
        return self.plain.get(path)

    def text(self, path: str) -> str:
        value = self.plain.get(path)
        return _text(self._written.get(path, value) if isinstance(value, float) else value)


def _flat(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values below a path; lists of plain values are one."""
    if is_fact(value):
        value = value["value"]
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _SAID:
                yield from _flat(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for i, inner in enumerate(value):
            yield from _flat(inner, (*path, i))
    elif path:
        yield dotted(path), value


_QUANTITY: Final = re.compile(r"([-+]?[\d.]+(?:e[-+]?\d+)?) (\S+)")


def _text(value: Any) -> str:
    """Return a value as a person writes it: ``50 GB/s``, ``yes``, ``none``."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    found = _QUANTITY.fullmatch(str(value))
    return f"{float(found[1]):.6g} {found[2]}" if found else str(value)


__all__ = ["Input", "changed", "differences"]
