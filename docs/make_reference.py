"""Write ``scenario.md``: the keys of all files and answers, from their schemas.

    .venv/bin/python docs/make_reference.py

What a key holds is read from the schemas, so it cannot drift; what it means stands in
``reference.yaml`` where the schema does not say it.  A key without a meaning, or a meaning without
a key, stops the script.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from clustersim.answers import schema
from clustersim.calibration.answer import Calibration
from clustersim.calibration.kernel_fits import KernelFits
from clustersim.calibration.kernel_grades import KernelGrades
from clustersim.catalog import engines, frameworks, models, records
from clustersim.catalog.facts import LEAST, MAX_COUNT, MOST
from clustersim.catalog.finding import FOLDERS, entry_names
from clustersim.catalog.price_records import PricesRecord, SiteRecord
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.reliability_records import ReliabilityRecord
from clustersim.importers.answer import ImportAnswer
from clustersim.memory.verdict import PARTS as MEMORY_PARTS
from clustersim.metrics.attribution import PARTS
from clustersim.reports.listing.answer import ListedEntry
from clustersim.reports.service import files as serve_files
from clustersim.reports.step.files import FIGURE_TABLES, FIGURES, FILES
from clustersim.reports.training_run import files as train_files
from clustersim.scenario.load import load_service
from clustersim.scenario.schema import ScenarioFile
from clustersim.scenario.serving import ServingScenarioFile
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.service.serve import serve
from clustersim.simulation.step.answer import RunAnswer
from clustersim.simulation.training_run.answer import TrainAnswer
from clustersim.simulation.training_run.train import train
from clustersim.studies.collective.answer import Timing
from clustersim.studies.compare import CompareAnswer, compare
from clustersim.studies.compare import files as compare_files
from clustersim.studies.scale import ScalingAnswer, scale
from clustersim.studies.scale import files as scaling_files
from clustersim.studies.search import SearchAnswer, search
from clustersim.studies.search import files as search_files
from clustersim.studies.service_compare.answer import CompareServicesAnswer
from clustersim.studies.service_scaling import ServiceScaling
from clustersim.studies.service_search import ServiceSearch
from clustersim.studies.service_sweep import ServiceSweep
from clustersim.studies.service_whatif import ServiceWhatIf
from clustersim.studies.size import SizeAnswer, size
from clustersim.studies.size import files as size_files
from clustersim.studies.study.answer import StoredRuns, StoredStudies
from clustersim.studies.sweep import SweepAnswer, sweep
from clustersim.studies.sweep import files as sweep_files
from clustersim.studies.whatif import WhatIfAnswer, whatif
from clustersim.studies.whatif import files as whatif_files
from clustersim.validation import files as validation_files
from clustersim.validation.answer import Validation

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "scenario.md"
EXAMPLE = DOCS.parent / "scenarios" / "frontier-1t.yaml"
TEXTS = read_yaml(DOCS / "reference.yaml").mapping()

CATALOGUE: dict[str, type[BaseModel]] = {
    "cluster": records.ClusterRecord,
    "node": records.NodeRecord,
    "accelerator": records.AcceleratorRecord,
    "library": records.LibraryRecord,
    "model": models.ModelRecord,
    "framework": frameworks.FrameworkRecord,
    "engine": engines.EngineRecord,
    "reliability": ReliabilityRecord,
    "site": SiteRecord,
    "prices": PricesRecord,
}
"""The kinds of catalogue files and their schemas."""

IN_ALL = ("kind", "name", "title", "sources")
"""Keys that every catalogue file has, said once."""

SERVICES: dict[str, type] = {
    "compare": CompareServicesAnswer,
    "whatif": ServiceWhatIf,
    "sweep": ServiceSweep,
    "search": ServiceSearch,
    "scale": ServiceScaling,
}
"""The answers of verbs to serving scenarios."""

FORMAT = "FORMAT"
"""Stands for the formats that ``--figures`` names."""

Schema = Mapping[str, Any]


class Key(NamedTuple):
    """A line of a table: a key, what it holds, what holds where it is not given, its meaning."""

    name: str
    holds: str
    otherwise: str
    meaning: str


# --- keys from a schema ---------------------------------------------------------------------------


class Table:
    """The keys of one kind of file, dotted, in the order of its schema."""

    def __init__(self, name: str, record: type[BaseModel]) -> None:
        self.meanings = TEXTS["meanings"][name]
        schema = record.model_json_schema(by_alias=True)
        self.defs = schema.get("$defs", {})
        left_out = () if name in ("scenario", "serving") else IN_ALL
        self.keys = list(self._below(schema, "", left_out))
        _compare(name, [key.name for key in self.keys if key.meaning], self.meanings)
        assert all(key.meaning for key in self.keys), [k for k in self.keys if not k.meaning]

    def _below(self, schema: Schema, path: str, left_out: Iterable[str] = ()) -> Iterator[Key]:
        needed = schema.get("required", [])
        for name, given in schema.get("properties", {}).items():
            if name not in left_out:
                otherwise = "required" if name in needed else _default(given.get("default"))
                yield from self._key(given, f"{path}.{name}" if path else name, otherwise)

    def _key(self, given: Schema, path: str, otherwise: str) -> Iterator[Key]:
        """Yield one key, or the keys below it."""
        found = [
            self._resolved(inner)
            for each in given.get("anyOf", given.get("oneOf", [given]))
            for inner in each.get("oneOf", [each])
        ]
        first, *others = [each for each in found if each.get("type") != "null"]
        inside = first.get("properties", {})
        if "kind" in inside or (others and "name" in others[0].get("properties", {})):
            yield self._line({"type": "name"}, path, otherwise)
        elif "type" in inside:
            yield from self._shapes([first, *others], path)
        elif {"value", "assumed", "note"} <= set(inside):
            value = self._resolved(inside["value"])
            for key in self._plain(value, path, otherwise, value):
                yield key._replace(holds=f"fact: {key.holds}")
        elif inside:
            yield from self._below(first, path)
        else:
            yield from self._plain(first, path, otherwise, given)

    def _plain(self, schema: Schema, path: str, otherwise: str, given: Schema) -> Iterator[Key]:
        """Yield a value, or the keys of the items of a list or a mapping."""
        items = self._resolved(schema.get("items", {}))
        named = schema.get("additionalProperties")
        if "oneOf" in items:
            shapes = [self._resolved(shape) for shape in items["oneOf"]]
            yield from self._shapes(shapes, f"{path}[]")
        elif "properties" in items:
            yield from self._below(items, f"{path}[]")
        elif isinstance(named, dict) and _has_keys(named):
            yield from self._key(named, f"{path}.<name>", "required")
        else:
            yield self._line(schema, path, otherwise, given.get("description", ""))

    def _shapes(self, shapes: list[Schema], path: str) -> Iterator[Key]:
        """Yield what tells several shapes of a part apart, then the keys of each once."""
        types = [shape["properties"]["type"]["const"] for shape in shapes]
        yield self._line({"enum": types}, f"{path}.type", "required")
        found: dict[str, Key] = {}
        having: dict[str, list[str]] = {}
        for shape, name in zip(shapes, types, strict=True):
            for key in self._below(shape, path, ["type"]):
                found[key.name] = max(found.get(key.name, key), key, key=lambda k: len(k.holds))
                having.setdefault(key.name, []).append(f"`{name}`")
        for name, key in found.items():
            everywhere = len(having[name]) == len(types)
            only = key.otherwise if everywhere else f"with `type:` {_one_of(having[name])}"
            yield key._replace(otherwise=only)

    def _resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        return schema if reference is None else self.defs[reference.rpartition("/")[2]]

    def _line(self, schema: Schema, path: str, otherwise: str, told: str = "") -> Key:
        told = "" if told == schema.get("description") and "examples" in schema else told
        return Key(path, self._holds(schema), otherwise, self.meanings.get(path, told))

    def _holds(self, schema: Schema) -> str:
        """Return in words what may stand as a value."""
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return _one_of([f"`{value}`" for value in values])
        if "examples" in schema:
            return f"{schema['description'].replace('_', ' ')}, such as `{schema['examples'][0]}`"
        if "anyOf" in schema:
            return _one_of([self._holds(self._resolved(one)) for one in schema["anyOf"]])
        kind = schema["type"]
        if kind == "array" and "prefixItems" in schema:
            return f"[{', '.join(self._holds(item) for item in schema['prefixItems'])}]"
        if kind == "array":
            return f"list: {self._holds(self._resolved(schema['items']))}"
        return _WORDS[kind] + _range(schema)


def _has_keys(named: Schema) -> bool:
    """Whether the values of a mapping have keys of their own, at this level or a lower one."""
    below = named.get("additionalProperties")
    return "$ref" in named or (isinstance(below, dict) and _has_keys(below))


_WORDS = {
    "string": "text",
    "boolean": "`true` or `false`",
    "name": "name",
    "object": "mapping",
    "integer": "whole number",
    "number": "number",
}


def _default(value: object) -> str:
    return "" if value in (None, {}, []) else f"`{json.dumps(value)}`".replace('"', "")


def _one_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _range(schema: Schema) -> str:
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    given = {key: schema[key] for key in limits if key in schema}
    if given.get("maximum") in (MAX_COUNT, MOST):
        del given["maximum"]  # those of all numbers, in the section on limits
    if given.get("minimum") == LEAST:
        given = {"exclusiveMinimum": 0, **given}
        del given["minimum"]
    words = [
        f"{limits[key]} {value:,}" if isinstance(value, int) else f"{limits[key]} {value:g}"
        for key, value in given.items()
    ]
    return f", {' and '.join(words)}" if words else ""


def _compare(what: str, found: Iterable[str], said: Iterable[str]) -> None:
    """Stop at a meaning that belongs to no key."""
    if astray := set(said) - set(found):
        raise SystemExit(f"{what}: reference.yaml explains what is not there: {sorted(astray)}")


# --- keys of the answer ---------------------------------------------------------------------------


WHOLE_ANSWERS = ("RunAnswer", "BestRun", "BeforeAfter", "CombinationResult")
"""Tables inside answers, whose keys are documented elsewhere, or with the key that holds them."""


def described(answer: type) -> Iterator[tuple[str, str]]:
    """Yield the keys of an answer, dotted, with the meanings that its docstrings give."""
    found = schema(answer)
    yield from _described(found, found.get("$defs", {}), "")


def _described(given: Schema, tables: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys below `path` that have no keys of their own, with their descriptions."""
    for name, inner in given.get("properties", {}).items():
        key = f"{path}.{name}" if path else name
        entry, suffix = _entry(inner)
        table = tables.get(entry.get("$ref", "").rpartition("/")[2])
        whole = table is None or table.get("title") in WHOLE_ANSWERS
        if whole or "$ref" not in inner:
            yield key, inner["description"]
        if not whole:
            yield from _described(table, tables, key + suffix)


