"""A framework's profile in words: short sentences by topic, each with what it rests on.

facts of the file --rules of a topic--> sentences, and what the file leaves to its default
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from clustersim.catalog.frameworks import FrameworkRecord, KernelFacts
from clustersim.catalog.tree import is_fact
from clustersim.studies.show.profile import computing, exchange, keeping
from clustersim.studies.show.profile.rules import Rule, listed
from clustersim.workload.slice import KernelChoice

TOPICS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "Profile": exchange.PROFILE,
    "Schedules and pipeline messages": exchange.PIPELINE,
    "Kernels": computing.KERNELS,
    "Attention": computing.ATTENTION,
    "Gradients and optimiser": exchange.GRADIENTS,
    "Sharding": exchange.SHARDING,
    "Experts": computing.EXPERTS,
    "Context": exchange.CONTEXT,
    "Precision": keeping.PRECISION,
    "Host": computing.HOST,
    "Memory": keeping.MEMORY,
}
"""Topics in the order in which they are told, with their rules."""

MISSING: Final = {
    "sharding": ("Sharding", "Weights do not come and go layer by layer."),
    "experts": ("Experts", "Layers with experts are not offered."),
    "context": ("Context", "Ranks cannot share a sequence."),
    "graphs": ("Host", "No kernels are captured in CUDA graphs."),
}
"""What it means that a whole topic is not in a file, by key."""

REST: Final = "Left to defaults"
"""Topic of the keys that a file does not have."""

DEFAULTS: Final = {
    f"kernels.{field.name}": field.default
    for field in fields(KernelChoice)
    if field.name in KernelFacts.model_fields and isinstance(field.default, bool)
}
"""Flags that hold where a file does not say otherwise, and are told all the same."""

_LEVELS: Final = ("low", "medium", "high")

WIDTH: Final = 100
_SHORT: Final = 45
"""Letters of a reason that stands behind its sentence; longer ones are in the table of facts."""


class Told(NamedTuple):
    """One sentence about a profile.

    Attributes
    ----------
    keys : of the facts that it tells of
    sources : keys of the file's table of sources
    assumed : reasons, where there is no source
    confidence : the lowest of its facts
    default : whether the file does not say it
    """

    topic: str
    text: str
    keys: tuple[str, ...]
    sources: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    confidence: str | None = None
    default: bool = False

    @property
    def proof(self) -> str:
        """What it rests on, as it stands behind the sentence."""
        reasons = ["assumed"] if any(len(reason) > _SHORT for reason in self.assumed) else []
        reasons = reasons or [f"assumed: {reason}" for reason in self.assumed]
        level = [] if self.confidence is None else [f"confidence {self.confidence}"]
        default = ["default"] if self.default else []
        return "; ".join([*self.sources, *reasons, *level, *default])


def told(data: Mapping[str, Any]) -> tuple[Told, ...]:
    """Return the profile of a framework file in words, from its plain values.

    Every key of the schema is told of, but for those that are left to their defaults, which are
    listed at the end.
    """
    found = [each for topic in TOPICS for each in _of_topic(topic, _known(data), data)]
    told_of = {key for each in found for key in each.keys}
    absent = [key for key in _missing(FrameworkRecord, data) if key not in told_of]
    if absent:
        text = f"Nothing is said of {listed(absent)}."
        found.append(Told(REST, text, tuple(absent), default=True))
    return tuple(found)


def _known(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a file by their dotted keys, with those that hold by default."""
    defaults = {key: {"value": value, "default": True} for key, value in DEFAULTS.items()}
    extended = {"extends": {"value": data["extends"]}} if data.get("extends") else {}
    return {**defaults, **extended, **dict(_facts(data))}


def _of_topic(topic: str, facts: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[Told]:
    """Yield the sentences of a topic."""
    rules = list(TOPICS[topic])
    if topic == "Precision":
        rules += [rule for name in data["state"] for rule in keeping.of_recipe(name)]
    yield from (_told(topic, rule, facts) for rule in rules if rule.keys[0] in facts)
    for key, (where, text) in MISSING.items():
        if where == topic and data.get(key) is None:
            yield Told(topic, text, (key,))


def _told(topic: str, rule: Rule, facts: Mapping[str, Any]) -> Told:
    used = [(key, facts[key]) for key in rule.keys if key in facts]
    values = (facts[key]["value"] if key in facts else None for key in rule.keys)
    levels = [fact["confidence"] for _, fact in used if fact.get("confidence")]
    return Told(
        topic,
        rule.tell(*values),
        tuple(key for key, _ in used),
        _each(fact.get("source") for _, fact in used),
        _each(fact.get("assumed") for _, fact in used),
        min(levels, key=_LEVELS.index, default=None),
        default=any("default" in fact for _, fact in used),
    )


def _each(words: Iterable[str | None]) -> tuple[str, ...]:
    """Return words once each, in their order."""
    return tuple(dict.fromkeys(word for word in words if word))


def _facts(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the facts of a file with their dotted keys."""
    for key, value in data.items():
        if is_fact(value):
            yield f"{path}{key}", value
        elif isinstance(value, dict) and key != "sources":
            yield from _facts(value, f"{path}{key}.")


def _missing(record: type[BaseModel], data: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the optional keys of a schema that a file does not have, those of tables it has too."""
    for name, field in record.model_fields.items():
        value = data.get(name)
        if value is None:
            if name not in ("title", "extends", "sources"):
                yield f"{path}{name}"
        elif not is_fact(value):
            for table in _tables(field.annotation):
                yield from _missing(table, value, f"{path}{name}.")


def _tables(annotation: Any) -> list[type[BaseModel]]:
    """Return the table that a key may hold; none for facts and for tables by name."""
    if get_origin(annotation) is dict:
        return []
    options = [annotation, *get_args(annotation)]
    return [each for each in options if isinstance(each, type) and issubclass(each, BaseModel)]


def paragraphs(words: Iterable[Told]) -> str:
    """Return sentences as text: a line for each topic, and below it its sentences."""
    lines: list[str] = []
    topic = ""
    for each in words:
        if each.topic != topic:
            lines += ["", each.topic] if lines else [each.topic]
            topic = each.topic
        proof = f"  [{each.proof}]" if each.proof else ""
        lines += textwrap.wrap(
            each.text + proof, WIDTH, initial_indent="  ", subsequent_indent="      ",
            break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)


__all__ = ["DEFAULTS", "MISSING", "REST", "TOPICS", "Told", "paragraphs", "told"]
