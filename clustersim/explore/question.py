"""A question: a scenario with changes, as an address holds it.

?kind=step&of=frontier-22b&plan.tensor=4   -->   scenario frontier-22b with plan.tensor=4

Nothing in an address names a file: names are those of the catalogue, further changes are numbers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from clustersim.catalog.finding import entry_names
from clustersim.catalog.tree import value_at
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.explore.fields import KINDS, SETTING, Field, Kind, fields_of
from clustersim.records import dataclass
from clustersim.scenario.load import Loaded, LoadedJob, LoadedService, load_job, plain_value

MINE: Final = "mine"
"""The scenario that the command names, in addresses."""

LOADS: Final = ("load.rate", "load.concurrency")
"""Fields of which a service has one; the first counts."""

MOST_SETTINGS: Final = 20
"""Further changes of a question."""

_TRAINED: Final[Mapping[str, Any]] = {
    "cluster": {"name": "dgx-h100", "nodes": 16},
    "model": "llama3.1-70b",
    "framework": "megatron-core",
    "precision": "bf16",
    "plan": {"tensor": 8, "pipeline": 4, "data": 4, "zero": 1, "sequence_parallel": True},
    "batch": {"global": 256, "micro": 1, "sequence": 8192},
    "recompute": "selective",
}

DRAFTS: Final[Mapping[Kind, Mapping[str, Any]]] = {
    "step": _TRAINED,
    "run": {**_TRAINED, "training": {"tokens": "1T", "failures": "llama3-54-days"}},
    "service": {
        "cluster": {"name": "dgx-h100", "nodes": 1},
        "model": "llama3.1-70b",
        "engine": "vllm",
        "precision": "fp8",
        "plan": {"tensor": 4, "replicas": 2},
        "load": {"concurrency": 64, "input": 1024, "output": 256},
    },
}
"""What a question without a scenario starts from."""


@dataclass(frozen=True)
class Question:
    """A scenario with changes, and the kind of its answer.

    Attributes
    ----------
    kind : of the question
    of : shipped scenario that it starts from, `MINE`, or empty for a draft
    values : texts of fields by their keys, where they differ from those of the scenario
    more : further changes, each as ``--set`` takes it
    ignored : parts of the address that are none of a question, each with the reason
    """

    kind: Kind = "step"
    of: str = ""
    values: tuple[tuple[str, str], ...] = ()
    more: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The question as the query of an address."""
        pairs = [("kind", self.kind), *([("of", self.of)] if self.of else []), *self.values]
        return urlencode([*pairs, *(("set", change) for change in self.more)])

    def having(self, key: str, text: str) -> "Question":
        """Return the question with another value of a field."""
        return replace(self, values=(*(v for v in self.values if v[0] != key), (key, text)))


def _title(question: Question) -> str:
    """Return the title of a draft."""
    draft, stated = DRAFTS[question.kind], dict(question.values)
    nodes = stated.get("cluster.nodes", str(draft["cluster"]["nodes"]))
    model, name = (
        stated.get(key, usual)
        for key, usual in (("model", draft["model"]), ("cluster.name", draft["cluster"]["name"]))
    )
    return f"{model} on {nodes} {'node' if nodes == '1' else 'nodes'} of {name}"


@dataclass(frozen=True)
class Home:
    """What questions may start from, next to drafts and shipped scenarios.

    Attributes
    ----------
    scenario : file or name that the command was started with; none if empty
    settings : its changes
    """

    scenario: str = ""
    settings: tuple[str, ...] = ()

    def source(self, question: Question) -> tuple[str, tuple[str, ...]]:
        """Return the scenario of a question, as `load_job` takes it, and its own changes."""
        if question.of == MINE:
            return self.scenario, self.settings
        if question.of:
            return question.of, ()
        return json.dumps({"title": _title(question), **DRAFTS[question.kind]}), ()

    def first(self) -> Question:
        """Return the question that the page starts with."""
        if not self.scenario:
            return Question()
        loaded = load_job(self.scenario, self.settings)
        return Question(kind_of(loaded), MINE)


def kind_of(loaded: LoadedJob) -> Kind:
    """Return the kind of question that a scenario answers."""
    if isinstance(loaded, LoadedService):
        return "service"
    return "run" if loaded.scenario.training is not None else "step"


