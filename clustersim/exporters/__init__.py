"""Scenarios in the form that other programs read: launch files, traces, machines."""

from clustersim.exporters.answer import ExportAnswer, export
from clustersim.exporters.arguments import program_of
from clustersim.exporters.chakra import TraceExport, export_traces
from clustersim.exporters.infragraph import MachineExport, export_machine

__all__ = [
    "ExportAnswer",
    "MachineExport",
    "TraceExport",
    "export",
    "export_machine",
    "export_traces",
    "program_of",
]