def _entry(given: Schema) -> tuple[Schema, str]:
    """Return what a key holds, and how the keys below it are written."""
    if given.get("type") == "array":
        entry, suffix = _entry(given["items"])
        return entry, f"[]{suffix}"
    named = given.get("additionalProperties")
    if isinstance(named, dict):
        return named, ".<name>"
    present = [one for one in given.get("anyOf", [given]) if one.get("type") != "null"]
    return next(iter(present), given), ""


def run_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``run --json`` with their meanings, the named parts of a sum one by one."""
    parts = {"attribution": PARTS, "memory.parts": MEMORY_PARTS}
    meanings = TEXTS["meanings"]["parts"]
    _compare("parts", [f"{key}.{part}" for key in parts for part in parts[key]], meanings)
    for key, meaning in described(RunAnswer):
        if key in parts:
            yield from ((f"{key}.{part}", meanings[f"{key}.{part}"]) for part in parts[key])
        else:
            yield key, meaning


def validation_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``validate --json`` with their meanings."""
    yield from _without("all", described(Validation), "the same keys for all cases together")


def calibration_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``calibrate --json`` with their meanings."""
    yield from _without("all", described(Calibration), "the same keys for all rows together")


def _without(name: str, keys: Iterable[tuple[str, str]], meaning: str) -> Iterator[tuple[str, str]]:
    """Yield keys, those below `name` as one: they are documented below another key."""
    below = False
    for key, text in keys:
        if not key.startswith(f"{name}."):
            yield key, text
        elif not below:
            below = True
            yield name, meaning


def sweep_keys(answer: SweepAnswer) -> Iterator[tuple[str, str]]:
    """Yield the keys of ``sweep --json`` with their meanings, the columns of a row one by one."""
    meanings, columns = TEXTS["meanings"]["row"], _columns(answer.points[0], [*answer.axes])
    _compare("row", columns, meanings)
    for key, meaning in described(SweepAnswer):
        if key == "points":
            yield from ((f"points[].{column}", meanings[column]) for column in columns)
        else:
            yield key, meaning


def study_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``study --json`` with their meanings, without and with ``--name``."""
    yield from described(StoredStudies)
    for key, given in schema(StoredRuns)["properties"].items():
        yield key, given["description"]


