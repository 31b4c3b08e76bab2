"""The catalogue as data frames: a row for each file, in SI units.

Values that a file does not state are missing, never guessed.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from clustersim.catalog.finding import entry_names
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.catalog.records.models import ModelRecord
from clustersim.scenario.entries import entry

if TYPE_CHECKING:
    import pandas as pd


def machines() -> "pd.DataFrame":
    """Return the clusters of the catalogue, a row each, named by the index.

    Columns are `title`, `nodes` and `devices` [count], `accelerator`, `devices_per_node` and
    `nics_per_node` [count], `nic_bandwidth` of one NIC in one direction [B/s], and the type of its
    `fabric`.
    """
    return _frame("cluster", _machine)


def accelerators() -> "pd.DataFrame":
    """Return the accelerators of the catalogue, a row each, named by the index.

    Columns are `title`, `memory` [B], `memory_bandwidth` [B/s], `power` at its limit [W],
    `compute_units` [count], and the dense peak of each precision, `peak_bf16` and so on [FLOP/s].
    """
    return _frame("accelerator", _accelerator)


def models() -> "pd.DataFrame":
    """Return the models of the catalogue, a row each, named by the index.

    Columns are `title`, `family`, `parameters` and those `active` for a token [count], `layers`,
    `hidden`, `heads`, `kv_heads`, `ffn`, `vocab`, `sequence` [tokens], and `experts` of a layer.
    """
    return _frame("model", _model)


def frameworks() -> "pd.DataFrame":
    """Return the training frameworks of the catalogue, a row each, named by the index.

    Columns are `title`, `extends` the file that it changes, `schedules`, `zero` the stages of ZeRO,
    and `dispatch`, the time of the host for a kernel [s].
    """
    return _frame("framework", _framework)


def _frame(kind: str, values: Callable[[Any], Mapping[str, Any]]) -> "pd.DataFrame":
    import pandas as pd  # 0.3 s, only for tables

    entries = [entry(kind, name) for name in entry_names(kind)]
    rows = [{"title": each.title, **values(each.record)} for each in entries]
    return pd.DataFrame(rows, index=pd.Index([each.name for each in entries], name=kind))


def _machine(record: ClusterRecord) -> dict[str, Any]:
    node = record.node
    return {
        "nodes": record.size,
        "devices": record.size * node.devices,
        "accelerator": node.accelerator.name,
        "devices_per_node": node.devices,
        "nics_per_node": len(node.nics.devices),
        "nic_bandwidth": record.nic.bandwidth,
        "fabric": record.fabric.type,
    }


def _accelerator(record: AcceleratorRecord) -> dict[str, Any]:
    return {
        "memory": record.memory.capacity,
        "memory_bandwidth": record.memory.bandwidth,
        "power": None if record.power is None else record.power.limit,
        "compute_units": record.compute_units,
        **{f"peak_{precision}": peak for precision, peak in sorted(record.peak.items())},
    }


def _model(record: ModelRecord) -> dict[str, Any]:
    return {
        "family": record.family,
        "parameters": record.parameters,
        "active": record.active or record.parameters,
        "layers": record.layers,
        "hidden": record.hidden,
        "heads": record.heads,
        "kv_heads": record.kv_heads or record.heads,
        "ffn": record.ffn,
        "vocab": record.vocab,
        "sequence": record.sequence,
        "experts": 0 if record.experts is None else record.experts.count,
    }


def _framework(record: FrameworkRecord) -> dict[str, Any]:
    return {
        "extends": record.extends,
        "schedules": tuple(record.schedules),
        "zero": tuple(record.zero),
        "dispatch": record.dispatch,
    }
