"""A whole training run in about twelve lines: how long it takes, and where its time goes."""

from collections.abc import Iterator
from typing import Final

from clustersim.render.tables import Row, percent
from clustersim.reports.measures import expectation_rows, hypothetical
from clustersim.reports.published import published_rows
from clustersim.simulation.training_run.answer import (
    CheckpointAnswer,
    StageAnswer,
    TrainAnswer,
)
from clustersim.units import (
    counted,
    format_bandwidth,
    format_bytes,
    format_days,
    format_duration,
    format_kg,
    format_kwh,
    format_seconds,
    format_usd,
    format_watts,
    short_count,
)

ASSUMED: Final = {"training.restart": "restart", "training.spares": "spares"}
"""What may be assumed of failures, by key."""

NAMED: Final = 3
"""Causes of failures, and parts of the run, that a line names."""


def rows(answer: TrainAnswer) -> list[Row]:
    """Return the lines of an answer."""
    return [
        *(
            [Row("memory", answer.memory, not answer.fits, answer.room.tight)]
            if answer.room.tight or not answer.fits
            else []
        ),
        Row("duration", _duration(answer)),
        _by_step(answer),
        Row("goodput", _goodput(answer)),
        *(Row("reason", text, warning=True) for text in answer.warnings),
        Row("machine", _machine(answer)),
        *_steps(answer),
        Row("failures", _failures(answer)),
        Row("checkpoint", _checkpoint(answer.checkpoint)),
        Row("interval", _interval(answer.checkpoint)),
        *_contention(answer.checkpoint),
        Row("closed form", _closed_form(answer)),
        *_bill(answer),
        *expectation_rows(answer.expectations),
        *published_rows(answer.published),
        Row("assumed", _assumed(answer)),
    ]


def _machine(answer: TrainAnswer) -> str:
    devices = f"{answer.devices:,} {answer.accelerator}"
    return f"{counted(answer.nodes, 'node')} of {answer.cluster}, {devices}"


def _duration(answer: TrainAnswer) -> str:
    tokens = f"{short_count(answer.tokens)} tokens"
    spread = answer.replications
    text = f"{format_days(answer.days)} for {tokens}"
    if spread.count > 1:
        text += (
            f"; 80 % of {spread.count:,} replications between {format_days(spread.p10_days)} and"
            f" {format_days(spread.p90_days)}"
        )
    return text + hypothetical(answer.memory, fits=answer.fits)


def _by_step(answer: TrainAnswer) -> Row:
    """Return the days at the ends of the interval of the predicted steps."""
    found = answer.by_step
    if found.low_days is None or found.high_days is None:
        return Row("by the step", f"no interval: {found.why}", caution=True)
    low, high = format_days(found.low_days), format_days(found.high_days)
    level = f"level {100 * found.level:g} % of the predicted step, from {found.why}"
    return Row("by the step", f"{low} to {high} ({level})")


def account_shares(answer: TrainAnswer) -> list[tuple[str, float]]:
    """Return the parts of the elapsed time as shares, without empty ones; useful time first."""
    elapsed = answer.accounting.elapsed
    shares = [(name, seconds / elapsed) for name, seconds in vars(answer.accounting).items()]
    return [(name, share) for name, share in shares if share > 0]


def _goodput(answer: TrainAnswer) -> str:
    parts = [f"{name} {percent(share)}" for name, share in account_shares(answer)[1:]]
    return f"{percent(answer.goodput)} of the time is useful" + (
        f"; {', '.join(parts)}" if parts else ""
    )


def _steps(answer: TrainAnswer) -> Iterator[Row]:
    for stage in answer.stages[:NAMED]:
        yield Row("steps", _stage(stage))
    if len(answer.stages) > NAMED:
        yield Row("", f"and {counted(len(answer.stages) - NAMED, 'more part')} of the run")


def _stage(stage: StageAnswer) -> str:
    return (
        f"{stage.steps:,} of {format_seconds(stage.step_time_s)}: {stage.batch:,} sequences of"
        f" {stage.sequence:,} tokens, {stage.tokens_per_s:,.0f} tokens/s, MFU {percent(stage.mfu)}"
    )


