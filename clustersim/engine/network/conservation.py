"""What a network keeps count of, and the laws that the counts must obey.

Bytes delivered are integrated from rates and times, never copied from what was asked; the load of
every solved link is added up again from the rates.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from clustersim.engine.network.transfer import FULL, Transfer

TOLERANCE = 1e-9
"""Relative gap of bytes or capacity above which it is an error."""


class Books:
    """Totals of one network.

    Attributes
    ----------
    asked, delivered : bytes of one flow, summed over the activities [B]
    solves : times that links had to be shared out [count]
    worst_load : the most that a solved link was loaded with, share of its capacity
    """

    def __init__(self) -> None:
        self.asked = 0.0
        self.delivered = 0.0
        self.solves = 0
        self.worst_load = 0.0
        self._worst_link = -1
        self._allowance = 0.0
        self._short: list[Transfer] = []

    def note_end(self, transfer: Transfer, now: float) -> None:
        """Add up the bytes of a transfer that is taken to be complete."""
        nbytes, rate = transfer.traffic.nbytes, transfer.rate
        delivered = transfer.delivered + rate * (now - transfer.since)
        allowance = TOLERANCE * nbytes + rate * now * 4e-15  # the clock has a finite step
        if not -allowance <= delivered - nbytes <= allowance:
            self._short.append(transfer)
        transfer.delivered = delivered
        self.delivered += delivered
        self._allowance += allowance

    def note_solve(self, load: float, link: int) -> None:
        """Count a solve, and keep the worst load of all."""
        self.solves += 1
        if load > self.worst_load:
            self.worst_load, self._worst_link = load, link

    def problems(
        self, flying: Sequence[Transfer], claimed: Sequence[int], now: float
    ) -> Iterator[str]:
        """Yield what is wrong after a run: a sentence for each law that is broken."""
        if flying:
            names = ", ".join(f"{t.traffic.name!r}" for t in islice(flying, 5))
            more = f" and {len(flying) - 5} more" if len(flying) > 5 else ""
            yield f"network: still in flight at {now:.9g} s: {names}{more}"
        if self._short:
            first = self._short[0]
            yield (
                f"network: {first.traffic.name!r} delivered {first.delivered:.12g} B "
                f"of {first.traffic.nbytes:.12g} B ({len(self._short)} such)"
            )
        if abs(self.asked - self.delivered) > self._allowance:
            yield (
                f"network: all activities together delivered {self.delivered:.12g} B "
                f"of {self.asked:.12g} B"
            )
        if self.worst_load > 1 + TOLERANCE:
            yield f"network: link {self._worst_link} ran at {self.worst_load:.9g} of its capacity"
        for link, share in enumerate(claimed):
            if share:
                yield f"network: link {link} is idle but {share / FULL:.3g} of it is claimed"
                return
