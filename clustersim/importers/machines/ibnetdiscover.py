"""The output of `ibnetdiscover`: every switch and adapter of an InfiniBand fabric with its ports.

    Switch  24 "S-005442ba00003080"   # "ISR9024" base port 0 lid 6 lmc 0
    [22]    "H-0008f10403961354"[1](8f10403961355)   # "node012 mlx5_0" lid 4 4xHDR

    Ca      1 "H-0008f10403961354"    # "node012 mlx5_0"
    [1](8f10403961355)  "S-005442ba00003080"[22]     # lid 4 lmc 0 "ISR9024" lid 6 4xHDR

A cable is listed once from each end; it is counted once per unordered pair of ports.
"""

import re
from collections import Counter
from dataclasses import field
from typing import Final

from clustersim.importers.machines.cluster_file import Network
from clustersim.importers.source import Source, natural
from clustersim.records import dataclass

LANE: Final = {
    "SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR10": 10.0, "FDR": 14.0625 * 64 / 66,
    "EDR": 25.0, "HDR": 50.0, "NDR": 100.0, "XDR": 200.0,
}  # fmt: skip
"""Data rate of one lane per direction [Gb/s], without encoding overhead: InfiniBand Architecture
Specification, volume 2: 8b/10b up to QDR, 64b/66b after it (EDR signals 25.78125 GBd)."""

_DEVICE: Final = re.compile(r'(Switch|Ca|Rt)\s+[0-9]+\s+"([SHR]-[0-9a-fA-F]+)"\s*#\s*"([^"]*)"')
_PORT: Final = re.compile(
    r"\[([0-9]{1,4})\](?:\[ext [^\]]*\])?(?:\([0-9a-fA-F]+\))?\s+"
    r'"([SHR]-[0-9a-fA-F]+)"\[([0-9]{1,4})\](?:\[ext [^\]]*\])?(?:\([0-9a-fA-F]+\))?\s*(?:#(.*))?'
)
_RATE: Final = re.compile(r"\b(1|2|4|8|12)x\s?([A-Z]{3}(?:10)?)\s*$")
_ADAPTER: Final = re.compile(
    r"(mlx[0-9]+_[0-9]+|HCA-[0-9]+|hfi[0-9]_[0-9]+|qib[0-9]+|ib[a-z0-9_]*[0-9]+)"
)

Port = tuple[str, int]
"""The GUID of a device and the number of a port."""


@dataclass(frozen=True)
class Adapter:
    """An adapter: its host and its name in the host."""

    host: str
    name: str


@dataclass
class _Reading:
    """Parser state."""

    names: dict[str, str] = field(default_factory=dict)
    described: set[str] = field(default_factory=set)
    cables: dict[frozenset[Port], float] = field(default_factory=dict)


def rate(width: int, speed: str) -> float:
    """Return the rate of an InfiniBand link per direction [B/s].

    >>> rate(4, "HDR")
    25000000000.0
    """
    return width * LANE[speed] * 1e9 / 8


def read(source: Source) -> Network:
    """Return the fabric of the output.

    Raises
    ------
    CatalogError
        with the line, when a line has another format, or no host is attached to a switch.
    """
    state = _parsed(source)
    adapters = {key: _adapter(key, text) for key, text in state.names.items() if key[0] == "H"}
    links = [(sorted(ends), wide) for ends, wide in state.cables.items() if len(ends) == 2]
    used = {key for key, text in state.names.items() if "Aggregation Node" not in text}
    links = sorted((ends, wide) for ends, wide in links if all(end[0] in used for end in ends))
    hosts, remarks = _hosts(source, links, adapters)
    switches = _switch_names(state.names)
    cables, rates = [], Counter[float]()
    for ends, wide in links:
        names = [hosts.get(port) or switches.get(port[0]) for port in ends]
        if names[0] and names[1]:
            cables.append((names[0], names[1], wide))
            rates.update(wide for port in ends if port in hosts)
    nodes = {name.partition(".")[0] for name in hosts.values()}
    usual = max(rates, key=lambda wide: (rates[wide], wide))
    remarks += _slow(cables, usual)
    if unseen := len(state.names.keys() - state.described):
        remarks.append(f"{unseen} devices are named as peers only (is the file truncated?)")
    return Network(
        origin="ibnetdiscover",
        nodes=len(nodes),
        nics=len(hosts) // len(nodes),
        rate=max(rates),
        cables=tuple(cables),
        remarks=tuple(remarks),
    )