def _failures(answer: TrainAnswer) -> str:
    mean = answer.mean_time_between_failures_s
    if mean is None:
        stops = f", {answer.interruptions:,.0f} planned stops" if answer.interruptions else ""
        return f"none are stated (training.failures){stops}"
    total = sum(cause.count for cause in answer.causes)
    planned = answer.interruptions - total
    named = ", ".join(f"{c.name} {c.count:,.0f}" for c in answer.causes[:NAMED])
    more = len(answer.causes) - NAMED
    return (
        f"{total:,.0f}, one in {format_duration(mean)}"
        + (f", and {planned:,.0f} planned stops" if planned > 0.5 else "")
        + f"; restart {format_duration(answer.restart_s)}; {named}"
        + (f" and {counted(more, 'more cause')}" if more > 0 else "")
        + "".join(
            f"; {name} assumed {answer.assumed[key]}"
            for key, name in ASSUMED.items()
            if key in answer.assumed
        )
    )


def _checkpoint(given: CheckpointAnswer) -> str:
    text = f"{format_bytes(given.bytes)}, {given.mode}: blocks {format_duration(given.block_s)}"
    if given.durable_s > given.block_s:
        text += f", durable after {format_duration(given.durable_s)}"
    rate = f" at {format_bandwidth(given.bandwidth)}" if given.bandwidth else ""
    where = f" ({given.storage}; limit: {given.limit})" if given.storage else f" ({given.limit})"
    return f"{text}{rate}{where}; load {format_duration(given.load_s)}"


def _interval(given: CheckpointAnswer) -> str:
    text = f"a save every {format_duration(given.every_s)} ({counted(given.every_steps, 'step')})"
    if given.best_s is None or given.flat_s is None:
        return f"{text}; no failures, so that fewer saves are always better"
    low, high = given.flat_s
    return (
        f"{text}; best {format_duration(given.best_s)}, within 0.1 point of it from"
        f" {format_duration(low)} to {format_duration(high)}"
    )


def _contention(given: CheckpointAnswer) -> list[Row]:
    """Return how a drain and concurrent steps slow each other down."""
    if given.durable_s <= given.block_s or given.mode == "memory":
        return []
    steps, drain = given.step_slowdown - 1, given.drain_slowdown - 1
    return [
        Row(
            "contention",
            f"steps are {percent(steps)} slower while a save is written, and its writing is"
            f" {percent(drain)} slower next to steps",
        )
    ]


def _closed_form(answer: TrainAnswer) -> str:
    form = answer.closed_form
    days = "without bound" if form.days is None else format_days(form.days)
    exact = "exact for exponential failures" if form.exact else f"not exact: {form.why}"
    return f"goodput {percent(form.goodput)}, {days} ({exact})"


def _bill(answer: TrainAnswer) -> Iterator[Row]:
    """Yield energy, emissions and price, as far as they are predicted."""
    parts = []
    if answer.bill is not None:
        parts.append(f"{format_kwh(answer.bill.energy_kwh)} {answer.bill.energy_of}")
    if answer.power_w is not None:
        mean, peak = answer.power_w.mean, answer.power_w.peak
        parts.append(f"{format_watts(mean)} mean, {format_watts(peak)} peak")
    if answer.co2e_kg is not None:
        parts.append(f"{format_kg(answer.co2e_kg)} CO2e")
    if parts:
        yield Row("energy", ", ".join(parts))
    yield Row("price", _price(answer))


def _price(answer: TrainAnswer) -> str:
    """Return the price with the rate that it is from, or why it is not known."""
    if answer.cost is None:
        return f"not known: {answer.unavailable.get('cost')}"
    return ", ".join([format_usd(answer.cost), *([answer.bill.rate] if answer.bill else [])])


def _assumed(answer: TrainAnswer) -> str:
    if not answer.assumed:
        return "nothing"
    return f"{counted(len(answer.assumed), 'key')}: {', '.join(answer.assumed)}"
