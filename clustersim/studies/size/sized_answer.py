"""The answer of a sizing, from the model that was found."""

import time
from collections.abc import Sequence

from clustersim.cost.prices import Price, price_of
from clustersim.metrics.bill import Bill, bill
from clustersim.studies.size.answer import LawOptimum, SizeAnswer, TrainedSize
from clustersim.studies.size.layouts import Machine
from clustersim.studies.size.model_steps import DAY, ModelSteps, Sizing
from clustersim.units import counted
from clustersim.workload.scaling_laws import LAWS, Law


def sized_answer(
    machine: Machine,
    request: Sizing,
    question: str,
    found: ModelSteps,
    days: float,
    sizes: Sequence[ModelSteps],
) -> SizeAnswer:
    """Return the answer of a sizing.

    Parameters
    ----------
    question : what was to be found: ``model``, ``days`` or ``devices``
    found, days : the model with its steps, and the duration of its run [d]
    sizes : models that are compared, by parameters
    """
    result, law = found.trained.result, request.law
    drawn, price = _drawn(found, days), _price(found)
    name = f"{machine.cluster}-{machine.nodes}-nodes"
    return SizeAnswer(
        name=name,
        title=_title(question, found, machine),
        question=question,
        parameters=found.parameters,
        tokens=found.tokens,
        loss=_loss(law, found),
        law=law.name,
        layout=found.trained.layout,
        days=days,
        devices=machine.devices,
        nodes=machine.nodes,
        cluster=machine.cluster,
        accelerator=result.scenario.cluster.node.accelerator.name,
        framework=machine.framework,
        precision=machine.precision,
        goodput=found.goodput.share,
        goodput_note=found.goodput.note,
        flops=found.flops,
        tokens_per_parameter=found.tokens / found.parameters,
        tokens_per_s=result.tokens_per_s,
        mfu=result.mfu,
        model=result.scenario.model.name,
        shape=found.shape,
        sizes=tuple(_size(law, steps) for steps in sizes),
        laws=_laws(law, found.flops),
        energy_kwh=None if drawn is None else drawn.energy_kwh,
        power_w=None if drawn is None else drawn.mean_w,
        cost=None if price is None else price.usd_per_device_hour * machine.devices * days * 24,
        price="no quotes"
        if price is None
        else f"{price.usd_per_device_hour:.3g} USD per device"
        f" and hour, {price.term}: {price.quote}",
        wall_s=time.perf_counter() - request.began,
    )


def _title(question: str, found: ModelSteps, machine: Machine) -> str:
    where = f"{counted(machine.nodes, 'node')} of {machine.cluster}"
    if question == "model":
        return f"The model that is worth training on {where}"
    return f"{found.trained.result.scenario.model.name} on {where}"


def _drawn(found: ModelSteps, days: float) -> Bill | None:
    energy = found.trained.result.energy
    if energy is None:
        return None
    seconds = days * DAY
    useful = found.goodput.share * seconds
    accounting = {"useful": useful, "waiting": seconds - useful}
    return bill([(1.0, energy)], accounting, found.tokens)


def _price(found: ModelSteps) -> Price | None:
    return price_of(found.trained.result.scenario.cluster.node.accelerator.name, "on-demand")


def _loss(law: Law, steps: ModelSteps) -> float | None:
    return None if law.loss is None else law.loss.at(steps.parameters, steps.tokens)


def _size(law: Law, steps: ModelSteps) -> TrainedSize:
    result = steps.trained.result
    return TrainedSize(
        model=result.scenario.model.name,
        parameters=steps.parameters,
        tokens=steps.tokens,
        loss=_loss(law, steps),
        tokens_per_s=result.tokens_per_s,
        mfu=result.mfu,
        layout=steps.trained.layout,
        shape=steps.shape,
    )


def _laws(law: Law, flops: float) -> tuple[LawOptimum, ...]:
    """Return the optimum of each law for a budget, the requested law first."""
    ordered = [law, *(other for other in LAWS.values() if other is not law)]
    return tuple(_optimum(one, flops) for one in ordered)


def _optimum(law: Law, flops: float) -> LawOptimum:
    optimum = law.optimum(flops)
    return LawOptimum(
        law=law.name,
        parameters=optimum.parameters,
        tokens=optimum.tokens,
        tokens_per_parameter=optimum.tokens_per_parameter,
        loss=None if law.loss is None else law.loss.at(optimum.parameters, optimum.tokens),
        extrapolated=law.extrapolated(flops),
        source=law.source,
        note=law.note,
    )
