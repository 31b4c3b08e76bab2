"""The profile of a framework in words: short sentences by topic, each with its sources.

facts of the file --rules of a topic--> sentences, and the keys that keep their defaults
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel

from clustersim.catalog.frameworks import FrameworkRecord, KernelFacts
from clustersim.catalog.tree import is_fact
from clustersim.reports.show import communication, rules
from clustersim.reports.show.rules import Rule, as_list
from clustersim.workload.slice import KernelChoice

TOPICS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "Profile": communication.PROFILE,
    "Schedules and pipeline messages": communication.PIPELINE,
    "Kernels": rules.KERNELS,
    "Attention": rules.ATTENTION,
    "Gradients and optimiser": communication.GRADIENTS,
    "Sharding": communication.SHARDING,
    "Experts": rules.EXPERTS,
    "Context": communication.CONTEXT,
    "Precision": communication.PRECISION,
    "Host": rules.HOST,
    "Memory": communication.MEMORY,
}
"""Topics in the order of the page, with their rules."""

MISSING: Final = {
    "sharding": ("Sharding", "Sharding of weights (ZeRO-3, FSDP) is not supported."),
    "experts": ("Experts", "Mixtures of experts are not supported."),
    "context": ("Context", "Context parallelism is not supported."),
    "graphs": ("Host", "No kernels are captured in CUDA graphs."),
}
"""The meaning of a table that a file does not have, by key."""

REST: Final = "Defaults"
"""Topic of the keys that a file does not have."""

DEFAULTS: Final = {
    f"kernels.{field.name}": field.default
    for field in fields(KernelChoice)
    if field.name in KernelFacts.model_fields and isinstance(field.default, bool)
}
"""Flags whose defaults are described as well."""

_LEVELS: Final = ("low", "medium", "high")
_SHORT: Final = 45
"""Characters of a reason that is printed with its sentence; longer ones are in the table."""


@dataclass(frozen=True)
class Sentence:
    """One sentence about a profile.

    Attributes
    ----------
    keys : the facts that it describes
    sources : keys of the file's table of sources
    assumed : reasons for values without a source
    confidence : the lowest of its facts
    default : whether the file does not set the value
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
        """Sources, reasons and confidence, as printed after the sentence."""
        reasons = ["assumed"] if any(len(reason) > _SHORT for reason in self.assumed) else []
        reasons = reasons or [f"assumed: {reason}" for reason in self.assumed]
        level = [] if self.confidence is None else [f"confidence {self.confidence}"]
        default = ["default"] if self.default else []
        return "; ".join([*self.sources, *reasons, *level, *default])


def describe_profile(data: Mapping[str, Any]) -> tuple[Sentence, ...]:
    """Return the profile of a framework file in words, from its plain values.

    Every key of the schema is described; keys that keep their defaults are listed at the end.
    """
    facts = _facts_and_defaults(data)
    sentences = [sentence for topic in TOPICS for sentence in _of_topic(topic, facts, data)]
    described = {key for sentence in sentences for key in sentence.keys}
    absent = [key for key in _missing(FrameworkRecord, data) if key not in described]
    if absent:
        text = f"The file does not set {as_list(absent)}."
        sentences.append(Sentence(REST, text, tuple(absent), default=True))
    return tuple(sentences)


def _facts_and_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a file by their dotted keys, with the default flags."""
    defaults = {key: {"value": value, "default": True} for key, value in DEFAULTS.items()}
    extended = {"extends": {"value": data["extends"]}} if data.get("extends") else {}
    return {**defaults, **extended, **dict(_facts(data))}


def _of_topic(topic: str, facts: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[Sentence]:
    """Yield the sentences of a topic."""
    of_topic = list(TOPICS[topic])
    if topic == "Precision":
        of_topic += [rule for name in data["state"] for rule in communication.of_recipe(name)]
    yield from (_sentence(topic, rule, facts) for rule in of_topic if rule.keys[0] in facts)
    for key, (where, text) in MISSING.items():
        if where == topic and data.get(key) is None:
            yield Sentence(topic, text, (key,))


def _sentence(topic: str, rule: Rule, facts: Mapping[str, Any]) -> Sentence:
    used = [(key, facts[key]) for key in rule.keys if key in facts]
    values = (facts[key]["value"] if key in facts else None for key in rule.keys)
    levels = [fact["confidence"] for _, fact in used if fact.get("confidence")]
    return Sentence(
        topic,
        rule.sentence(*values),
        tuple(key for key, _ in used),
        _unique(fact.get("source") for _, fact in used),
        _unique(fact.get("assumed") for _, fact in used),
        min(levels, key=_LEVELS.index, default=None),
        default=any("default" in fact for _, fact in used),
    )


def _unique(words: Iterable[str | None]) -> tuple[str, ...]:
    """Return the words without repetitions, in their order."""
    return tuple(dict.fromkeys(word for word in words if word))


def _facts(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the facts of a file with their dotted keys."""
    for key, value in data.items():
        if is_fact(value):
            yield f"{path}{key}", value
        elif isinstance(value, dict) and key != "sources":
            yield from _facts(value, f"{path}{key}.")


def _missing(record: type[BaseModel], data: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the optional keys of a schema that a file does not have, also inside its tables."""
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
    return [kind for kind in options if isinstance(kind, type) and issubclass(kind, BaseModel)]
