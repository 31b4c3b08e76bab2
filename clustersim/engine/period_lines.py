"""The instants of a repeated period as lines: which follow lines, for how long, and their points.

A line is an instant of the last period and the time by which it is later in each further period.
The last three periods of some ranks are compared, in arrays with a row for each rank and a column
for each step.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from clustersim.engine.codes import Bools, Codes
from clustersim.engine.direct_replay import DirectRank, DirectReplay
from clustersim.program.schedules.steps import Numbers
from clustersim.timeline import Floats

AHEAD = 8
"""Periods ahead for which inputs that have arrived already are compared at first."""

AT_ONCE = 1 << 20
"""Points that are computed at once, which bounds memory."""


class PeriodLines:
    """The last three periods of some ranks before a boundary, and the lines through the last two.

    Parameters
    ----------
    at : next step of each rank
    steps, shift : of a period, as in `Repetition`
    """

    def __init__(
        self, replay: DirectReplay, ranks: Sequence[DirectRank], table: Codes,
        at: Numbers, steps: int, shift: int,
    ) -> None:  # fmt: skip
        self.steps, self.shift, self.blocking = steps, shift, replay.program.blocking
        self._begun = np.frombuffer(replay.begun)
        self._departed = np.frombuffer(replay.departed)
        self._arrived = np.frombuffer(replay.arrived)
        # The last three periods, one step before them, and the next step.
        parts = [slice(end - 3 * steps - 1, end + 1) for end in at.tolist()]
        codes = np.stack([rank.codes[part] for rank, part in zip(ranks, parts, strict=True)])
        self.inputs = np.stack(
            [rank.base + rank.inputs[part] for rank, part in zip(ranks, parts, strict=True)]
        )
        row = np.arange(len(ranks))[:, None]
        self.code = table.of_steps(row, codes)
        first = np.array([rank.first for rank in ranks])
        self.positions = (first + at)[:, None] + np.arange(-3 * steps - 1, 0)
        self.targets = self.inputs + self.code.shift
        self.last, self.before, self.early = (
            slice(1 + period * steps, 1 + (period + 1) * steps) for period in (2, 1, 0)
        )
        self.begin = self._begun[self.positions]
        self.arrived = np.where(self.code.sends, self._arrived[self.targets * self.code.sends], 0.0)

    # --- are they lines? -------------------------------------------------------------------------

    def straight(self) -> bool:
        """Return whether all instants of the last three periods are on lines."""
        return all(
            np.array_equal(
                times[:, self.last] - times[:, self.before],
                times[:, self.before] - times[:, self.early],
            )
            for times in (self.begin, self.arrived)
        )

    def periods(self, most: int) -> int:
        """Return for how many periods all instants stay on their lines, up to a number."""
        end = self.begin + self.code.seconds[:, :-1]
        computed = end.copy()  # when the result is sent
        np.copyto(computed[:, :-1], end[:, 1:], where=self.code.leads[:, :-2])
        needed = np.where(self.code.waits, self._arrived[self.inputs], -inf)
        own = np.where(self.code.follows, -inf, needed)[:, :-1]
        partner = np.where(self.code.leads[:, :-1], needed[:, 1:], -inf)
        free = np.roll(self._free_after(end), 1, axis=1)
        periods: float = min(most, self.known_inputs(most))
        periods = min(periods, self._while_largest(self.begin, [free, own, partner], slice(None)))
        if not self.blocking:
            sends = self.code.direct[:, self.last]
            departed = self._departed[self.targets * self.code.sends][:, :-1]
            operands = [computed, self._channel()]
            periods = min(periods, self._while_largest(departed, operands, sends))
        return int(periods)

    def _free_after(self, end: Floats) -> Floats:
        """Return when a rank is free after each step."""
        if not self.blocking:
            return end
        free = np.where(self.code.direct[:, :-1], self.arrived[:, :-1], end)
        free = np.where(self.code.leads[:, :-1], end, free)
        sent_before = np.roll(self.code.direct & self.code.leads, 1, axis=1)[:, :-1]
        last = sent_before & ~self.code.direct[:, :-1]
        return np.where(last, np.roll(self.arrived, 1, axis=1)[:, :-1], free)

    def _channel(self) -> Floats:
        """Return when the transfer before each one, in its direction, arrived."""
        column = np.arange(self.arrived.shape[1])
        channel = np.full(self.arrived.shape, -inf)
        for direction in (0, 1):
            uses = self.code.direct & (self.code.direction == direction)
            latest = np.maximum.accumulate(np.where(uses, column, -1), axis=1)
            previous = np.roll(latest, 1, axis=1)
            previous[:, 0] = -1
            arrival = np.take_along_axis(self.arrived, np.maximum(previous, 0), axis=1)
            np.copyto(channel, np.where(previous < 0, -inf, arrival), where=uses)
        return channel[:, :-1]

    def _while_largest(
        self, largest: Floats, operands: Sequence[Floats], selected: Bools | slice
    ) -> float:
        """Return for how many periods an instant stays the largest of its operands."""
        value = largest[:, self.last]
        slope = value - largest[:, self.before]
        followed, periods = np.zeros(value.shape, bool), np.full(value.shape, inf)
        for operand in operands:
            other, earlier = operand[:, self.last], operand[:, self.before]
            other_slope = np.subtract(other, earlier, np.zeros(value.shape), where=earlier > -inf)
            followed |= (other == value) & (other_slope == slope)
            gains = other_slope > slope
            crossing = np.divide(value - other, other_slope - slope, where=gains, out=periods + 0)
            periods = np.where(gains, np.minimum(periods, np.floor(crossing)), periods)
        if not followed[selected].all():
            return 0
        return float(periods[selected].min(initial=inf))

    def known_inputs(self, most: int, slope: float | None = None) -> int:
        """Return for how many periods inputs that have arrived already are on their lines.

        Parameters
        ----------
        most : maximum number of periods; later inputs are not compared
        slope : of all lines, where they have the same; that of each input if it is left out [s]
        """
        address = self.inputs[:, self.last][self.code.waits[:, self.last]]
        value = self._arrived[address]
        slopes = value - self._arrived[address - self.shift] if slope is None else slope
        done, ahead = 0, AHEAD
        while done < most and len(address):
            period = np.arange(done + 1, min(done + ahead, most) + 1)[:, None]
            known = self._arrived[address + self.shift * period]
            wrong = ~np.isnan(known) & (known != value + slopes * period)
            if wrong.any():
                return done + int(wrong.any(axis=1).argmax())
            if np.isnan(known[-1]).all():
                break
            done, ahead = done + len(period), min(2 * ahead, 1 + AT_ONCE // len(address))
        return most

    def channel_slopes(self) -> Floats:
        """Return how much later each channel of each rank is free after a period; 0 for unused."""
        slopes = np.zeros((len(self.arrived), 2))
        later = self.arrived[:, self.last] - self.arrived[:, self.before]
        column = np.arange(self.steps)
        for direction in (0, 1):
            uses = self.code.direct & (self.code.direction == direction)
            latest = np.where(uses[:, self.last], column, -1).max(axis=1)
            of_latest = np.take_along_axis(later, np.maximum(latest, 0)[:, None], axis=1)[:, 0]
            slopes[:, direction] = np.where(latest < 0, 0.0, of_latest)
        return slopes

    # --- further points --------------------------------------------------------------------------

    def extend(self, periods: int, slope: float | None = None) -> None:
        """Fill in the instants of some more periods; `slope` as in `known_inputs`."""
        _extend(self._begun, self.positions[:, self.last].ravel(), self.steps, periods, slope)
        target = self.targets[:, self.last][self.code.sends[:, self.last]]
        # A transfer in flight arrives after the periods that are skipped.
        while (in_flight := np.isnan(self._arrived[target])).any():
            target = np.where(in_flight, target - self.shift, target)
        for times in (self._departed, self._arrived):
            _extend(times, target, self.shift, periods, slope)


def _extend(times: Floats, at: Numbers, apart: int, periods: int, slope: float | None) -> None:
    """Continue lines whose points are `apart` in an array, from their last points at `at`."""
    value = times[at]
    slopes = value - times[at - apart] if slope is None else slope
    at_once = 1 + AT_ONCE // max(1, len(at))
    for done in range(0, periods, at_once):
        period = np.arange(done + 1, min(done + at_once, periods) + 1)[:, None]
        times[at + apart * period] = value + slopes * period
