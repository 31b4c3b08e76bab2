"""What a release promises: the keys of files and of answers, and the public functions.

    schemas, signatures --> forms by kind and path --> a text that is kept with the release
                                                  --> what a later version breaks of it

A line of the text is ``kind <tab> path <tab> forms``.  Files and functions may take more than
before; answers may have more keys than before, of the same forms.

    python -m tools.interfaces > tools/released/VERSION.txt
"""

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import clustersim
from clustersim.cli.schemas import ANSWERS, SCHEMAS

RELEASED: Final = Path(__file__).parent / "released"
"""Folder of the interfaces of releases, a file each."""

REQUIRED: Final = "required"
"""Form of a key that is always there, or of an argument that must be given."""

NONE: Final[frozenset[str]] = frozenset()

PYTHON: Final = "python"
"""Kind of the public functions and classes."""

Forms = frozenset[str]
"""Types and words of a value, and whether it is required."""

Interface = Mapping[str, Mapping[str, Forms]]
"""Forms by kind of file, verb or `PYTHON`, and by path."""


def interface() -> dict[str, dict[str, Forms]]:
    """Return the interface of this version."""
    return {
        **{kind: forms_of(schema()) for kind, schema in SCHEMAS.items()},
        PYTHON: dict(_public()),
    }


def forms_of(schema: Mapping[str, Any]) -> dict[str, Forms]:
    """Return the forms of each value of a JSON Schema, by path.

    >>> forms = forms_of({"properties": {"a": {"type": "number"}}, "required": ["a"]})
    >>> sorted(forms["a"])
    ['number', 'required']
    """
    forms: dict[str, set[str]] = {}
    for path, form in _walk(schema, schema.get("$defs", {}), "", ()):
        forms.setdefault(path, set()).add(form)
    return {path: frozenset(each) for path, each in forms.items()}


def _walk(
    node: Mapping[str, Any], records: Mapping[str, Any], path: str, inside: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield a path with a form for each form below a node; a record inside itself is not opened."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name in inside:
            yield path, "object"
        else:
            yield from _walk(records[name], records, path, (*inside, name))
        return
    types = node.get("type", ())
    yield from ((path, form) for form in ([types] if isinstance(types, str) else types))
    words = [*node.get("enum", ()), *([node["const"]] if "const" in node else ())]
    yield from ((path, json.dumps(word)) for word in words)
    yield from ((_join(path, key), REQUIRED) for key in node.get("required", ()))
    for below, each in _parts(node, path):
        yield from _walk(each, records, below, inside)


def _parts(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ("anyOf", "oneOf", "allOf"):
        yield from ((path, each) for each in node.get(name, ()))
    yield from ((_join(path, key), each) for key, each in node.get("properties", {}).items())
    yield from ((f"{path}[]", each) for each in node.get("prefixItems", ()))
    for name, below in (("items", f"{path}[]"), ("additionalProperties", _join(path, "*"))):
        if isinstance(node.get(name), Mapping):
            yield below, node[name]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _public() -> Iterator[tuple[str, Forms]]:
    """Yield public names, the parameters of functions and the attributes of classes."""
    for name in clustersim.__all__:
        value = getattr(clustersim, name)
        yield name, frozenset()
        if inspect.isfunction(value):
            for place, each in enumerate(inspect.signature(value).parameters.values()):
                yield f"{name}.{each.name}", frozenset(_parameter(place, each))
        elif isinstance(value, type) and not issubclass(value, Exception):
            attributes = (each for each in dir(value) if not each.startswith("_"))
            yield from ((f"{name}.{each}", frozenset()) for each in attributes)


def _parameter(place: int, given: inspect.Parameter) -> Iterator[str]:
    if given.default is given.empty and given.kind is not given.VAR_KEYWORD:
        yield REQUIRED
    yield "keyword" if given.kind is given.KEYWORD_ONLY else f"position {place}"


# --- text -----------------------------------------------------------------------------------------


def text_of(promised: Interface) -> str:
    """Return an interface as lines of kind, path and forms."""
    lines = (
        "\t".join((kind, path, " | ".join(sorted(forms))))
        for kind, paths in promised.items()
        for path, forms in sorted(paths.items())
    )
    return "".join(f"{line}\n" for line in lines)


def read(text: str) -> dict[str, dict[str, Forms]]:
    """Return the interface that a text states."""
    promised: dict[str, dict[str, Forms]] = {}
    for line in text.splitlines():
        kind, path, forms = line.split("\t")
        promised.setdefault(kind, {})[path] = frozenset(forms.split(" | ") if forms else ())
    return promised


def latest() -> Path:
    """Return the file of the last release."""
    return max(RELEASED.glob("*.txt"), key=lambda file: tuple(map(int, file.stem.split("."))))


# --- what breaks ----------------------------------------------------------------------------------


def broken(before: Interface, now: Interface) -> list[str]:
    """Return what worked with an interface and does not with a later one, a line each."""
    problems: list[str] = []
    for kind, paths in before.items():
        if kind not in now:
            problems.append(f"{kind}: is gone")
            continue
        later = now[kind]
        gone = [path for path in paths if path not in later]
        problems += (f"{kind}: {path}: is gone" for path in gone)
        changes = _narrower if kind not in ANSWERS else _wider
        problems += (f"{kind}: {line}" for line in changes(paths, later))
    return problems


def _narrower(before: Mapping[str, Forms], now: Mapping[str, Forms]) -> Iterator[str]:
    """Yield what a file or a function takes no longer; a table of a new type is no such thing."""
    for path, forms in now.items():
        old = before.get(path)
        for form in sorted((old or frozenset()) - forms - {REQUIRED}):
            yield f"{path}: {form} is not taken any more"
        parent = path.rpartition(".")[0]
        of_new_kind = now.get(f"{parent}.type", NONE) - before.get(f"{parent}.type", NONE)
        required = REQUIRED in forms and REQUIRED not in (old or ())
        if required and parent in before and not of_new_kind:
            yield f"{path}: is required now"


def _wider(before: Mapping[str, Forms], now: Mapping[str, Forms]) -> Iterator[str]:
    """Yield what a reader of an answer does not expect; a new word of a text is no such thing."""
    for path, old in before.items():
        forms = now.get(path, old)
        if REQUIRED in old - forms:
            yield f"{path}: may be missing now"
        for form in sorted(forms - old - {REQUIRED}):
            if not form.startswith('"'):
                yield f"{path}: may be {form} now"


if __name__ == "__main__":
    sys.stdout.write(text_of(interface()))
