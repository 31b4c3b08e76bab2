"""Sliding windows of some layers, as configurations list them."""

from collections.abc import Sequence
from typing import Any, Final

from clustersim.importers.models.config import Config

SLIDING: Final = "sliding_attention"
CHUNKED: Final = "chunked_attention"
FULL: Final = "full_attention"


def window_of(config: Config, tokens: int, kinds: Sequence[str]) -> dict[str, Any] | None:
    """Return the window of a model file for the kinds of all layers, None if no layer has one.

    `layer_types` of the file overrides `kinds`.
    """
    listed = config.items("layer_types")
    if listed and len(listed) != len(kinds):
        config.wrong("layer_types", f"must have one entry for each of the {len(kinds)} layers")
        return None
    kinds = listed or kinds
    known = (SLIDING, CHUNKED, FULL)
    if any(kind not in known for kind in kinds):
        config.wrong("layer_types", f"known kinds are {', '.join(known)}")
        return None
    having = [kind != FULL for kind in kinds]
    if not any(having):
        return None
    for pattern in _patterns(having):
        if having == _layers(pattern, len(having)):
            return {"tokens": tokens, **{key: n for key, n in pattern.items() if n != 1}}
    config.wrong(
        "layer_types",
        "windows must be in the first and each n-th layer after it, or in all but each n-th layer",
    )
    return None


def _patterns(having: Sequence[bool]) -> list[dict[str, int]]:
    """Return the patterns of a model file that may fit, from the first two exceptions."""
    windows = [i for i, has in enumerate(having) if has]
    full = [i for i, has in enumerate(having) if not has]
    every = windows[1] if len(windows) > 1 else len(having)
    patterns = [{"every": every}]
    return [*patterns, {"full_every": full[0] + 1}] if full else patterns


def _layers(pattern: dict[str, int], count: int) -> list[bool]:
    if "every" in pattern:
        return [i % pattern["every"] == 0 for i in range(count)]
    return [(i + 1) % pattern["full_every"] != 0 for i in range(count)]
