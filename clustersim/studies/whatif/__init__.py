"""What if: changes of one scenario, ranked by the time that they save."""

from clustersim.studies.whatif.answer import WhatIfAnswer, whatif

__all__ = ["WhatIfAnswer", "whatif"]
