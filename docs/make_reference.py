"""Write the reference: the keys of scenarios, catalogue files and answers, from their schemas.

    .venv/bin/python docs/make_reference.py

    docs/scenario/     what a scenario holds: a step, a run, a service, the values of a study
    docs/catalogue/    what the files of machines, models and software hold
    docs/answers/      what each verb prints and writes

What a key holds is read from the schemas, so it cannot drift; what it means is in
``reference.yaml`` where the schema does not state it.  A key without a meaning, or a meaning
without a key, stops the script.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel
from schema_keys import Key, answer_keys, case_keys, check_meanings, file_keys

from clustersim.answers import schema
from clustersim.calibration.kernels.fits import KernelFits, KernelGrades
from clustersim.calibration.runs.answer import Calibration
from clustersim.catalog.finding import FOLDERS, entry_names
from clustersim.catalog.reading import read_yaml
from clustersim.exporters import ExportAnswer, MachineExport, TraceExport
from clustersim.importers.registry import ImportAnswer
from clustersim.memory.verdict import PARTS as MEMORY_PARTS
from clustersim.metrics.attribution import PARTS
from clustersim.reports.doctor.answer import Diagnosis
from clustersim.reports.listing.answer import ListedEntry
from clustersim.reports.step.files import FIGURE_TABLES, FIGURES, FILES
from clustersim.scenario.entries import RECORDS
from clustersim.scenario.load import load_service
from clustersim.scenario.schema import ScenarioFile
from clustersim.scenario.serving import ServingScenarioFile
from clustersim.scenario.sharing import SharingFile
from clustersim.scenario.traced import TracedFile
from clustersim.simulation.measures import ALL, measures_of
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.service.serve import serve
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.sharing.share import share
from clustersim.simulation.step.answer import RunAnswer
from clustersim.simulation.training_run.answer import TrainAnswer
from clustersim.simulation.training_run.train import train
from clustersim.studies.check import CheckAnswer, check
from clustersim.studies.check_trace import TraceCheckAnswer
from clustersim.studies.collective.answer import Timing
from clustersim.studies.compare import CompareAnswer, compare
from clustersim.studies.new import NewScenario
from clustersim.studies.scale import ScalingAnswer, scale
from clustersim.studies.search import SearchAnswer, search
from clustersim.studies.size import SizeAnswer, size
from clustersim.studies.study.answer import StoredRuns, StoredStudies
from clustersim.studies.sweep import SweepAnswer, sweep
from clustersim.studies.whatif import WhatIfAnswer, whatif
from clustersim.validation import files as validation_files
from clustersim.validation.answer import Validation
from clustersim.validation.cases.keys import FamilyKeys
from clustersim.validation.cases.keys import case_keys as keys_by_family
from clustersim.validation.cases.rows import Row
from clustersim.validation.families.durations import DurationRow
from clustersim.validation.families.energy import EnergyRow
from clustersim.validation.families.goodput import GoodputRow
from clustersim.validation.families.sharing import SharingRow
from clustersim.validation.families.stragglers import StragglerRow
from clustersim.validation.inference.cases import InferenceRow

DOCS = Path(__file__).resolve().parent
EXAMPLE = DOCS.parent / "scenarios" / "frontier-1t.yaml"
TEXTS = read_yaml(DOCS / "reference.yaml").mapping()

IN_ALL = ("kind", "name", "title", "sources")
"""Keys that every catalogue file has, documented once."""

RUN_KEYS = ("training", "costs")
"""Keys of a scenario that describe a whole run."""

STUDY_KEYS = ("scaling",)
"""Keys of a scenario that describe a study."""

BETTER = {True: "more", False: "less", None: ""}
"""Which way of a measure is better; empty if it ranks nothing."""

FORMAT = "FORMAT"
"""Represents the formats that ``--figures`` names."""

Meanings = Iterable[tuple[str, str]]
"""Keys or files, with their meanings."""


# --- keys -----------------------------------------------------------------------------------------


def scenario_keys() -> list[Key]:
    """Return the keys of a scenario of training, those of every scenario first."""
    keys = file_keys(ScenarioFile, TEXTS["meanings"]["scenario"])
    first = ("title", "cluster", "model", "framework")
    return sorted(keys, key=lambda key: _part(key) not in first)


def service_keys() -> list[Key]:
    """Return the keys of a serving scenario, those of every scenario first."""
    keys = file_keys(ServingScenarioFile, TEXTS["meanings"]["serving"])
    return sorted(keys, key=lambda key: _part(key) not in ("title", "cluster", "model"))


def _part(key: Key) -> str:
    return key.name.partition(".")[0].removesuffix("[]")


def run_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``run --json`` with their meanings, the named parts of a sum one by one."""
    parts = {"attribution": PARTS, "memory.parts": MEMORY_PARTS}
    meanings = TEXTS["meanings"]["parts"]
    check_meanings("parts", [f"{key}.{part}" for key in parts for part in parts[key]], meanings)
    for key, meaning in answer_keys(RunAnswer):
        if key in parts:
            yield from ((f"{key}.{part}", meanings[f"{key}.{part}"]) for part in parts[key])
        else:
            yield key, meaning


