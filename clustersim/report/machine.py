"""A catalogue entry as a page: its facts with their proof, and what follows from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clustersim.catalog.models import ModelRecord
from clustersim.catalog.records import AcceleratorRecord, ClusterRecord, NodeRecord
from clustersim.catalog.tree import is_fact
from clustersim.errors import ScenarioError
from clustersim.report.profile import Told, told
from clustersim.report.tables import percent
from clustersim.scenario.schema import Scenario
from clustersim.units import format_bandwidth

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.report.diagram import Diagram
    from clustersim.scenario.entries import Entry
    from clustersim.topology.measures import Measures

_HEAD: Final = {"kind", "name", "title", "extends", "sources", "source", "assumed", "calibration"}
"""Keys of a file that are no facts about the thing itself."""

LONGEST: Final = 120
"""Letters of a value that a table shows; a list of cables may have thousands."""


class FactRow(NamedTuple):
    """One value as it is written, with its proof; `source` is the title of what was read."""

    key: str
    value: Any
    source: str | None = None
    assumed: str | None = None
    confidence: str | None = None
    note: str | None = None

    @property
    def proof(self) -> str:
        """Where the value is from, as the table says it."""
        told = f"assumed: {self.assumed}" if self.assumed else self.source or ""
        return f"{told} ({self.note})" if self.note and told else told or self.note or ""


class Derived(NamedTuple):
    """What follows from the facts: a key for scripts with its value in SI units, and a sentence."""

    key: str
    value: Any
    label: str
    text: str


@dataclass(frozen=True)
class Page:
    """All that `clustersim show` tells of one entry; `words` of a framework only."""

    name: str
    kind: str
    title: str
    facts: tuple[FactRow, ...]
    derived: tuple[Derived, ...]
    words: tuple[Told, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the page as plain values for scripts."""
        return {
            "name": self.name,
            "kind": self.kind,
            "title": self.title,
            "facts": [row._asdict() for row in self.facts],
            "derived": {row.key: row.value for row in self.derived},
            **({"words": [each._asdict() for each in self.words]} if self.words else {}),
        }


def page(entry: "Entry", measures: "Measures | None" = None) -> Page:
    """Return the page of an entry; `measures` are those of a cluster."""
    derived = derived_of(entry.record) if measures is None else derived_of_cluster(measures)
    rows = tuple(fact_rows(entry.data))
    words = told(entry.data) if entry.kind == "framework" else ()
    return Page(entry.name, entry.kind, entry.title, rows, tuple(derived), words)


def look(entry: "Entry", nodes: int | None = None) -> tuple[Page, dict[str, "Diagram"]]:
    """Return the page of a cluster or a node, and its pictures by the stem of their files.

    Raises
    ------
    ScenarioError
        when a cluster has fewer than `nodes` nodes.
    """
    from clustersim.report import layouts
    from clustersim.topology.measures import measure

    record = entry.record
    if not isinstance(record, ClusterRecord):
        assert isinstance(record, NodeRecord)
        return page(entry), {"node": layouts.node(record)}
    size = record.size.value
    if nodes is not None and nodes > size:
        raise ScenarioError(f"--nodes {nodes}: {entry.name} has {size:,} nodes")
    cluster, measures = measure(record, nodes or size)
    pictures = {
        "node": layouts.node(record.node, record.nic),
        "fabric": layouts.fabric(record, cluster, measures),
    }
    return page(entry, measures), pictures


# --- facts ---------------------------------------------------------------------------------------


def fact_rows(data: Mapping[str, Any], key: str = "") -> Iterator[FactRow]:
    """Yield every value of a file in its order; of other files it names only a node is entered."""
    sources = data.get("sources", {})
    for name, value in data.items():
        if name in _HEAD:
            continue
        here = f"{key}.{name}" if key else name
        if isinstance(value, dict) and "kind" in value and "name" in value:
            yield FactRow(here, value["name"], value.get("title"))
            if value["kind"] == "node":
                yield from fact_rows(value, here)
        else:
            yield from _rows_in(value, here, name, data, sources)


def _rows_in(
    value: Any, here: str, key: str, data: Mapping[str, Any], sources: Mapping[str, Any]
) -> Iterator[FactRow]:
    """Yield the values below `here`, whose key in its file is `key`."""
    if is_fact(value):
        source = value.get("source")
        title = None if source is None else str(sources.get(source, {}).get("title", source))
        rest = (value.get(name) for name in ("assumed", "confidence", "note"))
        yield FactRow(here, value["value"], title, *rest)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _rows_in(item, f"{here}.{name}", f"{key}.{name}", data, sources)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _rows_in(item, f"{here}[{i}]", f"{key}[{i}]", data, sources)
    else:
        yield FactRow(here, value, *_proof_of_plain(key, data, sources))


