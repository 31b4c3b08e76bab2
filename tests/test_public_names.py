"""The names that a user may import, and what they are."""

import subprocess
import sys
from pathlib import Path

import pytest

import clustersim
from clustersim import errors


def test_the_public_names_are_listed_in_order():
    """`__all__` is sorted, has each name once, and every one of them is there."""
    assert clustersim.__all__ == sorted(set(clustersim.__all__))
    assert clustersim.__all__ == [
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
        "collective",
        "compare",
        "replicate",
        "scale",
        "search",
        "serve",
        "simulate",
        "size",
        "sweep",
        "train",
        "validate",
        "whatif",
    ]
    for name in clustersim.__all__:
        assert getattr(clustersim, name) is not None


def test_a_star_import_brings_exactly_the_public_names():
    """`from clustersim import *` gives what `__all__` says."""
    names = {}
    exec("from clustersim import *", names)  # a star import needs a namespace of its own

    assert sorted(name for name in names if name != "__builtins__") == clustersim.__all__


def test_no_module_has_the_name_of_a_public_function():
    """Importing a module sets an attribute of the package, which must not replace a function."""
    modules = {path.stem for path in Path(clustersim.__file__).parent.iterdir()}

    assert not modules & set(clustersim.__all__)


def test_an_unknown_name_is_an_attribute_error():
    """A name that is not public is refused as Python does."""
    with pytest.raises(AttributeError, match="module 'clustersim' has no attribute 'simulat'"):
        _ = clustersim.simulat


def test_every_error_is_public_and_of_one_tree():
    """All errors descend from ClustersimError, and those of the user's making are ValueErrors."""
    tree = {v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, Exception)}

    assert {error.__name__ for error in tree} <= set(clustersim.__all__)
    assert all(issubclass(error, errors.ClustersimError) for error in tree)
    users = {error for error in tree if issubclass(error, ValueError)}
    assert users == {errors.CatalogError, errors.ScenarioError, errors.PlanError}


def test_the_version_is_that_of_the_distribution():
    """`__version__` is what was installed."""
    from importlib.metadata import version

    assert clustersim.__version__ == version("clustersim")


def test_importing_the_package_loads_nothing_slow():
    """`import clustersim` alone loads no numpy, pandas, networkx, simpy or matplotlib."""
    slow = ("numpy", "pandas", "networkx", "simpy", "matplotlib", "pydantic", "ruamel")
    code = f"import sys, clustersim; print([m for m in {slow!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"
