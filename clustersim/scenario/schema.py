"""Scenario files: a machine, a model, a layout, a batch, and published numbers to compare with."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from clustersim.catalog.fabrics import MAX_AXES, Dragonfly
from clustersim.catalog.facts import (
    AT_FIRST_USE,
    MAX_COUNT,
    MAX_DEVICES,
    Count,
    Fraction,
    Line,
    Nodes,
    NotNegative,
    Positive,
    Strict,
    Whole,
)
from clustersim.catalog.libraries import Algorithm, Operation
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.catalog.records.models import ModelRecord
from clustersim.plan.parallelism import AXES
from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.anchors import AnchorFile
from clustersim.scenario.costs import CostsFile
from clustersim.scenario.disturbances import Disturbance
from clustersim.scenario.scaling import Scaling
from clustersim.scenario.training import Training, TrainingFile
from clustersim.workload.finetune import ENDS
from clustersim.workload.model import attended_tokens
from clustersim.workload.ops import MODULES
from clustersim.workload.optimisers import OPTIMISERS

METRICS = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "tflops_per_device",
    "mfu",
    "hfu",
    "memory_bytes",
    "power_w",
    "fits",
)
"""Metrics of published numbers."""


def _schedule(text: str) -> str:
    """Return the full name of a schedule, from its short form too; reject other names."""
    full = {schedule.short: name for name, schedule in SCHEDULES.items() if schedule.short}
    name = full.get(text, text)
    if name not in SCHEDULES and not name.endswith(".txt"):
        known = ", ".join(f"'{schedule}'" for schedule in SCHEDULES)
        raise ValueError(f"must be {known} or a .txt file of steps")
    return name


def _once_each(order: list[str]) -> list[str]:
    """Reject an order that names an axis twice."""
    twice = [axis for index, axis in enumerate(order) if axis in order[:index]]
    if twice:
        raise ValueError(f"names {twice[0]} twice (each axis once)")
    return order


class PlacementFile(Strict):
    """The device of each rank; `devices` excludes the other two keys."""

    order: Annotated[list[Literal[AXES]], AfterValidator(_once_each)] = Field(  # type: ignore[valid-type]
        list(AXES),
        description="order of the axes in the assignment of ranks to devices, innermost first",
    )
    boxes: Annotated[list[Nodes], Field(min_length=1, max_length=MAX_AXES)] | None = Field(
        None, description="boxes of a torus to fill one by one: lengths along the axes of its nodes"
    )
    devices: list[Whole] | None = Field(
        None, description="the device of rank 0, of rank 1 and so on; replaces the other two"
    )

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        others = sorted(self.model_fields_set - {"devices"})
        if self.devices is not None and others:
            raise ValueError(
                f"'devices' excludes {' and '.join(others)} (leave out one or the other)"
            )
        return self


class PlanFile(Strict):
    """How the model is distributed over the devices."""

    tensor: Count = Field(1, description="ranks that share each layer")
    pipeline: Count = Field(1, description="stages that share the layers")
    data: Count = Field(1, description="replicas that share the batch")
    context: Count = Field(1, description="ranks that share each sequence")
    context_method: Literal["ring", "all-gather", "ulysses"] = Field(
        "ring", description="method of context-parallel attention"
    )
    expert: Count = Field(1, description="ranks that share the experts of a layer")
    expert_tensor: Count = Field(1, description="ranks that share each expert")
    sequence_parallel: bool = Field(
        False, description="whether tensor ranks split norms and dropouts by tokens"
    )
    layers: Annotated[
        Annotated[Literal["even", "with-ends", "filled", "by-work"], Tag("word")]
        | Annotated[list[Whole], Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "word"),
    ] = Field(
        "even",
        description="layers of each stage, or of each chunk in the order of the model; with-ends"
        " counts embedding and logits as a layer each, filled gives each stage as many as the"
        " largest one needs and the last one the rest, by-work balances the products of layers and"
        " logits",
    )
    zero: Literal[0, 1, 2, 3] = Field(
        0,
        description="ZeRO stage: 1 shards optimiser states, 2 gradients as well, 3 weights as well",
    )
    reshard: bool = Field(
        True, description="whether gathered weights are released after a layer's forward (zero: 3)"
    )
    shard: Whole = Field(
        0, description="ranks over which ZeRO shards; 0 for all ranks with the same weights"
    )
    schedule: Annotated[str, AfterValidator(_schedule)] = Field(
        "1f1b",
        description="name of a schedule, or a .txt file of steps next to the scenario",
        examples=[*SCHEDULES],
    )
    chunks: Count | None = Field(
        None,
        description="model chunks per stage; the fewest that the schedule supports if missing",
    )
    placement: PlacementFile = PlacementFile.model_construct()


class LengthsFile(Strict):
    """Lengths of the samples that are packed into each sequence; each attends to itself alone."""

    mean: Annotated[float, Field(ge=1, le=MAX_COUNT)] = Field(
        description="tokens of a sample, on average"
    )
    spread: NotNegative = Field(
        0.0, description="standard deviation of the lengths relative to their mean"
    )
    filled: Fraction = Field(
        1.0, description="share of the tokens that are of samples; the others are padding"
    )


class BatchFile(Strict):
    """Sequences of one step in all (`global`) and of one microbatch (`micro`)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(populate_by_name=True)

    global_: Annotated[int, Field(alias="global", ge=1, le=MAX_COUNT)]
    micro: Count
    sequence: Count = Field(description="tokens of a sequence")
    lengths: LengthsFile | None = Field(
        None, description="lengths of packed samples; each sequence is one sample if missing"
    )

    @property
    def tokens(self) -> float:
        """Tokens of a step that are no padding."""
        filled = 1 if self.lengths is None else self.lengths.filled
        return self.global_ * self.sequence * filled

    @property
    def sample(self) -> float:
        """Mean tokens of the packed sample that a token is in; 0 where each sequence is one."""
        if self.lengths is None:
            return 0.0
        return min(self.sequence, attended_tokens(self.lengths.mean, self.lengths.spread))

    @model_validator(mode="after")
    def _shorter_samples(self) -> Self:
        if self.lengths is not None and self.lengths.mean > self.sequence:
            raise ValueError(
                f"lengths.mean: {self.lengths.mean:g} tokens of a sample exceed the"
                f" {self.sequence} of a sequence (take at most {self.sequence})"
            )
        return self


