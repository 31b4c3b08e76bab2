"""One replica of a served model: its layout on a machine, number formats, engine and kernels."""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from clustersim.answers import in_brief
from clustersim.arrays import Floats
from clustersim.catalog.records.engines import EngineRecord, FilledTiles
from clustersim.cost.kernels.price_list import KernelPrices
from clustersim.cost.surfaces.grouped import ROWS
from clustersim.inference.formats import KV_BYTES, Formats, check_formats
from clustersim.inference.indexer import indexed_bytes
from clustersim.inference.layout import Layout, check_replica
from clustersim.inference.links import Links
from clustersim.records import dataclass
from clustersim.topology.accelerator import Accelerator
from clustersim.topology.cluster import Cluster
from clustersim.workload.kernels import Head
from clustersim.workload.model import Layer, Transformer

MOST_CHOSEN: Final = 1.0
"""Share of tokens that an expert can get: each token chooses it at most once."""


class ExpertLoads:
    """The distribution of tokens over the experts of a layer, and over devices.

    Parameters
    ----------
    shares : of each expert in all tokens, in any unit, devices one after another
    chosen : experts of a token
    devices : that hold different experts
    """

    def __init__(self, shares: Sequence[float], chosen: int, devices: int) -> None:
        of_device = np.asarray(shares, dtype=float).reshape(devices, -1)
        picked = np.minimum(chosen * of_device / of_device.sum(), MOST_CHOSEN)
        self._kinds = np.unique(np.sort(picked, axis=1), axis=0)

    @property
    def kinds(self) -> int:
        """Devices that differ in the shares of their experts."""
        return len(self._kinds)

    def tiles(self, tokens: Floats) -> dict[str, Floats]:
        """Return the columns of shapes for each kind of device and number of tokens, in a row.

        Of an expert with some probability of having tokens, tiles are counted for its tokens when
        it has any.
        """
        picked = self._kinds[:, None, :]
        expected = picked * tokens[None, :, None]
        active = 1 - (1 - picked) ** tokens[None, :, None]
        each = expected / np.maximum(active, 1e-12)
        columns = {
            "routed": expected.sum(axis=2),
            "active": active.sum(axis=2),
            "local": np.full(expected.shape[:2], float(self._kinds.shape[1])),
        }
        for rows in ROWS:
            full = np.ceil(each / rows - 1e-9)
            columns[f"tiles{rows}"] = (active * full).sum(axis=2)
        return {name: column.ravel() for name, column in columns.items()}

    def slowest(self, seconds: Floats) -> Floats:
        """Return the longest time of all devices for each number of tokens [s]."""
        longest: Floats = seconds.reshape(self.kinds, -1).max(axis=0)
        return longest


@dataclass(frozen=True, eq=False, repr=False)
class Replica:
    """What the stages of a replica have in common.

    Attributes
    ----------
    kernels : of a device, as the engine has them
    links : collectives and messages between its devices
    loads : of the experts; None for a model without
    """

    model: Transformer
    layout: Layout
    formats: Formats
    engine: EngineRecord
    kernels: KernelPrices
    links: Links
    loads: ExpertLoads | None

    __repr__ = in_brief

    def kernel(self, part: str) -> str:
        """Return the kernel that multiplies the weights of a part."""
        return self.formats.kernel(part, self.kernels.device)

    @cached_property
    def head(self) -> Head:
        """The attention of one device; keys beyond their number of heads are replicated."""
        model, tensor = self.model, self.layout.tensor
        heads = model.heads // tensor
        if model.latent is None:
            size, kv_heads = model.head_size, max(1, model.kv_heads // tensor)
            return Head(heads, kv_heads, size, size, 2 * size)
        key = model.latent.keys_values + model.latent.rope
        return Head(heads, 1, key, model.latent.keys_values, key, latent=True)

    @cached_property
    def prompt_head(self) -> Head:
        """The attention of prompts, in which latent keys and values are written out."""
        heads, latent = self.head.heads, self.model.latent
        if latent is None:
            return self.head
        return Head(heads, heads, latent.nope + latent.rope, latent.value, 0, latent=True)

    @property
    def cached_bytes(self) -> float:
        """Bytes of a cached token and layer on one device, with the key of an indexer [B]."""
        latent = self.model.latent
        indexed = 0.0 if latent is None else indexed_bytes(latent)
        return KV_BYTES[self.formats.kv] * self.head.kv_heads * self.head.read + indexed

    @cached_property
    def state_bytes(self) -> float:
        """Bytes of the state of a sequence in a Mamba-2 layer on one device [B].

        The last inputs of the convolution are in 16 bits, the state of each head in 32: vLLM,
        ``NemotronHForCausalLMConfig``.  Groups beyond their number are replicated.
        """
        shape, tensor = self.model.mamba, self.layout.tensor
        if shape is None:
            return 0.0
        convolved = (shape.inner + 2 * max(shape.groups, tensor) * shape.state) / tensor
        state = shape.heads * shape.head_size * shape.state / tensor
        return 2.0 * (shape.convolution - 1) * convolved + 4.0 * state

    @property
    def stacks(self) -> list[tuple[Layer, ...]]:
        """Layers of each stage, in order."""
        ends = accumulate(self.layout.layers(self.model), initial=0)
        return [self.model.stack[first:last] for first, last in pairwise(ends)]


def build_replica(
    cluster: Cluster,
    model: Transformer,
    layout: Layout,
    formats: Formats,
    engine: EngineRecord,
    shares: Sequence[float] | None = None,
    first: int = 0,
) -> Replica:
    """Return a replica on the devices `first` and after of a machine.

    Parameters
    ----------
    shares : of each expert in the tokens of a layer, in any unit; None for equal ones

    Raises
    ------
    PlanError
        when the layout does not fit model or machine, or the engine lacks a number format.
    """
    check_replica(layout, model, cluster.devices - first)
    check_formats(formats, engine)
    kernels = KernelPrices(
        cluster.accelerator,
        cast_fused=engine.kernels.cast,
        experts_alone=engine.kernels.experts_alone,
        prepared=engine.kernels.rotary_attended,
        cast_apart=engine.kernels.cast_apart or (),
        engine=engine.kernels.measured,
        experts_engine=engine.kernels.measured_experts,
        filled=_filled(engine.kernels.filled, layout, cluster.accelerator),
    )
    loads = None
    if model.experts is not None:
        equal = [1.0] * model.experts.count
        loads = ExpertLoads(shares or equal, model.experts.top_k, layout.expert)
    links = Links(cluster, layout, engine.collectives, kernels, first)
    return Replica(model, layout, formats, engine, kernels, links, loads)


def _filled(tiles: FilledTiles | None, layout: Layout, device: Accelerator) -> dict[str, int]:
    """Return the rows that the tokens of an expert are filled to, by number format."""
    if tiles is None or layout.expert_tensor > tiles.tensor:
        return {}
    fits = device.capability in tiles.capabilities
    return dict.fromkeys(tiles.formats, tiles.rows) if fits else {}
