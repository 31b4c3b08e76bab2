"""What if: changes of one scenario, ranked by the time that they save."""

from clustersim.studies.whatif.answer import WhatIfAnswer, whatif
from clustersim.studies.whatif.arguments import change_groups, variants_of

__all__ = ["WhatIfAnswer", "change_groups", "variants_of", "whatif"]
