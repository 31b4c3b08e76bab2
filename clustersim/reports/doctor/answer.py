"""The checks of an installation, one by one, and their result.

Each check is a function of the working folder's run cache; it imports what it needs, so that a
missing library is a line of the answer and not the end of the command.
"""

import os
import platform
import shutil
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

from clustersim.errors import ClustersimError
from clustersim.records import dataclass
from clustersim.reports.doctor.requirements import EXTRAS, Requirement, requirements
from clustersim.units import format_bytes

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    name : what was checked
    status : ok, warning (some commands are slower or fail), problem (most commands fail)
    found : what was found
    advice : what to do; null where nothing needs to be done
    """

    name: str
    status: Status
    found: str
    advice: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """The state of an installation: what ``clustersim doctor --json`` prints.

    Attributes
    ----------
    status : the worst status of all checks: ok, warning, problem
    checks : the checks in their order
    versions : version of each required and optional library by name; null where it is missing
    cores : cores that commands may use
    memory_bytes : memory that is available; null where it is unknown [B]
    catalogue : number of entries of each kind that load without an error
    """

    status: Status
    checks: tuple[Finding, ...]
    versions: Mapping[str, str | None]
    cores: int
    memory_bytes: int | None
    catalogue: Mapping[str, int]


@dataclass
class _State:
    """What the checks find in numbers, in addition to their lines."""

    store: Path
    versions: dict[str, str | None] = field(default_factory=dict)
    cores: int = 1
    memory: int | None = None
    catalogue: dict[str, int] = field(default_factory=dict)


LEVELS: Final[tuple[Status, ...]] = ("ok", "warning", "problem")


def diagnose(store: Path) -> Diagnosis:
    """Return the state of this installation and of the working folder.

    Parameters
    ----------
    store : the run cache, which need not exist
    """
    state = _State(store)
    checks = tuple(
        finding for name, check in CHECKS.items() for finding in _run(name, check, state)
    )
    status = max((each.status for each in checks), key=LEVELS.index)
    return Diagnosis(status, checks, state.versions, state.cores, state.memory, state.catalogue)


Check = Callable[[_State], Iterator[tuple[Status, str, str | None]]]
"""A check: it yields statuses with what was found, and what to do."""


def _run(name: str, check: Check, state: _State) -> Iterator[Finding]:
    """Yield the results of a check; a library that it lacks is one of them."""
    try:
        for status, found, advice in check(state):
            yield Finding(name, status, found, advice)
    except ImportError as error:
        yield Finding(name, "problem", str(error), "install the missing library")


# --- software -------------------------------------------------------------------------------------


def _python(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    found = f"{platform.python_version()} ({platform.python_implementation()}, {platform.system()})"
    yield "ok", found, None


def _clustersim(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    folder = Path(__file__).resolve().parents[2]
    try:
        yield "ok", f"{version('clustersim')} in {folder}", None
    except PackageNotFoundError:
        yield "problem", f"not installed, only its folder {folder}", "pip install ."


def _libraries(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    required = [each for each in requirements() if each.extra is None]
    state.versions |= {each.name: each.installed for each in required}
    for each in required:
        if each.problem:
            yield "problem", each.problem, f"pip install '{each.text}'"
    count = sum(not each.problem for each in required)
    if count:
        yield "ok", f"{count} of {len(required)} required ones are installed", None


def _extras(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    for extra, purpose in EXTRAS.items():
        optional = [each for each in requirements() if each.extra == extra]
        state.versions |= {each.name: each.installed for each in optional}
        yield _extra(extra, purpose, optional)


def _extra(extra: str, purpose: str, optional: list[Requirement]) -> tuple[Status, str, str | None]:
    install = f"pip install 'clustersim[{extra}]'"
    if all(each.installed is None for each in optional):
        return "ok", f"{extra} is not installed ({purpose})", f"optional: {install}"
    problems = [each.problem for each in optional if each.problem]
    if problems:
        return "warning", f"{extra}: {', '.join(problems)}", install
    return "ok", f"{extra} is installed ({purpose})", None


# --- computer -------------------------------------------------------------------------------------

ASSUMED_PROCESS_BYTES: Final = 500_000_000
"""Memory of one process [B]; a run of 1,024 devices needs 400 MB (docs/performance.md)."""

LEAST_FREE_BYTES: Final = 1_000_000_000
"""Free space for pages, figures and run caches below which there is a warning [B]."""


def _cores(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    from clustersim.runs.executors import cores

    state.cores = cores()
    yield "ok", f"{state.cores} of {os.cpu_count()} available", None


def _memory(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    import psutil

    memory = psutil.virtual_memory()
    state.memory = memory.available
    found = f"{format_bytes(memory.available)} of {format_bytes(memory.total)} available"
    jobs = max(1, memory.available // ASSUMED_PROCESS_BYTES)
    if jobs < state.cores:
        yield "warning", found, f"run studies with --jobs {jobs}, or end other programs"
    else:
        yield "ok", found, None


def _browser(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        advice = "copy report.html to a computer with one; --figures png needs none"
        yield "warning", "none for the pages that commands write", advice
    else:
        yield "ok", f"{getattr(browser, 'name', 'the default one')} for the pages", None


# --- folders --------------------------------------------------------------------------------------


def _folder(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    folder = Path.cwd()
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        advice = "change to a folder of your own, or use --json, which writes no files"
        yield "problem", f"{folder}: not writable ({error.strerror})", advice
        return
    found = f"{folder}: writable, {format_bytes(free)} free"
    if free < LEAST_FREE_BYTES:
        yield "warning", found, "delete files, or name another disk with --out"
    else:
        yield "ok", found, None


def _cache(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    if not state.store.exists():
        yield "ok", f"{state.store}: none yet", None
        return
    from clustersim.runs.store import Store

    try:
        with Store(state.store) as store:
            studies = len(store.studies())
    except ClustersimError as error:
        yield "warning", str(error), "name another one with --store, or move the file"
        return
    size = format_bytes(state.store.stat().st_size)
    if os.access(state.store, os.W_OK):
        yield "ok", f"{state.store}: {size}, studies: {studies}", None
    else:
        yield "warning", f"{state.store}: not writable", "name another one with --store"


# --- catalogue ------------------------------------------------------------------------------------


def _catalogue(state: _State) -> Iterator[tuple[Status, str, str | None]]:
    from clustersim.catalog.finding import entry_names
    from clustersim.reports.listing.kinds import PLURALS
    from clustersim.scenario.entries import KINDS, entry

    for kind in KINDS:
        state.catalogue[kind] = 0
        for name in entry_names(kind):
            try:
                entry(kind, name)
                state.catalogue[kind] += 1
            except ClustersimError as error:
                yield "problem", str(error), REINSTALL
    plurals = {kind: plural for plural, kind in PLURALS.items()}
    loaded = [f"{count} {plurals[kind]}" for kind, count in state.catalogue.items() if count]
    if missing := [plurals[kind] for kind, count in state.catalogue.items() if not count]:
        yield "problem", f"no {', '.join(missing)}", REINSTALL
    yield "ok", f"{', '.join(loaded) or 'nothing'} loaded", None


REINSTALL: Final = "pip install --force-reinstall clustersim"

CHECKS: Final[Mapping[str, Check]] = {
    "Python": _python,
    "clustersim": _clustersim,
    "libraries": _libraries,
    "extras": _extras,
    "cores": _cores,
    "memory": _memory,
    "browser": _browser,
    "folder": _folder,
    "run cache": _cache,
    "catalogue": _catalogue,
}
"""The checks in their order, by the names under which their results are printed."""