def _parsed(source: Source) -> _Reading:
    state, here = _Reading(), ""
    for number, line in source.lines:
        text = line.strip()
        if device := _DEVICE.match(text):
            here = device[2]
            state.names[here] = device[3].strip()
            state.described.add(here)
        elif text.startswith("["):
            if not here:
                raise source.wrong(number, "a port before the first Switch or Ca")
            _take_port(source, number, text, here, state)
        elif (
            text
            and not text.startswith("#")
            and not re.match(
                r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid|Chassis|Spine|Line)\b", text
            )
        ):
            raise source.wrong(
                number,
                "not a line of ibnetdiscover (was it run with -p, or is it truncated?)",
            )
    if not state.cables:
        raise source.wrong(None, "lists no cables (lines that begin with a port in brackets)")
    return state


def _take_port(source: Source, line: int, text: str, here: str, state: _Reading) -> None:
    port = _PORT.fullmatch(text)
    if port is None:
        raise source.wrong(
            line, f"[{text[1:].partition(']')[0]}]: no peer is named (is the line truncated?)"
        )
    comment = port[4] or ""
    peer = re.search(r'"([^"]*)"', comment)
    if peer:
        state.names.setdefault(port[2], peer[1].strip())
    cable = frozenset([(here, int(port[1])), (port[2], int(port[3]))])
    speed = _RATE.search(comment)
    if speed is None or speed[2] not in LANE:
        known = ", ".join(LANE)
        raise source.wrong(line, f"[{port[1]}]: no rate such as 4xHDR at the end (known: {known})")
    wide = rate(int(speed[1]), speed[2])
    state.cables[cable] = min(wide, state.cables.get(cable, wide))


def _adapter(key: str, description: str) -> Adapter:
    """Return host and adapter from a description such as ``node012 mlx5_0``.

    If the description does not name an adapter, the host is identified by its GUID.
    """
    words = description.split()
    named = next((word for word in words[1:] if _ADAPTER.fullmatch(word)), None)
    return Adapter(words[0], named) if named else Adapter(key, "")


def _hosts(
    source: Source, links: list[tuple[list[Port], float]], adapters: dict[str, Adapter]
) -> tuple[dict[Port, str], list[str]]:
    """Return the NIC name of each host port; hosts with unusual adapters are omitted."""
    rails: dict[str, dict[tuple[str, int], Port]] = {}
    for ends, _ in links:
        for port in ends:
            if port[0] in adapters:
                adapter = adapters[port[0]]
                rails.setdefault(adapter.host, {})[adapter.name, port[1]] = port
    if not rails:
        raise source.wrong(None, "no host is attached to a switch (lines 'Ca')")
    sets = Counter(tuple(sorted(ports, key=_rail)) for ports in rails.values())
    usual = max(sets, key=lambda names: (sets[names], len(names), names))
    usual_hosts = sorted((h for h in rails if rails[h].keys() == set(usual)), key=natural)
    left = sorted(rails.keys() - set(usual_hosts))
    hosts = {
        rails[host][rail]: f"n{i}.nic{j}"
        for i, host in enumerate(usual_hosts)
        for j, rail in enumerate(usual)
    }
    shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
    remarks = [f"omitted {shown}: their adapters differ from those of other hosts"] if left else []
    return hosts, remarks


def _switch_names(names: dict[str, str]) -> dict[str, str]:
    """Return a readable name of each switch if it is unique."""
    short = {}
    for key, text in names.items():
        if key[0] != "H":
            inside = re.search(r"(?:^|;)([A-Za-z0-9_-]+)(?::|$)", text)
            short[key] = inside[1] if inside and inside[1] != "MF0" else key
    count = Counter(short.values())
    unlike_nic = {key for key, name in short.items() if not re.fullmatch(r"n[0-9]+", name)}
    return {k: name if count[name] == 1 and k in unlike_nic else k for k, name in short.items()}


def _slow(cables: list[tuple[str, str, float]], usual: float) -> list[str]:
    slow = [f"{a} to {b} at {wide / 1e9:.4g} GB/s" for a, b, wide in cables if wide < usual]
    if not slow:
        return []
    more = f" and {len(slow) - 4} more" if len(slow) > 4 else ""
    return [f"slower than the {usual / 1e9:.4g} GB/s of most NICs: {', '.join(slow[:4])}{more}"]


def _rail(adapter: tuple[str, int]) -> tuple[list[tuple[int, str]], int]:
    """Return a key that sorts adapters by name, then by port."""
    return natural(adapter[0]), adapter[1]
