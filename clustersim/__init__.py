"""A discrete-event simulator of large-model training on clusters.

>>> import clustersim
>>> result = clustersim.simulate("frontier-22b", ["batch.global=32"])
>>> result.memory.fits
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clustersim.errors import (
    CatalogError,
    ClustersimError,
    PlanError,
    ProgramError,
    ScenarioError,
    SimulationError,
)

if TYPE_CHECKING:
    from clustersim.simulation.simulate import Result, simulate

    __version__: str

__all__ = [
    "CatalogError",
    "ClustersimError",
    "PlanError",
    "ProgramError",
    "Result",
    "ScenarioError",
    "SimulationError",
    "__version__",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Load what is slow to import when it is first asked for, so that ``--help`` need not wait."""
    if name == "__version__":
        from importlib.metadata import version  # 25 ms that only this name needs

        return version("clustersim")
    if name in {"Result", "simulate"}:
        return getattr(import_module("clustersim.simulation.simulate"), name)
    raise AttributeError(f"module 'clustersim' has no attribute '{name}'")
