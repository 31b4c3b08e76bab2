"""Launch files of scenarios, in the form that each program reads: importers, the other way."""

from clustersim.exporters.answer import ExportAnswer, export

__all__ = ["ExportAnswer", "export"]
