"""Charts of a search: why the best layout wins, and the layouts on the front against a cost."""

from typing import Final

from clustersim.render.charts import Axis, Point, ScatterWithFront, Waterfall
from clustersim.render.tables import percent
from clustersim.reports.measures import format_causes, format_speed, steps_of
from clustersim.studies.search.answer import (
    FrontOfLayouts,
    LayoutDifference,
    RankedLayout,
    SearchAnswer,
)
from clustersim.studies.search.text import format_layout_values
from clustersim.units import GIB

OBJECTIVE_AXES: Final = {
    "tokens_per_s": Axis("throughput", "tokens/s"),
    "tokens_per_s_per_device": Axis("throughput per device", "tokens/s"),
    "samples_per_s": Axis("throughput", "samples/s"),
    "tflops_per_device_model": Axis("model FLOPs per device", "TFLOP/s"),
    "mfu": Axis("MFU", "fraction of peak"),
    "tokens_per_dollar": Axis("tokens per dollar", "tokens/USD"),
    "tokens_per_joule": Axis("tokens per joule", "tokens/J"),
    "step_time_s": Axis("step time", "s"),
}

_COSTS: Final = {
    "memory": Axis("memory of the fullest stage", "GiB"),
    "devices": Axis("devices"),
    "price": Axis("price of the devices", "USD/h"),
}

_OTHERS: Final = {"second": "second layout", "scenario": "layout of the scenario"}


def layout_waterfall(answer: SearchAnswer, one: LayoutDifference) -> Waterfall:
    """Return the changes of the step time from another layout to the best one."""
    assert answer.best is not None, "it is compared"
    assert one.step_time_s is not None, "the other layout was replayed"
    before, after = one.step_time_s, answer.best.step_time_s
    steps, other = steps_of(one.parts, max(before, after)), _OTHERS[one.against]
    return Waterfall(
        title=f"{format_speed('A step', before / after)}{format_causes(one.parts)}",
        caption=f"{answer.title}; before: the {other}, after: the best layout",
        description=f"{len(steps)} changes lead from the {other} to the best layout.",
        note="Each bar begins where the one above ends.",
        contents=f"changes from the {other} to the best layout",
        measure=Axis("step time", "s"),
        first=other,
        last="best layout",
        start=before,
        steps=steps,
    ).in_unit()


def layout_front(answer: SearchAnswer, front: FrontOfLayouts) -> ScatterWithFront:
    """Return the layouts that were replayed and fit, and those on a front."""
    cost, gain = _COSTS[front.against], OBJECTIVE_AXES[answer.by]
    scale = GIB if front.against == "memory" else 1
    return ScatterWithFront(
        title=_finding(answer, front),
        caption=f"{answer.title}; {len(answer.ranked):,} layouts that were replayed and fit",
        description=f"{len(answer.ranked):,} layouts; {len(front.positions):,} of them have the"
        f" best {gain.label} for their {cost.label}.",
        contents="layouts on the Pareto front",
        x=cost,
        y=gain,
        points=tuple(
            Point(_cost(one, front) / scale, one.value, format_layout_values(one.set_))
            for one in answer.ranked
        ),
        front=front.positions,
        best=0,
        names=("replayed", "Pareto front", "best layout"),
    )


def _cost(one: RankedLayout, front: FrontOfLayouts) -> float:
    if front.against == "price":
        assert one.usd_per_hour is not None, "all layouts of this front have a price"
        return one.usd_per_hour
    return one.memory_peak_bytes if front.against == "memory" else float(one.devices)


def _finding(answer: SearchAnswer, front: FrontOfLayouts) -> str:
    """Return the share of the best objective that the cheapest layout has, as a title."""
    cheapest, best = answer.ranked[front.positions[0]], answer.ranked[0]
    label = OBJECTIVE_AXES[answer.by].label
    if cheapest == best:
        return f"The layout with the best {label} needs the least {front.against}"
    ratio = cheapest.value / best.value
    share = percent(ratio if answer.more_is_better else 1 / ratio)
    spent, most = (_text(_cost(one, front), front) for one in (cheapest, best))
    return f"{share} of the best {label} needs {spent} instead of {most}"


def _text(cost: float, front: FrontOfLayouts) -> str:
    return f"{cost / GIB:.1f} GiB" if front.against == "memory" else f"{cost:,.0f} devices"
