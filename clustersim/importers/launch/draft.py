"""The scenario of a launch file: what it states, what options of the user add, and remarks."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from clustersim.catalog.finding import find, look_up
from clustersim.catalog.reading import Document, Key, Place
from clustersim.catalog.tree import Tree, bare, is_fact, value_at
from clustersim.errors import CatalogError, ScenarioError
from clustersim.escaping import escaped
from clustersim.importers.draft import Choices, Draft, assumed
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.table import INTERNAL, Given, Launch
from clustersim.importers.models import model_file
from clustersim.importers.source import Source
from clustersim.records import dataclass

ORDER: Final = ("title", "cluster", "model", "plan", "batch", "precision", "engine", "load")
"""The first keys of a scenario."""


@dataclass(frozen=True)
class LaunchDraft(Draft):
    """The plain values of a scenario, with remarks for the user.

    Attributes
    ----------
    read : options that were read, as they are written
    ignored : options without effect on the scenario, with the reason
    unknown : options in no table of the framework
    places : lines of the values
    """

    read: tuple[str, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()
    places: Mapping[Key, Place] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of file."""
        return "scenario"

    @property
    def assumed(self) -> tuple[str, ...]:
        """Every key that the launch file does not state, with its reason."""
        return tuple(f"{key}: {why}" for key, why in self.data.get("assumed", {}).items())

    @property
    def remarks(self) -> tuple[str, ...]:
        """Lines about read, assumed, ignored and unknown options."""
        groups = {
            "read": [", ".join(self.read)],
            "assumed": list(self.assumed),
            "note": list(self.notes),
            "ignored": list(self.ignored_by_reason),
            "unknown": [", ".join(self.unknown)] if self.unknown else [],
        }
        return tuple(
            line
            for name, texts in groups.items()
            for text in texts
            for line in textwrap.wrap(
                f"{name}: {text}", 98, subsequent_indent="  ", break_on_hyphens=False
            )
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """The same in short: all that is assumed or unknown, and how many options were read."""
        counts = f"{len(self.read)} options, {len(self.ignored)} without effect"
        return (
            f"read      {counts}",
            *(f"note      {line}" for line in self.notes),
            *(f"assumed   {line}" for line in self.assumed),
            *(f"unknown   {line}" for line in self.unknown),
        )

    @property
    def ignored_by_reason(self) -> Iterator[str]:
        """Ignored options, those of the same reason in one text."""
        for why, options in groupby(sorted(self.ignored, key=_reason), _reason):
            yield f"{', '.join(option for option, _ in options)} ({why})"

    def document(self, file: str) -> Document:
        """Return the scenario as a file whose values have their lines of the launch file."""
        return Document(file, self.data, {(): Place(file), **self.places})


def _reason(ignored: tuple[str, str]) -> str:
    return ignored[1]


def scenario_draft(source: Source, launch: Launch, choices: Choices) -> LaunchDraft:
    """Return the scenario of a launch file.

    Raises
    ------
    ScenarioError, CatalogError
        in one line, when it is incomplete or contradicts itself or the machine.
    """
    given = Given(source)
    given.take(launch.options(source), launch.reads, launch.ignored())
    if not given.read:
        raise ScenarioError(f"{escaped(source.file)}: has no option that is known (--format?)")
    _model_by_name(given, choices)
    each = _devices_of_node(given, choices, launch)
    given.values["of.each"] = each
    launch.finish(given)
    del given.values["of.each"]
    needed = _devices(given, launch)
    nodes = _nodes(given, choices, each, None if launch.service is False else needed)
    if not launch.service:
        _data(given, nodes * each, needed)
    _model_inline(given, source)
    return _drafted(given, choices, nodes)


def _model_by_name(given: Given, choices: Choices) -> None:
    if choices.model is not None:
        given.values["model"] = choices.model
        given.assumed["model"] = "named by the user"


def _devices_of_node(given: Given, choices: Choices, launch: Launch) -> int:
    """Return the devices of a node of the cluster, which the user names, that the job uses."""
    file = escaped(given.source.file)
    if choices.cluster is None:
        raise ScenarioError(
            f"{file}: states no machine (name one: --cluster dgx-h100, or --set cluster.name=...)"
        )
    tree = Tree({"cluster": {"name": choices.cluster}}, {(): Place("--cluster")})
    look_up(tree, ("cluster",), "cluster", choices.folder)
    look_up(tree, ("cluster", "node"), "node", choices.folder)
    node = bare(value_at(tree.data, ("cluster", "node")))
    each = value_at(node, ("devices",))
    if not isinstance(each, int):
        raise CatalogError(f"--cluster: '{escaped(choices.cluster)}' states no devices of a node")
    host = value_at(node, ("host", "devices")) or each
    processes = given.pop("processes", host)
    part = launch.service or value_at(node, ("interconnect", "type")) == "switch"
    if processes != each and (processes > host or not part):
        what = "host" if host < each else "node"
        raise given.wrong(
            "of.processes", f"a {what} of '{choices.cluster}' has {host} devices (--cluster)"
        )
    return each if launch.service else _used_of_node(given, choices, each, host, processes)


def _used_of_node(given: Given, choices: Choices, each: int, host: int, processes: int) -> int:
    """Return the devices of a node that a job uses; nodes of launchers are hosts of devices.

    Of nodes with several hosts, such as racks, it uses as many devices as make the number of nodes
    whole: 64 of 72 where 64 hosts have 4 each.
    """
    used, hosts = processes, given.get("of.nodes")
    if choices.devices is not None:
        if host < each and hosts is not None:
            given.values["of.nodes"] = -(-hosts * processes // choices.devices)
        return choices.devices
    if processes == each or (host < each and hosts is None):
        return each
    if host < each:
        devices, most = hosts * processes, each // host * processes
        whole = [n for n in range(processes, most + 1, processes) if devices % n == 0]
        used = whole[-1]
        if choices.nodes and devices % choices.nodes == 0 and devices // choices.nodes in whole:
            used = devices // choices.nodes
        given.values["of.nodes"] = devices // used
    if used < each:
        given.put("cluster.node.devices", used, "of.processes")
        given.notes.append(f"the job uses {used} of the {each} devices of a node")
    return used


def _nodes(given: Given, choices: Choices, each: int, needed: int | None) -> int:
    """Return the nodes: as the user states them, or the file, or as many as a service needs."""
    stated = given.pop("nodes")
    given.assumed["cluster.name"] = "named by the user"
    if choices.nodes is not None:
        given.assumed["cluster.nodes"] = "named by the user"
        if stated not in (None, choices.nodes):
            given.notes.append(f"{choices.nodes} nodes instead of {stated} in the file")
        return choices.nodes
    if stated is not None:
        given.put("cluster.nodes", stated, "of.nodes")
        return int(stated)
    if needed is None:
        raise ScenarioError(
            f"{escaped(given.source.file)}: states no number of nodes (--nodes N, or"
            " --set cluster.nodes=N)"
        )
    given.assumed["cluster.nodes"] = "as many as the replicas need"
    return -(-needed // each)


_PARTS: Final = ("tensor", "pipeline", "context")


def _devices(given: Given, launch: Launch) -> int:
    """Return the devices of a replica, times the replicas of a service."""
    parts = (*_PARTS, "attention_data", "replicas") if launch.service else _PARTS
    product = 1
    for part in parts:
        product *= given.get(f"plan.{part}", 1)
    return product


def _data(given: Given, devices: int, replica: int) -> None:
    """State the replicas of a training run, and its batch where that follows from them."""
    degrees = [f"{part} {given.get(f'plan.{part}', 1)}" for part in _PARTS]
    key = next((f"plan.{part}" for part in _PARTS if f"plan.{part}" in given.options), "")
    if devices % replica:
        raise given.wrong(
            key, f"{' x '.join(degrees)} = {replica} devices of a replica do not divide {devices}"
        )
    processes = given.pop("all_processes")
    if processes not in (None, devices):
        raise given.wrong("of.all_processes", f"the machine has {devices} devices (--nodes)")
    data = devices // replica
    if given.get("plan.data", data) != data:
        raise given.wrong(
            "plan.data", f"{' x '.join(degrees)} on {devices} devices leaves data {data}"
        )
    given.values["plan.data"] = data
    copies = given.pop("copies", 1)
    if copies > 1:
        sharded = data * given.get("plan.context", 1)
        if sharded % copies:
            raise given.wrong("of.copies", f"does not divide {sharded} ranks with the same weights")
        given.values["plan.shard"] = sharded // copies
    _batch(given, data)


def _batch(given: Given, data: int) -> None:
    """State the batch or the microbatch, where one follows from the other and the replicas."""
    steps = given.pop("accumulation")
    exact = given.pop("exact")
    if "batch.global" not in given.values:
        micro = given.values["batch.micro"]
        given.values["batch.global"] = micro * data * (steps or 1)
        if steps is None:
            given.assumed["batch.global"] = "one microbatch for each replica, the default"
        return
    sequences = given.values["batch.global"]
    parts = data * (steps or 1)
    if "batch.micro" not in given.values:
        given.put("batch.micro", sequences // parts, "batch.global")
        exact = True
    micro = given.values["batch.micro"]
    if exact and sequences != micro * parts:
        raise given.wrong(
            "batch.global",
            f"is not {data} replicas x {steps or 1} microbatches of {micro or 1} = "
            f"{(micro or 1) * parts} sequences",
        )


def _model_inline(given: Given, source: Source) -> None:
    """State the model: by its name, or by the shape in the file."""
    shape = {
        key.removeprefix("model."): given.values.pop(key)
        for key in [*given.values]
        if key.startswith("model.")
    }
    if "model" in given.values:
        for key in [key for key in given.assumed if key.startswith("model.")]:
            del given.assumed[key]
        return
    if not shape:
        raise ScenarioError(
            f"{escaped(source.file)}: states no model (name one: --model llama3-8b, or --set"
            " model=llama3-8b)"
        )
    family = "llama" if shape["mlp"] == "gated" and shape["norm"] == "rms" else "gpt"
    name = f"{shape['layers']}-layers"
    title = f"{shape['layers']} layers of {shape['hidden']:,}"
    record = model_file({"family": family, **shape}, name, title, source.file, "Launch file")
    given.values["model"] = record


def _drafted(given: Given, choices: Choices, nodes: int) -> LaunchDraft:
    file = Path(given.source.file).name
    given.values |= {"cluster.name": choices.cluster, "cluster.nodes": nodes}
    model = given.values["model"]
    name = model if isinstance(model, str) else model["title"]
    given.values["title"] = f"{name}, imported from {file}"
    given.values["assumed"] = dict(sorted(given.assumed.items()))
    for key in [key for key in given.values if key.startswith(INTERNAL)]:
        given.disregard(key, "no effect with the other options")
    _source_facts(given, choices)
    data: dict[str, Any] = {}
    places: dict[Key, Place] = {}
    keys = sorted(given.values, key=_rank)
    for key in keys:
        path = tuple(key.split("."))
        table = data
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = given.values[key]
        if key in given.options:
            places[path] = given.options[key].place
            places.setdefault(path[:1], given.options[key].place)
    if data["assumed"] == {}:
        del data["assumed"]
    return LaunchDraft(
        data=_brief(data),
        notes=tuple(given.notes),
        read=tuple(map(_line, given.read)),
        ignored=tuple((_line(option), why) for option, why in given.ignored),
        unknown=tuple(_line(option) + hint for option, hint in given.unknown),
        places=places,
    )


def _source_facts(given: Given, choices: Choices) -> None:
    """Give facts that the file of the framework does not have a source, which facts need."""
    for kind in ("framework", "engine"):
        own = [key for key in given.values if key.startswith(f"{kind}.") and key != f"{kind}.name"]
        if own:
            stated = find(kind, given.values[f"{kind}.name"], choices.folder).data
        for key in own:
            if not is_fact(given.values[key]) and not _has(stated, key.split(".")[1:]):
                given.values[key] = assumed(given.values[key], "stated by the launch file")


def _has(table: Any, path: list[str]) -> bool:
    """Return whether a table has a value at a path."""
    for name in path:
        if not isinstance(table, Mapping) or name not in table:
            return False
        table = table[name]
    return True


def _brief(data: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario whose framework or engine is only a name as that name."""
    return {
        key: value["name"] if isinstance(value, dict) and value.keys() == {"name"} else value
        for key, value in data.items()
    }


def _rank(key: str) -> tuple[int, bool]:
    """Return the order of a key: tables as in `ORDER`, the name of a file first in its table."""
    top = key.partition(".")[0]
    index = ORDER.index(top) if top in ORDER else len(ORDER) + (top == "assumed")
    return index, not key.endswith(".name")


def _line(option: Option) -> str:
    text = str(option)
    return text if len(text) <= 60 else f"{text[:57]}..."
