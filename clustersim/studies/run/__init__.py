"""A run, shown: the views of a simulated training step."""

from clustersim.studies.run.sources import scenario, sources_section

__all__ = ["scenario", "sources_section"]
