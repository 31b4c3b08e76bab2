"""Kinds of entries that are listed and shown, in the singular and the plural."""

from typing import Final

PLURALS: Final = {
    "clusters": "cluster",
    "nodes": "node",
    "accelerators": "accelerator",
    "libraries": "library",
    "models": "model",
    "frameworks": "framework",
    "engines": "engine",
    "reliabilities": "reliability",
    "sites": "site",
    "prices": "prices",
    "scenarios": "scenario",
    "schedules": "schedule",
    "measures": "measure",
}
"""Kinds in the plural, with the singular of each."""

BY_WORD: Final = {
    **{plural: plural for plural in PLURALS},
    **{single: plural for plural, single in PLURALS.items()},
    **dict.fromkeys(("machine", "machines"), "clusters"),
}
"""Kinds in the plural, by the words that name them."""
