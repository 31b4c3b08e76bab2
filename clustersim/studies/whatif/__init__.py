"""What if: changes of one scenario, ranked by what they improve."""

from clustersim.studies.whatif.answer import ChangeResult, WhatIfAnswer, whatif

__all__ = ["ChangeResult", "WhatIfAnswer", "whatif"]
