"""Many scenarios at once: against measured cases, against each other, over axes and devices.

`validate` and all that grades; `compare`, `whatif`, `sweep` and `scaling`, each a question whose
scenarios go through `running` and whose runs stay in a `store`; `calibration` of an accelerator
from its own kernels.
"""
