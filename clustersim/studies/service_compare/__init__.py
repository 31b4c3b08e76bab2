"""Compare services: inputs, results and the causes of a token's time side by side."""

from clustersim.studies.service_compare.answer import (
    CompareServicesAnswer,
    ServiceComparison,
    compare_services,
    compare_two,
    usual_measure,
)

__all__ = [
    "CompareServicesAnswer",
    "ServiceComparison",
    "compare_services",
    "compare_two",
    "usual_measure",
]
