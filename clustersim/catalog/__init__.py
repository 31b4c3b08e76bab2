"""The catalogue: YAML files as typed, sourced records, and as data frames; no physics.

Its public names return data frames of pandas, in SI units:

>>> import clustersim
>>> clustersim.catalog.machines().loc["frontier", "accelerator"]
'mi250x-gcd'
"""

from importlib import import_module
from typing import Any

__all__ = ["accelerators", "frameworks", "machines", "models"]

_TABLES = "clustersim.reports.listing.tables"
"""Module of the public names: it needs what is built on this package, so that it is found late."""


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__]


def __getattr__(name: str) -> Any:
    """Return a function of the tables when its name is first used."""
    if name in __all__:
        return getattr(import_module(_TABLES), name)
    raise AttributeError(f"module 'clustersim.catalog' has no attribute '{name}'")
