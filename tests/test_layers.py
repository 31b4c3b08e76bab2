"""Imports go one way: every import statement under `clustersim/` is read and held to the drawing.

A module may import what stands on a lower line and what belongs to its own name; names on one
line do not import each other. Imports inside functions and under `TYPE_CHECKING` count like any
other, and so do literal names given to `import_module`.
"""

import ast
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from wrong_values import wrong_values

PACKAGE = Path(__file__).parent.parent / "clustersim"

LAYERS = """
    __main__
    cli
    explore
    calibration
    validation
    studies
    reports
    runs          render        exporters
    simulation
    scenario      metrics       engine
    memory        inference
    program
    plan          cost          importers     completion
    topology      workload      timeline    traffic    failures    disturbance    evidence
    catalog       arguments
    units         errors      answers   arrays    bounded_cache
    escaping      records       suggestions
"""

HOMES = {
    "dask_jobqueue": ("runs",),
    "distributed": ("runs",),
    "flask": ("explore",),
    "jinja2": ("render",),
    "matplotlib": ("render",),
    "networkx": ("importers", "topology"),
    "plotly": ("render",),
    "ruamel": ("catalog",),
    "simpy": ("engine",),
    "typer": ("cli",),
    "waitress": ("explore",),
}

OUTSIDE = ("benchmarks", "tests", "tools")
"""Packages of the repository that users do not install."""

LINES = [line.split() for line in reversed(LAYERS.strip().splitlines())]
HEIGHT = {name: height for height, line in enumerate(LINES) for name in line}


class Import(NamedTuple):
    """One imported name with the line that asks for it: `module` is absolute and dotted."""

    line: int
    module: str


def violations(package: Path) -> list[str]:
    """Return a sentence with file and line for everything that breaks a rule, each once."""
    found = []
    for path in sorted(package.rglob("*.py")):
        if path == package / "__init__.py":
            continue
        name, where = home(path, package), path.relative_to(package.parent).as_posix()
        if name not in HEIGHT:
            found.append(f"{where}:1: {name} is on no layer: give it a line in the drawing")
            continue
        for line, module in imports(path, package):
            if complaint := objection(name, module, package.name):
                found.append(f"{where}:{line}: {complaint}")
    return list(dict.fromkeys(found))


def home(path: Path, package: Path) -> str:
    """Return the layer name of a file: `topology` for `clustersim/topology/fabrics/torus.py`."""
    return path.relative_to(package).with_suffix("").parts[0]


def objection(importer: str, module: str, package: str) -> str | None:
    """Return what is wrong with the layer `importer` importing `module`, or None."""
    top, _, rest = module.partition(".")
    if top in OUTSIDE:
        return f"{importer} imports {top}, which is not installed with the package"
    if top != package:
        owners = HOMES.get(top, (importer,))
        if importer in owners:
            return None
        return f"{top} belongs in {' and '.join(owners)} only, not in {importer}"
    imported = rest.partition(".")[0]
    if imported in (importer, "__version__"):
        return None
    if imported not in HEIGHT:
        # A public name comes by way of `clustersim/__init__.py`, which may import every layer.
        return (
            None
            if HEIGHT[importer] >= HEIGHT["cli"]
            else f"{importer} imports {module} from the package itself, which only cli may do"
        )
    if HEIGHT[imported] > HEIGHT[importer]:
        return f"{importer} imports {imported}, which is on a higher layer"
    if HEIGHT[imported] == HEIGHT[importer]:
        return f"{importer} imports {imported}, which is on the same layer"
    return None


