"""One scenario: where the time of a step goes, as text, figures, a page and a trace."""

from clustersim.reports.step.sections import scenario, sources_section

__all__ = ["scenario", "sources_section"]