class RecomputeFile(Strict):
    """What the backward recomputes, where not every layer does the same."""

    mode: Literal["none", "selective", "full"] = Field("full", description="as without this table")
    every: Count = Field(1, description="interval between recomputed layers of a stage")
    stages: list[Whole] | None = Field(
        None, description="stages with recomputation; all if missing"
    )
    ops: list[str] = Field([], description="names of recomputed operations; replaces the mode")
    modules: list[Literal[tuple(MODULES)]] = Field(  # type: ignore[valid-type]
        [], description="recomputed modules, by the names of Megatron-Core; replaces the mode"
    )

    @property
    def listed(self) -> frozenset[str]:
        """The recomputed operations, where they are listed."""
        return frozenset(self.ops).union(*(MODULES[module] for module in self.modules))

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        for key in ("ops", "modules"):
            if getattr(self, key) and "mode" in self.model_fields_set:
                raise ValueError(f"'{key}' excludes mode (leave out one or the other)")
        if self.mode == "none" and (self.every > 1 or self.stages is not None):
            raise ValueError("every and stages have no effect with mode none (leave them out)")
        return self


class OffloadFile(Strict):
    """What is held in the memory of the host."""

    parameters: bool = Field(
        False,
        description="weights and gradients, copied layer by layer; the host runs the optimiser",
    )
    optimiser: bool = Field(False, description="optimiser states; the host runs the optimiser")
    activations: bool = Field(False, description="activations saved from forward to backward")


