"""Slurm's `topology.conf`: a tree of switches, or blocks of nodes.

    SwitchName=leaf1 Nodes=n[001-018]           BlockName=b1 Nodes=n[001-018]
    SwitchName=spine Switches=leaf[1-8]         BlockSizes=18,36

It states proximity but neither cables nor rates, so every level is assumed to carry all traffic of
the level below.  A regular tree becomes a fat tree, any other one a list of links.
"""

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from clustersim.importers.draft import Choices, as_in, assumed, stated
from clustersim.importers.machines.cluster_file import Network, template
from clustersim.importers.machines.nearest import ClusterEntry
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_NODES: Final = 200_000
_ORIGIN: Final = "Slurm topology.conf"
_RATES: Final = "links are from the file, rates are not: each level carries all of the level below"
_MOST_RANGES: Final = 8
_ROOT: Final = "above-all"
_WHAT: Final = "switch (SwitchName=...) or block (BlockName=...)"
_KNOWN: Final = ("switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes")


@dataclass
class Switch:
    """A switch or block: its line in the file, and the nodes and switches below it."""

    name: str
    line: int
    nodes: list[str] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)


def read(source: Source, choices: Choices) -> Network:
    """Return the network of a topology file.

    Raises
    ------
    CatalogError
        with the line, when a line has another format, or the switches do not form a tree.
    """
    switches, blocks = _switches(source)
    root, remarks = _root(source, switches, blocks=blocks)
    leaves = [s for s in _walk(switches, root) if s.nodes]
    nodes = sum(len(leaf.nodes) for leaf in leaves)
    node, like = template(None, None, choices)
    nics, rate = len(node.nics), like.nic_rate
    shape = _regular(switches, root, leaves)
    if shape is None:
        cables = tuple(_cables(switches, root, leaves, nics, rate))
        return Network(
            _ORIGIN, nodes, None, None, cables, rates_assumed=_RATES, remarks=tuple(remarks)
        )
    fabric = _fat_tree(*shape, nics, like)
    return Network(_ORIGIN, nodes, None, None, fabric=fabric, remarks=tuple(remarks))


# --- the text -------------------------------------------------------------------------------------


