"""Scenarios in the form that other programs read: launch files, and traces; importers reversed."""

from clustersim.exporters.answer import ExportAnswer, export
from clustersim.exporters.arguments import program_of
from clustersim.exporters.chakra import TraceExport, export_traces

__all__ = ["ExportAnswer", "TraceExport", "export", "export_traces", "program_of"]
