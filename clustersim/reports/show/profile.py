"""The profile of a framework: units of its plain numbers, and the keys that its file leaves out."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel

from clustersim.catalog.frameworks import FrameworkRecord, KernelFacts
from clustersim.catalog.tree import is_fact
from clustersim.workload.slice import KernelChoice

_BOTH_WAYS: Final = "copies, forward and backward"
_ONCE_AND_EACH: Final = "bytes per element, once and per further step"

UNITS: Final[Mapping[str, str]] = {
    "vocab_multiple": "times the tensor degree",
    "fragmentation": "of temporary tensors",
    "passes": "of memory bandwidth",
    "pipeline.gathers_forward": "all-gathers per microbatch",
    "pipeline.gathers_backward": "all-gathers per microbatch",
    "kernels.products_share": "of the rate of the device",
    "kernels.attention_share": "of the rate of the device",
    "kernels.gradient_accumulation": "bytes per weight",
    "kernels.loss_forward": "bytes per logit",
    "kernels.loss_backward": "bytes per logit",
    "kernels.loss_kept": "bytes per logit",
    "kernels.weight_cast_forward": "bytes per weight",
    "kernels.weight_cast_backward": "bytes per weight",
    "kernels.query_copies": _BOTH_WAYS,
    "kernels.key_copies": _BOTH_WAYS,
    "kernels.result_copies": _BOTH_WAYS,
    "kernels.query_kept": "tensors",
    "kernels.ring_result": _ONCE_AND_EACH,
    "kernels.ring_gradients": _ONCE_AND_EACH,
    "kernels.ring_sent": _ONCE_AND_EACH,
    "kernels.dropout_mask": "bytes per element",
    "gradients.bytes_each": "bytes per gradient",
    "gradients.gathered": "bytes per weight",
    "optimiser.held": "bytes per parameter held",
    "optimiser.updated": "bytes per parameter updated",
    "optimiser.host_updated": "bytes per parameter updated",
    "sharding.prefetch": "layers",
    "sharding.gather": "bytes per weight",
    "sharding.reduce": "bytes per gradient",
    "sharding.calls": "collectives per layer",
    "sharding.small": "collectives per layer",
    "sharding.gather_copied": "bytes per byte",
    "sharding.reduce_copied": "bytes per byte",
    "experts.dispatched": "bytes per element",
    "experts.bookkeeping": "kernels, forward and backward",
    "experts.exchange_units": "compute units",
    "memory.loss_forward": "bytes per logit",
    "memory.loss_backward": "bytes per logit",
    "memory.step": "bytes per parameter updated",
    "memory.norm": "bytes per element of the largest tensor",
    "memory.gather_buffers": "buffers",
    "memory.held_results": "results per layer",
    "memory.lead": "layers",
    "memory.ring": "bytes per element of queries",
}
"""Units of numbers that a file writes without one; those of `state` are bytes per parameter."""

UNSUPPORTED: Final = ("sharding", "experts", "context", "graphs")
"""Keys without which a framework does not have the feature."""

DEFAULTS: Final = {
    f"kernels.{field.name}": field.default
    for field in fields(KernelChoice)
    if field.name in KernelFacts.model_fields and isinstance(field.default, bool | int | float)
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
