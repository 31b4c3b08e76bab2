"""Cache key of a run: a digest of the scenario and of the code that predicts.

The scenario is loaded first, so that two spellings of the same content have one key.  Sources and
notes of values, and the files that they come from, change no prediction and are not part of it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

from clustersim import __version__
from clustersim.catalog.facts import Record
from clustersim.catalog.files import is_file, read_bytes
from clustersim.catalog.finding import shipped
from clustersim.catalog.tree import bare
from clustersim.importers.traces.formats import contents_of
from clustersim.scenario.load import Loaded, LoadedScenario, LoadedSharing, LoadedTrace
from clustersim.simulation.service.load import trace_file
from clustersim.simulation.sharing.jobs import jobs_of
from clustersim.simulation.step.build import schedule_file

_PACKAGE: Final = Path(__file__).resolve().parents[1]

_EXCLUDED: Final = ("cli", "render", "reports", "studies", "validation", "calibration")
"""Folders of code that no prediction uses."""

_UNUSED: Final = ("scaling",)
"""Keys of a scenario that no single run reads."""


class _RecordTexts:
    """The texts of the latest records of the catalogue, which scenarios share."""

    MOST: Final = 64
    """Number of texts that are kept."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Record, str]] = {}
        self._lock = Lock()  # a Dask worker runs tasks in threads

    def text(self, record: Record) -> str:
        """Return the values of a record as JSON."""
        with self._lock:
            if id(record) not in self._texts:
                if len(self._texts) == self.MOST:
                    self._texts.pop(next(iter(self._texts)))
                values = record.model_dump(mode="json", by_alias=True)
                self._texts[id(record)] = record, _json(values)
            return self._texts[id(record)][1]


_TEXTS: Final = _RecordTexts()


def key_of(
    loaded: LoadedScenario, within: Mapping[str, float] | None = None, replications: int = 0
) -> str:
    """Return the key of a loaded scenario: 32 hexadecimal digits.

    Parameters
    ----------
    within : limits within which a service runs at its highest rate
    replications : of a disturbed step that are computed
    """
    scenario = loaded.scenario
    inside: Sequence[str] = ()
    file: Path | None = None
    if isinstance(loaded, LoadedSharing):
        traces = [job.trace for job in loaded.scenario.jobs if job.trace is not None]
        inside = [key_of(job) for job in jobs_of(loaded)]
        inside += [_digest(*contents_of(each.place(loaded.origin.folder))) for each in traces]
    elif isinstance(loaded, LoadedTrace):
        inside = [_digest(*contents_of(loaded.scenario.trace.place(loaded.origin.folder)))]
    else:
        file = schedule_file(loaded) if isinstance(loaded, Loaded) else trace_file(loaded)
    records = {key: value for key, value in scenario if isinstance(value, Record)}
    computed = [each for each in (within, replications or None) if each is not None]
    others = scenario.model_dump(mode="json", by_alias=True, exclude={*_UNUSED, *records})
    return _digest(
        code().encode(),
        _json([others, loaded.departures, *computed]).encode(),
        *(key.encode() for key in inside),
        *(f"{key} {_TEXTS.text(record)}".encode() for key, record in records.items()),
        read_bytes(file) if file is not None and is_file(file) else b"",
    )


def key_of_answer(
    verb: str, scenarios: Sequence[LoadedScenario], arguments: Mapping[str, Any]
) -> str:
    """Return the key of the answer of a command: a digest of its scenarios, arguments and code."""
    keys = [key_of(loaded) for loaded in scenarios]
    return _digest(code(verb).encode(), json.dumps([keys, arguments], sort_keys=True).encode())


def _json(values: Any) -> str:
    """Return values without their sources as text that is the same for equal ones."""
    return json.dumps(bare(values), sort_keys=True)


@lru_cache
def code(study: str | None = None) -> str:
    """Return the version of clustersim with a digest of the files that predictions depend on.

    Parameters
    ----------
    study : whose files are part of the digest as well
    """
    modules = sorted(_PACKAGE.rglob("*.py"))
    files = [file for file in modules if file.relative_to(_PACKAGE).parts[0] not in _EXCLUDED]
    if study is not None:
        files += sorted((_PACKAGE / "studies" / study).rglob("*.py"))
    files.append(shipped("validation") / "prediction_intervals.yaml")
    parts = [part for file in files for part in (file.name.encode(), file.read_bytes())]
    return f"{__version__}+{_digest(*parts)[:12]}"


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:32]
