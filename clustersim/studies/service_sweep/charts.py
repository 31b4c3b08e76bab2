"""The chart of a sweep of a service: throughput of a device over the speed of a user."""

from collections.abc import Sequence

from clustersim.render.charts import Axis, Lines, Series
from clustersim.render.charts.lines import reference
from clustersim.render.service_words import front_title
from clustersim.simulation.service.measures import RATE, SPEED, service_front
from clustersim.studies.service_sweep.answer import ServedPoint, ServiceSweep
from clustersim.studies.service_sweep.text import format_point


def services_chart(answer: ServiceSweep) -> Lines | None:
    """Return all combinations that ran, and the front of those that no other one beats in both."""
    ran = [point for point in answer.points if point.measures.get(SPEED)]
    if len(ran) < 2:
        return None
    front = service_front(ran)
    series = [_series("combinations", ran, "idle", "circle", "none")]
    series.append(_series("Pareto front", front, "compute", "circle", "solid"))
    if answer.best is not None and answer.points[answer.best] in ran:
        best = answer.points[answer.best]
        series.append(_series(f"best: {format_point(best)}", [best], "warning", "star", "none"))
    if "tpot" in answer.limits:
        slowest, most = 1 / answer.limits["tpot"], max(p.measures[RATE] for p in ran)
        series.append(reference("limit of tpot", (slowest, slowest), (0.0, most)))
    return Lines(
        title=front_title(front),
        caption=f"{answer.title} ({answer.name}); {len(ran):,} of {len(answer.points):,}"
        " combinations fit",
        description="Throughput of a device over the speed that one user sees; the front has the"
        " combinations that no other one exceeds in both.",
        contents="services",
        x=Axis("speed of one user", "tokens/s", zero=True),
        y=Axis("throughput of one device", "output tokens/s", zero=True),
        series=tuple(series),
    )


def _series(
    name: str, points: Sequence[ServedPoint], colour: str, marker: str, stroke: str
) -> Series:
    return Series(
        name,
        tuple(point.measures[SPEED] for point in points),
        tuple(point.measures[RATE] for point in points),
        colour,
        marker,
        stroke,  # type: ignore[arg-type]
        hover=tuple(format_point(point) for point in points),
    )
