"""The colours of what a step is made of: the same in all figures, on paper and on pages."""

from typing import Final

from clustersim.report.paper import Colour

FORWARD: Final = ((0.62, 0.79, 0.93), (0.42, 0.65, 0.86))
BACKWARD: Final = ((0.16, 0.36, 0.55), (0.08, 0.20, 0.36))
COMMUNICATION: Final = (0.93, 0.60, 0.10)
OPTIMISER: Final = (0.50, 0.25, 0.50)
IMBALANCE: Final = (0.80, 0.30, 0.24)
BUBBLE: Final = (0.94, 0.94, 0.92)
WHITE: Final = (1.0, 1.0, 1.0)
WEIGHTS: Final = ((0.20, 0.50, 0.42), (0.10, 0.32, 0.27))
BLOCKS: Final = (FORWARD, BACKWARD, BACKWARD, WEIGHTS)
"""Light before dark, to be read in grey as well; chunks go from the first shade to the second."""

GROUPS: Final[dict[str, Colour]] = {
    "compute": BACKWARD[0],
    "communication": COMMUNICATION,
    "imbalance": IMBALANCE,
    "bubble": BUBBLE,
    "optimiser": OPTIMISER,
}
"""By the kind of a part."""

__all__ = [
    "BACKWARD",
    "BLOCKS",
    "BUBBLE",
    "COMMUNICATION",
    "FORWARD",
    "GROUPS",
    "IMBALANCE",
    "OPTIMISER",
    "WEIGHTS",
    "WHITE",
]
