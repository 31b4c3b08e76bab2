"""Collectives by size of their buffer on a machine."""

from clustersim.studies.collective.answer import CollectiveAnswer, collective

__all__ = ["CollectiveAnswer", "collective"]
