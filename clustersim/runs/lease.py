"""Which process has claimed a run, and whether it still exists.

A process number is soon reused, above all in a container: the start time identifies the process.
"""

import os
import socket
import time
from typing import Final, NamedTuple

import psutil

LEASE: Final = 600.0
"""Time after which the claim of a process on another host has expired [s]."""

_TOLERANCE: Final = 1.0
"""Largest difference between two readings of the start time of one process [s].

It is counted from the start of the host, which moves when the clock is adjusted.
"""


class Owner(NamedTuple):
    """A process that has claimed a run.

    Attributes
    ----------
    host : name of the host
    process : process number on the host
    started : start time of the process [s since 1970]
    """

    host: str
    process: int
    started: float


def this_process() -> Owner:
    """Return the owner of the claims of this process."""
    return owner_of(os.getpid())


def owner_of(process: int) -> Owner:
    """Return a process of this host."""
    return Owner(socket.gethostname(), process, psutil.Process(process).create_time())


def is_abandoned(owner: Owner, since: float) -> bool:
    """Return whether the owner of a claim has ended; the claim was made at `since` [s]."""
    if owner.host != socket.gethostname():
        return time.time() - since > LEASE
    try:
        started = psutil.Process(owner.process).create_time()
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return abs(started - owner.started) > _TOLERANCE
