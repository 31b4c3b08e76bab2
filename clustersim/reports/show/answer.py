"""The answer of a catalogue entry: facts with sources, derived quantities and pictures."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from pydantic import BaseModel

from clustersim.catalog.fabrics import Dragonfly
from clustersim.catalog.records.accelerators import AcceleratorRecord, find_kernel_fits
from clustersim.catalog.records.frameworks import FrameworkRecord, KernelFacts
from clustersim.catalog.records.machines import ClusterRecord, NodeRecord
from clustersim.catalog.records.models import ModelRecord
from clustersim.catalog.tree import is_fact
from clustersim.errors import ScenarioError
from clustersim.evidence import MeasuredRun, shipped_interval_data
from clustersim.metrics.prediction_interval import NearRun, near_run
from clustersim.records import dataclass
from clustersim.reports.show.derived import Derived, derived_of, derived_of_cluster
from clustersim.scenario.traits import shape_of

if TYPE_CHECKING:
    from clustersim.render.diagram import Diagram
    from clustersim.scenario.entries import Entry
    from clustersim.topology.measures import Measures


_HEAD = {"kind", "name", "title", "extends", "sources", "source", "assumed", "calibration", "fits"}
"""Keys of a file that are not facts about the entry itself."""


@dataclass(frozen=True)
class FactRow:
    """One value with its proof.

    Attributes
    ----------
    key : dotted path in the file
    value : as written in the file
    source : title of the source
    assumed : reason for a value without a source
    confidence : high, medium or low
    note : remark of the file
    unit : of a number that the file writes without one
    """

    key: str
    value: Any
    source: str | None = None
    assumed: str | None = None
    confidence: str | None = None
    note: str | None = None
    unit: str | None = None

    @property
    def proof(self) -> str:
        """Source, reason and note in one phrase."""
        origin = f"assumed: {self.assumed}" if self.assumed else self.source or ""
        return f"{origin} ({self.note})" if self.note and origin else origin or self.note or ""


@dataclass(frozen=True)
class KernelRow:
    """The fit of one kind of measured kernels.

    Attributes
    ----------
    kernel : kind of kernel
    format : number format, formats of queries and of keys, or library
    rows : number of measurements
    median, p90 : of the absolute errors of the time, each row by a fit without its shape
    source : of the measurements
    """

    kernel: str
    format: str
    rows: int
    median: float
    p90: float
    source: str


@dataclass(frozen=True)
class EntryAnswer:
    """What `clustersim show --json` prints.

    Attributes
    ----------
    name, kind, title : of the entry
    facts : values of the file in their order
    derived : derived quantities in SI units, by key
    kernels : fits of measured kernels of an accelerator; none for other kinds
    measured : measured runs on a machine or an accelerator, with software, or of a model
    """

    name: str
    kind: str
    title: str
    facts: tuple[FactRow, ...]
    derived: dict[str, Any]
    kernels: tuple[KernelRow, ...] = ()
    measured: tuple[NearRun, ...] = ()


@dataclass(frozen=True)
class Page:
    """An entry with the texts of its derived quantities."""

    answer: EntryAnswer
    derived: tuple[Derived, ...]


def page(entry: "Entry", measures: "Measures | None" = None) -> Page:
    """Return the page of an entry; `measures` are those of a cluster."""
    derived = derived_of(entry.record) if measures is None else derived_of_cluster(measures)
    quantities = tuple(derived)
    values = {quantity.key: quantity.value for quantity in quantities}
    facts = tuple(profile_rows(entry.data) if entry.kind == "framework" else fact_rows(entry.data))
    kernels, measured = tuple(kernel_rows(entry.record)), tuple(runs_with(entry))
    answer = EntryAnswer(entry.name, entry.kind, entry.title, facts, values, kernels, measured)
    return Page(answer, quantities)


def machine_page(entry: "Entry", nodes: int | None = None) -> tuple[Page, "Mapping[str, Diagram]"]:
    """Return the page of a cluster or a node, and its pictures by the stem of their files.

    Raises
    ------
    ScenarioError
        when a cluster has fewer than `nodes` nodes.
    """
    from clustersim.render import layouts
    from clustersim.topology.measures import measure

    record = entry.record
    if not isinstance(record, ClusterRecord):
        assert isinstance(record, NodeRecord)
        return page(entry), {"node": layouts.node(record)}
    size = record.size
    if nodes is not None and nodes > size:
        raise ScenarioError(f"--nodes {nodes}: {entry.name} has {size:,} nodes")
    try:
        if isinstance(record.fabric, Dragonfly):
            record.fabric.check_room(nodes or size, len(record.node.nics.devices))
    except ValueError as problem:
        raise ScenarioError(f"{entry.name}: {problem}") from None
    cluster, measures = measure(record, nodes or size)
    pictures = {
        "node": layouts.node(record.node, record.nic),
        "fabric": layouts.fabric(record, cluster, measures),
    }
    return page(entry, measures), pictures


_TRAITS: Final = {
    "accelerator": "accelerator", "cluster": "machine", "framework": "software",
    "engine": "software",
}  # fmt: skip
"""The trait of measured runs that names an entry, by kind."""


def runs_with(entry: "Entry") -> list[NearRun]:
    """Return the measured runs that have an entry, by their names."""
    record = entry.record
    trait, value = _TRAITS.get(entry.kind), entry.name
    if isinstance(record, ModelRecord):
        trait, value = "shape", shape_of(record)
    runs: dict[str, list[MeasuredRun]] = {}
    for run in shipped_interval_data().runs if trait else ():
        if getattr(run, trait or "") == value:
            runs.setdefault(run.run, []).append(run)
    return [near_run(of) for of in runs.values()]


def kernel_rows(record: object) -> Iterator[KernelRow]:
    """Yield the fits of measured kernels of an accelerator."""
    if not isinstance(record, AcceleratorRecord):
        return
    shipped = find_kernel_fits(record.name)
    kernels = {} if shipped is None else dict(shipped.kernels)
    for kind, variants in record.fits.get(record.name, {}).items():
        kernels[kind] = {**kernels.get(kind, {}), **variants}
    for kind, variants in sorted(kernels.items()):
        for variant, fit in sorted(variants.items()):
            yield KernelRow(kind, variant, fit.rows, fit.median, fit.p90, fit.measured)


# --- facts ----------------------------------------------------------------------------------------


def profile_rows(data: Mapping[str, Any]) -> Iterator[FactRow]:
    """Yield the facts of a framework with their units, then the keys that its file leaves out."""
    if data.get("extends"):
        yield FactRow("extends", data["extends"])
    for row in fact_rows(data):
        yield replace(row, unit=unit_of(row.key, row.value))
    for key, default, reason in absent_keys(data):
        unit = None if default is None else unit_of(key, default)
        yield FactRow(key, default, reason, unit=unit)


def fact_rows(data: Mapping[str, Any], key: str = "") -> Iterator[FactRow]:
    """Yield every value of a file in its order; of the files that it names, only nodes expand."""
    sources = data.get("sources", {})
    for name, value in data.items():
        if name in _HEAD:
            continue
        path = f"{key}.{name}" if key else name
        if isinstance(value, dict) and "kind" in value and "name" in value:
            yield FactRow(path, value["name"], value.get("title"))
            if value["kind"] == "node":
                yield from fact_rows(value, path)
        else:
            yield from _rows_in(value, path, name, data, sources)


def _rows_in(
    value: Any, path: str, key: str, data: Mapping[str, Any], sources: Mapping[str, Any]
) -> Iterator[FactRow]:
    """Yield the values below `path`, whose key in its file is `key`."""
    if is_fact(value):
        source = value.get("source")
        title = None if source is None else str(sources.get(source, {}).get("title", source))
        rest = (value.get(name) for name in ("assumed", "confidence", "note"))
        yield FactRow(path, value["value"], title, *rest)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _rows_in(item, f"{path}.{name}", f"{key}.{name}", data, sources)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _rows_in(item, f"{path}[{i}]", f"{key}[{i}]", data, sources)
    else:
        yield FactRow(path, value, *_proof_of_plain(key, data, sources))


def _proof_of_plain(
    key: str, data: Mapping[str, Any], sources: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return source and reason of a plain value, from its file's `assumed` and `source`."""
    assumed = data.get("assumed")
    reasons = assumed if isinstance(assumed, dict) else {}
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if (reason := reasons.get(".".join(parts[:length]))) is not None:
            return None, str(reason)
    source = data.get("source")
    if source is None:
        return None, None
    return str(sources.get(source, {}).get("title", source)), None


