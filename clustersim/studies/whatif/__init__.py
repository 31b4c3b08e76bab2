"""What if: changes of one scenario, ranked by what they improve."""

from clustersim.studies.whatif.answer import WhatIfAnswer, whatif

__all__ = ["WhatIfAnswer", "whatif"]
