"""Catalogue entries one by one: the plain values of a file, and the checked record of it.

frontier          the first kind in `KINDS` that has the name
node/dgx-h100     that kind
my-box.yaml       a file of the kind that its key `kind` names; a scenario without one
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clustersim.answers import with_definitions
from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Record
from clustersim.catalog.libraries import LibraryRecord
from clustersim.catalog.prices import PricesRecord, SiteRecord
from clustersim.catalog.reading import Document, read_yaml
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.records.engines import EngineRecord
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.machines import ClusterRecord, NodeRecord
from clustersim.catalog.records.models import ModelRecord
from clustersim.catalog.reliability import ReliabilityRecord
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError, ScenarioError
from clustersim.records import dataclass
from clustersim.scenario.load import load_any
from clustersim.scenario.references import references_in, resolve
from clustersim.scenario.schema import Scenario
from clustersim.scenario.serving import ServingScenario
from clustersim.scenario.sharing import Sharing
from clustersim.scenario.traced import Traced
from clustersim.suggestions import nearest

RECORDS: Final[Mapping[str, type[Record]]] = {
    "cluster": ClusterRecord,
    "node": NodeRecord,
    "accelerator": AcceleratorRecord,
    "library": LibraryRecord,
    "model": ModelRecord,
    "framework": FrameworkRecord,
    "engine": EngineRecord,
    "reliability": ReliabilityRecord,
    "site": SiteRecord,
    "prices": PricesRecord,
}

KINDS: Final = (*RECORDS, "scenario")
"""Kinds of files with entries; where two share a name, the first one is shown."""


@dataclass(frozen=True)
class Entry:
    """One file of the catalogue.

    Attributes
    ----------
    data : plain values as they are written, with the contents of other files for their names
    record : the same, checked and in SI units
    """

    kind: str
    name: str
    title: str
    data: Mapping[str, Any]
    record: Record | Scenario | ServingScenario | Sharing | Traced


def kinds_of(name: str) -> list[str]:
    """Return the kinds that have a shipped file of this name."""
    return [kind for kind in KINDS if name in finding.entry_names(kind)]


def title_of(kind: str, name: str) -> str:
    """Return the title of a shipped file, empty where it has none."""
    return str(finding.find(kind, name).data.get("title") or "")


def entry(kind: str, name: str) -> Entry:
    """Return a shipped file.

    Raises
    ------
    CatalogError, ScenarioError
        when there is none of that name, or it is wrong.
    """
    if kind == "scenario":
        return _scenario(name, finding.find(kind, name).data)
    return _entry(kind, finding.find(kind, name), None)


SCENARIO_KEYS: Final = frozenset({"cluster", "model"})
"""Keys of which a scenario has at least one, and a file of the catalogue has none."""


def entry_of_file(path: Path) -> Entry:
    """Return the entry of a file; errors as in `entry`."""
    document = read_yaml(path, CatalogError)
    kind = document.mapping().get("kind")
    if kind is None:
        if isinstance(document.data, dict) and not SCENARIO_KEYS & document.data.keys():
            raise CatalogError(
                f"{path}: kind: missing (one of {', '.join(RECORDS)}; a scenario has no kind, but"
                " the keys cluster and model)"
            )
        return _scenario(str(path), document.data)
    if kind not in RECORDS:
        place = document.places["kind",]
        hint = nearest(str(kind), RECORDS)
        raise CatalogError(
            f"{place}: kind: {kind!r} is no kind of catalogue file{hint}"
            f" (allowed: {', '.join(RECORDS)}; a scenario has no kind)"
        )
    return _entry(kind, finding.extended(document, kind, path.parent), path.parent)


def _entry(kind: str, document: Document, folder: Path | None) -> Entry:
    tree = Tree.of(document)
    resolve(tree, folder, references=references_in(kind))
    record = checked(RECORDS[kind], tree, CatalogError)
    return Entry(kind, record.name, record.title or record.name, tree.data, record)


def _scenario(path: str, data: Any) -> Entry:
    loaded = load_any(path)
    if not isinstance(data, dict):
        raise ScenarioError(f"{path}: holds no keys (expected 'key: value' lines)")
    return Entry("scenario", loaded.name, loaded.scenario.title, data, loaded.scenario)


# --- schemas of files ----------------------------------------------------------------------------


_NAMED: Final = {
    "anyOf": [{"type": "string"}, {"type": "object", "required": ["name"]}],
}
"""A file by its name, or with keys that win over those of the file."""


def file_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of catalogue files of a kind."""
    whole = RECORDS[kind].model_json_schema(by_alias=True)
    schema = with_definitions(whole, lambda key, table: table["title"])
    for (key, *inner), named in references_in(kind).items():
        if not inner:
            schema["properties"][key] = {**_NAMED, "description": f"name of a file of kind {named}"}
    definitions = schema.pop("$defs", {})
    for name, definition in definitions.items():
        if name.startswith("Fact_"):
            definitions[name] = {"anyOf": [definition, definition["properties"]["value"]]}
    if "extends" in schema["properties"]:
        schema["required"] = ["kind", "name"]  # the others may be those of the file it extends
    used = _used(schema, definitions, {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "$defs": dict(sorted(used.items())),
    }


def _used(part: Any, definitions: dict[str, Any], used: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions that a schema refers to, directly or through others."""
    for name in _references(part):
        if name not in used:
            used[name] = definitions[name]
            _used(used[name], definitions, used)
    return used


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].rpartition("/")[2]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)
