"""The chart of a sizing: loss against size, each size on the same machine for the same time."""

from clustersim.render.charts import Axis, Lines, Series
from clustersim.studies.size.answer import SizeAnswer
from clustersim.studies.size.text import count_text, days_text, nearest_size
from clustersim.workload.scaling_laws import LAWS


def loss_by_size(answer: SizeAnswer) -> Lines | None:
    """Return the loss of each size; that of the replication where the law has none."""
    if len(answer.sizes) < 2:
        return None
    named = LAWS[answer.law].loss is not None
    law = LAWS[answer.law] if named else LAWS["replication"]
    assert law.loss is not None
    sizes = sorted(answer.sizes, key=lambda one: one.parameters)
    points = [(one.parameters, law.loss.at(one.parameters, one.tokens)) for one in sizes]
    best = (answer.parameters, law.loss.at(answer.parameters, answer.tokens))
    hover = tuple(
        f"{count_text(one.parameters)} parameters\n{count_text(one.tokens)} tokens\n"
        f"MFU {100 * one.mfu:.1f} %"
        for one in sizes
    )
    return Lines(
        title=_title(answer),
        caption=f"{answer.devices:,} x {answer.accelerator} for {days_text(answer.days)}",
        description="A curve of the loss over the size of the model, with the optimum marked.",
        note=f"Loss by {law.name}. Each point is a model of its own shape, with the tokens that it"
        " trains on in this time in its fastest layout, which was replayed.",
        contents="loss by size of the model",
        x=Axis("parameters", log=2, ticks=_ticks(points)),
        y=Axis("loss", "nats per token"),
        series=(
            Series("sizes", *_columns(points), hover=hover),
            Series(f"optimum by {answer.law}", *_columns([best]), "warning", "star", "none"),
        ),
    )


def _title(answer: SizeAnswer) -> str:
    best = f"{count_text(answer.parameters)} parameters on {count_text(answer.tokens)} tokens"
    half, twice = (nearest_size(answer, factor) for factor in (0.5, 2.0))
    if half is None or twice is None or None in (half.loss, twice.loss, answer.loss):
        return f"The best model has {best}"
    assert half.loss is not None
    assert twice.loss is not None
    assert answer.loss is not None
    lost = max(half.loss, twice.loss) - answer.loss
    return f"The best model has {best}; half or twice the size loses {lost:.3f} nats at most"


def _ticks(points: list[tuple[float, float]]) -> tuple[tuple[float, str], ...]:
    return tuple((parameters, count_text(parameters)) for parameters, _ in points)


def _columns(
    points: list[tuple[float, float]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    x, y = zip(*points, strict=True)
    return tuple(x), tuple(y)