def question_of(query: str, home: Home) -> Question:
    """Return the question of an address; what is none is listed, and never used.

    Parameters
    ----------
    query : of the address, without the question mark
    """
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=200)
    stated = dict(pairs)
    kind: Any = stated.get("kind", "step")
    ignored: list[str] = []
    if kind not in KINDS:
        ignored.append(f"kind={kind}: no kind of question ({', '.join(KINDS)})")
        kind = "step"
    of = stated.get("of", "")
    if of and of not in _shipped() and not (of == MINE and home.scenario):
        ignored.append(f"of={of}: no shipped scenario")
        of = ""
    question = _agreeing(Question(kind, of), home, ignored)
    fields = {field.key: field for field in fields_of(question.kind)}
    before = values_of(question, home)
    values = []
    for key, text in stated.items():
        field, text = fields.get(key), text.strip()
        if field is None or not text or text == before.get(key):
            continue
        if field.allows(text):
            values.append((key, text))
        else:
            ignored.append(f"{key}={text}: {_allowed(field)}")
    more: list[str] = []
    for text in (
        line.strip() for key, value in pairs if key == "set" for line in value.split("\n")
    ):
        if SETTING.fullmatch(text) and len(more) < MOST_SETTINGS:
            more.append(text)
        elif text:
            ignored.append(f"set={text}: takes up to {MOST_SETTINGS} changes KEY=NUMBER, KEY=x2")
    shown = tuple(escaped(text)[:200] for text in ignored)
    return replace(question, values=tuple(values), more=tuple(more), ignored=shown)


def _agreeing(question: Question, home: Home, ignored: list[str]) -> Question:
    """Return a question whose kind its scenario can answer: any training may be a whole run."""
    if not question.of:
        return question
    own = kind_of(_base(*home.source(question)))
    if "service" in (own, question.kind) and own != question.kind:
        ignored.append(f"kind={question.kind}: {question.of} is of the kind {own}")
        return replace(question, kind=own)
    return question


def _allowed(field: Field) -> str:
    choices = field.choices
    if field.entries:
        return f"no {field.entries} of the catalogue"
    return f"allowed: {', '.join(choices)}" if choices else f"no {field.label.lower()}"


@cache
def _shipped() -> frozenset[str]:
    return frozenset(entry_names("scenario"))


@lru_cache(64)
def _base(scenario: str, settings: tuple[str, ...]) -> LoadedJob:
    return load_job(scenario, settings)


def values_of(question: Question, home: Home) -> dict[str, str]:
    """Return the texts of all fields, as the question states them, else as its scenario does."""
    loaded = _base(*home.source(question))
    found = {field.key: _text(loaded, field) for field in fields_of(question.kind)}
    stated = dict(question.values)
    if stated.keys() & {*LOADS}:
        found |= dict.fromkeys(LOADS, "")
    return found | stated


def _text(loaded: LoadedJob, field: Field) -> str:
    """Return the value of a field in a scenario, as it is written if it is a quantity."""
    named = field.entries and field.key != "cluster.name"
    path = (*field.key.split("."), *(["name"] if named else []))
    if getattr(loaded.scenario, path[0], None) is None:
        return ""
    value = plain_value(loaded.scenario, path)
    if isinstance(value, float) and isinstance(written := value_at(loaded.tree.data, path), str):
        return written
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, list | dict):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def loaded_of(question: Question, home: Home) -> LoadedJob:
    """Return the scenario of a question, with the degrees that follow from the others.

    Replicas of training take the devices that the other degrees leave; without tensor ranks there
    is no sequence parallelism, and without stages no schedule of several chunks.

    Raises
    ------
    ScenarioError, CatalogError
        in one line, when the scenario is invalid with these changes.
    """
    scenario, settings = home.source(question)
    stated = dict(question.values)
    changes = [*settings, *(f"{key}={text}" for key, text in question.values)]
    if kept := next((key for key in LOADS if key in stated), None):
        others = (*LOADS, "load.offline", "load.batch", "load.requests", "load.warm_up")
        changes += [f"{other}=null" for other in others if other != kept]
    changes += question.more
    loaded = load_job(scenario, changes)
    if isinstance(loaded, LoadedService):
        return loaded
    derived = _derived(loaded, {change.partition("=")[0] for change in changes})
    return loaded.changed(derived) if derived else loaded


def _derived(loaded: Loaded, fixed: set[str]) -> Sequence[str]:
    """Return changes of degrees that follow from the others."""
    plan, found = loaded.scenario.plan, []
    if plan.tensor == 1 and plan.sequence_parallel:
        found.append("plan.sequence_parallel=false")
    if plan.pipeline == 1 and "plan.schedule" not in fixed and plan.schedule != "1f1b":
        found += ["plan.schedule=1f1b", "plan.chunks=null"]
    replica = plan.tensor * plan.pipeline * plan.context
    devices = loaded.scenario.devices
    if devices % replica:
        raise ScenarioError(
            f"tensor {plan.tensor} x pipeline {plan.pipeline} x context {plan.context} = {replica}"
            f" devices of a replica do not divide {devices:,} devices"
        )
    if plan.data != devices // replica:
        found.append(f"plan.data={devices // replica}")
    return found
