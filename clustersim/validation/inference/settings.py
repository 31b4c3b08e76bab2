"""What the words of a measured inference case mean, from ``validation/inference_settings.yaml``."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, Strict
from clustersim.catalog.finding import find
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.validation.cases.machines import Choice, matches

UNCHANGED: Final[dict[str, dict[str, str]]] = {}
"""Formats of a model whose weights are all in the format that a case names."""


class ServingMachine(Choice):
    """A cluster file for accelerators by name, of which a case counts `devices` as one."""

    accelerators: list[str]
    cluster: str
    devices: Count = 1


class Unstated(Strict):
    """A required setting that cases of some engines do not state."""

    what: str
    engines: list[str]


class ServedModel(Strict):
    """A model file for models by name, with the number formats of its parts by a word of a case."""

    names: list[str]
    model: str
    formats: dict[str, dict[str, str]] = UNCHANGED
    unstated: Unstated | None = None


class ServingEngine(Strict):
    """An engine file for engines by name, and where it takes the format of its KV cache from.

    `cache` is ``checkpoint`` where weights of 8 bits and less have a cache of 8 bits, and
    ``argument`` where the cache has 16 bits unless requested, or unless the checkpoint of weights
    in nvfp4 contains its scales.
    """

    names: list[str]
    engine: str
    cache: Literal["checkpoint", "argument"] = "checkpoint"


class InferenceSettings(Strict):
    """The file."""

    kind: Literal["inference-settings"]
    formats: dict[str, str]
    machines: list[ServingMachine]
    models: list[ServedModel]
    engines: list[ServingEngine]


@lru_cache(maxsize=1)
def inference_settings() -> InferenceSettings:
    """Return the shipped file.

    Raises
    ------
    CatalogError
        when it is not valid.
    """
    return checked(
        InferenceSettings, Tree.of(find("validation", "inference_settings")), CatalogError
    )


def matches_any(patterns: Sequence[str], text: str) -> bool:
    """Whether a text matches one of some patterns, in any case."""
    return any(matches(pattern, text) for pattern in patterns)