def _columns(row: Mapping[str, Any], axes: Sequence[str]) -> list[str]:
    """Return the columns of a row, with one name for all axes and one for all parts of a step."""
    entry_names = {f"{part}_s": "<part>_s" for part in PARTS} | dict.fromkeys(axes, "<key>")
    return [*dict.fromkeys(entry_names.get(key, key) for key in row)]


# --- the page -------------------------------------------------------------------------------------


def page() -> str:
    """Return the whole page."""
    parts = (_scenario, _limits, _catalogue, _answer, _scaling, _studies, _validation, _calibration)
    return "\n".join(line for part in parts for line in part())


def _scenario() -> Iterator[str]:
    yield "# Reference: scenarios, catalogue files, answers\n"
    yield "<!-- Written by docs/make_reference.py; do not edit by hand. -->\n"
    yield _prose("scenario")
    yield f"```yaml\n{EXAMPLE.read_text(encoding='utf-8').rstrip()}\n```\n"
    yield "## Keys of a scenario\n"
    yield _prose("keys")
    keys = Table("scenario", ScenarioFile).keys
    first = ("title", "cluster", "model", "framework")
    keys.sort(key=lambda key: key.name.partition(".")[0] not in first)
    yield from _drawn(("key", "holds", "if not given", "meaning"), keys)
    yield "## Keys of a serving scenario\n"
    yield _prose("serving")
    keys = Table("serving", ServingScenarioFile).keys
    keys.sort(key=lambda key: key.name.partition(".")[0] not in ("title", "cluster", "model"))
    yield from _drawn(("key", "holds", "if not given", "meaning"), keys)
    yield "## Names, and what wins over them\n"
    yield _prose("names")


