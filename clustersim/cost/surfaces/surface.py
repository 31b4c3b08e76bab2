"""What all surfaces share: terms with their priors, and the smooth maximum of a roofline.

Kernels that the host issues one by one take the longer of host and device.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clustersim.records import dataclass
from clustersim.topology.accelerator import Accelerator

Array = npt.NDArray[np.float64]

Shapes = Mapping[str, Array]
"""Columns of shapes: one number for each kernel."""

Values = Mapping[str, float]
"""Values of terms, by name, in SI units."""


class Term(NamedTuple):
    """A coefficient of a surface.

    Attributes
    ----------
    prior : its value without data, the median over fitted accelerators
    spread : standard deviation of its logarithm over accelerators
    low, high : bounds of a fit
    unit : ``s`` of a time, ``B/s`` of a rate, empty of a pure number
    """

    name: str
    prior: float
    spread: float
    low: float
    high: float
    unit: str = ""


def no_peak(variant: str) -> None:
    """Return that a variant needs no peak: a library that moves bytes."""


@dataclass(frozen=True)
class Surface:
    """The time of one kind of kernel.

    Attributes
    ----------
    columns : names of the columns of its shapes
    terms : the terms of a variant: a number format, or a library
    seconds : the time of each kernel [s], for a device, shapes, a variant and values of all terms
    peak : key of the peak that a variant needs in the file of an accelerator; None without one
    """

    columns: tuple[str, ...]
    terms: Callable[[str], tuple[Term, ...]]
    seconds: Callable[[Accelerator, Shapes, str, Values], Array]
    peak: Callable[[str], str | None] = no_peak


def predict(
    surface: Surface, device: Accelerator, shapes: Shapes, variant: str, found: Values
) -> Array:
    """Return the times of kernels [s], with the prior of each term that is not in `found`."""
    values = {term.name: found.get(term.name, term.prior) for term in surface.terms(variant)}
    return surface.seconds(device, shapes, variant, values)


def smooth_maximum(work: Array, moved: Array, sharpness: float) -> Array:
    r"""Return a roofline without an edge [s].

    .. math:: (a^q + b^q)^{1/q}, \quad q = 1 + `sharpness`

    Near the edge neither compute nor memory is used completely. A `sharpness` of 0 is the sum, as
    without any overlap; a large one is the maximum.

    >>> float(smooth_maximum(np.array(3.0), np.array(4.0), 1.0))
    5.0
    """
    power = 1 + sharpness
    longest = np.maximum(np.maximum(work, moved), 1e-12)
    ratio: Array = (work / longest) ** power + (moved / longest) ** power
    return longest * ratio ** (1 / power)


assumed_held: Final = 6.0
"""Steepness of the share of data that stay in a cache, which falls from 0.99 to 0.02 between half
of its size and twice; assumed, the same for all devices."""


def held_share(device: Accelerator, nbytes: Array, kept: float) -> Array:
    r"""Return the share of data that the cache still holds when they are read again [unitless].

    .. math:: \frac{1}{1 + (b / f C)^6}

    with b = `nbytes` between two reads, f = `kept`, and the cache C of the device: data that exceed
    the cache displace each other before they are read again.  0 where the cache is not known.
    """
    if device.cache is None:
        return np.zeros_like(nbytes)
    share: Array = 1 / (1 + (nbytes / (kept * device.cache)) ** assumed_held)
    return share


def warmed(seconds: Array, busy: Array, heat: float) -> Array:
    r"""Return times that include the lower clock of a device that has computed for a while [s].

    .. math:: t \left( 1 + \frac{h c}{c + 60 ms} \right)

    with h = `heat` and c = `busy`, the time of computing in a row. A cold device runs for tens of
    milliseconds at a clock that its power limit does not sustain: on an H100 twelve products of
    30 ms each run at a rate a tenth below that of twelve of 3 ms, on a B200 a fifth.
    """
    return seconds * (1 + heat * busy / (busy + assumed_heating))


assumed_heating = 60e-3
"""Time of computing in a row after which half of the loss by heat is reached [s]; assumed, the same
for all devices."""


HOST: Final = Term("host", 30.0e-6, 0.5, 1e-7, 1e-3, "s")
"""Time of the host for a call."""

assumed_edge: Final = 10.0
"""Sharpness of the maximum of host and device, which do not hinder each other; assumed."""


def at_least_host(seconds: Array, values: Values) -> Array:
    """Return the times of calls that the host issues one by one [s]."""
    return smooth_maximum(seconds, np.full_like(seconds, values["host"]), assumed_edge)


def issued_seconds(seconds: Array, shapes: Shapes, values: Values) -> Array:
    """Return the times of calls [s].

    Parameters
    ----------
    shapes : `issued` is 1 in a benchmark whose host issues each call, else 0
    """
    return np.where(shapes["issued"] > 0, at_least_host(seconds, values), seconds)
