"""Files of InfraGraph 2, in YAML or JSON, as the schema of Keysight describes them.

    devices:   [{name, components: [{name, count, choice}], links, edges}]    what there may be
    instances: [{name, device, count}]                                        what there is
    edges:     [{ep1: {instance, component}, ep2: ..., scheme, link}]         how it is joined
    links:     [{name, physical: {bandwidth: {gigabits_per_second}, latency: {ns}}}]

InfraGraph 2.4.0, ``artifacts/openapi.yaml``, https://infragraph.dev, read 2026-11-24.  A file may
have them below the key ``infrastructure``, or be a single device.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from clustersim.catalog.checking import checked
from clustersim.catalog.reading import parse_yaml
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.importers.machines.nccl_xml import pcie_bandwidth
from clustersim.importers.source import Source

MOST_COPIES: Final = 10**6
LANES: Final = 16
"""Lanes of a link whose rate is in transfers per second, which the schema does not state."""

Rate = Annotated[float, Field(gt=0, le=1e9)]
Copies = Annotated[int, Field(ge=0, le=MOST_COPIES)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Scheme = Literal["one2one", "many2many", "ring"]


class Part(BaseModel):
    """A table of a file; keys that do not describe the graph are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


class Bandwidth(Part):
    """The rate of a link, in one of three units."""

    gigabits_per_second: Rate | None = None
    gigabytes_per_second: Rate | None = None
    gigatransfers_per_second: Annotated[float, Field(ge=1, le=1000)] | None = None


class Latency(Part):
    """The latency of a link, in one of three units."""

    ms: Rate | None = None
    us: Rate | None = None
    ns: Rate | None = None


class Physical(Part):
    """Physical properties of a link."""

    bandwidth: Bandwidth = Bandwidth()
    latency: Latency = Latency()


class Link(Part):
    """A kind of link."""

    name: Name
    description: str = ""
    physical: Physical = Physical()

    @property
    def rate(self) -> float | None:
        """Raw rate per direction [B/s], None if it is not stated."""
        stated = self.physical.bandwidth
        if stated.gigabytes_per_second is not None:
            return stated.gigabytes_per_second * 1e9
        if stated.gigabits_per_second is not None:
            return stated.gigabits_per_second * 1e9 / 8
        transfers = stated.gigatransfers_per_second
        return None if transfers is None else pcie_bandwidth(transfers, LANES)

    @property
    def latency(self) -> float | None:
        """Latency [s], None if it is not stated."""
        stated = self.physical.latency
        for value, unit in ((stated.ms, 1e-3), (stated.us, 1e-6), (stated.ns, 1e-9)):
            if value is not None:
                return value * unit
        return None

    @property
    def is_pcie(self) -> bool:
        """Whether its name or description is that of PCI Express."""
        return "pci" in f"{self.name} {self.description}".lower()


class Component(Part):
    """Equal components of a device."""

    name: Name
    count: Copies
    choice: Literal["custom", "device", "cpu", "xpu", "npu", "nic", "memory", "port", "switch"]
    description: str = ""


class DeviceEnd(Part):
    """Components of a device, or of a device inside it."""

    component: Name
    device: Name | None = None


class DeviceEdge(Part):
    """Edges between components of a device."""

    ep1: DeviceEnd
    ep2: DeviceEnd
    scheme: Scheme
    link: Name


class Device(Part):
    """A device: its components and the edges between them."""

    name: Name
    description: str = ""
    components: list[Component]
    links: list[Link] = []
    edges: list[DeviceEdge] = []


class Instance(Part):
    """Copies of a device."""

    name: Name
    device: Name
    count: Copies


class InstanceEnd(Part):
    """Components of instances."""

    instance: Name
    component: Name


class Edge(Part):
    """Edges between components of instances."""

    ep1: InstanceEnd
    ep2: InstanceEnd
    scheme: Scheme
    link: Name


class Infrastructure(Part):
    """A file: devices, their instances, and the edges between these."""

    name: str = ""
    devices: Annotated[list[Device], Field(min_length=1)]
    links: list[Link] = []
    instances: list[Instance] = []
    edges: list[Edge] = []


def read_file(source: Source) -> Infrastructure:
    """Return the infrastructure of a file.

    Raises
    ------
    CatalogError
        with line and key, when a key is missing or has a value that is not allowed.
    """
    document = parse_yaml(source.text, source.file, CatalogError)
    if not isinstance(document.data, dict):
        raise source.wrong(None, "has no keys (expected devices, instances, links and edges)")
    if isinstance(document.data.get("infrastructure"), dict):
        document = document.part("infrastructure")
    data: dict[str, Any] = document.mapping()
    if "components" in data:
        data = {"devices": [data]}
    return checked(Infrastructure, Tree(data, dict(document.places)), CatalogError)