def _limits() -> Iterator[str]:
    yield "## Limits\n"
    yield _prose("limits")


def _catalogue() -> Iterator[str]:
    yield "## Keys of catalogue files\n"
    yield _prose("catalogue")
    for kind, record in CATALOGUE.items():
        yield f"### {kind}\n"
        shipped = ", ".join(f"`{name}`" for name in entry_names(kind))
        yield f"Shipped in `{FOLDERS[kind]}/`: {shipped}.\n"
        rows = [key._replace(otherwise=_when(key.otherwise)) for key in Table(kind, record).keys]
        yield from _drawn(("key", "holds", "", "meaning"), rows)


def _when(otherwise: str) -> str:
    return {"required": "", "": "may be left out"}.get(otherwise, otherwise)


def _answer() -> Iterator[str]:
    yield "## What `clustersim run --json` prints\n"
    yield _prose("answer")
    yield from _drawn(("key", "meaning"), run_keys())
    yield "## What `clustersim run` writes\n"
    yield _prose("files")
    yield from _drawn(
        ("file", "holds"),
        _said("file", (*FILES, *_figures(FIGURES), *FIGURE_TABLES)),
    )


def _serve() -> Iterator[str]:
    yield "## What `clustersim serve --json` prints\n"
    yield _prose("serve")
    yield from _drawn(("key", "meaning"), described(ServeAnswer))
    yield "## What `clustersim serve` writes\n"
    yield _prose("serve_files")
    loaded = load_service("llama3-70b-h100-serving", {"load.concurrency": 2, "load.requests": 16})
    files = serve_files.files_of(serve(loaded, loads=[1, 2]), loaded).names([FORMAT])
    yield from _drawn(("file", "holds"), _said("serve_file", files))


def _service_studies() -> Iterator[str]:
    """Yield what studies of serving scenarios print."""
    for verb, answer in SERVICES.items():
        yield f"## What `clustersim {verb} --json` prints of a service\n"
        yield _prose("services").format(name=answer.__name__)
        keys = described(answer)
        if verb == "compare":
            keys = _without("services[].answer", keys, "what `serve --json` prints")
        if verb == "whatif":
            keys = _without("base", keys, "what `serve --json` prints of the scenario")
        yield from _drawn(("key", "meaning"), keys)