class FinetuneFile(Strict):
    """What is trained: adapters next to frozen weights, or all weights but the frozen ends."""

    method: Literal["full", "lora", "qlora", "dora"] = Field(
        description="all weights but `frozen`; or low-rank adapters, with quantised weights, or"
        " with a norm of the sum"
    )
    frozen: list[Literal[ENDS]] = Field(  # type: ignore[valid-type]
        [], description="ends of the model that are not trained (method: full)"
    )
    rank: Count = Field(64, description="inner dimension of the adapters")
    targets: list[Literal["qkv", "output", "mlp"]] = Field(
        ["qkv", "output", "mlp"], description="linear layers with adapters"
    )
    dropout: bool = Field(True, description="whether the input of an adapter has dropout")
    bits: Literal[4, 8, 16] = Field(
        16, description="bits of a frozen weight; 4 for qlora if missing"
    )
    quantiser: Literal["bnb", "hqq"] = Field(
        "bnb", description="quantiser, which sets blocks and constants"
    )

    @model_validator(mode="before")
    @classmethod
    def _four_bits_in_qlora(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("method") == "qlora":
            return {"bits": 4, **data}
        return data

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        others = sorted(self.model_fields_set - {"method", "frozen"})
        if self.method == "full" and others:
            raise ValueError(f"{others[0]}: has no effect with method full, without adapters")
        if self.method == "full" and not self.frozen:
            raise ValueError("frozen: names no part, all is trained (leave out finetune)")
        if self.method != "full" and self.frozen:
            raise ValueError("frozen: has no effect with adapters, which freeze all (method: full)")
        return self

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.method == "qlora" and self.bits == 16:
            raise ValueError("bits: 16 is not quantised (4 or 8 in qlora; or method: lora)")
        if not self.targets:
            raise ValueError("targets: is empty, no adapter is trained (allowed: qkv, output, mlp)")
        if "quantiser" in self.model_fields_set and self.bits == 16:
            raise ValueError("quantiser: has no effect on weights of 16 bits (leave it out)")
        return self


class RoutingFile(Strict):
    """How tokens are distributed over the experts of a layer."""

    load: Literal["balanced", "zipf", "histogram", "task-gate"] = Field(
        "balanced", description="distribution of tokens over experts"
    )
    exponent: Annotated[float, Field(ge=0, le=50)] = Field(
        1.0, description="exponent of zipf: the i-th expert receives 1 / i^exponent of the first"
    )
    histogram: list[NotNegative] = Field([], description="tokens of each expert, in any unit")
    tasks: list[Positive] = Field(
        [], description="shares of the tasks for task-gate; a sequence goes to its task's expert"
    )

    @property
    def assumed(self) -> dict[str, str]:
        """The exponent of a distribution that has one, if it is not stated."""
        if self.load != "zipf" or "exponent" in self.model_fields_set:
            return {}
        return {"experts.exponent": f"{self.exponent:g}, if nothing else is stated"}

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        for key, load in (("exponent", "zipf"), ("histogram", "histogram"), ("tasks", "task-gate")):
            if key in self.model_fields_set and self.load != load:
                raise ValueError(
                    f"{key}: has no effect with load '{self.load}' (load: {load}, or a table"
                    f" without it: --set 'experts={{load: {self.load}}}')"
                )
        for key, load in (("histogram", "histogram"), ("tasks", "task-gate")):
            if self.load == load and not sum(getattr(self, key)):
                raise ValueError(f"load: '{load}' needs {key} (a number above 0 for some expert)")
        return self


PRECISION_NAMES: Final = {
    "float32": "fp32",
    "tfloat32": "tf32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float8": "fp8",
}
"""Other names of precisions, as PyTorch and configurations have them."""


def _precision(value: object) -> object:
    """Return the short name of a precision."""
    if not isinstance(value, str):
        return value
    return PRECISION_NAMES.get(value.removeprefix("torch."), value)


class PublishedNumber(Strict):
    """A published measurement of a scenario; whether it fits is 1 or 0."""

    metric: str
    value: NotNegative
    source: str

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.metric == "fits" and self.value not in (0, 1):
            raise ValueError(f"value: fits is 1 or 0, not {self.value:g}")
        if self.metric != "fits" and not self.value:
            raise ValueError("value: a measured value must be positive")
        return self


class Published(PublishedNumber):
    """A published measurement of this run."""

    metric: Literal[METRICS]  # type: ignore[valid-type]
    convention: Literal["model", "hardware"] | None = None


Limit: TypeAlias = bool | int | float | str


class Expecting(Strict):
    """The section `expect` of a scenario of any kind."""

    expect: dict[str, Limit | dict[str, Limit]] = Field(
        {},
        description="limits of measures that the answer is to hold, by name: `< 12 s`, `>= 40 %`;"
        " `memory.fits` and `memory.tight` are true or false",
    )


class ScenarioBase(Expecting):
    """The keys of a scenario file that name no other file."""

    title: Line
    plan: PlanFile = PlanFile.model_construct()
    batch: BatchFile
    precision: Annotated[
        Literal["fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"],
        BeforeValidator(_precision),
    ] = Field(description="number format of matrix products")
    recompute: Annotated[
        Annotated[Literal["none", "selective", "full"], Tag("mode")]
        | Annotated[RecomputeFile, Tag("table")],
        Discriminator(lambda value: "table" if isinstance(value, dict | RecomputeFile) else "mode"),
    ] = "none"
    optimiser: Literal[tuple(OPTIMISERS)] = Field(  # type: ignore[valid-type]
        "adamw", description="optimiser; AdamW is that of the framework's profile"
    )
    offload: OffloadFile = OffloadFile.model_construct()
    finetune: FinetuneFile | None = None
    collectives: dict[Operation, Algorithm] = Field(
        {}, description="algorithms by operation, instead of the library's choice"
    )
    experts: RoutingFile | None = Field(None, description="load of experts; balanced if missing")
    published: list[Published] = Field([])
    scaling: Scaling | None = None
    assumed: dict[str, str] = Field({}, description="keys without a source, with the reason")
    disturbances: list[Disturbance] = Field(
        [], description="what makes some ranks differ from the others"
    )
    costs: CostsFile = Field(
        CostsFile.model_construct(), description="site and price of the machine"
    )
    fold: bool = Field(True, description="whether ranks that behave alike are replayed once")
    exact: bool = Field(
        False, description="whether periods of the pipeline that repeat are replayed one by one"
    )
    fusion_bound: Fraction = Field(
        0.01, description="limit of the change of a fused block by other traffic, of its time"
    )


class ClusterUse(ClusterRecord):
    """A cluster and the number of its nodes that the job uses."""

    nodes: Nodes

    @model_validator(mode="after")
    def _countable(self) -> Self:
        devices = self.nodes * self.node.devices
        if devices > MAX_DEVICES:
            raise ValueError(
                f"nodes: {self.nodes:,} nodes have {devices:,} devices (at most {MAX_DEVICES:,})"
            )
        return self

    @model_validator(mode="after")
    def _every_node_has_a_group(self) -> Self:
        if isinstance(self.fabric, Dragonfly):
            self.fabric.check_room(self.nodes, len(self.node.nics.devices))
        return self


class Scenario(ScenarioBase):
    """A scenario whose names have been replaced by the catalogue's records."""

    cluster: Annotated[ClusterUse, AT_FIRST_USE]
    model: Annotated[ModelRecord, AT_FIRST_USE]
    framework: Annotated[FrameworkRecord, AT_FIRST_USE]
    training: Annotated[Training, AT_FIRST_USE] | None = None
    anchor: Annotated[AnchorFile, AT_FIRST_USE] | None = None

    @property
    def devices(self) -> int:
        """Devices of the nodes that the job uses."""
        return self.cluster.nodes * self.cluster.node.devices


class Name(BaseModel):
    """A model or framework by name; any other key of its file may be given and wins over it."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    name: str


class ClusterName(Name):
    """A cluster by name; any other key of a cluster file may be given and wins over it."""

    nodes: Nodes


class ScenarioFile(ScenarioBase):
    """A scenario as it is written: the schema for editors."""

    cluster: ClusterName
    model: str | Name
    framework: str | Name
    training: TrainingFile | None = Field(None, description="the whole run that the step is of")
    anchor: str | None = Field(
        None, description="file of factors from logs of this job, written by `check --anchor`"
    )


def json_schema(file: type[BaseModel] = ScenarioFile) -> dict[str, Any]:
    """Return the JSON Schema of scenario files of a kind."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **file.model_json_schema(by_alias=True),
    }