def _logical_lines(source: Source) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, with continuation lines joined."""
    start, pending = 0, ""
    for number, line in source.lines:
        text = line.partition("#")[0].rstrip()
        start = start or number
        if text.endswith("\\"):
            pending += text[:-1] + " "
            continue
        if (pending + text).strip():
            yield start, (pending + text).strip()
        start, pending = 0, ""
    if pending.strip():
        raise source.wrong(start, "the last line ends in a backslash (is the file truncated?)")


def _switches(source: Source) -> tuple[dict[str, Switch], bool]:
    switches: dict[str, Switch] = {}
    blocks, total = False, 0
    for line, text in _logical_lines(source):
        values = _values(source, line, text)
        if "blocksizes" in values and len(values) == 1:
            continue
        name = values.get("switchname") or values.get("blockname")
        if name is None:
            raise source.wrong(line, f"names no {_WHAT}")
        blocks |= "blockname" in values
        if name in switches:
            raise source.wrong(line, f"{name} is described twice (line {switches[name].line})")
        nodes = _hosts(source, line, values.get("nodes", ""))
        below = _hosts(source, line, values.get("switches", ""))
        if bool(nodes) == bool(below):
            raise source.wrong(line, f"{name}: needs either Nodes or Switches")
        switches[name] = Switch(name, line, nodes, below)
        total += len(nodes) + len(below)
        if total > MOST_NODES:
            raise source.wrong(line, f"names more than {MOST_NODES:,} nodes and switches")
    if not switches:
        raise source.wrong(None, f"describes no {_WHAT}")
    return switches, blocks


def _values(source: Source, line: int, text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if not equals or not value or key.lower() not in _KNOWN:
            known = "SwitchName, Switches, Nodes, LinkSpeed, BlockName, BlockSizes"
            raise source.wrong(line, f"{word[:60]!r} is not one of {known} with a value")
        values[key.lower()] = value
    return values


def _hosts(source: Source, line: int, text: str) -> list[str]:
    """Return the names of a host list: ``n[001-003,7],login`` are n001, n002, n003, n7, login.

    Raises
    ------
    CatalogError
        when brackets do not match or a range is invalid.
    """
    names: list[str] = []
    for word in _words(source, line, text):
        for name in _expanded(source, line, word):
            names.append(name)
            if len(names) > MOST_NODES:
                raise source.wrong(line, f"names more than {MOST_NODES:,} nodes")
    return names


def _words(source: Source, line: int, text: str) -> list[str]:
    """Return the parts of a host list between commas outside brackets."""
    words, inside = [""], False
    for part in re.split(r"([\[\],])", text):
        if part in ("[", "]"):
            if inside == (part == "["):
                raise source.wrong(line, f"brackets do not match in {text[:60]!r}")
            inside = part == "["
        if part == "," and not inside:
            words.append("")
        else:
            words[-1] += part
    if inside:
        raise source.wrong(line, f"brackets do not match in {text[:60]!r}")
    if any(word.count("[") > _MOST_RANGES for word in words):
        raise source.wrong(line, f"more than {_MOST_RANGES} ranges in one name")
    return words


def _expanded(source: Source, line: int, word: str) -> Iterator[str]:
    if not word:
        return
    before, bracket, rest = word.partition("[")
    if not bracket:
        yield word
        return
    inside, _, after = rest.partition("]")
    for part in inside.split(","):
        span = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip())
        if span is None or int(span[2] or span[1]) < int(span[1]):
            raise source.wrong(line, f"{part[:40]!r} is not a range of numbers in {word[:60]!r}")
        first, last = int(span[1]), int(span[2] or span[1])
        if last - first > MOST_NODES:
            raise source.wrong(line, f"names more than {MOST_NODES:,} nodes")
        for number in range(first, last + 1):
            yield from _expanded(source, line, f"{before}{number:0{len(span[1])}d}{after}")


# --- the tree -------------------------------------------------------------------------------------


def _root(source: Source, switches: dict[str, Switch], *, blocks: bool) -> tuple[str, list[str]]:
    """Return the root switch, after a check that the switches form one tree."""
    above: dict[str, str] = {}
    homes: dict[str, str] = {}
    for switch in switches.values():
        for below in switch.switches:
            if below not in switches:
                raise source.wrong(switch.line, f"{switch.name}: no switch named {below!r}")
            _attach(source, switch, below, above)
        for below in switch.nodes:
            _attach(source, switch, below, homes)
    tops = [name for name in switches if name not in above]
    remarks = []
    if blocks and len(tops) > 1:
        switches[_ROOT] = Switch(_ROOT, 0, [], tops)
        tops = [_ROOT]
        remarks.append("the network between blocks is not in the file: one level above them")
    if len(tops) > 1:
        roots = f"{len(tops)} switches have no switch above them ({', '.join(tops[:3])})"
        raise source.wrong(None, f"not a single tree: {roots}; a cluster needs one")
    reached = len(list(_walk(switches, tops[0]))) if tops else 0
    if reached != len(switches):
        cycle = f"{len(switches) - reached} switches form a cycle"
        raise source.wrong(None, f"not a single tree: {cycle}")
    return tops[0], remarks


def _attach(source: Source, switch: Switch, below: str, seen: dict[str, str]) -> None:
    """Record the parent of a node or switch; it may have only one."""
    if below in seen:
        both = f"{seen[below]} and {switch.name}"
        raise source.wrong(switch.line, f"{below} is below {both} (one is allowed)")
    seen[below] = switch.name


def _walk(switches: dict[str, Switch], root: str) -> Iterator[Switch]:
    """Yield `root` and the switches below it, parents first."""
    stack = [root]
    while stack:
        switch = switches[stack.pop()]
        yield switch
        stack += reversed(switch.switches)


def _regular(
    switches: dict[str, Switch], root: str, leaves: list[Switch]
) -> tuple[int, int, int] | None:
    """Return (nodes of a leaf, leaves of a pod, pods) of a tree of two or three equal levels."""
    if len({len(leaf.nodes) for leaf in leaves}) > 1:
        return None
    top = switches[root]
    if top.nodes:
        return len(top.nodes), 1, 1
    pods = [switches[name] for name in top.switches]
    if all(pod.nodes for pod in pods):
        return len(leaves[0].nodes), len(pods), 1
    deep = all(pod.switches and all(switches[s].nodes for s in pod.switches) for pod in pods)
    if not deep or len({len(pod.switches) for pod in pods}) > 1:
        return None
    return len(leaves[0].nodes), len(pods[0].switches), len(pods)


def _fat_tree(nodes: int, leaves: int, pods: int, nics: int, like: ClusterEntry) -> dict[str, Any]:
    if leaves * pods == 1:
        return {"type": "switch"}
    whole = "not in the file; each level carries all of the level below"
    rail = "not in the file; a switch is assumed to serve all NICs of its nodes"
    return {
        "type": "fat-tree",
        "rail_optimised": assumed(False, rail),
        "nodes_per_leaf": stated(nodes),
        "leaf_uplinks": assumed(nodes * nics, whole),
        "leaves_per_pod": stated(leaves),
        "pod_uplinks": assumed(nodes * nics * leaves, whole),
        "link": {
            "bandwidth": as_in(like.data["nic"]["bandwidth"], like.name),
            "latency": as_in(like.data["fabric"]["link"]["latency"], like.name),
        },
        "routing": assumed("adaptive", "not in the file; flows spread evenly over equal cables"),
    }


def _cables(
    switches: dict[str, Switch], root: str, leaves: list[Switch], nics: int, rate: float
) -> Iterator[tuple[str, str, float]]:
    """Yield the cables of a tree in which every level carries all of the level below."""
    number = 0
    below: dict[str, int] = {}
    for leaf in leaves:
        below[leaf.name] = len(leaf.nodes)
        for _ in leaf.nodes:
            for nic in range(nics):
                yield f"n{number}.nic{nic}", _end(leaf.name), rate
            number += 1
    for switch in reversed(list(_walk(switches, root))):
        below.setdefault(switch.name, sum(below[name] for name in switch.switches))
        for name in switch.switches:
            yield _end(name), _end(switch.name), below[name] * nics * rate


def _end(name: str) -> str:
    """Return the name of a switch as an end of a link, distinct from names of NICs."""
    return f"switch-{name}" if re.fullmatch(r"n[0-9]+(\..*)?", name) else name
