"""The typed form of every catalogue file: what may stand in it, in which unit, with what proof.

A `Fact` is one value with its source or the reason for assuming it, never neither.  Records know
no physics: they carry what was read, and the layers above give it meaning.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from clustersim import units

T = TypeVar("T")


class Strict(BaseModel):
    """A record that allows no key it does not know and cannot change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _quantity(dimension: str) -> list[Any]:
    def parsed(text: object) -> float:
        return units.parse(text, dimension)

    example = units.EXAMPLES[dimension].partition(" or ")[0]
    return [
        BeforeValidator(parsed),
        WithJsonSchema({"type": "string", "description": dimension, "examples": [example]}),
    ]


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be greater than 0")
    return value


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError("must not be negative")
    return value


Bytes = Annotated[float, *_quantity("bytes"), AfterValidator(_positive)]
Bandwidth = Annotated[float, *_quantity("bandwidth"), AfterValidator(_positive)]
Seconds = Annotated[float, *_quantity("seconds"), AfterValidator(_not_negative)]
FlopsPerSecond = Annotated[float, *_quantity("flops_per_second"), AfterValidator(_positive)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1, strict=True)]


class Fact(Strict, Generic[T]):
    """One value with its proof.

    Attributes
    ----------
    value : the value, with its unit where it has one
    source : key of the record's ``sources`` table
    assumed : why this value is taken where no source was read; or the fit that gave it
    """

    value: T
    source: str | None = None
    assumed: str | None = None
    confidence: Literal["high", "medium", "low"] | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _has_proof(self) -> Self:
        if (self.source is None) == (self.assumed is None):
            raise ValueError("needs either 'source' or 'assumed', and not both")
        return self


class Source(Strict):
    """Where a fact was read."""

    title: str
    where: str | None = None
    read: str | None = None


class Record(Strict):
    """A catalogue file: its kind, its name and the sources that its facts refer to."""

    name: str
    title: str | None = None
    sources: dict[str, Source] = {}

    @model_validator(mode="after")
    def _sources_are_listed(self) -> Self:
        for where, fact in facts(self):
            if fact.source is not None and fact.source not in self.sources:
                raise ValueError(f"{where}: source '{fact.source}' is not in the table 'sources'")
        return self


def facts(record: BaseModel, where: str = "") -> Iterator[tuple[str, Fact[Any]]]:
    """Yield every fact of a record with its dotted key, not entering records inside it."""
    for name in type(record).model_fields:
        value = getattr(record, name)
        if not isinstance(value, Record):
            yield from _facts_in(value, f"{where}.{name}" if where else name)


def _facts_in(value: Any, where: str) -> Iterator[tuple[str, Fact[Any]]]:
    if isinstance(value, Fact):
        yield where, value
    elif isinstance(value, BaseModel):
        yield from facts(value, where)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _facts_in(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _facts_in(item, f"{where}[{i}]")


# --- accelerators ------------------------------------------------------------------------------


class MemoryFacts(Strict):
    """Device memory; `achieved` is the share of `bandwidth` that streaming kernels reach."""

    capacity: Fact[Bytes]
    bandwidth: Fact[Bandwidth]
    achieved: Fact[Fraction]


class Tile(Strict):
    """A block of the output that one compute unit works on, and how well it feeds the unit."""

    rows: Count
    columns: Count
    efficiency: Fraction


class GemmFacts(Strict):
    """The efficiency surface of matrix products.

    `best` is the share of peak on the best shape; `inner_half` the inner dimension at which half
    of the pipeline's depth is hidden; `tiles` what the library can choose from.
    """

    best: Fact[Fraction]
    inner_half: Fact[NotNegative]
    tiles: Fact[Annotated[list[Tile], Field(min_length=1)]]


class FlashFacts(Strict):
    """Share of peak that fused attention kernels reach, forward and backward.

    `head_sizes` are the widths that kernels were built for; others are padded up to the next.
    """

    forward: Fact[Fraction]
    backward: Fact[Fraction]
    head_sizes: Fact[list[Count]]


class AcceleratorRecord(Record):
    """``topologies/accelerators/*.yaml``: a device and the one calibration it has."""

    kind: Literal["accelerator"]
    peak: dict[str, Fact[FlopsPerSecond]]
    memory: MemoryFacts
    compute_units: Fact[Count]
    launch_overhead: Fact[Seconds]
    gemm: GemmFacts
    flash_attention: FlashFacts


# --- nodes and clusters ------------------------------------------------------------------------


class DeviceSwitch(Strict):
    """Every device of the node hangs on one crossbar (NVSwitch)."""

    type: Literal["switch"]
    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]


