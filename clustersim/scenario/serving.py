"""Serving scenarios: a machine, a model, an engine and the requests that arrive.

A scenario with the key `load` is one; `clustersim serve` simulates it.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from clustersim.catalog.facts import AT_FIRST_USE, Count, Line, Seconds, Share, Strict
from clustersim.catalog.records.engines import ActivationFormat, EngineRecord, KvFormat
from clustersim.catalog.records.models import ModelRecord, WeightFormat
from clustersim.scenario.costs import CostsFile
from clustersim.scenario.requests import LoadFile
from clustersim.scenario.schema import (
    PRECISION_NAMES,
    ClusterName,
    ClusterUse,
    Expecting,
    Name,
    PublishedNumber,
    RoutingFile,
)
from clustersim.units import percentile_name

SERVING_METRICS: Final = (
    "ttft_s",
    "tpot_s",
    "latency_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "output_tokens_per_s_per_device",
    "input_tokens_per_s_per_device",
    "requests_per_s",
    "fits",
)
"""Metrics of published numbers."""


class ReplicaFile(Strict):
    """How a replica of the model is distributed over devices."""

    tensor: Count = Field(1, description="devices that share the heads and columns of a layer")
    pipeline: Count = Field(1, description="stages that share the layers")
    expert: Count = Field(1, description="devices that hold different experts")
    attention_data: Count = Field(
        1, description="groups of devices with sequences of their own, which share the experts"
    )
    context: Count = Field(1, description="devices that share the tokens of a prompt")
    replicas: Count = Field(1, description="replicas of the model")


class PoolFile(ReplicaFile):
    """How replicas for prefill or for decode are distributed, and how their engine is started."""

    sequences: Count | None = Field(
        None, description="most sequences of a group of attention; that of the engine if missing"
    )
    tokens: Count | None = Field(
        None, description="most tokens of a step of such a group; that of the engine if missing"
    )
    graphs: bool | None = Field(
        None, description="false where no step is a CUDA graph; as the engine if missing"
    )
    ahead: bool | None = Field(
        None,
        description="whether a step is scheduled while the one before runs; as the engine if"
        " missing",
    )


class ServingPlanFile(ReplicaFile):
    """How the replicas are distributed, and which of them gets a request."""

    routing: Literal["round-robin", "least-loaded"] = Field(
        "round-robin", description="which replica gets a request: in turn, or with the fewest"
    )
    prefill: PoolFile | None = Field(
        None, description="replicas that process prompts only; needs decode"
    )
    decode: PoolFile | None = Field(
        None, description="replicas that decode only, on devices of their own; needs prefill"
    )
    transfer: Literal["layers", "whole"] = Field(
        "layers",
        description="whether the KV cache moves from prefill to decode layer by layer while the"
        " prompt is processed, or as a whole after it",
    )

    @model_validator(mode="after")
    def _both_pools(self) -> Self:
        if (self.prefill is None) != (self.decode is None):
            raise ValueError("separate pools need both prefill and decode (give both, or none)")
        shared = sorted({*ReplicaFile.model_fields} & self.model_fields_set)
        if self.prefill is not None and shared:
            raise ValueError(
                f"{shared[0]}: has no effect with separate pools (give it in prefill and decode)"
            )
        if self.prefill is None and "transfer" in self.model_fields_set:
            raise ValueError("transfer: has no effect without separate pools (leave it out)")
        return self


def _named(value: object) -> object:
    """Return the short name of a number format."""
    return PRECISION_NAMES.get(value, value) if isinstance(value, str) else value


Weights = Annotated[WeightFormat, BeforeValidator(_named)]
Activations = Annotated[ActivationFormat, BeforeValidator(_named)]
Cache = Annotated[KvFormat, BeforeValidator(_named)]


class FormatsFile(Strict):
    """Number formats by part."""

    weights: Weights = Field(description="format of the weights of linear layers")
    activations: Activations | None = Field(
        None,
        description="format of the inputs of products; if missing, that of the weights where it is"
        " one of products (fp8, nvfp4), else 16 bits",
    )
    kv: Cache | None = Field(
        None, description="format of cached keys and values; 16 bits if missing"
    )
    wide: Literal["fp16", "bf16"] | None = Field(
        None,
        description="16-bit format of all other numbers; that of another part if missing, or bf16",
    )
    attention: Weights | None = Field(
        None, description="format of the weights of attention, if it differs"
    )
    experts: Weights | None = Field(
        None, description="format of the weights of experts, if it differs"
    )


class SpeculationBase(Strict):
    """The keys of speculative decoding that name no other file."""

    tokens: Count = Field(description="drafted tokens of a sequence in a step")
    acceptance: Share = Field(description="probability that a drafted token is accepted")
    share: Share | None = Field(
        None,
        description="time of a drafted token without a draft model, over that of the step that"
        " verifies; 0 if missing",
    )


class SpeculationFile(SpeculationBase):
    """Speculative decoding: drafted tokens that a step verifies."""

    draft: str | Name | None = Field(
        None,
        description="model that drafts, on the devices of each replica; heads of the model, or a"
        " look-up, if missing",
    )


class Speculation(SpeculationBase):
    """Speculative decoding whose draft model has been replaced by the catalogue's record."""

    draft: ModelRecord | None = None

    @property
    def gain(self) -> float:
        r"""The tokens that a sequence gains in a step [unitless].

        .. math:: \frac{1 - a^{d + 1}}{1 - a}

        with d drafted tokens and acceptance a. Leviathan et al. 2023, equation 1, arXiv:2211.17192.
        """
        return sum(self.acceptance**i for i in range(self.tokens + 1))

    @property
    def assumed(self) -> dict[str, str]:
        """That drafting costs nothing, if it is not stated what drafts."""
        if self.draft is not None or self.share is not None:
            return {}
        why = (
            "0: drafting takes no time, as of a look-up in the prompt (n-grams); state it for heads"
        )
        more = " of the model (EAGLE, MTP), or speculation.draft for a model that drafts"
        return {"speculation.share": why + more}

    @model_validator(mode="after")
    def _one_cost(self) -> Self:
        if self.draft is not None and self.share is not None:
            raise ValueError("share: has no effect with a draft model (leave it out)")
        return self


