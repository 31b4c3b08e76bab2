"""Cache key of a run: a digest of the scenario and of the code that predicts.

The scenario is loaded first, so that two spellings of the same content have one key.  Sources and
notes of values, and the files that they come from, change no prediction and are not part of it.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Final

from clustersim import __version__
from clustersim.catalog.finding import shipped
from clustersim.catalog.text_files import is_file, read_bytes
from clustersim.catalog.tree import bare
from clustersim.scenario.load import Loaded
from clustersim.simulation.layout import schedule_file

_PACKAGE: Final = Path(__file__).resolve().parents[1]

_EXCLUDED: Final = ("cli", "render", "studies", "validation", "calibration")
"""Folders of code that no prediction uses."""

_UNUSED: Final = ("scaling",)
"""Keys of a scenario that no single run reads."""


def key_of(loaded: Loaded) -> str:
    """Return the key of a loaded scenario: 32 hexadecimal digits."""
    values = loaded.scenario.model_dump(mode="json", by_alias=True, exclude=set(_UNUSED))
    steps = schedule_file(loaded)
    return _digest(
        code().encode(),
        json.dumps([bare(values), loaded.departures], sort_keys=True).encode(),
        read_bytes(steps) if steps is not None and is_file(steps) else b"",
    )


@lru_cache
def code() -> str:
    """Return the version of clustersim with a digest of the files that predictions depend on."""
    modules = sorted(_PACKAGE.rglob("*.py"))
    files = [file for file in modules if file.relative_to(_PACKAGE).parts[0] not in _EXCLUDED]
    files.append(shipped("validation") / "prediction_intervals.yaml")
    parts = [part for file in files for part in (file.name.encode(), file.read_bytes())]
    return f"{__version__}+{_digest(*parts)[:12]}"


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:32]


__all__ = ["code", "key_of"]
