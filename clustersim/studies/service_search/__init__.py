"""Search the best layout of a service: which replicas, and how many, within limits of times."""

from clustersim.studies.service_search.answer import ServiceSearch
from clustersim.studies.service_search.best_services import search_services

__all__ = ["ServiceSearch", "search_services"]