def sweep_keys(answer: SweepAnswer) -> Iterator[tuple[str, str]]:
    """Yield the keys of ``sweep --json`` with their meanings, the columns of a row one by one."""
    meanings, columns = TEXTS["meanings"]["row"], _columns(answer.points[0], [*answer.axes])
    check_meanings("row", columns, meanings)
    for key, meaning in answer_keys(SweepAnswer):
        if key == "points":
            yield from ((f"points[].{column}", meanings[column]) for column in columns)
        else:
            yield key, meaning


def _columns(row: Mapping[str, Any], axes: Sequence[str]) -> list[str]:
    """Return the columns of a row, with one name for all axes and one for all measures."""
    entry_names = dict.fromkeys(axes, "<key>") | {measure.name: "<measure>" for measure in ALL}
    return [*dict.fromkeys(entry_names.get(key, key) for key in row)]


def study_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``study --json`` with their meanings, without and with ``--name``."""
    yield from answer_keys(StoredStudies)
    for key, entry in schema(StoredRuns)["properties"].items():
        yield key, entry["description"]


def _as_one(name: str, keys: Meanings, meaning: str) -> Iterator[tuple[str, str]]:
    """Yield keys, those below `name` as one: they are documented below another key."""
    below = False
    for key, text in keys:
        if not key.startswith(f"{name}."):
            yield key, text
        elif not below:
            below = True
            yield name, meaning


# --- pages of scenarios and of the catalogue ------------------------------------------------------


def scenarios() -> Iterator[str]:
    """Yield the first page of scenarios: what one is, names, limits."""
    yield "# Scenarios\n"
    yield _prose("scenario")
    yield f"```yaml\n{EXAMPLE.read_text(encoding='utf-8').rstrip()}\n```\n"
    for title, name in (
        ("Kinds of scenarios", "kinds"),
        ("Expectations", "expectations"),
        ("Names and precedence", "names"),
        ("Limits", "limits"),
    ):
        yield f"## {title}\n"
        yield _prose(name)


def training_step() -> Iterator[str]:
    """Yield the keys of a training step."""
    apart = (*RUN_KEYS, *STUDY_KEYS)
    yield from _keys_page("A training step", "training_step", scenario_keys(), apart=apart)


def training_run() -> Iterator[str]:
    """Yield the keys of a whole run."""
    yield from _keys_page("A training run", "training_run", scenario_keys(), only=RUN_KEYS)


def service() -> Iterator[str]:
    """Yield the keys of a service."""
    yield from _keys_page("A service", "service", service_keys())


def shared_machine() -> Iterator[str]:
    """Yield the keys of a shared machine."""
    keys = file_keys(SharingFile, TEXTS["meanings"]["sharing"])
    keys = sorted(keys, key=lambda key: _part(key) not in ("title", "cluster"))
    yield from _keys_page("A shared machine", "shared_machine", keys)


def trace() -> Iterator[str]:
    """Yield the keys of the scenario of a trace."""
    keys = file_keys(TracedFile, TEXTS["meanings"]["traced"])
    keys = sorted(keys, key=lambda key: _part(key) not in ("title", "cluster"))
    yield from _keys_page("A trace", "trace", keys)


def study_values() -> Iterator[str]:
    """Yield how studies take values, and the keys of scaling curves."""
    yield from _keys_page("Values of a study", "study_values", scenario_keys(), only=STUDY_KEYS)


FAMILY_ROWS: Mapping[str, type[BaseModel]] = {
    "step": Row,
    "inference": InferenceRow,
    "duration": DurationRow,
    "goodput": GoodputRow,
    "energy": EnergyRow,
    "jitter": StragglerRow,
    "sharing": SharingRow,
}
"""Readers of the rows of each family of measured cases, in addition to `Row`."""

READ_AS_TEXT = ("assumed", "written", "finetune.", "measured.*")
"""Keys that are read one by one, and the field of a `Row` that is no key."""


def measured_cases() -> Iterator[str]:
    """Yield the keys of measured cases, by family."""
    yield "# Measured cases\n"
    yield _prose("measured_cases")
    for family, keys in keys_by_family().items():
        yield f"## {TEXTS['meanings']['case_family'][family]}\n"
        yield from _table(("key", "holds", "meaning"), _case_rows(family, keys))
        notes = ", ".join(f"`{name}`" for name in keys.notes)
        yield f"Recorded only: {notes}.\n"


def _case_rows(family: str, keys: FamilyKeys) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a family that grading reads; all of its reader must be among them."""
    holds = dict(case_keys(Row)) | dict(case_keys(FAMILY_ROWS[family]))
    own = {key for key, _ in case_keys(FAMILY_ROWS[family])} - {*READ_AS_TEXT}
    if left_out := own - {*keys.read}:
        raise SystemExit(f"case_keys.yaml: keys of {family} without a meaning: {sorted(left_out)}")
    unread = [key for key in keys.read if key not in holds and not key.startswith(READ_AS_TEXT)]
    if unread or {*keys.read} & {*keys.notes}:
        raise SystemExit(f"case_keys.yaml: keys of {family} that no reader has: {unread}")
    yield from ((key, holds.get(key, "text"), meaning) for key, meaning in keys.read.items())


