"""Conservation of bytes and capacity: totals of a network, and the laws that they must obey.

Bytes delivered are integrated from rates and times, never copied from the traffic; the load of
every solved link is summed independently from the rates.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from clustersim.engine.network.transfer import FULL, Transfer

TOLERANCE = 1e-9
"""Relative error of bytes or capacity that is reported."""


class Conservation:
    """Totals of one network; `resolution` is the step of the grid of its instants [s].

    Attributes
    ----------
    sent, delivered : bytes of one flow, summed over the activities [B]
    solves : times that the rates of contended links were solved [count]
    worst_load : highest load of a solved link, share of its capacity
    """

    def __init__(self, resolution: float = 0.0) -> None:
        self._resolution = resolution
        self.sent = 0.0
        self.delivered = 0.0
        self.solves = 0
        self.worst_load = 0.0
        self._worst_link = -1
        self._allowance = 0.0
        self._mismatches: list[Transfer] = []

    def count_end(self, transfer: Transfer, now: float) -> None:
        """Add the bytes of a transfer that has completed."""
        nbytes, rate = transfer.traffic.nbytes, transfer.rate
        delivered = transfer.delivered + rate * (now - transfer.since)
        # The clock has a finite resolution, and each change of the rate is on its grid.
        allowance = TOLERANCE * nbytes + rate * (now * 4e-15 + 4 * self._resolution)
        if not -allowance <= delivered - nbytes <= allowance:
            self._mismatches.append(transfer)
        transfer.delivered = delivered
        self.delivered += delivered
        self._allowance += allowance

    def count_solve(self, load: float, link: int) -> None:
        """Count a solve, and keep the highest load of all."""
        self.solves += 1
        if load > self.worst_load:
            self.worst_load, self._worst_link = load, link

    def counted(self) -> tuple[float, ...]:
        """Return the totals that grow with each activity."""
        return self.sent, self.delivered, self._allowance, self.solves

    def count_repeated(self, before: tuple[float, ...], times: int) -> None:
        """Add what was counted since earlier totals a number of times."""
        sent, delivered, allowance, solves = before
        self.sent += times * (self.sent - sent)
        self.delivered += times * (self.delivered - delivered)
        self._allowance += times * (self._allowance - allowance)
        self.solves += times * (self.solves - int(solves))

    def violations(
        self, in_flight: Sequence[Transfer], demands: Sequence[int], now: float
    ) -> Iterator[str]:
        """Yield a sentence for each law that is violated after a run."""
        if in_flight:
            names = ", ".join(f"{t.traffic.name!r}" for t in islice(in_flight, 5))
            more = f" and {len(in_flight) - 5} more" if len(in_flight) > 5 else ""
            yield f"network: still in flight at {now:.9g} s: {names}{more}"
        if self._mismatches:
            first = self._mismatches[0]
            yield (
                f"network: {first.traffic.name!r} delivered {first.delivered:.12g} B "
                f"of {first.traffic.nbytes:.12g} B ({len(self._mismatches)} such)"
            )
        if abs(self.sent - self.delivered) > self._allowance:
            yield (
                f"network: all activities together delivered {self.delivered:.12g} B "
                f"of {self.sent:.12g} B"
            )
        if self.worst_load > 1 + TOLERANCE:
            yield f"network: link {self._worst_link} ran at {self.worst_load:.9g} of its capacity"
        for link, demand in enumerate(demands):
            if demand:
                yield f"network: link {link} is idle but {demand / FULL:.3g} of it is in use"
                return
