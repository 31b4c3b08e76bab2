"""What follows from the facts of a catalogue entry: rates of a machine, sizes of a model."""

from collections.abc import Iterator
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from clustersim.catalog.models import ModelRecord
from clustersim.catalog.records import AcceleratorRecord, ClusterRecord, NodeRecord
from clustersim.render.tables import percent
from clustersim.scenario.schema import Scenario
from clustersim.units import format_bandwidth

if TYPE_CHECKING:
    from clustersim.topology.measures import Measures


class Derived(NamedTuple):
    """What follows from the facts: a key for scripts with its value in SI units, and a sentence."""

    key: str
    value: Any
    label: str
    text: str


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


__all__ = ["Derived", "derived_of", "derived_of_cluster"]
