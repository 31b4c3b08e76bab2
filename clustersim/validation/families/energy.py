"""Measured electrical power and energy, and what is predicted for them.

    metered energy of a run       mean power of the machine, times the measured minutes
    metered power of a node       the same; the highest power with all devices at their limit
    HPL of a whole machine        all devices compute

Steps of workloads that can be expressed are replayed (``validation/energy.yaml``); others draw the
training power of the catalogue.  Energies that are hours times a constant are never graded.
"""

import fnmatch
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from clustersim.catalog.finding import entry_names, find
from clustersim.cost.power import Draw, MachinePower, machine_power, missing_power
from clustersim.scenario.load import from_mapping
from clustersim.scenario.machine import load_cluster
from clustersim.simulation.step.simulate import simulate
from clustersim.validation.cases.machines import machine_of
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.cases.rows import Row, Section, family_row, part
from clustersim.validation.cases.texts import Count, Number, Text, Word
from clustersim.validation.grading import Graded, graded

FAMILY: Final = "energy"
"""The family of rows that are graded here."""


class EnergyRow(Section):
    """What a row states in addition to a `Row`, in the units of the names.

    `power_side` is AC or DC, by the power supplies.
    """

    energy_kind: Word = None
    devices: Count = None
    nodes: Count = None
    power_side: Word = part("system", "power_side")
    cooling: Word = part("system", "cooling")
    rated_w: Number = part("system", "rated_w")
    model: Text = part("model", "name")
    energy_kj: Number = part("measured", "energy_kj")
    minutes: Number = part("measured", "minutes")
    max_w: Number = part("measured", "max_w")
    power_mw: Number = part("measured", "power_mw")
    share_of_rated: Number = part("measured", "share_of_rated")


def grade_energy_case(row: Row) -> Graded:
    """Return the grades of a row of the family `FAMILY`, and what was assumed for them.

    Raises
    ------
    Ungradable
        for energies that were not measured, and for machines without power in the catalogue.
    """
    fields = family_row(row, EnergyRow)
    kind = fields.energy_kind or ""
    if kind != METERED:
        why = _REASONS.get(kind, f"energy_kind '{kind}' is not known")
        raise Ungradable.because(why)
    return _metered(row, fields)


METERED: Final = "metered"
"""The kind of energies that are graded."""

_REASONS: Final[Mapping[str, str]] = {
    "": "energy_kind not stated",
    "tdp-times-hours": "its energy is hours times the limit of the board, not measured",
    "measured-average-power": "its energy is hours times a mean power, which the catalogue states",
    "assumed-average": "its energy is hours times an assumed power, not measured",
    "sampled-gpu-power": "energy of a run whose layout is not stated, or a fact of the catalogue",
    "reported": "energy of a window of time with idle hours or other runs",
}
"""Why energies of a kind are not graded."""


# --- metered --------------------------------------------------------------------------------------


def _metered(row: Row, fields: EnergyRow) -> Graded:
    machine = _machine(row, fields)
    if fields.energy_kj is not None and fields.minutes is not None:
        return _of_run(row, fields, machine, fields.energy_kj, 60 * fields.minutes)
    if fields.power_mw is not None:
        predicted = machine.of(machine.in_state("compute")).total / 1e6
        assumed = {"workload": "all devices compute all the time"}
        return [graded("power_mw", fields.power_mw, predicted)], assumed
    grades, assumed = [], dict[str, str]()
    for name, median in _medians(row).items():
        mean, assumed = _mean_device(name, row, fields, machine)
        grades.append(graded("median_w", median, _at_meter(machine.of(mean), fields)))
    if fields.max_w is not None:
        predicted = _at_meter(machine.of(machine.device.cap), fields)
        grades.append(graded("max_w", fields.max_w, predicted))
    if fields.share_of_rated is not None and fields.rated_w is not None:
        predicted = _at_meter(machine.of(machine.device.training), fields)
        assumed = {"workload": TYPICAL}
        share = predicted / machine.nodes / fields.rated_w
        grades.append(graded("share_of_rated", fields.share_of_rated, share))
    if not grades:
        raise Ungradable.because("no measured power or energy")
    return grades, assumed


