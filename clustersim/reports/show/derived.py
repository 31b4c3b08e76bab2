"""Quantities derived from facts: rates of a machine, sizes of a model."""

from collections.abc import Iterator
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.records.machines import ClusterRecord, NodeRecord
from clustersim.catalog.records.models import LETTERS, ModelRecord
from clustersim.cost.prices import TERMS, price_of
from clustersim.render.tables import percent
from clustersim.scenario.schema import Scenario
from clustersim.units import format_bandwidth

if TYPE_CHECKING:
    from clustersim.topology.measures import Measures


class Derived(NamedTuple):
    """A derived quantity: its key and value in SI units for scripts, and a label and text."""

    key: str
    value: Any
    label: str
    text: str


def derived_of_cluster(measures: "Measures") -> Iterator[Derived]:
    """Yield the bandwidths of a cluster."""
    nodes, devices = measures.nodes, measures.devices
    yield Derived("nodes", nodes, "nodes", f"{nodes:,}")
    yield Derived("devices", devices, "devices", f"{devices:,}")
    if measures.device_to_node is not None:
        yield _inside(measures.device_to_node)
    single, out = measures.device_to_network, measures.injection
    text = (
        f"{format_bandwidth(single)} for one device,"
        f" {format_bandwidth(out * nodes / devices)} each when all send"
    )
    yield Derived("device_to_network_bytes_per_s", single, "device to network", text)
    yield Derived("injection_bytes_per_s", out, "injection of a node", format_bandwidth(out))
    if measures.bisection is not None and measures.bisection_share is not None:
        share = f"{measures.bisection_share:.3g} of the injection of half of the nodes"
        text = f"{format_bandwidth(measures.bisection)}, {share}"
        yield Derived("bisection_bytes_per_s", measures.bisection, "bisection", text)
        share_key = "bisection_share_of_injection"
        yield Derived(share_key, measures.bisection_share, "", "")
    if measures.diameter is not None:
        text = f"at most {measures.diameter} links between two NICs"
        yield Derived("diameter_links", measures.diameter, "diameter", text)
    if measures.oversubscription:
        ratios = [
            f"{ratio:.3g}:1 at the {level}" for level, ratio in measures.oversubscription.items()
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
    """Yield the derived quantities of any entry but a cluster."""
    assert not isinstance(record, ClusterRecord), "a cluster is measured"
    if isinstance(record, NodeRecord):
        yield from _derived_of_node(record)
    elif isinstance(record, AcceleratorRecord):
        yield from _balance(record)
        yield from _fitted(record)
        yield from _prices(record)
    elif isinstance(record, ModelRecord):
        yield from _counted(record)
    elif isinstance(record, Scenario):
        plan, devices = record.plan, record.devices
        sequences = record.batch.global_ // plan.data
        yield Derived("devices", devices, "devices", f"{devices:,}")
        yield Derived("sequences_per_replica", sequences, "sequences", f"{sequences:,} per replica")


def _prices(record: AcceleratorRecord) -> Iterator[Derived]:
    """Yield what a device costs, by the terms for which there are quotes."""
    for term in TERMS:
        price = price_of(record.name, term)
        if price is not None:
            text = f"{price.usd_per_device_hour:.3g} USD per device and hour: {price.quote}"
            key = f"price_{term.replace('-', '_')}_usd_per_hour"
            yield Derived(key, price.usd_per_device_hour, f"price, {term}", text)


def _derived_of_node(record: NodeRecord) -> Iterator[Derived]:
    from clustersim.topology.measures import device_to_node
    from clustersim.topology.node import build_node

    node = build_node(record)
    yield Derived("devices", node.devices, "devices", f"{node.devices}")
    if (sums := device_to_node(node)) is not None:
        yield _inside(sums)
    bus, count = node.bus, len(node.nic_ends)
    text = f"{format_bandwidth(bus * count)}, {count} x {format_bandwidth(bus)}"
    yield Derived("nic_buses_bytes_per_s", bus * count, "buses to NICs", text)


def _balance(record: AcceleratorRecord) -> Iterator[Derived]:
    """Yield the arithmetic intensity above which a kernel is compute-bound.

    Williams et al. 2009, doi:10.1145/1498765.1498785: peak rate over memory bandwidth.
    """
    balance = {name: peak / record.memory.bandwidth for name, peak in record.peak.items()}
    text = ", ".join(f"{name} {value:,.0f}" for name, value in balance.items())
    yield Derived("balance_flops_per_byte", balance, "balance", f"{text} FLOP/B (peak over memory)")


def _fitted(record: AcceleratorRecord) -> Iterator[Derived]:
    """Yield the coefficients of a fit with their errors, and why others are used if they are."""
    fit = record.calibration
    if fit is None:
        return
    fitted = ", ".join(
        f"{path} {value.value:g} ± {percent(value.error)}" for path, value in fit.found.items()
    )
    held_out = fsum(fit.held_out.values()) / len(fit.held_out)
    text = (
        f"{fit.command} gives {fitted}; mean error over its {fit.rows} rows: {percent(fit.before)}"
        f" with the values above, {percent(fit.after)} with the fitted ones, {percent(held_out)}"
        " for held-out groups"
    )
    kept = "" if fit.kept is None else f"; not used: {fit.kept}"
    yield Derived("calibration", fit.model_dump(), "fit", text + kept)


def _counted(record: ModelRecord) -> Iterator[Derived]:
    """Yield parameters by part and FLOPs per token, computed from the shape of a model."""
    from clustersim.workload.flops import attention_flops, model_flops
    from clustersim.workload.model import build_model
    from clustersim.workload.parameters import active_parameters, model_parts

    model = build_model(record, record.sequence, multiple=1, tensor=1)
    yield _architecture(record)
    parts = model_parts(model)
    count = sum(parts.values())
    error = count / record.parameters - 1
    text = f"{_large(count)} from the shape ({error:+.1%} relative to the stated number)"
    yield Derived("parameters", count, "parameters", text)
    for name, part in parts.items():
        key = f"parameters_{name.replace(' ', '_').lower()}"
        yield Derived(key, part, f"  {name}", f"{_large(part)}, {part / count:.1%}")
    if model.experts is not None:
        yield from _active(record, active_parameters(model), model.vocab * model.hidden)
    flops, core = model_flops(model, 1), 3 * attention_flops(model)
    per_token = flops / record.sequence
    text = f"{per_token / 1e9:,.4g} GFLOP forward and backward, {core / flops:.1%} of it attention"
    text += f" over {record.sequence:,} tokens"
    yield Derived("flops_per_token", per_token, "per token", text)


def _architecture(record: ModelRecord) -> Derived:
    """Return the architecture: the family's values and those that the file sets."""
    value = {key: getattr(record, key) for key in ("norm", "mlp", "positions", "tied", "biases")}
    ends = "share the embedding" if record.tied else "have separate weights"
    text = f"{record.norm} norms, {record.mlp} MLP, positions {record.positions}, logits {ends}"
    text += f", biases of {', '.join(record.biases)}" if record.biases else ", no biases"
    if record.pattern is not None:
        kinds = {**LETTERS, **({"M": record.mamba.kind} if record.mamba else {})}
        counts = [f"{record.pattern.count(of)} {what}" for of, what in kinds.items()]
        text += f"; layers: {', '.join(each for each in counts if not each.startswith('0 '))}"
    return Derived("architecture", value, "architecture", text)


def _active(record: ModelRecord, active: float, table: float) -> Iterator[Derived]:
    """Yield active parameters with and without the embedding: sources count either way."""
    text = f"{_large(active)} per token, {_large(active - table)} without the embedding"
    text += f" (stated: {_large(record.active)})" if record.active else ""
    yield Derived("active_parameters", active, "active", text)
    yield Derived("active_without_embedding", active - table, "", "")


def _large(count: float) -> str:
    """Return a number of parameters in words.

    >>> _large(6738415616), _large(125e6)
    ('6.738 billion', '125 million')
    """
    size, word = (1e9, "billion") if count >= 1e9 else (1e6, "million")
    return f"{count / size:,.4g} {word}"