class LimitsFile(Strict):
    """Limits within which a request counts for goodput."""

    ttft: Seconds | None = Field(None, description="limit of the time to the first token")
    tpot: Seconds | None = Field(None, description="limit of the time per token after the first")

    @model_validator(mode="after")
    def _positive(self) -> Self:
        for name in ("ttft", "tpot"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name}: must be greater than 0, which no request meets")
        return self


class PublishedService(PublishedNumber):
    """A published measurement of this service."""

    metric: Literal[SERVING_METRICS]  # type: ignore[valid-type]
    statistic: Literal["mean", "p50", "p90", "p99"] = Field(
        "mean", description="of a time: over the requests"
    )

    @model_validator(mode="after")
    def _one_number(self) -> Self:
        if self.metric[-2:] != "_s" and self.statistic != "mean":
            raise ValueError(f"statistic: {self.metric} is one number (leave it out)")
        return self


def _percentile(percent: float) -> float:
    """Check a percentile."""
    percentile_name(percent)
    return percent


Percent = Annotated[float, AfterValidator(_percentile)]
"""A percentile of times."""


class ServingBase(Expecting):
    """The keys of a serving scenario that name no other file."""

    title: Line
    plan: ServingPlanFile = ServingPlanFile()
    precision: Annotated[
        Annotated[Weights, Tag("word")] | Annotated[FormatsFile, Tag("table")],
        Discriminator(lambda value: "word" if isinstance(value, str) else "table"),
    ] = Field(description="number format of the weights, or formats by part")
    load: LoadFile
    experts: RoutingFile | None = Field(None, description="load of experts; balanced if missing")
    limits: LimitsFile | None = Field(None, description="limits of the requests of goodput")
    percentiles: list[Percent] = Field(
        [],
        description="percentiles of times in the answer, next to 50, 90, 95 and 99, whole or in"
        " tenths: 99.9; those of `expect` and of the limits and measures of a study are added",
    )
    costs: CostsFile = Field(
        CostsFile(), description="where the machine stands, and how its devices are paid for"
    )
    published: list[PublishedService] = Field([])
    assumed: dict[str, str] = Field({}, description="keys without a source, with the reason")


class ServingScenario(ServingBase):
    """A serving scenario whose names have been replaced by the catalogue's records."""

    cluster: Annotated[ClusterUse, AT_FIRST_USE]
    model: Annotated[ModelRecord, AT_FIRST_USE]
    engine: Annotated[EngineRecord, AT_FIRST_USE]
    speculation: Speculation | None = None

    @model_validator(mode="after")
    def _cached_in_one_pool(self) -> Self:
        if self.load.cached and self.plan.prefill is not None:
            raise ValueError("load: cached has no effect with replicas for prefill (leave it out)")
        return self

    @property
    def percentile_names(self) -> tuple[str, ...]:
        """Percentiles that the answer has next to the usual ones, by name."""
        return tuple(map(percentile_name, self.percentiles))

    @property
    def devices(self) -> int:
        """Devices of the replicas."""
        plan = self.plan
        pools = [plan] if plan.prefill is None else [plan.prefill, plan.decode]
        return sum(replica_devices(pool) for pool in pools if pool is not None)


def replica_devices(pool: ReplicaFile) -> int:
    """Return the devices of some replicas."""
    each = pool.tensor * pool.pipeline * pool.attention_data * pool.context
    return each * pool.replicas


class ServingScenarioFile(ServingBase):
    """A serving scenario as it is written: the schema for editors."""

    cluster: ClusterName
    model: str | Name
    engine: str | Name
    speculation: SpeculationFile | None = Field(
        None, description="speculative decoding; none if missing"
    )
