"""Compare the trace of a run with the prediction of its scenario, part by part."""

from clustersim.studies.check_trace.answer import TraceCheckAnswer, check_trace

__all__ = ["TraceCheckAnswer", "check_trace"]