MEDIAN: Final = "_median_w"
"""The end of a measured key that begins with the name of its workload."""


def _medians(row: Row) -> dict[str, float]:
    """Return the median powers of a row by workload [W]."""
    measured = row.written.get("measured")
    powers = measured if isinstance(measured, Mapping) else {}
    return {
        str(key).removesuffix(MEDIAN): float(value)
        for key, value in powers.items()
        if str(key).endswith(MEDIAN) and isinstance(value, int | float) and value > 0
    }


def _of_run(
    row: Row, fields: EnergyRow, machine: MachinePower, energy: float, seconds: float
) -> Graded:
    """Return the grades of the energy of a run in its measured time, and of its mean power."""
    mean, assumed = _mean_device(fields.model, row, fields, machine)
    watts = _at_meter(machine.of(mean), fields)
    grades = [
        graded("energy_kj", energy, watts * seconds / 1e3),
        graded("power_w", 1e3 * energy / seconds, watts),
    ]
    return grades, {**assumed, "minutes": "as measured: steps to converge are not predicted"}


def _at_meter(draw: Draw, fields: EnergyRow) -> float:
    """Return the power that a meter of nodes has: no fabric, and no fans in liquid [W]."""
    liquid = (fields.cooling or "").lower() in LIQUID
    direct = (fields.power_side or "").lower() == "dc"
    fans, supplies = 0.0 if liquid else draw.fans, 0.0 if direct else draw.supplies
    return draw.devices + draw.hosts + fans + supplies


LIQUID: Final = ("immersion", "liquid", "water")
"""Ways of cooling without fans."""

TYPICAL: Final = "not replayed: devices draw the training power of the catalogue"
"""What is assumed for a workload that cannot be expressed."""


def _mean_device(
    name: str | None, row: Row, fields: EnergyRow, machine: MachinePower
) -> tuple[float, dict[str, str]]:
    """Return the mean power of a device in the steps of a workload, and what is assumed [W]."""
    workload = _workload(name or "")
    if workload is None:
        return machine.device.training, {"workload": TYPICAL}
    scenario = workload["scenario"]
    plan, batch = dict(scenario["plan"]), dict(scenario["batch"])
    plan["data"] = machine.devices // plan.get("tensor", 1)
    each = workload["each"] if machine.nodes == 1 else workload["least"]
    batch["global"] = plan["data"] * each
    cluster = {"name": _cluster(row), "nodes": machine.nodes}
    data = {**scenario, "plan": plan, "batch": batch, "cluster": cluster}
    energy = simulate(from_mapping(row.id, data)).energy
    assert energy is not None, "`_machine` has found its power"
    return energy.device, dict(workload["assumed"])


@lru_cache(maxsize=1)
def _workloads() -> list[dict[str, Any]]:
    workloads: list[dict[str, Any]] = find("validation", "energy").mapping()["workloads"]
    return workloads


def _workload(name: str) -> dict[str, Any] | None:
    matches = (
        workload
        for workload in _workloads()
        if any(fnmatch.fnmatch(name.lower(), pattern) for pattern in workload["names"])
    )
    return next(matches, None)


def _machine(row: Row, fields: EnergyRow) -> MachinePower:
    """Return the power of the machine of a row."""
    whole = load_cluster(_cluster(row), 1)
    nodes = fields.nodes or max(1, (fields.devices or 1) // whole.node.devices)
    power = machine_power(whole, nodes)
    if power is None:
        raise Ungradable.because("no power in the catalogue", missing_power(whole))
    return power


def _cluster(row: Row) -> str:
    """Return the cluster file of a row: that of the name of its machine, else of its words."""
    name = (row.system.name or "").lower()
    return name if name in entry_names("cluster") else machine_of(row).cluster
