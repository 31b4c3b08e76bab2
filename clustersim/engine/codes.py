"""What ranks do in steps of each code, as a table for operations on arrays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.engine.rank import Action
from clustersim.program.schedules.steps import Numbers
from clustersim.timeline import Floats

Bools = NDArray[np.bool_]


class Codes(NamedTuple):
    """What ranks do in steps of each code: a row for each rank, a column for each code.

    Attributes
    ----------
    seconds : of the block [s]
    waits : whether the step needs an input
    sends, direct : whether its result goes to another step, and whether by a direct transfer
    shift : address of the receiving step minus that of the step
    direction : of the transfer
    leads, follows : whether it is the first or the second step of a concurrent pair
    moves : whether its result is a transfer, direct or through the network
    """

    seconds: Floats
    waits: Bools
    sends: Bools
    direct: Bools
    shift: Numbers
    direction: Numbers
    leads: Bools
    follows: Bools

    moves: Bools

    @classmethod
    def of(cls, every: Sequence[Sequence[Action]], direct: Sequence[Sequence[Action]]) -> "Codes":
        """Return the table of some ranks.

        Parameters
        ----------
        every, direct : by rank and code, what it does; `direct` without transfers by the network
        """
        numbers = [[(a.seconds, a.shift, a.direction) for a in actions] for actions in every]
        seconds, shift, direction = np.moveaxis(np.array(numbers, float), -1, 0)
        facts = [
            [
                (
                    not a.source,
                    a.stage >= 0,
                    b.traffic is not None,
                    a.leads,
                    a.follows,
                    a.traffic is not None,
                )
                for a, b in zip(actions, others, strict=True)
            ]
            for actions, others in zip(every, direct, strict=True)
        ]
        waits, sends, straight, leads, follows, moves = np.moveaxis(np.array(facts), -1, 0)
        return cls(
            seconds,
            waits,
            sends,
            straight,
            shift.astype(np.int64),
            direction.astype(np.int64),
            leads,
            follows,
            moves,
        )

    def of_ranks(self, rows: Sequence[int]) -> "Codes":
        """Return the table of some of the ranks."""
        return Codes(*(column[rows] for column in self))

    def of_steps(self, row: Numbers, codes: Numbers) -> "Codes":
        """Return the same columns for the codes of steps of each rank."""
        return Codes(*(column[row, codes] for column in self))  # type: ignore[arg-type]
