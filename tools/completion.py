"""Write what shells complete: verbs with their options, and the keys of `--set` with their values.

    .venv/bin/python -m tools.completion

The verbs are imported and the schemas built here, once, because a shell does not wait for that at
a TAB.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from clustersim.catalog.launching import PROGRAMS
from clustersim.catalog.libraries import OPERATIONS
from clustersim.catalog.reading import read_yaml
from clustersim.cli import VERBS, app
from clustersim.cli.options import FORMATS
from clustersim.cli.schemas import SCHEMAS
from clustersim.completion.candidates import WORDS
from clustersim.completion.shells import SHELLS
from clustersim.importers.registry import FORMATS as IMPORTED
from clustersim.program.collectives.algorithms import ALGORITHMS
from clustersim.program.schedules import SCHEDULES
from clustersim.reports.listing.kinds import PLURALS
from clustersim.scenario.entries import KINDS
from clustersim.scenario.references import REFERENCES
from clustersim.scenario.schema import Scenario
from clustersim.scenario.serving import ServingScenario
from clustersim.simulation.measures import ALL
from clustersim.studies.scale.arguments import AXES, AXES_OF_SERVICE
from clustersim.workload.scaling_laws import LAWS
from clustersim.workload.shapes import FAMILIES

Schema = Mapping[str, Any]

REFERENCE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference.yaml"

FREE: Final = ()
"""Values of which there are too many."""

YAML: Final = "@.yaml"
SCENARIO: Final = ("@scenario", YAML)
LAUNCHED: Final = (*SCENARIO, "@.")
MACHINE: Final = ("@cluster", YAML)
MODEL: Final = ("@model", YAML, "@.json")
MEASURES: Final = tuple(dict.fromkeys(measure.name for measure in ALL))
LIMITS: Final = tuple(f"{name}=" for name in MEASURES)
PRECISIONS: Final = ("bf16", "fp16", "fp32")

TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("--set", "--over", "--free", "--change"), ("@keys",)),
    **dict.fromkeys(("--by", "--objective", "--pareto"), MEASURES),
    "--limit": LIMITS,
    "--figures": FORMATS,
    "--cluster": MACHINE,
    "--node": ("@node", YAML),
    "--accelerator": ("@accelerator", YAML),
    "--library": ("@library", YAML),
    "--model": MODEL,
    "--framework": ("@framework", YAML),
    "--engine": ("@engine", YAML),
    "--scenario": LAUNCHED,
    "--schedule": (*SCHEDULES, "@.txt"),
    "--precision": PRECISIONS,
    "--op": OPERATIONS,
    "--algorithm": (*ALGORITHMS,),
    "--as": PROGRAMS,
    "--format": (*IMPORTED,),
    "--law": (*LAWS,),
    "--family": (*FAMILIES,),
    "--axis": tuple(dict.fromkeys((*AXES, *AXES_OF_SERVICE))),
    "--anchor": (YAML,),
    "--cases": (YAML,),
    "--from": (YAML, "@.csv"),
    "--grade": ("@.csv",),
    "--list": ("@.csv",),
    "--csv": ("@.csv",),
    "--parquet": ("@.parquet",),
    "--store": ("@.db",),
    "--out": ("@.",),
    "-o": ("@.",),
}
"""What options take, by name."""

ELSEWHERE: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("scale", "--against"): FREE,
    ("collective", "--against"): ("@.",),
}
"""What an option takes that has another meaning in another verb."""

UNLISTED: Final = frozenset({
    "--batch", "--batch-tokens", "--bytes", "--chunks", "--concurrency", "--days", "--devices",
    "--executor", "--gap", "--goodput", "--group", "--host-name", "--input", "--jobs", "--loads",
    "--microbatches", "--name", "--nodes", "--on", "--output", "--port", "--rate",
    "--replications", "--seconds", "--sequence", "--split", "--stages", "--strong", "--tokens",
    "--weak", "--with",
})  # fmt: skip
"""Options whose values are numbers, or names that are the user's own."""

ARGUMENTS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    **dict.fromkeys(("run", "serve"), (LAUNCHED,)),
    **dict.fromkeys(
        ("scale", "compare", "whatif", "sweep", "search", "train", "explore", "export", "share"),
        (SCENARIO,),
    ),
    **dict.fromkeys(("check", "import"), (("@.",),)),
    "study": (("@.db",),),
    "calibrate": ((YAML, "@.csv"),),
    "flows": (("@.json",),),
    "show": ((*(f"@{kind}" for kind in KINDS), *SCHEDULES, YAML, "@.txt"),),
    "schema": ((*SCHEMAS,),),
    "list": ((*PLURALS,), FREE),
    "completion": ((*SHELLS,),),
}
"""What the arguments of a verb take, one by one."""


# --- verbs ----------------------------------------------------------------------------------------


def verbs() -> dict[str, Any]:
    """Return the verbs with their help, options and arguments."""
    return {name: {"help": help, **_verb(name)} for name, help in VERBS.items()}


def _verb(name: str) -> dict[str, Any]:
    command = get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    taken = ARGUMENTS.get(name, ())
    if len(taken) != len(arguments):
        raise SystemExit(f"tools/completion.py: ARGUMENTS lack what {name} takes")
    return {
        "options": _options(name, command.params),
        "arguments": taken,
        "many": any(each.nargs < 0 for each in arguments),
    }