def _proof_of_plain(
    key: str, data: Mapping[str, Any], sources: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return source and reason of a plain value: what its file says of it or of all."""
    told = data.get("assumed")
    reasons = told if isinstance(told, dict) else {}
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if (reason := reasons.get(".".join(parts[:length]))) is not None:
            return None, str(reason)
    source = data.get("source")
    return (
        (None, None)
        if source is None
        else (str(sources.get(source, {}).get("title", source)), None)
    )


def written(value: Any) -> str:
    """Return a plain value as a file would have it, cut where it goes on for long.

    >>> written([[0, 1, 4], [0, 2]]), written(True), written("25 GB/s")
    ('[0, 1, 4], [0, 2]', 'true', '25 GB/s')
    """
    text = ", ".join(map(_flow, value)) if isinstance(value, list) else _flow(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4].rpartition(',')[0]}, ..."


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- what follows --------------------------------------------------------------------------------


def derived_of_cluster(measures: "Measures") -> Iterator[Derived]:
    """Yield what a cluster can move."""
    nodes, devices = measures.nodes, measures.devices
    yield Derived("nodes", nodes, "nodes", f"{nodes:,}")
    yield Derived("devices", devices, "devices", f"{devices:,}")
    if measures.device_to_node is not None:
        yield _inside(measures.device_to_node)
    alone, out = measures.device_to_network, measures.injection
    text = (
        f"{format_bandwidth(alone)} alone, {format_bandwidth(out * nodes / devices)} when all send"
    )
    yield Derived("device_to_network_bytes_per_s", alone, "device to network", text)
    yield Derived("injection_bytes_per_s", out, "injection of a node", format_bandwidth(out))
    if measures.bisection is not None and measures.bisection_share is not None:
        share = f"{measures.bisection_share:.3g} of what half of the nodes inject"
        text = f"{format_bandwidth(measures.bisection)}, {share}"
        yield Derived("bisection_bytes_per_s", measures.bisection, "bisection", text)
        share_key = "bisection_share_of_injection"
        yield Derived(share_key, measures.bisection_share, "", "")
    if measures.diameter is not None:
        text = f"{measures.diameter} links from NIC to NIC at most"
        yield Derived("diameter_links", measures.diameter, "diameter", text)
    if measures.oversubscription:
        ratios = [
            f"{ratio:.3g} to 1 out of a {w}" for w, ratio in measures.oversubscription.items()
        ]
        value = dict(measures.oversubscription)
        yield Derived("oversubscription", value, "oversubscription", ", ".join(ratios))


def _inside(sums: tuple[float, float]) -> Derived:
    least, most = sums
    text = format_bandwidth(least)
    text += "" if least == most else f" to {format_bandwidth(most)}"
    value = {"least": least, "most": most}
    return Derived("device_to_node_bytes_per_s", value, "device to its node", text)


def derived_of(record: Any) -> Iterator[Derived]:
    """Yield what follows from the facts of anything but a cluster."""
    assert not isinstance(record, ClusterRecord), "a cluster is measured"
    if isinstance(record, NodeRecord):
        yield from _derived_of_node(record)
    elif isinstance(record, AcceleratorRecord):
        yield from _balance(record)
        yield from _fitted(record)
    elif isinstance(record, ModelRecord):
        yield from _counted(record)
    elif isinstance(record, Scenario):
        plan, devices = record.plan, record.devices
        each = record.batch.global_ // plan.data
        yield Derived("devices", devices, "devices", f"{devices:,}")
        yield Derived("sequences_per_replica", each, "sequences", f"{each:,} for each replica")


def _derived_of_node(record: NodeRecord) -> Iterator[Derived]:
    from clustersim.topology.measures import device_to_node
    from clustersim.topology.node import build_node

    node = build_node(record)
    yield Derived("devices", node.devices, "devices", f"{node.devices}")
    if (sums := device_to_node(node)) is not None:
        yield _inside(sums)
    bus, count = node.bus, len(node.nic_ends)
    text = f"{format_bandwidth(bus * count)}, {count} of {format_bandwidth(bus)}"
    yield Derived("nic_buses_bytes_per_s", bus * count, "buses to NICs", text)


def _balance(record: AcceleratorRecord) -> Iterator[Derived]:
    """Yield the arithmetic intensity from which on a kernel is bound by compute.

    Williams et al. 2009, doi:10.1145/1498765.1498785: peak rate over memory bandwidth.
    """
    balance = {
        name: peak.value / record.memory.bandwidth.value for name, peak in record.peak.items()
    }
    text = ", ".join(f"{name} {value:,.0f}" for name, value in balance.items())
    yield Derived("balance_flops_per_byte", balance, "balance", f"{text} FLOP/B (peak over memory)")


def _fitted(record: AcceleratorRecord) -> Iterator[Derived]:
    """Yield what a fit says of the coefficients, and why they are others, where they are."""
    fit = record.calibration
    if fit is None:
        return
    found = ", ".join(
        f"{path} {each.value:g} ± {percent(each.error)}" for path, each in fit.found.items()
    )
    held_out = fsum(fit.held_out.values()) / len(fit.held_out)
    text = (
        f"{fit.command} finds {found}; its {fit.rows} rows are {percent(fit.before)} off with the"
        f" values above and {percent(fit.after)} with these, groups that are left out"
        f" {percent(held_out)} on average"
    )
    kept = "" if fit.kept is None else f"; not taken: {fit.kept}"
    yield Derived("calibration", fit.model_dump(), "fit", text + kept)


def _counted(record: ModelRecord) -> Iterator[Derived]:
    """Yield what the shape of a model comes to: parameters by part, and FLOPs of a token."""
    from clustersim.workload.flops import attention_flops, model_flops
    from clustersim.workload.model import build_model
    from clustersim.workload.parameters import active_parameters, model_parts

    model = build_model(record, record.sequence, multiple=1, tensor=1)
    yield _architecture(record)
    parts = model_parts(model)
    count = sum(parts.values())
    error = count / record.parameters.value - 1
    text = f"{_large(count)} by its shape ({error:+.1%} of the stated number)"
    yield Derived("parameters", count, "parameters", text)
    for name, part in parts.items():
        key = f"parameters_{name.replace(' ', '_').lower()}"
        yield Derived(key, part, f"  {name}", f"{_large(part)}, {part / count:.1%}")
    if model.experts is not None:
        yield from _active(record, active_parameters(model), model.vocab * model.hidden)
    flops, core = model_flops(model, 1), 3 * attention_flops(model)
    each = flops / record.sequence
    text = f"{each / 1e9:,.4g} GFLOP forward and backward, {core / flops:.1%} of it attention"
    text += f" over {record.sequence:,} tokens"
    yield Derived("flops_per_token", each, "a token", text)


def _architecture(record: ModelRecord) -> Derived:
    """Return what a family means, as far as the file did not say otherwise."""
    value = {key: getattr(record, key) for key in ("norm", "mlp", "positions", "tied", "biases")}
    ends = "share the embedding" if record.tied else "have weights of their own"
    text = f"{record.norm} norms, {record.mlp} MLP, positions {record.positions}, logits {ends}"
    text += f", biases of {', '.join(record.biases)}" if record.biases else ", no biases"
    return Derived("architecture", value, "architecture", text)


def _active(record: ModelRecord, active: float, table: float) -> Iterator[Derived]:
    """Yield what a token meets, with the embedding and without: sources count either way."""
    text = f"{_large(active)} for a token, {_large(active - table)} without the embedding"
    text += f" (stated: {_large(record.active.value)})" if record.active else ""
    yield Derived("active_parameters", active, "active", text)
    yield Derived("active_without_embedding", active - table, "", "")


def _large(count: float) -> str:
    """Return a number of parameters as people say it.

    >>> _large(6738415616), _large(125e6)
    ('6.738 billion', '125 million')
    """
    size, word = (1e9, "billion") if count >= 1e9 else (1e6, "million")
    return f"{count / size:,.4g} {word}"


# --- text ----------------------------------------------------------------------------------------

_BANDWIDTHS = "bandwidths are of payload, per direction"
_REMARKS: Final = {"cluster": _BANDWIDTHS, "node": _BANDWIDTHS, "model": "by its shape"}
"""What is said above what follows from the facts, by kind of entry."""


def tables(shown: Page) -> "list[Table]":
    """Return facts, and what follows from them, for a terminal or a pipe."""
    from rich.table import Table

    made = []
    if shown.facts:
        facts = Table(box=None, padding=(0, 2, 0, 0), title_justify="left", header_style="bold")
        facts.add_column("fact", overflow="fold", min_width=18)
        facts.add_column("value", overflow="fold", min_width=10, max_width=34)
        facts.add_column("confidence", no_wrap=True)
        facts.add_column("source", overflow="fold", ratio=1)
        for row in shown.facts:
            facts.add_row(row.key, written(row.value), row.confidence or "", row.proof)
        made.append(facts)
    follows = [row for row in shown.derived if row.label]
    if follows:
        derived = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        derived.add_column("derived", no_wrap=True)
        derived.add_column(_REMARKS.get(shown.kind, ""), overflow="fold")
        for each in follows:
            derived.add_row(each.label, each.text)
        made.append(derived)
    return made


__all__ = ["Derived", "FactRow", "Page", "fact_rows", "look", "page", "tables", "written"]
