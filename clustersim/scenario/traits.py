"""The traits by which a job or a service is like measured runs (`clustersim.evidence`)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from clustersim.evidence import Traits
from clustersim.inference.formats import WEIGHTS
from clustersim.scenario.schema import Scenario
from clustersim.workload.slice import PRECISIONS

if TYPE_CHECKING:
    from clustersim.scenario.serving import ServingScenario


class Chip(Protocol):
    """An accelerator."""

    @property
    def name(self) -> str:
        """Its name in the catalogue."""

    @property
    def capability(self) -> str | None:
        """Its generation, where the vendor numbers them."""


class Model(Protocol):
    """A model."""

    @property
    def layers(self) -> int:
        """Its layers."""

    @property
    def hidden(self) -> int:
        """Width of its residual stream."""

    @property
    def experts(self) -> object | None:
        """Its mixture of experts, or None."""


TASKS: Final[Mapping[str, str]] = {
    "batch": "batch",
    "concurrency": "users",
    "rate": "arrivals",
    "trace": "arrivals",
    "offline": "offline",
}
"""How requests arrive, by the kind of a load."""


def traits_of(
    chip: Chip, model: Model, *, machine: str, software: str, task: str, bits: int, devices: int,
    nodes: int,
) -> Traits:  # fmt: skip
    """Return the traits of a run."""
    return Traits(
        accelerator=chip.name,
        generation=chip.capability or chip.name,
        machine=machine,
        software=software,
        shape=shape_of(model),
        experts=model.experts is not None,
        task=task,
        bits=bits,
        nodes=nodes,
        devices=devices,
    )


def shape_of(model: Model) -> str:
    """Return layers and width of a model."""
    return f"{model.layers} x {model.hidden}"


def step_traits(scenario: Scenario) -> Traits:
    """Return the traits of a job."""
    cluster, tuned = scenario.cluster, scenario.finetune
    task = "pretraining" if tuned is None else "fine-tuning"
    return traits_of(
        cluster.node.accelerator,
        scenario.model,
        machine=cluster.name,
        software=scenario.framework.name,
        task=task if tuned is None or tuned.method == "full" else "adapters",
        bits=int(8 * PRECISIONS[scenario.precision].operand),
        devices=scenario.devices,
        nodes=cluster.nodes,
    )


def service_traits(scenario: "ServingScenario") -> Traits:
    """Return the traits of a service."""
    cluster, precision = scenario.cluster, scenario.precision
    weights = precision if isinstance(precision, str) else precision.weights
    return traits_of(
        cluster.node.accelerator,
        scenario.model,
        machine=cluster.name,
        software=scenario.engine.name,
        task=service_task(scenario.load.kind, pools=scenario.plan.prefill is not None),
        bits=weight_bits(weights),
        devices=scenario.devices,
        nodes=cluster.nodes,
    )


def service_task(load: str, *, pools: bool) -> str:
    """Return how the requests of a kind of load arrive, and whether prefill has a pool."""
    return f"{TASKS[load]}, two pools" if pools else TASKS[load]


def weight_bits(weights: str) -> int:
    """Return the bits of a weight, without its scales.

    >>> weight_bits("nvfp4"), weight_bits("fp8-block"), weight_bits("bf16")
    (4, 8, 16)
    """
    return int(8 * WEIGHTS[weights]) & ~3
