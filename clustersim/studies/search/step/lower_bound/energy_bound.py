r"""A proven lower bound of the energy of a step of many layouts at once.

.. math:: E \ge P_0 T + \sum_s (P_s - P_0)\, t_s

with T a lower bound of the step time, t_s one of the time of a mean device in a state s
(computing, memory-bound, communicating), P_s the power of the machine while all its devices are in
that state, and P_0 that in the state that draws least.  A device is in some state at all times, and
each of these times is at most that of the replay.
"""

import numpy as np

from clustersim.arrays import Floats
from clustersim.cost.power import STATES, MachinePower, State

BOUNDED: tuple[State, ...] = ("compute", "memory", "communication")
"""States whose times are bounded, in the order of the columns."""


def least_energy(seconds: Floats, states: Floats, machine: MachinePower) -> Floats:
    """Return a lower bound of the energy of a step in each column [J].

    Parameters
    ----------
    seconds : lower bound of the step time [s]
    states : lower bound of the time of a mean device in each state of `BOUNDED`, by column [s]
    """
    least = machine.of(min(map(machine.in_state, STATES))).total
    more = [machine.of(machine.in_state(state)).total - least for state in BOUNDED]
    return np.asarray(least * seconds + states @ np.array(more))