class DeviceMesh(Strict):
    """Direct links between pairs of devices: ``[a, b, bandwidth per direction]``."""

    type: Literal["mesh"]
    links: Fact[list[tuple[int, int, Bandwidth]]]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]


class NicPort(Strict):
    """The NICs of a node: NIC i hangs on device ``devices[i]`` by a bus."""

    devices: Fact[Annotated[list[int], Field(min_length=1)]]
    bus: Fact[Bandwidth]


class ProtocolFacts(Strict):
    """One wire protocol of a collective library.

    `base` is paid once, `device_hop` and `network_hop` for each step between neighbours in a node
    and across the network; `bandwidth` is the share of the link that carries payload.
    """

    base: Fact[Seconds]
    device_hop: Fact[Seconds]
    network_hop: Fact[Seconds]
    bandwidth: Fact[Fraction]


class LibraryRecord(Record):
    """``topologies/libraries/*.yaml``: a collective library (NCCL, RCCL)."""

    kind: Literal["library"]
    call_overhead: Fact[Seconds]
    protocols: dict[str, ProtocolFacts]


class NodeRecord(Record):
    """``topologies/nodes/*.yaml``: a machine with devices, links between them and NICs."""

    kind: Literal["node"]
    accelerator: AcceleratorRecord
    devices: Fact[Count]
    interconnect: DeviceSwitch | DeviceMesh = Field(discriminator="type")
    nics: NicPort
    library: LibraryRecord
    host_memory: Fact[Bytes] | None = None

    @model_validator(mode="after")
    def _devices_exist(self) -> Self:
        last = self.devices.value - 1
        named = list(self.nics.devices.value)
        if isinstance(self.interconnect, DeviceMesh):
            named += [end for a, b, _ in self.interconnect.links.value for end in (a, b)]
        for device in named:
            if not 0 <= device <= last:
                raise ValueError(f"names device {device}, but the node has devices 0 to {last}")
        if isinstance(self.interconnect, DeviceMesh):
            _check_joined(self.devices.value, self.interconnect.links.value)
        return self


def _check_joined(devices: int, links: list[tuple[int, int, float]]) -> None:
    """Refuse a mesh that leaves a device without a way to the others."""
    joined = {0}
    for _ in range(devices):
        joined |= {end for a, b, _ in links if a in joined or b in joined for end in (a, b)}
    apart = sorted(set(range(devices)) - joined)
    if apart:
        raise ValueError(f"interconnect.links: no link leads from device 0 to device {apart[0]}")


class NicFacts(Strict):
    """One network interface, per direction; `efficiency` is payload over raw rate."""

    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]


class FabricLink(Strict):
    """A cable between switches, per direction."""

    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]


class SingleSwitch(Strict):
    """All NICs on one ideal switch."""

    type: Literal["switch"]


class FatTree(Strict):
    """Leaves, spines and cores; rail-optimised when NIC i of every node has a leaf of its own."""

    type: Literal["fat-tree"]
    rail_optimised: Fact[bool]
    nodes_per_leaf: Fact[Count]
    leaf_uplinks: Fact[Count]
    leaves_per_pod: Fact[Count]
    pod_uplinks: Fact[Count]
    link: FabricLink
    routing: Fact[Literal["adaptive"]]


