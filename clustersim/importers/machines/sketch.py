"""One node as a file states it, without assumptions: the result of every node reader.

dev0 -- 18 links -- crossbar          `crossbar` counts each device's links to switches
dev0 == dev1                          `wires` are direct: nvlink, xgmi, c2c
dev0 -- pcie0 -- cpu0 -- cpu1         and the tree of PCIe bridges and host bridges
          |
        mlx5_0                        a NIC is attached to `Nic.end`
"""

from dataclasses import field

from clustersim.records import dataclass

End = int | str
"""A device by its number, or a bridge or host bridge by its name."""


@dataclass(frozen=True)
class Clues:
    """Clues to the chip.

    Attributes
    ----------
    code : compute capability (``"90"``) or instruction set (``"gfx942"``)
    units : compute units, if the file states them
    product : text that may contain the product name
    maker : ``"nvidia"`` or ``"amd"``
    """

    maker: str
    code: str = ""
    units: int | None = None
    product: str = ""


@dataclass(frozen=True)
class Wire:
    """Equal links between two ends; `bandwidth` of one per direction [B/s] if stated."""

    a: End
    b: End
    kind: str
    count: int = 1
    bandwidth: float | None = None


@dataclass(frozen=True)
class Nic:
    """A NIC; `rate` of its network [B/s] and `bus` to its end [B/s] if stated."""

    name: str
    end: End
    rate: float | None = None
    bus: float | None = None


@dataclass(frozen=True)
class Sketch:
    """One node as a file states it.

    Attributes
    ----------
    origin : the format, as named in the table of sources
    devices : number of devices
    crossbar : links of each device to switches, None without switches
    link : rate of a link between devices or to switches [B/s], if the file states it
    hosts : the host bridges
    silent : whether the format cannot state links between devices
    remarks : decisions of the reader for the user to check
    """

    origin: str
    devices: int
    clues: Clues
    crossbar: tuple[int, ...] | None = None
    link: float | None = None
    wires: tuple[Wire, ...] = ()
    nics: tuple[Nic, ...] = ()
    hosts: tuple[str, ...] = ()
    silent: bool = False
    remarks: tuple[str, ...] = field(default=())

    @property
    def direct(self) -> tuple[Wire, ...]:
        """The links from device to device."""
        return tuple(w for w in self.wires if isinstance(w.a, int) and isinstance(w.b, int))

    @property
    def tree(self) -> tuple[Wire, ...]:
        """The PCIe links."""
        return tuple(wire for wire in self.wires if wire.kind == "pcie")