def _options(verb: str, parameters: Iterable[Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for each in parameters:
        if each.param_type_name == "option":
            options |= {name: _option(verb, name, each) for name in each.opts}
    help = {"help": "Show this message and exit."}
    return {**options, "-h": help, "--help": help}


def _option(verb: str, name: str, option: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"help": str(option.help).partition(": ")[0].rstrip(".")}
    if not option.is_flag:
        entry["values"] = _taken(verb, name)
    return {**entry, "repeats": True} if option.multiple else entry


def _taken(verb: str, name: str) -> tuple[str, ...]:
    """Return what an option takes; one that no table names stops the tool."""
    if (verb, name) in ELSEWHERE:
        return ELSEWHERE[verb, name]
    if name not in TAKEN and name not in UNLISTED:
        raise SystemExit(f"tools/completion.py: add what {name} of {verb} takes to TAKEN")
    return TAKEN.get(name, FREE)


# --- keys -----------------------------------------------------------------------------------------

LEFT_OUT: Final = frozenset({
    "sources", "kind", "extends", "published", "assumed", "calibration", "launch", "fits", "tiles",
})  # fmt: skip
"""Tables and keys of records that no scenario changes."""


def keys() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the dotted keys of scenarios of all kinds, with their meanings and closed values."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    written = meanings()
    for record in (Scenario, ServingScenario):
        whole = record.model_json_schema(by_alias=True)
        for key, meaning, values in _below(whole, whole, ""):
            old_meaning, old_values = found.get(key, ("", ()))
            every = tuple(dict.fromkeys((*old_values, *values)))
            found[key] = (old_meaning or meaning or _first(written.get(key, "")), every)
    for path, kind in REFERENCES.items():
        key = ".".join(map(str, path))
        found |= dict.fromkeys((key, f"{key}.name"), (f"{kind}, by name", (f"@{kind}",)))
    return dict(sorted(found.items()))


def meanings() -> dict[str, str]:
    """Return what `docs/reference.yaml` states about keys of which the schema has no meaning."""
    by_kind = read_yaml(REFERENCE).mapping()["meanings"]
    paths = [((), "scenario"), ((), "serving"), *REFERENCES.items()]
    return {
        ".".join(map(str, (*path, key))): meaning
        for path, kind in paths
        for key, meaning in by_kind[kind].items()
    }


def _below(part: Schema, whole: Schema, path: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the keys of a schema of a table, those without tables of their own as values."""
    named = part.get("properties", {}).items()
    for name, entry in [*named, *_by_name(part)]:
        if name in LEFT_OUT:
            continue
        key = f"{path}.{name}" if path else name
        forms = [*_forms(entry, whole)]
        tables = [form for form in forms if _is_table(form)]
        values = tuple(value for form in forms for value in _words(form, whole))
        if values or len(tables) < len(forms):
            yield key, _meaning(entry), values
        for table in tables:
            yield from _below(table, whole, key)


def _by_name(part: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the keys of a table whose names are a closed set: operations, for example."""
    for name in part.get("propertyNames", {}).get("enum", ()):
        yield name, part["additionalProperties"]


def _forms(entry: Schema, whole: Schema) -> Iterator[Schema]:
    """Yield what a key may hold, one schema for each form."""
    if "$ref" in entry:
        yield from _forms(whole["$defs"][entry["$ref"].rpartition("/")[2]], whole)
    elif inner := entry.get("anyOf", entry.get("oneOf")):
        for form in inner:
            yield from _forms(form, whole)
    elif _is_fact(entry):
        yield from _forms(entry["properties"]["value"], whole)
    elif entry.get("type") != "null":
        yield entry


def _is_fact(entry: Schema) -> bool:
    return {"value", "source", "assumed"} <= {*entry.get("properties", {})}


def _is_table(entry: Schema) -> bool:
    return "properties" in entry or "propertyNames" in entry


def _words(form: Schema, whole: Schema) -> Iterator[str]:
    """Yield the words that a key may hold."""
    if form.get("type") == "boolean":
        yield from ("true", "false")
    if "const" in form:
        yield str(form["const"])
    examples = form.get("examples", ())  # a single one shows a unit
    yield from map(str, form.get("enum", examples if len(examples) > 1 else ()))


def _meaning(entry: Schema) -> str:
    return _first(entry.get("description", ""))


def _first(text: str) -> str:
    """Return what a description begins with, without code marks."""
    return text.partition("\n")[0].partition(";")[0].partition(": ")[0].replace("`", "")


# --- the file -------------------------------------------------------------------------------------


def table() -> str:
    """Return the contents of `words.json`: an entry a line."""
    sections = {"verbs": verbs(), "options": _global_options(), "keys": keys()}
    return "{" + ",".join(f"\n{json.dumps(n)}: {_lines(s)}" for n, s in sections.items()) + "\n}\n"


def _global_options() -> dict[str, Any]:
    return _options("", get_command(app).params)


def _lines(section: Mapping[str, Any]) -> str:
    lines = (f"\n  {json.dumps(key)}: {json.dumps(entry)}" for key, entry in section.items())
    return "{" + ",".join(lines) + "\n}"


def main() -> None:
    """Write the file."""
    with open(WORDS, "w", encoding="utf-8") as file:
        file.write(table())


if __name__ == "__main__":
    main()