class Dragonfly(Strict):
    """Groups of switches, all to all inside a group, and every pair of groups joined."""

    type: Literal["dragonfly"]
    groups: Fact[Count]
    switches_per_group: Fact[Count]
    nodes_per_switch: Fact[Count]
    links_per_group_pair: Fact[Count]
    link: FabricLink
    routing: Fact[Literal["adaptive", "minimal"]]


class ClusterRecord(Record):
    """``topologies/clusters/*.yaml``: nodes, their NICs and the fabric between them."""

    kind: Literal["cluster"]
    node: NodeRecord
    size: Fact[Count]
    nic: NicFacts
    fabric: SingleSwitch | FatTree | Dragonfly = Field(discriminator="type")

    @model_validator(mode="after")
    def _every_nic_has_a_switch(self) -> Self:
        nics = len(self.node.nics.devices.value)
        if isinstance(self.fabric, Dragonfly) and self.fabric.switches_per_group.value % nics:
            raise ValueError(
                f"fabric.switches_per_group: {self.fabric.switches_per_group.value} is not a"
                f" multiple of the {nics} NICs of a node, which hang on a switch each"
            )
        return self


# --- models and frameworks ---------------------------------------------------------------------


class ModelRecord(Record):
    """``workloads/models/*.yaml``: the shape of a transformer, all from one source."""

    kind: Literal["model"]
    family: Literal["gpt"]
    layers: Count
    hidden: Count
    heads: Count
    ffn: Count
    vocab: Count
    sequence: Count
    parameters: Fact[Positive]
    source: str
    assumed: dict[str, str] = {}

    @model_validator(mode="after")
    def _heads_divide_hidden(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"heads: {self.heads} does not divide hidden {self.hidden}")
        return self


class StateBytes(Strict):
    """Bytes of training state for each parameter held, by part."""

    weights: Fact[NotNegative]
    gradients: Fact[NotNegative]
    optimiser: Fact[NotNegative]


class PipelineFacts(Strict):
    """How stages hand over activations.

    `sharded`: each tensor rank sends its share and the receivers gather it, instead of every rank
    sending the whole.  `blocking`: a stage waits for its send before it computes on.  The gathers
    are all-gathers over the tensor group for each microbatch, where shares are sent.
    """

    sharded: Fact[bool]
    blocking: Fact[bool]
    gathers_forward: Fact[Annotated[int, Field(ge=0)]]
    gathers_backward: Fact[Annotated[int, Field(ge=0)]]


class KernelFacts(Strict):
    """Which kernels a layer runs as."""

    attention: Fact[Literal["unfused", "fused-softmax", "flash"]]
    bias_gelu_fused: Fact[bool]
    bias_dropout_fused: Fact[bool]
    gradient_accumulation: Fact[NotNegative]
    loss_forward: Fact[NotNegative]
    loss_backward: Fact[NotNegative]


class OptimiserFacts(Strict):
    """The optimiser step.

    `held` is the bytes moved for each parameter that a rank holds (its gradients are cleared,
    scaled and averaged), `updated` for each one whose state it owns.
    """

    held: Fact[NotNegative]
    updated: Fact[NotNegative]


class GradientFacts(Strict):
    """The reduction of gradients over the data axis.

    `bytes_each` is the size of one gradient on the wire; `overlap` when the reduction runs beside
    the last backward; `sharded_collective` what ZeRO-1 uses: an all-reduce of everything, or a
    reduce-scatter.
    """

    bytes_each: Fact[NotNegative]
    overlap: Fact[Literal["never", "without-pipeline", "always"]]
    sharded_collective: Fact[Literal["all-reduce", "reduce-scatter"]]


class FrameworkRecord(Record):
    """``workloads/frameworks/*.yaml``: how a training framework runs a step."""

    kind: Literal["framework"]
    schedules: Fact[list[str]]
    zero: Fact[list[int]]
    vocab_multiple: Fact[Count]
    dispatch: Fact[Seconds]
    pipeline: PipelineFacts
    kernels: KernelFacts
    gradients: GradientFacts
    optimiser: OptimiserFacts
    state: dict[str, StateBytes]
    runtime_memory: Fact[Bytes]
