"""Files of names that another program has and that are not read, by reason.

changes the loss, not the time of a step: [lr, lr-*, seed]
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from clustersim.catalog.reading import read_yaml
from clustersim.errors import CatalogError


@cache
def read_reasons(path: Path) -> Mapping[str, str]:
    """Return the names in a file, or patterns of them, each with its reason."""
    reasons = read_yaml(path, CatalogError).data.items()
    return {name: reason for reason, names in reasons for name in names}


def reason_of(name: str, reasons: Mapping[str, str]) -> str | None:
    """Return the reason of a name: its own, else that of the longest pattern that matches it.

    >>> reason_of("save-interval", {"save*": "checkpoints", "save-i*": "length of the run"})
    'length of the run'
    """
    if name in reasons:
        return reasons[name]
    patterns = (pattern for pattern in reasons if fnmatchcase(name, pattern))
    return reasons.get(max(patterns, key=len, default=""))