def _keys_page(
    title: str,
    prose: str,
    keys: list[Key],
    *,
    only: Sequence[str] = (),
    apart: Sequence[str] = (),
) -> Iterator[str]:
    yield f"# {title}\n"
    yield _prose(prose)
    yield "## Keys\n"
    rows = [key for key in keys if _part(key) not in apart and (not only or _part(key) in only)]
    yield from _table(("key", "holds", "if not given", "meaning"), rows)


def catalogue() -> Iterator[str]:
    """Yield the first page of the catalogue: what all of its files have."""
    yield "# The catalogue\n"
    yield _prose("catalogue")


def catalogue_page(title: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield the keys of some kinds of catalogue files."""
    yield f"# {title}\n"
    yield _prose("catalogue_page")
    for kind in kinds:
        yield f"## {kind}\n"
        shipped = ", ".join(f"`{name}`" for name in entry_names(kind))
        yield f"Shipped in `{FOLDERS[kind]}/`: {shipped}.\n"
        keys = file_keys(RECORDS[kind], TEXTS["meanings"][kind], IN_ALL)
        rows = [key._replace(otherwise=_optional(key.otherwise)) for key in keys]
        yield from _table(("key", "holds", "", "meaning"), rows)


def _optional(otherwise: str) -> str:
    return {"required": "", "": "may be left out"}.get(otherwise, otherwise)


# --- pages of answers -----------------------------------------------------------------------------


def answers() -> Iterator[str]:
    """Yield the first page of answers: rules of all verbs."""
    yield "# Answers\n"
    yield _prose("answers")


def measures() -> Iterator[str]:
    """Yield the measures of answers, by which studies rank, limit and compare."""
    yield "# Measures\n"
    yield _prose("measures")
    for kind in dict.fromkeys(measure.kind for measure in ALL):
        yield f"## Of a {kind}\n"
        rows = [
            (measure.name, measure.label, measure.unit, BETTER[measure.more_is_better])
            for measure in measures_of([kind]).values()
        ]
        yield from _table(("measure", "meaning", "unit", "better"), rows)


def run_page() -> Iterator[str]:
    """Yield what ``run`` prints and writes."""
    files = (*FILES, *_figures(FIGURES), *FIGURE_TABLES)
    yield from _answer("run", "answer", run_keys())
    yield from _files("files", "file", files)


def serve_page() -> Iterator[str]:
    """Yield what ``serve`` prints and writes."""
    loaded = load_service("llama3-70b-h100-serving", {"load.concurrency": 2, "load.requests": 16})
    files = serve(loaded, loads=[1, 2]).files().names([FORMAT])
    yield from _answer("serve", "serve", answer_keys(ServeAnswer))
    yield from _files("serve_files", "serve_file", files)


def train_page() -> Iterator[str]:
    """Yield what ``train`` prints and writes."""
    files = train("megatron-1t-84-days").files().names([FORMAT])
    yield from _answer("train", "train", answer_keys(TrainAnswer))
    yield from _files("train_files", "train_file", files)


def compare_page() -> Iterator[str]:
    """Yield what ``compare`` prints and writes."""
    pair = [f"frontier-22b plan.zero={stage}" for stage in (0, 1)]
    answer = compare(pair, settings=["batch.global=16"], jobs=1)
    files = answer.files().names([FORMAT])
    yield from _study("compare", answer_keys(CompareAnswer), files)


def check_page() -> Iterator[str]:
    """Yield what ``check`` prints and writes."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        log.write_text("completed step: 1, seconds: 60.0, TFLOP/s/device: 50.0", encoding="utf-8")
        answer = check(log, scenario="frontier-22b batch.global=16", jobs=1)
    files = answer.files().names([FORMAT])
    yield from _study("check", answer_keys(CheckAnswer), files)
    keys = answer_keys(TraceCheckAnswer)
    yield from _section("Keys of `--json` of a trace", "check_trace", keys)


def whatif_page() -> Iterator[str]:
    """Yield what ``whatif`` prints and writes."""
    answer = whatif("frontier-22b batch.global=16", settings=["plan.zero=0"], jobs=1)
    files = answer.files().names([FORMAT])
    yield from _study("whatif", answer_keys(WhatIfAnswer), files)


def sweep_page() -> Iterator[str]:
    """Yield what ``sweep`` prints and writes."""
    over = ["batch.micro=2,4", "recompute=full"]
    answer = sweep("frontier-22b", over=over, settings=["batch.global=32"], jobs=1)
    files = answer.files().names([FORMAT])
    yield from _study("sweep", sweep_keys(answer), files)


def search_page() -> Iterator[str]:
    """Yield what ``search`` prints and writes."""
    fixed = {"batch.global": 8, "plan.tensor": 8, "recompute": "none", "plan.layers": "even"}
    answer = search("frontier-22b", settings=fixed, jobs=1)
    files = answer.files().names([FORMAT])
    yield from _study("search", answer_keys(SearchAnswer), files)


def scale_page() -> Iterator[str]:
    """Yield what ``scale`` prints and writes."""
    answer = scale("frontier-22b", weak=[16], strong=[16], settings=["batch.global=16"], jobs=1)
    files = answer.files().names([FORMAT])
    yield from _study("scale", answer_keys(ScalingAnswer), files)


def size_page() -> Iterator[str]:
    """Yield what ``size`` prints and writes."""
    answer = size("dgx-a100", nodes=1, model="llama2-7b", tokens=1e9)
    files = [*answer.files().names([FORMAT]), *_figures(["loss"])]
    yield from _study("size", answer_keys(SizeAnswer), files)


SHARED = "superpod-hashed-neighbours"


def share_page() -> Iterator[str]:
    """Yield what ``share`` prints and writes."""
    best = {"jobs.0.nodes": "best", "best.replays": 2}
    answers = [share(SHARED, settings={"steps": 2, **keys}) for keys in ({}, best)]
    files = dict.fromkeys(name for each in answers for name in each.files().names([FORMAT]))
    yield from _answer("share", "share", answer_keys(ShareAnswer))
    yield from _files("share_files", "share_file", [*files])


def collective_page() -> Iterator[str]:
    """Yield what ``collective`` prints."""
    yield from _answer("collective", "collective", answer_keys(Timing))


def study_page() -> Iterator[str]:
    """Yield what ``study`` prints."""
    yield from _answer("study", "study", study_keys())


def list_page() -> Iterator[str]:
    """Yield what ``list`` prints."""
    keys = ((f"<kind>[].{key}", meaning) for key, meaning in answer_keys(ListedEntry))
    yield from _answer("list", "list", keys)


def doctor_page() -> Iterator[str]:
    """Yield what ``doctor`` prints."""
    yield from _answer("doctor", "doctor", answer_keys(Diagnosis))


def new_page() -> Iterator[str]:
    """Yield what ``new`` prints."""
    apart = answer_keys(NewScenario)
    keys = [key for key in apart if not key[0].startswith("search.")]
    yield from _answer("new", "new", keys)


def export_page() -> Iterator[str]:
    """Yield what ``export`` prints."""
    yield from _answer("export", "export", answer_keys(ExportAnswer))
    yield from _section("Keys of `--as chakra --json`", "traces", answer_keys(TraceExport))
    yield from _section("Keys of `--as infragraph --json`", "machine", answer_keys(MachineExport))


def import_page() -> Iterator[str]:
    """Yield what ``import`` prints."""
    yield from _answer("import", "import", answer_keys(ImportAnswer))


def validate_page() -> Iterator[str]:
    """Yield what ``validate`` prints and writes."""
    keys = _as_one("all", answer_keys(Validation), "the same keys for all cases together")
    files = (*validation_files.FILES, *_figures(validation_files.FIGURES))
    yield from _answer("validate", "validation", keys)
    yield from _files("validation_files", "validation_file", files)


def calibrate_page() -> Iterator[str]:
    """Yield what ``calibrate`` prints: fits of coefficients, grades and fits of tables."""
    keys = _as_one("all", answer_keys(Calibration), "the same keys for all rows together")
    yield from _answer("calibrate", "calibration", keys)
    yield from _section("Keys of `--grade --json`", "kernel_grades", answer_keys(KernelGrades))
    yield from _section("Keys of `--from --json`", "kernel_fits", answer_keys(KernelFits))


def _study(verb: str, keys: Meanings, files: Iterable[str]) -> Iterator[str]:
    """Yield what a study prints and writes."""
    yield from _answer(verb, verb, keys)
    yield from _files("study_files", f"{verb}_file", files, verb=verb)


def _answer(verb: str, prose: str, keys: Meanings) -> Iterator[str]:
    yield f"# What `clustersim {verb}` prints and writes\n"
    yield from _section("Keys of `--json`", prose, keys)


def _section(title: str, prose: str, keys: Meanings) -> Iterator[str]:
    yield f"## {title}\n"
    yield _prose(prose)
    yield from _table(("key", "meaning"), keys)


def _files(prose: str, meanings: str, files: Iterable[str], **names: str) -> Iterator[str]:
    yield "## Files\n"
    yield _prose(prose).format(**names)
    rows = [(name, TEXTS["meanings"][meanings][name]) for name in files]
    yield from _table(("file", "holds"), rows)


def _figures(stems: Iterable[str]) -> list[str]:
    """Return the figures that ``--figures`` writes."""
    return [f"{stem}.{FORMAT}" for stem in stems]


def _prose(name: str) -> str:
    return str(TEXTS["prose"][name])


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}"
    for name, *cells in rows:
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""


