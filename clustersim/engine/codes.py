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
    shift : address of the receiving step minus that of the step
    direction : of the transfer
    waits : whether the step needs an input
    sends, moves, direct : whether its result goes to another step, whether by a transfer, and
        whether by one that does not go through the network
    leads, follows : whether it is the first or the second step of a concurrent pair
    """

    seconds: Floats
    shift: Numbers
    direction: Numbers
    waits: Bools
    sends: Bools
    moves: Bools
    direct: Bools
    leads: Bools
    follows: Bools

    @classmethod
    def of(cls, every: Sequence[Sequence[Action]], direct: Sequence[Sequence[Action]]) -> "Codes":
        """Return the table of some ranks.

        Parameters
        ----------
        every, direct : by rank and code, what it does; `direct` without transfers by the network
        """
        pairs = [zip(*actions, strict=True) for actions in zip(every, direct, strict=True)]
        facts = np.array([[_facts(*pair) for pair in of_rank] for of_rank in pairs])
        seconds = [[action.seconds for action in actions] for actions in every]
        numbers = [[(action.shift, action.direction) for action in actions] for actions in every]
        shift, direction = np.moveaxis(np.array(numbers, np.int64), -1, 0)
        return cls(np.array(seconds), shift, direction, *np.moveaxis(facts, -1, 0))

    def of_ranks(self, rows: Sequence[int]) -> "Codes":
        """Return the table of some of the ranks."""
        return Codes(*(column[rows] for column in self))  # type: ignore[arg-type]

    def of_steps(self, row: Numbers, codes: Numbers) -> "Codes":
        """Return the same columns for the codes of steps of each rank."""
        at = row * self.seconds.shape[1] + codes
        return Codes(*(column.take(at) for column in self))


def _facts(action: Action, direct: Action) -> tuple[bool, ...]:
    moves, straight = (each.traffic is not None for each in (action, direct))
    return not action.source, action.stage >= 0, moves, straight, action.leads, action.follows
