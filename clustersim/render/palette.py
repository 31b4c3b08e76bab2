"""The colours of what a step is made of: the same in all figures, on paper and on pages."""

from typing import Final

from clustersim.render.mpl_style import Colour

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

MEMORY: Final[dict[str, Colour]] = {
    "parameters": (0.16, 0.36, 0.55),
    "quantised_base": (0.08, 0.20, 0.36),
    "master_weights": (0.30, 0.52, 0.72),
    "gradients": (0.62, 0.79, 0.93),
    "optimiser": (0.50, 0.25, 0.50),
    "gathered_layers": (0.30, 0.60, 0.50),
    "communication_buffers": (0.93, 0.60, 0.10),
    "transfers": (0.98, 0.80, 0.45),
    "offload_staging": (0.55, 0.75, 0.45),
    "activations": (0.80, 0.30, 0.25),
    "logits": (0.95, 0.60, 0.55),
    "workspace": (0.97, 0.80, 0.76),
    "runtime": (0.55, 0.55, 0.53),
    "fragmentation": (0.86, 0.86, 0.84),
    "other": (0.96, 0.93, 0.80),
}
"""States blue and violet, communication orange, what microbatches hold red, the rest grey."""

__all__ = [
    "BACKWARD",
    "BLOCKS",
    "BUBBLE",
    "COMMUNICATION",
    "FORWARD",
    "GROUPS",
    "IMBALANCE",
    "MEMORY",
    "OPTIMISER",
    "WEIGHTS",
    "WHITE",
]
