"""The model that is worth training on a machine in some days, by a law of optimal training.

    parameters --shape--> model --search: fastest layout--> tokens per second
        ^                                                          |  x days x goodput
        +------ law's optimum of 6 x parameters x tokens <---------+  tokens

Utilisation depends on the model, so that both are solved together: a fixed point of this circle.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from clustersim.catalog.changes import Change, changes_of
from clustersim.catalog.facts import MAX_AMOUNT, MAX_DEVICES
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.scenario.machine import (
    load_cluster,
    training_formats,
    usual_framework,
    usual_precision,
)
from clustersim.studies.size.answer import GAP, NODES_GAP, SizeAnswer
from clustersim.studies.size.layouts import (
    COMPARED_GAP,
    Machine,
    ModelLayouts,
    Trained,
    fastest_layout,
    least_nodes,
)
from clustersim.studies.size.sizing import DAY, ModelSteps, Sizing, conditions_of, sized_answer
from clustersim.workload.scaling_laws import DEFAULT_LAW, Law, find_law
from clustersim.workload.shapes import FAMILIES, shape_of

BATCH_TOKENS: Final = float(4 * 2**20)
"""Tokens of a step, as of Llama 2; layouts need a multiple of their replicas."""

MOST_ROUNDS: Final = 8
"""Rounds of the fixed point; two or three are usual."""

SAME: Final = 0.02
"""Relative change of parameters at which the fixed point ends."""

FACTORS: Final = (0.25, 0.5, 2.0, 4.0)
"""Other sizes that are compared with the optimum."""


def size(
    cluster: str,
    *,
    nodes: int | None = None,
    days: float | None = None,
    law: str = DEFAULT_LAW,
    family: str = "llama",
    model: str | None = None,
    tokens: float | None = None,
    goodput: float | None = None,
    framework: str | None = None,
    precision: str | None = None,
    batch_tokens: float = BATCH_TOKENS,
    settings: Sequence[str] = (),
) -> SizeAnswer:
    """Return the model that is worth training on a machine, or what training a model takes.

    Parameters
    ----------
    cluster : name of a cluster file
    nodes, days : size of the machine and duration; with `model` and `tokens` one of them is found
    law : of optimal training, a key of `workload.scaling_laws.LAWS`
    family : of shapes, ``llama`` or ``gpt``, or names of model files with commas between them
    model, tokens : a given model and its tokens
    goodput : share of the time that useful steps take; 0.9 if None, or predicted where `settings`
        change keys of ``training``
    framework, precision : software and number format of the steps; the usual ones of the machine
        if None
    batch_tokens : tokens of a step, about
    settings : changes of the scenarios of steps, ``cluster.nic.bandwidth=x2``, and of their runs,
        ``training.failures=rsc-1``

    Raises
    ------
    ScenarioError, CatalogError
        one line for each problem.
    """
    began = time.perf_counter()
    changes = changes_of(settings)
    of_run = [change for change in changes if change.path[0] == "training"]
    of_steps = tuple(change for change in changes if change.path[0] != "training")
    conditions = conditions_of(goodput, of_run)
    request = Sizing(find_law(law), conditions, _checked_days(days), began)
    _check(nodes, tokens, batch_tokens)
    machine = _machine(cluster, nodes or 1, framework, precision, batch_tokens, of_steps)
    if model is None and tokens is None:
        if nodes is None or days is None:
            raise ScenarioError("--nodes and --days: both are needed (or --model and --tokens)")
        return _best_model(machine, request, family, days)
    if model is None or tokens is None:
        raise ScenarioError("--model and --tokens: both are needed, or none of them")
    return _given_model(machine, request, model, tokens, nodes)


def _machine(
    cluster: str,
    nodes: int,
    framework: str | None,
    precision: str | None,
    batch_tokens: float,
    settings: tuple[Change, ...],
) -> Machine:
    """Return a machine with its usual software and number format, where none is stated."""
    use = load_cluster(cluster, nodes, [one for one in settings if one.path[0] == "cluster"])
    software = framework or usual_framework(use)
    number_format = precision or usual_precision(use, training_formats(software))
    per_node = use.node.devices
    return Machine(cluster, nodes, per_node, software, number_format, batch_tokens, settings)


def _checked_days(days: float | None) -> float | None:
    if days is not None and not 0 < days <= 36_525:
        raise ScenarioError(f"--days {days:g}: must be above 0 and at most 36,525")
    return days


def _check(nodes: int | None, tokens: float | None, batch_tokens: float) -> None:
    if nodes is not None and not 1 <= nodes <= MAX_DEVICES:
        raise ScenarioError(f"--nodes {nodes}: must be between 1 and {MAX_DEVICES:,}")
    if tokens is not None and not 0 < tokens <= MAX_AMOUNT:
        raise ScenarioError(f"--tokens {tokens:g}: must be above 0 and at most {MAX_AMOUNT:g}")
    if not 1 <= batch_tokens <= 1e12:
        raise ScenarioError(f"--batch-tokens {batch_tokens:g}: must be between 1 and 1e12")


# --- the model for a machine and a time -----------------------------------------------------------


def _best_model(machine: Machine, request: Sizing, family: str, days: float) -> SizeAnswer:
    if family in FAMILIES:
        found, sizes = _of_family(machine, request, family, days)
    else:
        found, sizes = _of_list(machine, request, family.split(","), days)
    return sized_answer(machine, request, "model", found, days, sizes)


def _of_family(
    machine: Machine, request: Sizing, family: str, days: float
) -> tuple[ModelSteps, list[ModelSteps]]:
    """Return the fixed point of the law, and other sizes."""
    layouts: dict[float, ModelLayouts] = {}
    known: dict[float, ModelSteps | None] = {}

    def steps(own: float, gap: float) -> ModelSteps | None:
        trained = layouts[own].fastest(gap)
        return None if trained is None else request.for_days(trained, days)

    def steps_of(parameters: float) -> ModelSteps | None:
        shape = shape_of(FAMILIES[family], parameters)
        own = shape["parameters"]["value"]
        if own not in known:
            layouts[own] = ModelLayouts(shape, machine)
            known[own] = steps(own, COMPARED_GAP)
        return known[own]

    nearest = _fixed_point(steps_of, machine, request.law, days)
    found = steps(nearest.parameters, GAP) or nearest
    known[found.parameters] = found
    others = (steps_of(_rounded(found.parameters * factor)) for factor in FACTORS)
    compared = {round(one.parameters): one for one in [found, *others] if one is not None}
    return found, [compared[parameters] for parameters in sorted(compared)]


def _fixed_point(
    steps_of: Callable[[float], ModelSteps | None], machine: Machine, law: Law, days: float
) -> ModelSteps:
    guess = _first_guess(machine, law, days)
    found: dict[float, ModelSteps] = {}
    for _ in range(MOST_ROUNDS):
        guess = _rounded(guess)
        steps = steps_of(guess)
        if steps is None:
            raise ScenarioError(_too_large(guess, machine))
        if steps.parameters in found:
            break
        found[steps.parameters] = steps
        wished = law.optimum(steps.flops).parameters
        if steps.parameters > 2 * wished and guess > wished:
            raise ScenarioError(_too_small(wished, steps))
        if abs(wished / steps.parameters - 1) < SAME:
            break
        guess = wished
    return min(found.values(), key=lambda steps: _distance(steps, law))


def _distance(steps: ModelSteps, law: Law) -> float:
    """Return how far a model is from the law's optimum for its budget, as a logarithm."""
    return abs(math.log(steps.parameters / law.optimum(steps.flops).parameters))


