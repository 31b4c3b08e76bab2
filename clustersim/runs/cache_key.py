"""The content of a scenario as a short key: what is the same is run once.

Names are looked up and settings applied before, so that two ways to say a thing have one key.
Proofs of values (source, assumed, note) and the places they come from change no prediction and
stay out; the code that predicts goes in, whatever its version is called.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from clustersim import __version__
from clustersim.catalog.finding import shipped
from clustersim.catalog.tree import is_fact
from clustersim.scenario.load import Loaded
from clustersim.simulation.layout import schedule_file

_PACKAGE: Final = Path(__file__).resolve().parents[1]

_SHOWS: Final = ("cli", "render", "studies", "validation", "calibration")
"""Folders of code that shows what was predicted; nothing that predicts imports them."""

_UNUSED: Final = ("scaling",)
"""Keys of a scenario that are about other runs."""


def key_of(loaded: Loaded) -> str:
    """Return the key of a loaded scenario: 32 hexadecimal digits."""
    said = loaded.scenario.model_dump(mode="json", by_alias=True, exclude=set(_UNUSED))
    steps = schedule_file(loaded)
    return _digest(
        code().encode(),
        json.dumps(_bare(said), sort_keys=True).encode(),
        steps.read_bytes() if steps is not None and steps.is_file() else b"",
    )


@lru_cache
def code() -> str:
    """Return the version of clustersim with a digest of the files that a prediction rests on."""
    found = sorted(_PACKAGE.rglob("*.py"))
    files = [file for file in found if file.relative_to(_PACKAGE).parts[0] not in _SHOWS]
    files.append(shipped("validation") / "prediction_intervals.yaml")
    parts = [part for file in files for part in (file.name.encode(), file.read_bytes())]
    return f"{__version__}+{_digest(*parts)[:12]}"


def _digest(*parts: bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.hexdigest()[:32]


def _bare(value: Any) -> Any:
    """Return plain values without the proofs of facts."""
    if is_fact(value):
        return _bare(value["value"])
    if isinstance(value, dict):
        return {key: _bare(each) for key, each in value.items() if key != "sources"}
    return [_bare(each) for each in value] if isinstance(value, list) else value


__all__ = ["code", "key_of"]