# --- all pages ------------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "scenario/README.md": scenarios,
    "scenario/training-step.md": training_step,
    "scenario/training-run.md": training_run,
    "scenario/service.md": service,
    "scenario/shared-machine.md": shared_machine,
    "scenario/trace.md": trace,
    "scenario/study-values.md": study_values,
    "scenario/measured-cases.md": measured_cases,
    "catalogue/README.md": catalogue,
    "catalogue/machines.md": partial(
        catalogue_page, "Machines", ("cluster", "node", "accelerator", "library")
    ),
    "catalogue/models.md": partial(catalogue_page, "Models", ("model",)),
    "catalogue/software.md": partial(catalogue_page, "Software", ("framework", "engine")),
    "catalogue/sites.md": partial(
        catalogue_page, "Failures, sites and prices", ("reliability", "site", "prices")
    ),
    "answers/README.md": answers,
    "answers/measures.md": measures,
    "answers/run.md": run_page,
    "answers/serve.md": serve_page,
    "answers/train.md": train_page,
    "answers/compare.md": compare_page,
    "answers/check.md": check_page,
    "answers/whatif.md": whatif_page,
    "answers/scale.md": scale_page,
    "answers/sweep.md": sweep_page,
    "answers/search.md": search_page,
    "answers/size.md": size_page,
    "answers/share.md": share_page,
    "answers/collective.md": collective_page,
    "answers/study.md": study_page,
    "answers/list.md": list_page,
    "answers/doctor.md": doctor_page,
    "answers/new.md": new_page,
    "answers/import.md": import_page,
    "answers/export.md": export_page,
    "answers/validate.md": validate_page,
    "answers/calibrate.md": calibrate_page,
}
"""The pages below ``docs/`` that this script writes."""


def page(name: str) -> str:
    """Return one page."""
    title, *lines = PAGES[name]()
    comment = "<!-- Written by docs/make_reference.py; do not edit by hand. -->\n"
    return "\n".join([title, comment, *lines]).rstrip() + "\n"


def main() -> None:
    """Write all pages."""
    for name in PAGES:
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(page(name), encoding="utf-8")
        sys.stdout.write(f"docs/{name}: written\n")


if __name__ == "__main__":
    main()
