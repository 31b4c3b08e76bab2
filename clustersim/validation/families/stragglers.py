"""Measured effects of stragglers, and what is predicted for them.

    expected maxima         the slowest of many ranks, by the numbers that a jitter draws
    overloaded last stage   a replay with and without the layers that were moved
    planned pauses          a scenario of `validation/stragglers.yaml`, both ways
    balanced sequences      the same

Gains are compared as ratios of throughput.  Distributions over many jobs, of which none is
stated, cannot be expressed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np

from clustersim.catalog.finding import find
from clustersim.cost.compute import Seconds
from clustersim.disturbance import Distribution, Jitter, generator, jitter_factors
from clustersim.engine.replay import replay
from clustersim.program.program import Actor, Block
from clustersim.program.schedules import SCHEDULES
from clustersim.program.schedules.batch_order import batch_order
from clustersim.program.uniform import uniform_program
from clustersim.scenario.load import from_mapping
from clustersim.simulation.step.replications import replicate
from clustersim.simulation.step.simulate import simulate
from clustersim.timeline import FORWARD
from clustersim.validation.cases.reasons import Ungradable, not_stated
from clustersim.validation.cases.rows import Missing, Row, Section, family_row, part
from clustersim.validation.cases.texts import Count, Number
from clustersim.validation.grading import Grade, Graded, graded

FAMILY: Final = "jitter"
"""The family of rows that are graded here."""

DRAWS: Final = 2_000
"""Replications of an expected maximum: an error of 0.3 % or less."""

REPLICATIONS: Final = 20
"""Replications of a scenario with random times."""

DEVIATION: Final = 0.01
"""Standard deviation with which expected maxima are drawn; they are stated in deviations."""

ASSUMED_MICROBATCHES: Final = 32
"""Microbatches of a pipeline where the source states none: eight for each of its four stages."""

Times = list[tuple[float, float]]
"""Forward and backward of each stage [s]."""


class Effect(Section):
    """The measured effects of a row, in the units of their names; gains as shares."""

    expected_max_sigma: Number = None
    expected_max_over_mean: Number = None
    throughput_gain: Number = None
    last_stage_forward_ratio: Number = None
    last_stage_backward_ratio: Number = None
    loss_over_layer: Number = None
    after_tuning_forward_ratio: Number = None


class StragglerRow(Section):
    """What a row states in addition to a `Row`; lengths in tokens."""

    kind: str | None = None
    interval_steps: Count = None
    ranks: Count = part("system", "ranks")
    max_sequence: Count = part("model", "max_sequence")
    measured: Annotated[Effect, Missing] = Effect()


def grade_straggler_case(row: Row) -> Graded:
    """Return the grades of a row of the family `FAMILY`, and what was assumed for them.

    Raises
    ------
    Ungradable
        for rows that no scenario expresses.
    """
    fields = family_row(row, StragglerRow)
    effect = fields.measured
    for name, distribution in MAXIMA.items():
        if (measured := getattr(effect, name)) is not None:
            return [graded(name, measured, expected_maximum(distribution, _ranks(fields)))], {}
    if effect.throughput_gain is not None:
        gain, assumed = _gain(row, fields)
        throughput = graded("throughput_ratio", 1 + effect.throughput_gain, 1 + gain)
        return [throughput, *_last_forward(row, effect)], assumed
    why = _REASONS.get(fields.kind or "", "no effect that a scenario expresses")
    raise Ungradable.because(why)


_REASONS: Final[Mapping[str, str]] = {
    "distribution": "a distribution of steps or jobs without their causes",
    "cause": "a share of the jobs of a fleet, of which none is stated",
    "law": "a correlation over many jobs, of which none is stated",
}
"""Why rows of a kind cannot be expressed."""


MAXIMA: Final[Mapping[str, Distribution]] = {
    "expected_max_sigma": "normal",
    "expected_max_over_mean": "exponential",
}
"""Delays whose expected maximum over ranks is measured."""


def _ranks(fields: StragglerRow) -> int:
    if fields.ranks is None:
        raise Ungradable(not_stated("ranks"))
    return fields.ranks


def expected_maximum(distribution: Distribution, ranks: int) -> float:
    """Return by how many deviations the slowest of many ranks is slower than the undisturbed one.

    >>> 1.35 < expected_maximum("normal", 8) < 1.5
    True
    """
    jitter = Jitter("barrier", distribution=distribution, deviation=DEVIATION, each_step=True)
    maxima = [
        float(jitter_factors(jitter, generator(jitter, number), (ranks,)).max())
        for number in range(DRAWS)
    ]
    return (float(np.mean(maxima)) - 1) / DEVIATION


# --- gains ----------------------------------------------------------------------------------------


def _gain(row: Row, fields: StragglerRow) -> tuple[float, dict[str, str]]:
    """Return the predicted gain of throughput, and what is assumed for it."""
    effect = fields.measured
    if effect.loss_over_layer is not None:
        return _last_stage(row, effect)
    if fields.interval_steps is not None:
        return _planned_pauses(row, fields.interval_steps)
    if fields.max_sequence is not None:
        return _balanced_sequences(fields.max_sequence)
    raise Ungradable.because("a gain without its change")


def _last_stage(row: Row, effect: Effect) -> tuple[float, dict[str, str]]:
    """Return the gain of moving layers from the last stage, which also computes the loss.

    The forward of the loss takes `loss_over_layer` times that of a layer, and its backward what the
    measured ratio of the last stage leaves; a backward of a layer takes twice its forward.
    """
    stages, layers, loss = row.parallel.pp, row.model.layers, effect.loss_over_layer
    if stages is None or layers is None or loss is None:
        raise Ungradable(not_stated("layers"))
    even = [layers // stages] * stages
    ratio = effect.last_stage_backward_ratio
    back = loss if ratio is None else (ratio - 1) * even[-1]
    tuned = _tuned(layers, stages, loss, effect.after_tuning_forward_ratio)
    before, after = (_pipeline(_stage_times(shares, loss, back)) for shares in (even, tuned))
    assumed = {
        "batch": f"{ASSUMED_MICROBATCHES} microbatches, since the source states none",
        "layers": f"{', '.join(map(str, tuned))} after the change, by its ratio of forwards",
    }
    return before / after - 1, assumed


def _last_forward(row: Row, effect: Effect) -> list[Grade]:
    """Return the grade of the forward of the last stage, relative to others; none if not measured.

    The others have equal shares of the layers.
    """
    stages, layers, loss = row.parallel.pp, row.model.layers, effect.loss_over_layer
    measured = effect.last_stage_forward_ratio
    if stages is None or layers is None or loss is None or measured is None:
        return []
    even = layers // stages
    return [graded("last_stage_forward_ratio", measured, (even + loss) / even)]


def _tuned(layers: int, stages: int, loss: float, ratio: float | None) -> list[int]:
    """Return the layers of each stage after the change: those of the ratio, or the fastest."""
    choices = [_shares(layers, stages, last) for last in range(1, layers // stages + 1)]
    if ratio is None:
        return min(choices, key=lambda shares: max(*shares[:-1], shares[-1] + loss))
    others = stages - 1
    return min(choices, key=lambda s: abs((s[-1] + loss) / (sum(s[:-1]) / others) - ratio))


def _shares(layers: int, stages: int, last: int) -> list[int]:
    """Return the layers of the stages where the last one has as many, the others equal shares."""
    each, more = divmod(layers - last, stages - 1)
    return [each + (stage < more) for stage in range(stages - 1)] + [last]


def _stage_times(layers: list[int], loss: float, back: float) -> Times:
    """Return the time of a forward and a backward of each stage, in forwards of a layer."""
    times = [(float(count), 2.0 * count) for count in layers]
    times[-1] = times[-1][0] + loss, times[-1][1] + 2 * back
    return times


def _pipeline(times: Times) -> float:
    """Return the time of a 1F1B step of stages of these times."""
    schedule, stages = SCHEDULES["1f1b"], len(times)
    order = batch_order(schedule, stages, ASSUMED_MICROBATCHES, 1)
    wiring = schedule.wired(stages, 1)
    equal = uniform_program(order, wiring, ASSUMED_MICROBATCHES, {"F": 1.0, "B": 1.0})
    actors = tuple(
        _timed(actor, ahead, back) for actor, (ahead, back) in zip(equal.actors, times, strict=True)
    )
    return replay(replace(equal, actors=actors)).timeline.duration


def _timed(actor: Actor, ahead: float, back: float) -> Actor:
    blocks = {}
    for code in actor.blocks:
        taken = ahead if code.kind == FORWARD else back
        blocks[code] = Block(Seconds(gemm=taken), Seconds(), (taken,))
    return replace(actor, blocks=blocks)


def _planned_pauses(row: Row, interval: int) -> tuple[float, dict[str, str]]:
    """Return the gain of pauses of all processes at once, `interval` steps apart."""
    data = row.parallel.dp
    if data is None:
        raise Ungradable(not_stated("dp"))
    pausing = _scenario("planned-pauses")
    base = from_mapping("planned-pauses", pausing)
    scenario, pauses = base.scenario, pausing["disturbances"][0]
    each = scenario.batch.global_ // scenario.plan.data
    nodes, more = divmod(data, scenario.cluster.node.devices)
    if more:
        raise Ungradable.because("ranks that fill no nodes", f"dp {data} fills no whole nodes")
    loaded = base.changed({"plan.data": data, "cluster.nodes": nodes, "batch.global": each * data})
    planned = loaded.changed({"disturbances": [{**pauses, "every": interval, "planned": True}]})
    mean = replicate(loaded, REPLICATIONS).mean_s
    return mean / simulate(planned).step_time - 1, dict(pausing["assumed"])


def _balanced_sequences(longest: int) -> tuple[float, dict[str, str]]:
    """Return the gain of microbatches with the same work in attention."""
    data = _scenario("balanced-sequences")
    uneven = dict(data["disturbances"][0])
    share = longest / max(length for length, _ in uneven["histogram"])
    uneven["histogram"] = [
        [max(1, int(length * share)), weight] for length, weight in uneven["histogram"]
    ]
    loaded = from_mapping("balanced-sequences", data).changed(
        {"batch.sequence": longest, "disturbances": [uneven]}
    )
    replications = replicate(loaded, REPLICATIONS)
    return replications.mean_s / replications.undisturbed_s - 1, dict(data["assumed"])


def _scenario(name: str) -> dict[str, Any]:
    """Return a scenario of ``validation/stragglers.yaml``."""
    scenarios: dict[str, dict[str, Any]] = find("validation", "stragglers").mapping()["scenarios"]
    return scenarios[name]
