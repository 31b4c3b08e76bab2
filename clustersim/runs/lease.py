"""Who is at a run: a process, told apart from a later one that was given the same number."""

import os
import socket
import time
from pathlib import Path
from typing import Final, NamedTuple

LEASE: Final = 600.0
"""Seconds after which a claim of a process on another host is taken for abandoned."""


class Owner(NamedTuple):
    """A process that has claimed a run.

    Attributes
    ----------
    host : by name
    process : its number there
    born : when it began, in ticks of that host; empty where the host does not tell
    """

    host: str
    process: int
    born: str


def this_process() -> Owner:
    """Return the owner of what this process claims."""
    return owner_of(os.getpid())


def owner_of(process: int) -> Owner:
    """Return a process of this host."""
    return Owner(socket.gethostname(), process, _born(process))


def abandoned(owner: Owner, since: float) -> bool:
    """Whether a claim has no one behind it any more, made at `since` [s since 1970]."""
    if owner.host == socket.gethostname():
        return not _alive(owner.process) or owner != owner_of(owner.process)
    return time.time() - since > LEASE


def _alive(process: int) -> bool:
    """Whether there is a process of that number on this host."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _born(process: int) -> str:
    """Return when a process of this host began; nothing where that cannot be told.

    The number of a process is soon given to another one, above all in a container.
    """
    try:
        said = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return said.rpartition(")")[2].split()[19]  # proc(5): field 22, the command's name is field 2


__all__ = ["LEASE", "Owner", "abandoned", "owner_of", "this_process"]