UNITS: Final[Mapping[str, str]] = {
    key: unit
    for unit, keys in {
        "times the tensor degree": "vocab_multiple",
        "of temporary tensors": "fragmentation",
        "of memory bandwidth": "passes",
        "all-gathers per microbatch": "pipeline.gathers_forward pipeline.gathers_backward",
        "of the rate of the device": "kernels.products_share kernels.attention_share",
        "bytes per weight": (
            "kernels.gradient_accumulation kernels.weight_cast_forward "
            "kernels.weight_cast_backward gradients.gathered sharding.gather"
        ),
        "bytes per logit": (
            "kernels.loss_forward kernels.loss_backward kernels.loss_kept memory.loss_forward "
            "memory.loss_backward"
        ),
        "copies, forward and backward": (
            "kernels.query_copies kernels.key_copies kernels.result_copies"
        ),
        "tensors": "kernels.query_kept",
        "bytes per element, once and per further step": (
            "kernels.ring_result kernels.ring_gradients kernels.ring_sent"
        ),
        "bytes per element": "kernels.dropout_mask experts.dispatched",
        "bytes per gradient": "gradients.bytes_each sharding.reduce",
        "bytes per parameter held": "optimiser.held",
        "bytes per parameter updated": "optimiser.updated optimiser.host_updated memory.step",
        "layers": "sharding.prefetch memory.lead",
        "collectives per layer": "sharding.calls sharding.small",
        "bytes per byte": "sharding.gather_copied sharding.reduce_copied",
        "kernels, forward and backward": "experts.bookkeeping",
        "compute units": "experts.exchange_units",
        "bytes per element of the largest tensor": "memory.norm",
        "buffers": "memory.gather_buffers",
        "results per layer": "memory.held_results",
        "bytes per element of queries": "memory.ring",
    }.items()
    for key in keys.split()
}
"""Units of numbers that a file writes without one; those of `state` are bytes per parameter."""

