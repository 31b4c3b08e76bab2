"""Launch files of scenarios, in the form that each program reads: importers, the other way."""

from clustersim.exporters.answer import ExportAnswer, export
from clustersim.exporters.arguments import program_of

__all__ = ["ExportAnswer", "export", "program_of"]
