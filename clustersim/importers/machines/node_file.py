"""A node file from a sketch, completed from the nearest catalogue entries."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from clustersim.catalog import finding
from clustersim.catalog.tree import is_fact
from clustersim.errors import CatalogError
from clustersim.importers import draft
from clustersim.importers.draft import Choices, Draft, as_in, assumed, stated
from clustersim.importers.machines import hardware
from clustersim.importers.machines.hardware import CHIPS, Chip, candidates, chip_of, links_used
from clustersim.importers.machines.links import Attachment, Links, attach, switch_like
from clustersim.importers.machines.nearest import NodeEntry, nearest_nodes, nodes
from clustersim.importers.machines.sketch import End, Sketch
from clustersim.records import dataclass
from clustersim.units import counted


def node_draft(sketch: Sketch, file: str, choices: Choices) -> Draft:
    """Return the node file of a sketch, every value with its source or reason.

    Raises
    ------
    CatalogError
        when the chip is ambiguous and not chosen by the user.
    """
    return _Filling(sketch, file, choices).draft()


@dataclass(frozen=True)
class _Filling:
    """A node file under construction: each property depends only on earlier ones."""

    sketch: Sketch
    file: str
    choices: Choices

    def draft(self) -> Draft:
        data: dict[str, Any] = {
            "kind": "node",
            "name": self.choices.name,
            "title": f"{self.sketch.devices} x {self.accelerator}, imported",
            "accelerator": self.accelerator,
            "devices": stated(self.sketch.devices),
            "interconnect": self.interconnect,
            "nics": self.nics,
            "library": self.choices.library or self.nearest.library,
        }
        if self.host:
            data["host"] = self.host
        data["sources"] = draft.source_table(self.sketch.origin, self.file)
        remarks = (*self.sketch.remarks, *self._unequal(), *self._attached.remarks)
        return Draft(data, self.taken, remarks)

    def _unequal(self) -> Iterator[str]:
        counts = self.sketch.crossbar or ()
        if len(set(counts)) > 1:
            listed = ", ".join(str(count) for count in counts)
            yield f"devices differ in links to switches ({listed}): a fault?"

    @cached_property
    def fitting(self) -> list[Chip]:
        """The chips that match the file."""
        name = self.choices.accelerator
        if name is not None:
            chip = chip_of(name)
            return [chip] if chip else []
        known = finding.entry_names("accelerator")
        return [chip for chip in candidates(self.sketch) if chip.accelerator in known]

    @cached_property
    def entries(self) -> list[NodeEntry]:
        """The catalogue nodes, the most similar first."""
        sketch, chosen = self.sketch, self.choices.accelerator
        accelerators = [chosen] if chosen else [chip.accelerator for chip in self.fitting]
        if not accelerators:
            accelerators = [self._by_pairs()]
        return nearest_nodes(accelerators, self.form, sketch)

    def _by_pairs(self) -> str:
        """Return the chip of the only catalogue node with links between the same devices."""
        pairs = {frozenset((wire.a, wire.b)) for wire in self.sketch.direct}
        same = {
            entry.accelerator: entry
            for entry in nodes()
            if pairs and entry.devices == self.sketch.devices and entry.pairs.keys() == pairs
        }
        if len(same) != 1:
            raise CatalogError(
                f"{self.file}: accelerator not detected: set --accelerator NAME"
                f" (known: {', '.join(finding.entry_names('accelerator'))})"
            )
        return next(iter(same))

    @cached_property
    def nearest(self) -> NodeEntry:
        """The most similar node of the catalogue."""
        return self.entries[0]

    @cached_property
    def accelerator(self) -> str:
        """The chip: chosen by the user, or that of the nearest matching node."""
        if name := self.choices.accelerator:
            finding.find("accelerator", name, self.choices.folder, "--accelerator: ")
            return name
        fitting = [chip.accelerator for chip in self.fitting]
        if not fitting or self.nearest.accelerator in fitting:
            return self.nearest.accelerator
        return fitting[0]

    @cached_property
    def form(self) -> str:
        """Type of the interconnect: a crossbar, links, or none for a single device."""
        sketch = self.sketch
        if sketch.crossbar is not None and len(set(sketch.crossbar)) == 1:
            return "switch"
        if sketch.silent and self._like is not None:
            return self._like.form
        return "links" if sketch.devices > 1 or sketch.crossbar else "none"

    @cached_property
    def _like(self) -> NodeEntry | None:
        """The node that supplies the links between devices if the format has none."""
        chips = {chip.accelerator for chip in self.fitting} | {self.choices.accelerator}
        nics = hardware.adapter_kinds(nic.name for nic in self.sketch.nics)
        alike = [e for e in nodes() if e.accelerator in chips and e.devices == self.sketch.devices]
        alike.sort(key=lambda entry: hardware.adapter_distance(entry.network, nics))
        return next((e for e in alike if e.form == "switch" or e.pairs), None)

    @cached_property
    def rate(self) -> float:
        """Raw rate of one link between devices [B/s], 0 if the file counts no links."""
        if self.sketch.link is not None or not links_used(self.sketch):
            return self.sketch.link or 0.0
        by_code = [chip for chip in CHIPS if self.sketch.clues.code in chip.codes]
        chips = [chip_of(self.accelerator), *by_code, chip_of(self.nearest.accelerator)]
        rates = [chip.rate for chip in chips if chip is not None and chip.rate]
        if not rates:
            raise CatalogError(f"{self.file}: the link rate of {self.accelerator} is unknown")
        return rates[0]

    @cached_property
    def interconnect(self) -> dict[str, Any]:
        if self.form == "none":
            return {"type": "none"}
        like = self._like if self.sketch.silent else None
        if self.form == "switch":
            return _all_as_in(like.data["interconnect"], like.name) if like else self._crossbar()
        direct = _all_as_in(like.direct, like.name) if like else {}
        links = Links(self.sketch, self.entries, self.accelerator, self.rate)
        return {"type": "links", "kinds": {**direct, **links.kinds()}}

    def _crossbar(self) -> dict[str, Any]:
        assert self.sketch.crossbar is not None
        count = self.sketch.crossbar[0]
        entry, like = switch_like(self.entries)
        each, total = draft.bandwidth(self.rate), draft.bandwidth(count * self.rate)
        reason = f"{count} links per device in the file; raw rate of the chip: {each} per link"
        of_file = stated(total, f"{counted(count, 'link')} of {each}")
        rest = [key for key in ("latency", "efficiency", "reduces") if key in like]
        return {
            "type": "switch",
            "bandwidth": of_file if self.sketch.link else assumed(total, reason),
            **{key: as_in(like[key], entry.name) for key in rest},
        }

    @cached_property
    def _attached(self) -> Attachment:
        """The NICs: on the PCIe tree if the node file has it, otherwise on devices."""
        return attach(self.sketch, tree=self.form == "links")

    @cached_property
    def nics(self) -> dict[str, Any]:
        attached = self._attached
        like = self.nearest.data["nics"]
        if not attached.ends:
            known: set[End] = set(range(self.sketch.devices))
            same = [end for end in self.nearest.nics if end in known] or [0]
            return {
                "devices": assumed(same, f"not in the file; as in {self.nearest.name}"),
                "bus": as_in(like["bus"], self.nearest.name),
            }
        bus = min(attached.buses, default=None)
        usual = as_in(like["bus"], self.nearest.name)
        return {
            "devices": stated(list(attached.ends), attached.note),
            "bus": usual if bus is None else stated(draft.bandwidth(bus)),
        }

    @cached_property
    def host(self) -> dict[str, Any]:
        """Host memory of the nearest node with the same chip, with the links of the file."""
        like = self.nearest.data.get("host")
        if not like or self.nearest.accelerator != self.accelerator:
            return {}
        facts = {key: as_in(fact, self.nearest.name) for key, fact in like.items()}
        coherent = [wire for wire in self.sketch.wires if wire.kind == "c2c" and wire.bandwidth]
        if coherent and self.form == "switch":
            each = coherent[0]
            assert each.bandwidth is not None
            facts["link"] = stated(draft.bandwidth(each.bandwidth * each.count), "C2C")
        return facts

    @property
    def taken(self) -> tuple[str, ...]:
        """Chip and library if the user did not choose them."""
        names = []
        if not self.choices.accelerator:
            names.append(f"accelerator {self.accelerator}: {self._why()}")
        if not self.choices.library:
            like = self.nearest
            names.append(f"library {like.library}: not in the file; as in {like.name}")
        return tuple(names)

    def _why(self) -> str:
        clues = self.sketch.clues
        others = [c.accelerator for c in self.fitting if c.accelerator != self.accelerator]
        also = f"; other candidates: {', '.join(others)} (--accelerator)" if others else ""
        if clues.product and len(self.fitting) == 1:
            return "by the product name in the file"
        if clues.code:
            return f"by the code {clues.code} in the file{also}"
        return f"not in the file; by its links, as in {self.nearest.name}{also}"


def _all_as_in(value: Any, entry: str) -> Any:
    """Return part of a catalogue file, with every fact marked as assumed from it."""
    if is_fact(value):
        return as_in(value, entry)
    if isinstance(value, dict):
        return {key: _all_as_in(item, entry) for key, item in value.items()}
    return value
