"""The names that a user may import, and what they are."""

import subprocess
import sys
from inspect import isfunction, signature
from pathlib import Path

import numpy as np
import pytest

import clustersim
from clustersim import errors
from clustersim.catalog.reading import parse_yaml
from small import EIGHT


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
    for name in clustersim.__all__:
        assert getattr(clustersim, name) is not None


FUNCTIONS = [name for name in clustersim.__all__ if isfunction(getattr(clustersim, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_a_wrong_type_was_an_error_of_python(name):
    """Every parameter of every public function has a line with its name, types and value."""
    function = getattr(clustersim, name)
    parameters = [p for p in signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]
    for parameter in parameters:
        with pytest.raises(clustersim.ScenarioError) as caught:
            function(**{parameter.name: object()})
        assert f"{caught.value}".startswith(f"{name}: {parameter.name}: must be ")
        assert "\n" not in f"{caught.value}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clustersim.size("dgx-h100", nodes=1, days="10"),
         "size: days: must be a number or None, not '10'"),
        (lambda: clustersim.size("dgx-h100", nodes=1.5, days=True),
         "size: nodes: must be a whole number or None, not 1.5\n"
         "size: days: must be a number or None, not True"),
        (lambda: clustersim.simulate(None),
         "simulate: scenario: must be a text, a path, a dict or a Loaded, not None"),
        (lambda: clustersim.sweep("frontier-22b", jobs="2"),
         "sweep: jobs: must be a whole number or None, not '2'"),
    ],
)  # fmt: skip
def test_messages_of_wrong_types_name_what_is_allowed(call, message):
    """Types are in words, all problems together, options of all studies included."""
    with pytest.raises(clustersim.ScenarioError) as caught:
        call()

    assert f"{caught.value}" == message


def test_numbers_of_numpy_have_the_types_of_their_values():
    """Whole numbers, numbers and truths of numpy are those of Python."""
    numbers = {"nodes": np.int64(1), "days": np.float32(-1), "goodput": np.float64(0.9)}
    with pytest.raises(clustersim.ScenarioError, match="--days -1: must be above 0"):
        clustersim.size("dgx-h100", **numbers)


def test_a_star_import_brings_exactly_the_public_names():
    """`from clustersim import *` gives what `__all__` says."""
    names = {}
    exec("from clustersim import *", names)  # a star import needs a namespace of its own

    assert sorted(name for name in names if name != "__builtins__") == clustersim.__all__


def test_dir_offers_the_public_names_only():
    """Completion shows functions before they are imported, and no name of another module."""
    code = "import clustersim; print(*dir(clustersim))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.split() == clustersim.__all__


def records_in(value, seen):
    """Yield a record, and all records below it, each type once."""
    if type(value) in seen or not type(value).__module__.startswith("clustersim"):
        if isinstance(value, dict | list | tuple) and not hasattr(value, "_fields"):
            inner = value.values() if isinstance(value, dict) else value
            for item in [*inner][:3]:
                yield from records_in(item, seen)
        return
    seen.add(type(value))
    yield value
    for inner in getattr(value, "__dict__", {}).values():
        yield from records_in(inner, seen)


def test_a_representation_is_one_short_line():
    """Answers of 37,078 letters filled the screen: each record prints as a line of under 300."""
    result = clustersim.simulate("frontier-22b", {"batch.global": 16})
    axes = {"batch.micro": 1, "plan.zero": [0, 1]}
    study = clustersim.sweep("frontier-22b", over=axes, settings={"batch.global": 16}, jobs=1)
    served = clustersim.serve("llama3-70b-h100-serving", {"load.requests": 16})
    whole = clustersim.train("megatron-1t-84-days")
    records = [*records_in([result, result.answer, study, served, served.answer, whole], set())]

    assert len(records) > 60
    for record in records:
        assert len(repr(record)) < 300, type(record)
        assert "\n" not in repr(record)


