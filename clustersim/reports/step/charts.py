"""The charts of a run: components of the step time, and memory."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from clustersim.memory.levels import MemoryCurve
from clustersim.memory.verdict import PARTS
from clustersim.render.charts.bars import Layer, Level, StackedAreas, StackedBars, Waterfall
from clustersim.render.charts.picture import Axis
from clustersim.render.tables import kind_of, percent, words
from clustersim.reports.measures import steps_of
from clustersim.units import GIB, counted, format_seconds

if TYPE_CHECKING:
    from clustersim.simulation.step.result import Result

Values = NDArray[np.float64]

# --- components of the step time ------------------------------------------------------------------


def breakdown(result: "Result") -> Waterfall:
    """Return the components of the step time, mean of all ranks."""
    totals = dict.fromkeys(("compute", "communication", "imbalance", "bubble", "optimiser"), 0.0)
    for component, seconds in result.attribution.items():
        totals[kind_of(component)] += seconds
    share = {kind: percent(seconds / result.step_time) for kind, seconds in totals.items()}
    imbalance = f", imbalance {share['imbalance']}" if totals["imbalance"] else ""
    longest = max(result.attribution, key=result.attribution.__getitem__)
    recomputed = format_seconds(result.recomputed, 3)
    return Waterfall(
        title=f"Compute takes {share['compute']} of the step, communication"
        f" {share['communication']}{imbalance}, pipeline bubbles {share['bubble']}",
        caption=f"{result.scenario.title} ({result.name})",
        description=f"The longest component is {words(longest)} with"
        f" {percent(result.attribution[longest] / result.step_time)} of the step time.",
        note=f"Mean of all ranks; each bar begins where the one above ends. Recomputation of"
        f" activations takes {recomputed} of the compute time.",
        contents="components of the step time, mean of all ranks",
        measure=Axis("time", "s"),
        first="",
        last="step time",
        start=0.0,
        steps=steps_of(result.attribution, result.step_time),
    ).in_unit()


def components(result: "Result") -> dict[str, list[Any]]:
    """Return the components of the step time as a table: a column by name."""
    attribution = result.attribution
    return {
        "part": [*attribution],
        "kind": [*map(kind_of, attribution)],
        "seconds": [*attribution.values()],
        "share_of_step": [seconds / result.step_time for seconds in attribution.values()],
    }


# --- memory ---------------------------------------------------------------------------------------

MOST_LAYERS: Final = 10
"""Components of memory that have a layer of their own; the smallest of more are one layer."""

MOST_LEVELS: Final = 600
"""Levels of a curve that are drawn; of more only the highest in each interval of time."""


def memory_by_stage(result: "Result") -> StackedBars:
    """Return the peak of every stage by component."""
    verdict, fullest = result.memory, result.memory.fullest
    largest = max(fullest.parts, key=fullest.parts.__getitem__)
    verb = "holds" if verdict.fits else "would need"
    count = len(verdict.stages)
    peaks = {part: np.array([s.parts[part] for s in verdict.stages]) for part in PARTS}
    return StackedBars(
        title=f"Stage {fullest.stage} {verb} {fullest.peak / GIB:.1f} of"
        f" {verdict.capacity / GIB:.1f} GiB, {percent(fullest.parts[largest] / fullest.peak)}"
        f" of it {words(largest)}",
        caption=f"{result.scenario.title} ({result.name})",
        description=f"{counted(count, 'stage')}, each a stack of the components of its peak memory,"
        f" and a line at {verdict.capacity / GIB:.1f} GiB, the capacity of a device.",
        note="Memory of each stage at its peak, constant components at the bottom."
        f"{_without(result)}",
        contents="peak memory of each stage",
        x=Axis("stage"),
        measure=Axis("memory", "GiB"),
        layers=_layers(peaks, _highest(result), _varying(result)),
        limit=_capacity(result),
    )


def memory_over_time(result: "Result") -> StackedAreas:
    """Return the memory of the fullest stage over the step by component."""
    fullest = result.memory.fullest
    curve = _thinned(result.memory_curves[fullest.stage])
    level = np.ones(len(curve.time))
    moments = {
        part: curve.moving.get(part, 0) + curve.steady.get(part, 0) * level for part in PARTS
    }
    moments["fragmentation"] = fullest.parts["fragmentation"] * level
    total = np.sum(list(moments.values()), axis=0) / GIB
    return StackedAreas(
        title=f"Memory of stage {fullest.stage} varies between {total.min():.1f} and"
        f" {total.max():.1f} GiB during the step",
        caption=f"{result.scenario.title} ({result.name})",
        description="A stack of the components of memory over time, and a line at the capacity of"
        " a device.",
        note=f"Stage {fullest.stage}, which needs the most, from its first block to the end"
        " of the step.",
        contents=f"components of the memory of stage {fullest.stage} over the step",
        x=Axis("time", "s"),
        measure=Axis("memory", "GiB"),
        layers=_layers(moments, _highest(result), _varying(result)),
        limit=_capacity(result),
        begins=curve.time,
        end=result.step_time,
    )


def _capacity(result: "Result") -> Level:
    capacity = result.memory.capacity / GIB
    return Level(capacity, f"capacity of a device: {capacity:.1f} GiB")


def _highest(result: "Result") -> dict[str, float]:
    """Return the highest value of each component at the peak of any stage [B]."""
    stages = result.memory.stages
    return {part: max(stage.parts[part] for stage in stages) for part in PARTS}


def _varying(result: "Result") -> set[str]:
    """Return the components that come and go during a step."""
    return {part for curve in result.memory_curves for part in curve.moving}


def _without(result: "Result") -> str:
    """Return the stages whose peak is in the optimiser step, when no activations are held."""
    stages = [stage.stage for stage in result.memory.stages if not stage.in_flight and stage.step]
    if not stages:
        return ""
    first, last = stages[0], stages[-1]
    if stages == [first]:
        return f" The peak of stage {first} is in the optimiser step, without activations."
    among = f"stages {first} to {last}"
    if len(stages) < last - first + 1:
        among = f"{len(stages)} of the {among}"
    return f" The peaks of {among} are in the optimiser step, without activations."


def _layers(
    values: Mapping[str, Values], highest: Mapping[str, float], varying: Collection[str]
) -> tuple[Layer, ...]:
    """Return bytes as layers in GiB, those that are constant at the bottom.

    `highest` sets which components have a layer of their own.
    """
    some = [part for part in PARTS if highest[part] >= 0.005 * sum(highest.values())]
    largest = sorted(some, key=lambda part: -highest[part])[:MOST_LAYERS]
    layers = [
        Layer(words(part), f"memory-{part}", values[part] / GIB)
        for part in sorted(PARTS, key=lambda part: part in varying)
        if part in largest and values[part].any()
    ]
    other = sum((values[part] for part in PARTS if part not in largest), np.zeros(1)) / GIB
    return (*layers, *([Layer("other", "memory-other", other)] if other.any() else []))


def _thinned(curve: MemoryCurve) -> MemoryCurve:
    """Return at most `MOST_LEVELS` levels, the highest of each interval of time."""
    if len(curve.time) <= MOST_LEVELS:
        return curve
    interval = np.searchsorted(np.linspace(0, curve.time[-1], MOST_LEVELS), curve.time)
    order = np.lexsort((-curve.total, interval))
    first = np.unique(interval[order], return_index=True)[1]
    rows = np.sort(order[first])
    moving = {part: values[rows] for part, values in curve.moving.items()}
    return MemoryCurve(curve.stage, curve.time[rows], moving, curve.steady)