def _first_guess(machine: Machine, law: Law, days: float) -> float:
    """Return the optimum of a budget at 40 % of the peak rate [count]."""
    record = machine.record(machine.nodes).node.accelerator
    if (peak := record.peak.get(machine.precision)) is None:
        raise ScenarioError(
            f"--precision {escaped(machine.precision)}: {record.name} has no peak rate of it"
            f" (known: {', '.join(record.peak)})"
        )
    return law.optimum(0.4 * peak * machine.devices * days * DAY).parameters


def _rounded(parameters: float) -> float:
    """Return parameters to two digits, so that equal sizes are replayed once."""
    return float(f"{parameters:.1e}")


def _of_list(
    machine: Machine, request: Sizing, names: Sequence[str], days: float
) -> tuple[ModelSteps, list[ModelSteps]]:
    """Return the model of a list with the lowest loss, or nearest to the law's optimum."""
    found = []
    for name in names:
        trained = fastest_layout(name.strip(), machine)
        if trained is not None:
            found.append(request.for_days(trained, days))
    if not found:
        raise ScenarioError(
            f"--family {','.join(names)}: none of these models fits on {machine.devices:,} devices"
        )
    loss = request.law.loss
    best = min(
        found,
        key=lambda one: (
            _distance(one, request.law) if loss is None else loss.at(one.parameters, one.tokens)
        ),
    )
    return best, sorted(found, key=lambda one: one.parameters)


