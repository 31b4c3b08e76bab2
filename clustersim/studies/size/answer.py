"""The answer of a sizing: what ``size --json`` prints."""

from collections.abc import Mapping
from typing import Final

from clustersim.answers import Presentable, record
from clustersim.metrics.bill import Bill

GAP: Final = 0.01
"""A layout is accepted if no other can be faster by more; sizes differ by more than that."""

NODES_GAP: Final = 0.03
"""By how much fewer nodes than the answer's may train in time as well, relative to them: a choice,
between one search more for each halving and machines that are not needed."""


@record
class SizeLayout:
    """The layout with which a model trains fastest, or within a gap of that.

    Attributes
    ----------
    tensor, pipeline, data : parallel degrees
    zero : ZeRO stage
    micro : sequences of a microbatch
    batch : sequences of a step
    sequence : tokens of a sequence
    sequence_parallel : whether the ranks of a tensor group share the tokens between products
    schedule : order of the steps of a pipeline
    chunks : parts of the layers on each stage
    recompute : what the backward recomputes
    offload : what is held in the memory of the host: `optimiser`, `parameters`, `activations`
    step_time_s : time of a step [s]
    memory_bytes : peak of the fullest stage [B]
    tight : whether it fits in memory with less room than the errors of predictions
    gap : by how much another layout can be faster at most, share of the step time: 0.01 or less,
        0.05 for sizes that are compared; more where the search ended before it was proven
    """

    tensor: int
    pipeline: int
    data: int
    zero: int
    micro: int
    batch: int
    sequence: int
    sequence_parallel: bool
    schedule: str
    chunks: int
    recompute: str
    offload: tuple[str, ...]
    step_time_s: float
    memory_bytes: float
    tight: bool
    gap: float


@record
class TrainedSize:
    """A model on this machine for this time.

    Attributes
    ----------
    model : name, or family of its shape
    parameters : of the model, with its embedding
    tokens : on which it trains in the time
    loss : predicted by the law [nats per token]; null where the law has none
    tokens_per_s : throughput in steps, without the rest of the goodput
    mfu : model FLOPs over peak
    layout : the layout of its steps
    shape : dimensions of the model
    """

    model: str
    parameters: float
    tokens: float
    loss: float | None
    tokens_per_s: float
    mfu: float
    layout: SizeLayout
    shape: Mapping[str, int]


@record
class LawOptimum:
    """What a law gives for the same budget.

    Attributes
    ----------
    law : name
    parameters, tokens : optimum for the budget
    tokens_per_parameter : their ratio
    loss : of this optimum [nats per token]; null where the law has none
    extrapolated : by what factor the budget is outside of the experiments of the law; 1 if inside
    source : paper
    note : remarks on its numbers
    formula : with its constants
    """

    law: str
    parameters: float
    tokens: float
    tokens_per_parameter: float
    loss: float | None
    extrapolated: float
    source: str
    note: str
    formula: str = ""


@record
class SizeAnswer(Presentable):
    """The model that is worth training on a machine; or the time that a given model takes.

    Attributes
    ----------
    name, title : of the sizing
    question : ``model`` if the model was wanted, ``days`` or ``devices`` for a given model
    parameters : of the model, with its embedding
    tokens : on which it trains
    loss : predicted by the law [nats per token]; null where the law has none
    law : name of the law
    layout : the layout of its steps
    days : duration, with the goodput
    devices : accelerators
    nodes : nodes of the cluster
    cluster, accelerator : names
    framework, precision : software and number format of the steps
    goodput : share of the time that useful steps take
    goodput_note : whether it is assumed, stated, or predicted, and with how many interruptions
    flops : budget in the counting of the laws, 6 for each parameter and token [FLOP]
    tokens_per_parameter : tokens over parameters
    tokens_per_s : throughput in steps, without the rest of the goodput
    mfu : model FLOPs over peak
    model : name, or family of its shape
    shape : dimensions of the model
    sizes : smaller and larger models on the same machine for the same time, the smallest first
    laws : what each law gives for the same budget, the requested one first
    energy_kwh : energy of the site, with its cooling; of the machine without a site; null where
        its power is not known [kWh]
    power_w : mean power of the machine; null where it is not known [W]
    cost : price of the devices for these days, of a purchase with electricity; null where it is not
        known [USD]
    price : quotes behind the price, and electricity; or why it is not known
    wall_s : time that the sizing took [s]
    co2e_kg : emissions; null without a site, or one of unknown carbon intensity [kg]
    bill : what energy, emissions and price are made of; null where power is not known
    """

    name: str
    title: str
    question: str
    parameters: float
    tokens: float
    loss: float | None
    law: str
    layout: SizeLayout
    days: float
    devices: int
    nodes: int
    cluster: str
    accelerator: str
    framework: str
    precision: str
    goodput: float
    goodput_note: str
    flops: float
    tokens_per_parameter: float
    tokens_per_s: float
    mfu: float
    model: str
    shape: Mapping[str, int]
    sizes: tuple[TrainedSize, ...]
    laws: tuple[LawOptimum, ...]
    energy_kwh: float | None
    power_w: float | None
    cost: float | None
    price: str
    wall_s: float
    co2e_kg: float | None = None
    bill: Bill | None = None