UNSUPPORTED: Final = ("sharding", "experts", "context", "graphs")
"""Keys without which a framework does not have the feature."""

DEFAULTS: Final = {
    f"kernels.{name}": field.default
    for name, field in KernelFacts.model_fields.items()
    if isinstance(field.default, bool | int | float)
}
"""Defaults of keys of kernels."""


def unit_of(key: str, value: Any) -> str | None:
    """Return the unit of a plain number of a profile; None where its text has one.

    >>> unit_of("kernels.loss_forward", 38), unit_of("state.bf16.master", 4), unit_of("zero", [0])
    ('bytes per logit', 'bytes per parameter', None)
    """
    if key.startswith("state.") and not isinstance(value, str):
        return "bytes per parameter"
    return UNITS.get(key)


def absent_keys(data: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield the keys that a file does not have, with their default and the reason."""
    for key in _absent(FrameworkRecord, data):
        if key in UNSUPPORTED:
            yield key, None, "not supported"
        else:
            yield key, DEFAULTS.get(key), "default" if key in DEFAULTS else "not set"


def _absent(record: type[BaseModel], data: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the optional keys of a schema that a file does not have, also inside its tables."""
    for name, field in record.model_fields.items():
        value = data.get(name)
        if value is None:
            if name not in ("title", "extends", "sources", "launch"):
                yield f"{path}{name}"
        elif not is_fact(value):
            for table in _tables(field.annotation):
                yield from _absent(table, value, f"{path}{name}.")


def _tables(annotation: Any) -> list[type[BaseModel]]:
    """Return the table that a key may hold; none for facts and for tables by name."""
    if get_origin(annotation) is dict:
        return []
    options = [annotation, *get_args(annotation)]
    return [kind for kind in options if isinstance(kind, type) and issubclass(kind, BaseModel)]
