"""A discrete-event simulator of large-model training and inference on clusters.

>>> import clustersim
>>> result = clustersim.simulate("frontier-22b", ["batch.global=32"])
>>> result.memory.fits
True
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from clustersim.errors import (
    CatalogError,
    ClustersimError,
    ExecutorError,
    PlanError,
    ProgramError,
    ScenarioError,
    SimulationError,
)

if TYPE_CHECKING:
    from clustersim import catalog
    from clustersim.exporters import export, export_machine, export_traces
    from clustersim.simulation.service.result import ServeResult
    from clustersim.simulation.service.serve import serve
    from clustersim.simulation.sharing.share import share
    from clustersim.simulation.step.replications import replicate
    from clustersim.simulation.step.result import Result
    from clustersim.simulation.step.simulate import simulate
    from clustersim.simulation.trace.replay import replay
    from clustersim.simulation.training_run.train import train
    from clustersim.studies.check import check
    from clustersim.studies.check_trace import check_trace
    from clustersim.studies.collective import collective
    from clustersim.studies.compare import compare
    from clustersim.studies.scale import scale
    from clustersim.studies.search import search
    from clustersim.studies.size import size
    from clustersim.studies.sweep import sweep
    from clustersim.studies.whatif import whatif
    from clustersim.validation.answer import validate

    __version__: str

__all__ = [
    "CatalogError",
    "ClustersimError",
    "ExecutorError",
    "PlanError",
    "ProgramError",
    "Result",
    "ScenarioError",
    "ServeResult",
    "SimulationError",
    "__version__",
    "catalog",
    "check",
    "check_trace",
    "collective",
    "compare",
    "export",
    "export_machine",
    "export_traces",
    "replay",
    "replicate",
    "scale",
    "search",
    "serve",
    "share",
    "simulate",
    "size",
    "sweep",
    "train",
    "validate",
    "whatif",
]

_MODULES = {
    "Result": "clustersim.simulation.step.result",
    "ServeResult": "clustersim.simulation.service.result",
    "check": "clustersim.studies.check",
    "check_trace": "clustersim.studies.check_trace",
    "collective": "clustersim.studies.collective",
    "compare": "clustersim.studies.compare",
    "export": "clustersim.exporters",
    "export_machine": "clustersim.exporters",
    "export_traces": "clustersim.exporters",
    "replay": "clustersim.simulation.trace.replay",
    "replicate": "clustersim.simulation.step.replications",
    "scale": "clustersim.studies.scale",
    "search": "clustersim.studies.search",
    "serve": "clustersim.simulation.service.serve",
    "share": "clustersim.simulation.sharing.share",
    "simulate": "clustersim.simulation.step.simulate",
    "size": "clustersim.studies.size",
    "sweep": "clustersim.studies.sweep",
    "train": "clustersim.simulation.training_run.train",
    "validate": "clustersim.validation.answer",
    "whatif": "clustersim.studies.whatif",
}
"""Modules that are slow to import, by the public name that they define."""


def __dir__() -> list[str]:
    """Return the public names, also of functions that are imported when they are used."""
    return [*__all__]


def __getattr__(name: str) -> Any:
    """Import a slow module when its name is first used, so that ``--help`` need not wait."""
    if name == "__version__":
        from importlib.metadata import version  # 25 ms that only this name needs

        return version("clustersim")
    if name == "catalog":
        return import_module("clustersim.catalog")
    if name in _MODULES:
        found = getattr(import_module(_MODULES[name]), name)
        return found if isinstance(found, type) else _checked(found)
    raise AttributeError(f"module 'clustersim' has no attribute '{name}'{_hint(name)}")


@cache
def _checked(function: Any) -> Any:
    """Return a public function that rejects arguments of wrong types in one line."""
    from clustersim.arguments import checked

    return checked(function)


def _hint(name: str) -> str:
    """Return what was meant by a name, as the end of a message."""
    if name.startswith("_"):  # which tools look for
        return ""
    from clustersim.suggestions import nearest

    return " (did you mean 'simulate'?)" if name == "run" else nearest(name, __all__)
