"""Entries by name: kind and record of a name, ``KIND/NAME`` or file, and schedules."""

import difflib
from pathlib import Path

from clustersim.catalog.finding import entry_names
from clustersim.catalog.tree import nearest
from clustersim.errors import ScenarioError
from clustersim.program.schedules import SCHEDULES, Schedule
from clustersim.program.schedules.written import read_schedule
from clustersim.scenario.entries import KINDS, Entry, entry, entry_of_file, kinds_of


def find_entry(name: str) -> Entry | None:
    """Return an entry by its name, ``KIND/NAME`` or file; None for a schedule.

    Raises
    ------
    ScenarioError
        when the name is unknown, with the nearest name of any kind.
    """
    kind, slash, rest = name.partition("/")
    if slash and kind in (*KINDS, "schedule"):
        if kind != "schedule":
            return entry(kind, rest)
        if rest in SCHEDULES:
            return None
    elif Path(name).suffix == ".txt":
        return None
    elif Path(name).suffix in {".yaml", ".yml"} or (slash and Path(name).exists()):
        return entry_of_file(Path(name))
    elif kinds := kinds_of(name):
        return entry(kinds[0], name)
    elif name in SCHEDULES:
        return None
    raise _unknown(rest if kind == "schedule" else name)


def find_schedule(name: str) -> Schedule:
    """Return a schedule by its name, or from a file."""
    shipped = SCHEDULES.get(name.rpartition("/")[2])
    return read_schedule(Path(name)) if shipped is None else shipped


def _unknown(name: str) -> ScenarioError:
    """Return the error for an unknown name, with the nearest name of any kind."""
    known = {other: kind for kind in reversed(KINDS) for other in entry_names(kind)}
    known |= dict.fromkeys(SCHEDULES, "schedule")
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close and known[close[0]] == "schedule":
        hint = f"{nearest(name, SCHEDULES)} (known: {', '.join(SCHEDULES)})"
        return ScenarioError(f"{name}: unknown schedule{hint}")
    hint = nearest(name, known) or " (see `clustersim list`)"
    return ScenarioError(f"{name}: unknown name{hint}")
