"""Which of several equal ways a flow takes: a hash of its two ends, the same on every machine.

A switch that hashes (ECMP) keeps all packets of a flow on one way, so that they stay in order, and
two flows may meet on one cable while the next is idle.  The hash here is the finaliser of
SplitMix64, whose output bits all depend on all input bits: Steele, Lea and Flood 2014,
doi:10.1145/2660193.2660195.
"""

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15


def choose(ways: int, seed: int, a: int, b: int) -> int:
    """Return the way, from 0 to `ways` - 1, of the flow from device `a` to device `b`.

    >>> choose(4, seed=0, a=0, b=8) == choose(4, seed=0, a=0, b=8)
    True
    """
    return _mixed(_mixed(_mixed(seed & _MASK) + a) + b) % ways


def _mixed(value: int) -> int:
    value = (value + _STEP) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