@cache
def imports(path: Path, package: Path) -> list[Import]:
    """Return every import in a file, wherever it stands, in the order of the lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    found = {
        Import(node.lineno, module)
        for node in ast.walk(tree)
        for module in imported_modules(node, path, package)
    }
    return sorted(found)


def imported_modules(node: ast.AST, path: Path, package: Path) -> list[str]:
    """Return the absolute dotted names that one syntax node imports, usually none."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            origin = ".".join(filter(None, [anchor(path, package, level), module]))
            return [f"{origin}.{alias.name}" for alias in names]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__")
            | ast.Attribute(attr="import_module" | "__import__"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            return [relative_name(module, path, package)]
    return []


def relative_name(module: str, path: Path, package: Path) -> str:
    """Return `module` without its leading dots, which count from the file's package."""
    name = module.lstrip(".")
    return ".".join(filter(None, [anchor(path, package, len(module) - len(name)), name]))


def anchor(path: Path, package: Path, level: int) -> str:
    """Return the package that `level` leading dots mean in this file; no dots mean none."""
    parts = path.relative_to(package.parent).parent.parts
    return ".".join(parts[: len(parts) - level + 1]) if level else ""


def test_the_package_keeps_its_layers():
    """No module imports upwards, sideways, or a library that lives elsewhere."""
    assert any(PACKAGE.rglob("*.py"))
    assert "\n".join(violations(PACKAGE)) == ""


MOST_FILES = 25
"""Python files of a folder."""


def circles(package: Path) -> set[tuple[str, ...]]:
    """Return the files that import each other in a circle, as dotted names in order."""
    imported = imported_files(package)
    ahead = {name: reachable(name, imported) for name in imported}
    return {
        tuple(sorted(other for other in ahead[name] if name in ahead[other]))
        for name in imported
        if name in ahead[name]
    }


def imported_files(package: Path) -> dict[str, set[str]]:
    """Return for each file of the package those that it imports, as dotted names."""
    files = {
        ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    imported: dict[str, set[str]] = {}
    for name, path in files.items():
        modules = (m.module.removeprefix(f"{package.name}.") for m in imports(path, package))
        named = {m if m in files else m.rpartition(".")[0] for m in modules}
        imported[name] = (named & files.keys()) - {name}
    return imported


def test_no_files_import_each_other_in_a_circle():
    """Whoever reads a file finds all that it uses in files that do not use it."""
    assert circles(PACKAGE) == set()


def test_a_circle_of_files_is_found(tmp_path):
    """By way of a package and of imports for type checks, whatever else is imported."""
    package = plant(
        tmp_path,
        {
            "units.py": "import os\n",
            "cost/__init__.py": "from .rates import Rate\n",
            "cost/rates.py": "from clustersim.units import parse\nfrom .table import rows\n",
            "cost/table.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from clustersim.cost import Rate\n",
        },
    )

    assert circles(package) == {("cost", "cost.rates", "cost.table")}


def test_dataclasses_are_compiled_when_they_are_used():
    """The decorator of the standard library, for classes with slots, costs each import 0.4 ms."""
    own = {path for path in PACKAGE.rglob("*.py") if path.name != "records.py"}
    users = {
        path.name for path in own for each in imports(path, PACKAGE)
        if each.module in ("dataclasses", "dataclasses.dataclass")
    }  # fmt: skip

    assert users <= {"transfer.py"}  # an object for each transfer


def test_no_folder_has_many_files():
    """A folder is read at a glance."""
    own = (PACKAGE, *(PACKAGE.parent / name for name in OUTSIDE))
    counts = Counter(
        path.relative_to(PACKAGE.parent).parent for one in own for path in one.rglob("*.py")
    )

    assert {folder.as_posix() for folder in counts if counts[folder] > MOST_FILES} == set()


VIEWS = ("text", "charts", "page", "files")
"""Modules of a study that show its answer; a report has only such modules."""


def view_violations(package: Path) -> list[str]:
    """Return a sentence with file and line for each import between studies that breaks a rule.

    In a folder of `studies/` only views import views. Another study, `validation` and
    `calibration` import from the `__init__` of a study, and no two studies import each other.
    """
    found: list[str] = []
    imported: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        layer, *inner = path.relative_to(package).with_suffix("").parts
        if layer not in ("studies", "validation", "calibration"):
            continue
        where = path.relative_to(package.parent).as_posix()
        own = inner[0] if layer == "studies" else layer
        for line, name in imports(path, package):
            study, module = study_module(name, package)
            if not study:
                continue
            if study == own:
                if module in VIEWS and inner[-1] not in VIEWS:
                    found.append(f"{where}:{line}: {inner[-1]} imports the view {module}")
                continue
            imported.setdefault(own, set()).add(study)
            if module:
                found.append(
                    f"{where}:{line}: {own} imports {module} of the study {study} instead of its"
                    " public names"
                )
    found += [
        f"the studies {a} and {b} import each other"
        for a in sorted(imported)
        for b in sorted(reachable(a, imported))
        if a < b and a in reachable(b, imported)
    ]
    return list(dict.fromkeys(found))


def study_module(name: str, package: Path) -> tuple[str, str]:
    """Return the study and the module that a dotted name belongs to; empty where there is none."""
    words = name.split(".")
    if words[:2] != [package.name, "studies"] or len(words) < 3:
        return "", ""
    study, module = words[2], words[3] if len(words) > 3 else ""
    folder = package / "studies" / study
    is_module = (folder / f"{module}.py").exists() or (folder / module / "__init__.py").exists()
    return study, module if module and is_module else ""


def reachable(study: str, imported: dict[str, set[str]]) -> set[str]:
    """Return the studies that a study imports, also by way of others."""
    found: set[str] = set()
    ahead = [study]
    while ahead:
        new = imported.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def test_views_import_answers_and_studies_import_public_names():
    """No answer imports a view, no study a module of another one, and no two each other."""
    assert "\n".join(view_violations(PACKAGE)) == ""


def test_a_wrong_import_between_studies_is_named(tmp_path):
    """A view below an answer, a private module of another study, two that need each other."""
    package = plant(
        tmp_path,
        {
            "studies/compare/__init__.py": "from .answer import compare\n",
            "studies/compare/answer.py": "from clustersim.studies.compare import text\n",
            "studies/compare/inputs.py": "def a():\n    from .page import page\n",
            "studies/compare/page.py": "from clustersim.studies.compare.text import rows\n",
            "studies/compare/text.py": "from clustersim.studies.compare.answer import compare\n",
            "studies/whatif/answer.py": "from clustersim.studies.compare import compare\n"
            "from clustersim.studies.compare.answer import names\n",
            "studies/sweep/answer.py": "from clustersim.studies.whatif import whatif\n",
            "studies/whatif/text.py": "from clustersim.studies.sweep import sweep\n",
            "validation/claims.py": "from clustersim.studies.sweep import text, sweep\n",
            "cli/sweep.py": "from clustersim.studies.sweep import text\n",
            "studies/sweep/text.py": "",
        },
    )

    assert view_violations(package) == [
        "clustersim/studies/compare/answer.py:1: answer imports the view text",
        "clustersim/studies/compare/inputs.py:2: inputs imports the view page",
        "clustersim/studies/whatif/answer.py:2: whatif imports answer of the study compare instead"
        " of its public names",
        "clustersim/validation/claims.py:1: validation imports text of the study sweep instead of"
        " its public names",
        "the studies sweep and whatif import each other",
    ]


def plant(root: Path, files: dict[str, str]) -> Path:
    """Write a small package `clustersim` and return its folder."""
    package = root / "clustersim"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


@pytest.mark.parametrize(("file", "text", "complaint"), wrong_values("imports that break a rule"))
def test_a_wrong_import_is_named_with_its_line_and_rule(tmp_path, file, text, complaint):
    """Each way to break a rule is found, wherever the import stands and however it is spelt."""
    package = plant(tmp_path, {"__init__.py": "", file: text})

    assert violations(package) == [f"clustersim/{file}:{complaint}"]


def test_every_violation_is_listed_in_the_order_of_files_and_lines(tmp_path):
    """One run names all that is wrong."""
    package = plant(
        tmp_path,
        {
            "units.py": "import typer\nfrom clustersim import cli\n",
            "cost/compute.py": "import jinja2, plotly\n",
        },
    )

    assert violations(package) == [
        "clustersim/cost/compute.py:1: jinja2 belongs in render only, not in cost",
        "clustersim/cost/compute.py:1: plotly belongs in render only, not in cost",
        "clustersim/units.py:1: typer belongs in cli only, not in units",
        "clustersim/units.py:2: units imports cli, which is on a higher layer",
    ]


def test_right_imports_pass(tmp_path):
    """Downward imports, imports within one name, libraries at home and the root are free."""
    package = plant(
        tmp_path,
        {
            "__init__.py": "import simpy\nfrom clustersim.cli import main\n",
            "__main__.py": "from clustersim.cli import main\n",
            "catalog/yaml.py": "from ruamel.yaml import YAML\nfrom ..errors import CatalogError\n",
            "topology/cluster.py": "import networkx\nfrom .fabrics import torus\n",
            "topology/fabrics/torus.py": "from ..routing import route\nfrom ... import units\n",
            "engine/replay.py": "import simpy\nfrom clustersim import timeline\n",
            "render/figures.py": "def draw():\n    import matplotlib.pyplot as plt\n",
            "render/page.py": "import jinja2, plotly\nfrom clustersim import __version__\n",
            "cli/run.py": "import typer\nimport clustersim\nfrom clustersim import Result\n",
        },
    )

    assert violations(package) == []


def test_the_drawing_holds_each_name_once_and_each_home_is_on_it():
    """A name on two lines would have two heights; a library's home has to exist."""
    names = LAYERS.split()

    assert len(names) == len(set(names))
    assert {home for homes in HOMES.values() for home in homes} <= set(names)


def test_contributors_read_the_drawing_that_is_kept():
    """The layers in CONTRIBUTING.md are the ones these tests hold."""
    drawing = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```")[1]

    assert [line.split() for line in reversed(drawing.strip().splitlines())] == LINES[:-1]
