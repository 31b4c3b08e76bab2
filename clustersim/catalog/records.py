"""Machines as their files state them: accelerators, nodes and clusters.

Records have values with their sources and no physics, which is in the layers above.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.fabrics import Dragonfly, FabricShape
from clustersim.catalog.facts import (
    MAX_IN_NODE,
    Bandwidth,
    Bytes,
    Count,
    Fact,
    Fitted,
    FlopsPerSecond,
    Fraction,
    InNode,
    Line,
    Nodes,
    NotNegative,
    Record,
    Seconds,
    Strict,
    Watts,
    Whole,
)
from clustersim.catalog.kernel_records import Kernels
from clustersim.catalog.libraries import LibraryRecord
from clustersim.catalog.power_records import NetworkPowerFacts, NodePowerFacts, PowerFacts
from clustersim.catalog.storage import StorageFacts

# --- accelerators ------------------------------------------------------------------------------


class DeviceMemoryFacts(Strict):
    """Device memory; `achieved` is the share of `bandwidth` that streaming kernels reach.

    `cache` is the last level of cache that all compute units share; only benchmarks of products,
    which rotate as many copies of their weights as exceed it, depend on it.
    """

    capacity: Fact[Bytes]
    bandwidth: Fact[Bandwidth]
    achieved: Fact[Fraction]
    cache: Fact[Bytes] | None = None


class Tile(Strict):
    """A block of the output that one compute unit computes, and its efficiency."""

    rows: Count
    columns: Count
    efficiency: Fraction


class GemmFacts(Strict):
    """The efficiency of matrix products: measured kernels, or a roofline if `tiles` are given.

    `best` is the share of peak on the best shape; `inner_half` the inner dimension at which half
    of the pipeline's depth is hidden; `tiles` the tiles of the library, with which both others are
    required.  Without tiles, products are those of the fits of measured kernels of this
    accelerator, or of the one that it is like, and `best` and `inner_half` replace theirs.
    `sustained` is the share of a fit's rate that a device sustains in training, by default what
    the fit found for long kernels.  `narrow_best`, `narrow_inner_half` and `narrow_sustained` are
    those of products of 8-bit numbers, the same if missing.  `ragged` is the peak of products whose
    rows are not whole vectors of 16 bytes, where the library has no kernels of tensor cores for
    them; the same peak if missing.
    """

    best: Fact[Fraction] | None = None
    inner_half: Fact[NotNegative] | None = None
    sustained: Fact[Fraction] | None = None
    ragged: Fact[FlopsPerSecond] | None = None
    narrow_best: Fact[Fraction] | None = None
    narrow_inner_half: Fact[NotNegative] | None = None
    narrow_sustained: Fact[Fraction] | None = None
    tiles: Fact[Annotated[list[Tile], Field(min_length=1, max_length=MAX_IN_NODE)]] | None = None

    @model_validator(mode="after")
    def _needs_a_roofline_whole(self) -> Self:
        """Reject tiles without the rest of the roofline, and a share of fits that are not used."""
        if self.tiles is not None:
            missing = [name for name in ("best", "inner_half") if getattr(self, name) is None]
            if missing:
                raise ValueError(f"{missing[0]}: missing, but the file gives tiles (give it too)")
            for name in ("sustained", "narrow_sustained"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}: is a share of measured kernels, which tiles replace (give only"
                        " one of both)"
                    )
        return self


class FlashKernelFacts(Strict):
    """Share of peak that a fused attention kernel reaches, forward and backward.

    These are of long sequences with heads of 128.  `forward_sequence` and `backward_sequence` are
    the tokens of a sequence at which it reaches half of that, `forward_head` and `backward_head`
    the width of a head at which it reaches half of the limit of wide heads; 0 if missing.
    """

    forward: Fact[Fraction]
    backward: Fact[Fraction]
    forward_sequence: Fact[NotNegative] | None = None
    backward_sequence: Fact[NotNegative] | None = None
    forward_head: Fact[NotNegative] | None = None
    backward_head: Fact[NotNegative] | None = None


class FlashFacts(FlashKernelFacts):
    """Fused attention: FlashAttention-2, unless a note names another one, and that of cuDNN.

    `head_sizes` are the widths that kernels were built for; others are padded up to the next.
    `cudnn` is missing where software that could use cuDNN's kernels uses the others.
    """

    head_sizes: Fact[Annotated[list[Count], Field(max_length=MAX_IN_NODE)]]
    cudnn: FlashKernelFacts | None = None


class CalibrationFacts(Strict):
    """The calibration of a file by `clustersim calibrate`, and whether the file has its values.

    Errors are means of the absolute errors of the time over all rows: `before` with the values of
    the file, `after` with those that were `found`; `held_out` is of each group by a fit without
    it.  `kept` is the reason why the file has other values than those; it has them if missing.
    """

    command: str
    rows: Count
    before: NotNegative
    after: NotNegative
    held_out: Annotated[dict[str, NotNegative], Field(min_length=1)]
    found: Annotated[dict[str, Fitted], Field(min_length=1)]
    kept: str | None = None


class AcceleratorRecord(Record):
    """``topologies/accelerators/*.yaml``: a device and its calibration.

    `measured_as` are its names in tables of measured kernels.  Kernels without a fit of its own
    are predicted by the fits of `kernels_like`, the most similar accelerator that has them.
    `fits` are those of files in the scenario's folder, by accelerator; they win over shipped ones.
    `power` is missing where no power is known; `power_cap` is a limit that the operator sets below
    that of the board. `capability` is the compute capability of CUDA, or Intel's generation
    (``xe2``), by which libraries choose their kernels; other devices have none. `clock_spread` is
    the relative standard deviation, over devices of this kind, of the time of kernels that are
    limited by compute; none if missing.
    """

    kind: Literal["accelerator"]
    peak: dict[str, Fact[FlopsPerSecond]]
    memory: DeviceMemoryFacts
    compute_units: Fact[Count]
    capability: Fact[Line] | None = None
    launch_overhead: Fact[Seconds]
    clock_spread: Fact[NotNegative] | None = None
    gemm: GemmFacts = Field(default_factory=GemmFacts)
    flash_attention: FlashFacts
    calibration: CalibrationFacts | None = None
    measured_as: list[Line] = Field(default_factory=list)
    kernels_like: Fact[Line] | None = None
    fits: dict[str, Kernels] = Field(default_factory=dict)
    power: PowerFacts | None = None
    power_cap: Fact[Watts] | None = None

    @model_validator(mode="after")
    def _cap_is_between_idle_and_limit(self) -> Self:
        cap, power = self.power_cap, self.power
        if cap is None:
            return self
        if power is None:
            raise ValueError(
                "power_cap: needs the power of the device (add power, or remove power_cap)"
            )
        low, high = power.idle, power.limit
        if not low < cap <= high:
            raise ValueError(
                f"power_cap: {cap:g} W is not above the idle power of {low:g} W and at most"
                f" the limit of {high:g} W"
            )
        return self


# --- nodes and clusters ------------------------------------------------------------------------


class DeviceSwitch(Strict):
    """Every device of the node is connected to one crossbar (NVSwitch).

    `reduces` is the share of the payload rate that is reached where the crossbar adds up the
    messages that pass it (NVLink SHARP); missing where it cannot.
    """

    type: Literal["switch"]
    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]
    reduces: Fact[Fraction] | None = None


End = Whole | str
"""An end of a link in a node: a device by its number, or a switch or host bridge by name."""


class LinkKind(Strict):
    """Equal links inside a node: ``[end, end]``, or ``[end, end, how many side by side]``.

    `bandwidth` is that of one link in one direction, `efficiency` the share that is payload.
    """

    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]
    between: Fact[Annotated[list[tuple[End, End] | tuple[End, End, InNode]], Field(min_length=1)]]


class DeviceLinks(Strict):
    """Links inside a node, by kind: NVLink or xGMI between devices, PCIe to host bridges."""

    type: Literal["links"]
    kinds: dict[str, LinkKind]

    def pairs(self) -> list[tuple[int | str, int | str]]:
        """Return the two ends of every link."""
        return [(a, b) for kind in self.kinds.values() for a, b, *_ in kind.between]


class OneDevice(Strict):
    """No links inside: the node is a single device."""

    type: Literal["none"]


NetworkType = Literal["infiniband", "roce", "ethernet", "omni-path", "slingshot", "efa", "torus"]
"""The network that NICs belong to; libraries are tuned for it."""


class NicPort(Strict):
    """The NICs of a node: NIC i is connected to ``devices[i]``, a device or a switch, by a bus."""

    network: NetworkType | None = None
    devices: Fact[Annotated[list[End], Field(min_length=1, max_length=MAX_IN_NODE)]]
    bus: Fact[Bandwidth]


class HostFacts(Strict):
    """Host memory, and the link of each device to it, per direction.

    `bandwidth` is that of the memory of the whole node, read and written together. `link` is used
    where the node has no host bridges, ends of links called ``cpu0``, ``cpu1`` and so on.
    """

    memory: Fact[Bytes]
    bandwidth: Fact[Bandwidth] | None = None
    link: Fact[Bandwidth] | None = None


class NodeRecord(Record):
    """``topologies/nodes/*.yaml``: a machine with devices, links between them and NICs."""

    kind: Literal["node"]
    accelerator: AcceleratorRecord
    devices: Fact[InNode]
    interconnect: DeviceSwitch | DeviceLinks | OneDevice = Field(discriminator="type")
    nics: NicPort
    library: LibraryRecord
    host: HostFacts | None = None
    power: NodePowerFacts | None = None

    @model_validator(mode="after")
    def _ends_exist(self) -> Self:
        count = self.devices
        inside = self.interconnect
        pairs = inside.pairs() if isinstance(inside, DeviceLinks) else []
        known = {*range(count), *(end for pair in pairs for end in pair if isinstance(end, str))}
        for end in [*self.nics.devices, *(end for pair in pairs for end in pair)]:
            if end not in known:
                what = "device" if isinstance(end, int) else "switch"
                raise ValueError(f"names {what} {end}, but the node has devices 0 to {count - 1}")
        if isinstance(inside, OneDevice) and count > 1:
            raise ValueError("interconnect.type: 'none' joins no devices (allowed: switch, links)")
        if isinstance(inside, DeviceLinks):
            _check_joined(count, pairs)
        return self


def _check_joined(devices: int, pairs: list[tuple[int | str, int | str]]) -> None:
    """Check that links connect every device to the others."""
    neighbours: dict[int | str, set[int | str]] = {}
    for a, b in pairs:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    joined: set[int | str] = {0}
    front: set[int | str] = {0}
    while front:
        front = {end for near in front for end in neighbours.get(near, ())} - joined
        joined |= front
    apart = sorted(set(range(devices)) - joined)
    if apart:
        raise ValueError(f"interconnect: no link leads from device 0 to device {apart[0]}")


class NicFacts(Strict):
    """One network interface, per direction; `efficiency` is payload over raw rate."""

    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]


class ClusterRecord(Record):
    """``topologies/clusters/*.yaml``: nodes, their NICs and the fabric between them."""

    kind: Literal["cluster"]
    node: NodeRecord
    size: Fact[Nodes]
    nic: NicFacts
    fabric: FabricShape
    power: NetworkPowerFacts | None = None
    storage: StorageFacts | None = Field(None, description="what checkpoints are saved to")
    reliability: Fact[Line] | None = None

    @model_validator(mode="after")
    def _every_nic_has_a_switch(self) -> Self:
        nics = len(self.node.nics.devices)
        if isinstance(self.fabric, Dragonfly) and self.fabric.switches_per_group % nics:
            raise ValueError(
                f"fabric.switches_per_group: {self.fabric.switches_per_group} is not a"
                f" multiple of the {nics} NICs of a node, which have a switch each"
            )
        return self