def _too_large(parameters: float, machine: Machine) -> str:
    return (
        f"a model of {parameters / 1e9:.3g} B parameters, which the law gives for this budget, fits"
        f" on {machine.devices:,} devices in no layout, also with states on the host (use more"
        " nodes, or a list of smaller models: --family NAME,NAME)"
    )


def _too_small(wished: float, steps: ModelSteps) -> str:
    return (
        f"the law gives a model of {wished / 1e6:.3g} M parameters for this budget, below the"
        f" smallest shape, {steps.parameters / 1e6:.3g} M (use more days or nodes)"
    )


# --- the time of a model --------------------------------------------------------------------------


def _given_model(
    machine: Machine, request: Sizing, model: str, tokens: float, nodes: int | None
) -> SizeAnswer:
    if nodes is not None:
        steps = request.on_tokens(_trained(model, machine), tokens)
        return sized_answer(machine, request, "days", steps, steps.days, [steps])
    if request.days is None:
        raise ScenarioError("--nodes or --days: one of them is needed with --model and --tokens")
    machine, steps = _fewest_nodes(machine, request, model, tokens, request.days)
    return sized_answer(machine, request, "devices", steps, steps.days, [steps])


def _trained(model: str, machine: Machine) -> Trained:
    trained = fastest_layout(model, machine)
    if trained is None:
        raise ScenarioError(
            f"--model {model}: fits on {machine.devices:,} devices in no layout, also with states"
            " on the host (use more nodes, or a framework with ZeRO-3)"
        )
    return trained


def _fewest_nodes(
    machine: Machine, request: Sizing, model: str, tokens: float, days: float
) -> tuple[Machine, ModelSteps]:
    """Return the smallest machine with which a model trains in time, to `NODES_GAP`."""
    most = machine.record(None).nodes  # of the whole machine

    def steps_on(nodes: int) -> ModelSteps | None:
        trained = fastest_layout(model, replace(machine, nodes=nodes))
        steps = None if trained is None else request.on_tokens(trained, tokens)
        return steps if steps is not None and steps.days <= days else None

    least = least_nodes(model, machine, tokens, days * DAY)
    nodes, too_few = 1, 0
    steps = steps_on(1) if least <= 1 else None
    while steps is None and nodes < most:
        nodes, too_few = min(2 * nodes, most), nodes
        steps = steps_on(nodes) if least <= nodes else None
    if steps is None:
        raise ScenarioError(
            f"--days {days:g}: {model} does not train on {tokens:.3g} tokens in this time on up to"
            f" {nodes:,} nodes of {machine.cluster} (use more days)"
        )
    too_few = max(too_few, math.ceil(least) - 1)
    while nodes - too_few > max(1, NODES_GAP * nodes):
        fewer = (nodes + too_few) // 2
        better = steps_on(fewer)
        if better is None:
            too_few = fewer
        else:
            nodes, steps = fewer, better
    return replace(machine, nodes=nodes), steps