def test_studies_take_plain_values():
    """A scenario is a dict, an axis a list or one value, and a size a number."""
    scenario = {
        "title": "plain",
        "cluster": {"name": "frontier", "nodes": 2},
        "model": "gpt-22b",
        "framework": "megatron-deepspeed",
        "precision": "fp16",
        "recompute": "full",
        "plan": {"tensor": 1, "pipeline": 8, "data": 2, "zero": 1},
        "batch": {"global": 16, "micro": 1, "sequence": 2048},
    }
    step = clustersim.simulate(scenario).step_time
    swept = clustersim.sweep(scenario, over={"plan.tensor": [1], "plan.data": 2}, jobs=1)
    pair = clustersim.compare([scenario, {**scenario, "recompute": "none"}], jobs=1)
    curve = clustersim.scale(scenario, strong=[16], jobs=1).curves[0]
    one = clustersim.scale(scenario, strong=16, jobs=1).curves[0]
    [timing] = clustersim.collective("dgx-h100", "all-reduce", devices=8, bytes=2**20).timings
    machine = {"name": "dgx-h100", "nic": {"bandwidth": "1 GB/s"}}
    [slow, quick] = [
        clustersim.collective(given, "all-reduce", devices=16, bytes=2**30).timings[0]
        for given in (machine, "dgx-h100")
    ]

    assert [row["step_time_s"] for row in swept.points] == [step]
    assert [run.name for run in pair.runs] == ["scenario (1)", "scenario (2)"]
    assert pair.runs[0].answer.step_time_s == step
    assert curve.points[0].devices == 16
    assert one == curve
    assert timing.bytes == 2**20
    assert slow.time_s > 10 * quick.time_s


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"cluster": object()}, "scenario: holds a value that is no number, text, list or table"),
        ({"plan": {"tensr": 1}}, "scenario: plan.tensr: unknown key (did you mean 'tensor'?)"),
    ],
)
def test_an_invalid_dict_is_one_clear_line(values, problem):
    """The message names the scenario, not a line of a text that the user never wrote."""
    with pytest.raises(clustersim.ScenarioError) as error:
        clustersim.sweep({"title": "x", **values}, over={"plan.zero": [0]})

    assert str(error.value).startswith(problem)


def test_no_module_has_the_name_of_a_public_function():
    """Importing a module sets an attribute of the package, which must not replace a function."""
    modules = {path.stem for path in Path(clustersim.__file__).parent.iterdir()}

    assert modules & set(clustersim.__all__) == {"catalog"}  # which is that module


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


@pytest.mark.parametrize(("name", "meant"), [("run", "simulate"), ("swep", "sweep")])
def test_a_verb_that_is_no_function_suggests_one(name, meant):
    """`clustersim.run`, after the command, had no hint."""
    with pytest.raises(AttributeError, match=rf"\(did you mean '{meant}'\?\)"):
        getattr(clustersim, name)


def test_numbers_of_numpy_are_numbers():
    """A notebook's `np.int64(2)` was no whole number, and blamed the file of a shipped machine."""
    plain = parse_yaml(EIGHT, "eight").data
    given = {**plain, "cluster": {"name": "dgx-a100", "nodes": np.int64(1)}}
    axis = {"batch.micro": np.array([1, 2])}

    assert clustersim.simulate(given).step_time == clustersim.simulate(plain).step_time
    found = clustersim.sweep(given, over=axis, jobs=1)
    assert found.ranked == clustersim.sweep(plain, over="batch.micro=1,2", jobs=1).ranked
    changed = clustersim.simulate(plain, {"batch.micro": np.int64(2)})
    assert changed.step_time == clustersim.simulate(plain, {"batch.micro": 2}).step_time


def test_limits_and_loads_may_be_texts():
    """`limits={"memory": "60GiB"}` and `loads="1:2"` were no numbers."""
    plain = parse_yaml(EIGHT, "eight").data
    limits = {"memory": "1000 GiB", "mfu": "0.1 %"}
    found = clustersim.sweep(plain, over="batch.micro=1,2", limits=limits, jobs=1)
    load = {"concurrency": 2, "input": 64, "output": 8}
    service = clustersim.serve("llama3-8b-h100-formats", {"load": load}, loads="1:2")

    assert found.limits == {"memory_peak_bytes": 1000 * 2**30, "mfu": pytest.approx(0.001)}
    assert [point.load for point in service.curve] == [1, 2]
