"""What a scenario says: a machine, a model, a layout, a batch, and what was published about it."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from clustersim.catalog.facts import Count, Fraction, Positive, Strict
from clustersim.catalog.libraries import Algorithm, Operation
from clustersim.catalog.records import ClusterRecord, FrameworkRecord, ModelRecord
from clustersim.plan.parallelism import AXES

METRICS = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "tflops_per_device",
    "mfu",
    "hfu",
    "memory_bytes",
)
"""What a published number may be about."""


def _in_full(schedule: object) -> object:
    """Return a schedule's name in full where people cut it short."""
    return "interleaved-1f1b" if schedule == "interleaved" else schedule


def _each_once(order: list[str]) -> list[str]:
    """Refuse an order that names an axis twice."""
    twice = [axis for place, axis in enumerate(order) if axis in order[:place]]
    if twice:
        raise ValueError(f"names {twice[0]} twice (each axis once)")
    return order


class PlacementFile(Strict):
    """Which devices the ranks run on; `devices` says all of it by itself."""

    order: Annotated[list[Literal[AXES]], AfterValidator(_each_once)] = Field(  # type: ignore[valid-type]
        list(AXES), description="axes by which ranks take devices, innermost first"
    )
    boxes: Annotated[list[Count], Field(min_length=1)] | None = Field(
        None, description="fill a torus box by box: lengths of a box along the axes of its nodes"
    )
    devices: list[Annotated[int, Field(ge=0, strict=True)]] | None = Field(
        None, description="the device of rank 0, of rank 1 and so on, instead of the other two"
    )

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        others = sorted(self.model_fields_set - {"devices"})
        if self.devices is not None and others:
            raise ValueError(f"'devices' says all by itself (leave out {' and '.join(others)})")
        return self


class PlanFile(Strict):
    """How the model is spread over the devices."""

    tensor: Count = Field(1, description="ranks that share each layer")
    pipeline: Count = Field(1, description="stages that share the layers")
    data: Count = Field(1, description="replicas that share the batch")
    zero: Literal[0, 1] = Field(0, description="ZeRO stage: 1 shards the optimiser states")
    schedule: Annotated[Literal["gpipe", "1f1b", "interleaved-1f1b"], BeforeValidator(_in_full)] = (
        "1f1b"
    )
    chunks: Count = Field(1, description="model chunks of each stage (interleaved-1f1b)")
    placement: PlacementFile = PlacementFile()


class BatchFile(Strict):
    """Sequences of one step in all (`global`) and of one microbatch (`micro`)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(populate_by_name=True)

    global_: Annotated[int, Field(alias="global", ge=1)]
    micro: Count
    sequence: Count = Field(description="tokens of a sequence")


class Published(Strict):
    """A number that somebody measured for this run."""

    metric: Literal[METRICS]  # type: ignore[valid-type]
    value: Positive
    convention: Literal["model", "hardware"] | None = None
    source: str


class WeakScaling(Strict):
    """Device counts along the data axis, with the batch of each replica fixed or shared out."""

    devices: list[Count]


class Scaling(Strict):
    """The scaling curves that belong to this scenario."""

    weak: WeakScaling | None = None
    strong: WeakScaling | None = None


class ScenarioBase(Strict):
    """The keys that stand in a scenario file as they are used."""

    title: str
    plan: PlanFile = PlanFile()
    batch: BatchFile
    precision: Literal["fp16", "bf16"] = Field(description="numbers that kernels compute with")
    recompute: Literal["none", "full"] = "none"
    collectives: dict[Operation, Algorithm] = Field(
        {}, description="algorithms by operation, where the library is not to choose"
    )
    published: list[Published] = Field(default_factory=list)
    scaling: Scaling | None = None
    assumed: dict[str, str] = Field({}, description="keys that no source states, with the reason")
    fold: bool = Field(True, description="replay one of several ranks that behave alike")
    fusion_bound: Fraction = Field(
        0.01, description="most that neighbours' traffic may change a fused block, of its time"
    )


class ClusterUse(ClusterRecord):
    """A cluster and the number of its nodes that the job runs on."""

    nodes: Count


class Scenario(ScenarioBase):
    """A scenario whose names have been replaced by the catalogue's records."""

    cluster: ClusterUse
    model: ModelRecord
    framework: FrameworkRecord

    @property
    def devices(self) -> int:
        """Devices of the nodes that the job runs on."""
        return self.cluster.nodes * self.cluster.node.devices.value


class ClusterName(BaseModel):
    """A cluster by name; any other key of a cluster file may be given and wins over it."""

    model_config = ConfigDict(extra="allow")

    name: str
    nodes: Count


class Name(BaseModel):
    """A model or framework by name; any other key of its file may be given and wins over it."""

    model_config = ConfigDict(extra="allow")

    name: str


class ScenarioFile(ScenarioBase):
    """A scenario as it is written: the form that editors complete from."""

    cluster: ClusterName
    model: str | Name
    framework: str | Name


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ScenarioFile.model_json_schema(by_alias=True),
    }
