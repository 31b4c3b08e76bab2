"""One name for one thing: no module or public function has the name of another.

The exceptions are roles: modules and functions that do the same for different subjects.
"""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "clustersim"

MODULES = {
    "adapters": "network adapters of imported files, and adapters of frozen weights",
    "answer": "the typed answer of a question",
    "arguments": "the arguments of a question, parsed",
    "bars": "a kind of picture, and each back end for it",
    "charts": "the pictures of an answer",
    "communication": "metrics of exposed communication, and sentences on it in profiles",
    "diagram": "a diagram as boxes and wires, and matplotlib's drawing of it",
    "dragonfly": "a fabric, and the layout of its diagram",
    "experts": "the layer, and the readers of its configurations",
    "fat_tree": "a fabric, and the layout of its diagram",
    "files": "the files of an answer",
    "flows": "explicit flows, and the verb that runs them",
    "grids": "a kind of picture, and each back end for it",
    "lines": "a kind of picture, and each back end for it",
    "links": "links of a machine, of imported files, and of a page",
    "node": "a node, and the layout of its diagram",
    "page": "the page of an answer",
    "pieces": "parts of layers, and parts of plotly figures",
    "schema": "the schema of scenarios, and the verb that prints it",
    "serve": "the verb and what it calls",
    "stacks": "a kind of picture, and each back end for it",
    "text": "an answer as text",
    "timeline": "the record of a replay, its picture, and each back end for it",
    "torus": "a fabric, and the layout of its diagram",
}
"""Names of several modules, with the role that they share."""

FUNCTIONS = {
    "calibrate": "the verb and what it calls",
    "collective": "the verb and what it calls",
    "compare": "the verb and what it calls",
    "files_of": "the files of an answer",
    "finding": "an answer in a sentence",
    "main": "an entry point",
    "page": "the page of an answer",
    "read": "the reader of one file format",
    "rows": "an answer as lines with labels",
    "scale": "the verb and what it calls",
    "schema": "the verb and what it calls",
    "search": "the verb and what it calls",
    "serve": "the verb and what it calls",
    "size": "the verb and what it calls",
    "sweep": "the verb and what it calls",
    "table": "an answer as a table",
    "train": "the verb and what it calls",
    "validate": "the verb and what it calls",
    "whatif": "the verb and what it calls",
    "write": "writes the files of an answer",
}
"""Names of several public functions, with the role that they share."""


def test_a_module_has_a_name_of_its_own():
    """A name of two modules is a role that is listed here, and each role has two modules."""
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        if not path.stem.startswith("__"):
            places[path.stem].append(path)

    assert {name for name, paths in places.items() if len(paths) > 1} == set(MODULES)


def test_a_public_function_has_a_name_of_its_own():
    """A name of two public functions is a role that is listed here, and each role has two."""
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].append(path)

    assert {name for name, paths in places.items() if len(paths) > 1} == set(FUNCTIONS)