def _studies() -> Iterator[str]:
    yield from _serve()
    yield from _service_studies()
    settings = ["batch.global=16"]
    pair = [f"frontier-22b plan.zero={stage}" for stage in (0, 1)]
    files = compare_files.files_of(compare(pair, settings=settings, jobs=1)).names([FORMAT])
    yield from _study("compare", described(CompareAnswer), files)
    base = "frontier-22b batch.global=16"
    files = whatif_files.files_of(whatif(base, settings=["plan.zero=0"], jobs=1)).names([FORMAT])
    yield from _study("whatif", described(WhatIfAnswer), files)
    answer = sweep(
        "frontier-22b",
        over=["batch.micro=2,4", "recompute=full"],
        settings=["batch.global=32"],
        jobs=1,
    )
    files = sweep_files.files_of(answer).names([FORMAT])
    yield from _study("sweep", sweep_keys(answer), files)
    fixed = {"batch.global": 8, "plan.tensor": 8, "recompute": "none", "plan.layers": "even"}
    searched = search("frontier-22b", settings=fixed, jobs=1)
    files = search_files.files_of(searched).names([FORMAT])
    yield from _study("search", described(SearchAnswer), files)
    yield "## What `clustersim train --json` prints\n"
    yield _prose("train")
    yield from _drawn(("key", "meaning"), described(TrainAnswer))
    yield "## What `clustersim train` writes\n"
    yield _prose("train_files")
    files = train_files.files_of(train("megatron-1t-84-days")).names([FORMAT])
    yield from _drawn(("file", "holds"), _said("train_file", files))
    sized = size("dgx-a100", nodes=1, model="llama2-7b", tokens=1e9)
    names = [*size_files.files_of(sized).names([FORMAT]), *_figures(["loss"])]
    yield from _study("size", described(SizeAnswer), names)
    yield "## What `clustersim collective --json` prints\n"
    yield _prose("collective")
    yield from _drawn(("key", "meaning"), described(Timing))
    yield "## What `clustersim study --json` prints\n"
    yield _prose("study")
    yield from _drawn(("key", "meaning"), study_keys())
    yield "## What `clustersim list --json` prints\n"
    yield _prose("list")
    keys = ((f"<kind>[].{key}", meaning) for key, meaning in described(ListedEntry))
    yield from _drawn(("key", "meaning"), keys)
    yield "## What `clustersim import --json` prints\n"
    yield _prose("import")
    yield from _drawn(("key", "meaning"), described(ImportAnswer))


def _figures(stems: Iterable[str]) -> list[str]:
    """Return the figures that ``--figures`` writes."""
    return [f"{stem}.{FORMAT}" for stem in stems]


def _study(verb: str, keys: Iterable[tuple[str, str]], files: Iterable[str]) -> Iterator[str]:
    """Yield what a verb of many runs prints and writes."""
    yield f"## What `clustersim {verb} --json` prints\n"
    yield _prose(verb)
    yield from _drawn(("key", "meaning"), keys)
    yield f"## What `clustersim {verb}` writes\n"
    yield _prose("study_files").format(verb=verb)
    yield from _drawn(("file", "holds"), _said(f"{verb}_file", files))


def _validation() -> Iterator[str]:
    yield "## What `clustersim validate --json` prints\n"
    yield _prose("validation")
    yield from _drawn(("key", "meaning"), validation_keys())
    yield "## What `clustersim validate --out DIR` writes\n"
    yield _prose("validation_files")
    files = (*validation_files.FILES, *_figures(validation_files.FIGURES))
    yield from _drawn(("file", "holds"), _said("validation_file", files))


def _calibration() -> Iterator[str]:
    yield "## What `clustersim calibrate --json` prints\n"
    yield _prose("calibration")
    yield from _drawn(("key", "meaning"), calibration_keys())
    yield "## What `clustersim calibrate --grade --json` prints\n"
    yield _prose("kernel_grades")
    yield from _drawn(("key", "meaning"), described(KernelGrades))
    yield "## What `clustersim calibrate --from --json` prints for tables of kernels\n"
    yield _prose("kernel_fits")
    yield from _drawn(("key", "meaning"), described(KernelFits))


def _scaling() -> Iterator[str]:
    yield "## What `clustersim scale --json` prints\n"
    yield _prose("scaling")
    yield from _drawn(("key", "meaning"), described(ScalingAnswer))
    yield "## What `clustersim scale` writes\n"
    yield _prose("scaling_files")
    answer = scale("frontier-22b", weak=[16], strong=[16], settings=["batch.global=16"], jobs=1)
    yield from _drawn(
        ("file", "holds"), _said("scaling_file", scaling_files.files_of(answer).names([FORMAT]))
    )


def _prose(name: str) -> str:
    return str(TEXTS["prose"][name])


def _said(table: str, found: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, TEXTS["meanings"][table][name]) for name in found]


def _drawn(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}"
    for name, *cells in rows:
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}: written\n")
