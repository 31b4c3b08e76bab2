"""Model files: the shape of a transformer as its paper or its configuration states it.

A family sets the usual values of its keys; any key of the file wins over the family.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from clustersim.catalog.facts import Count, Fact, Parts, Positive, Record, Strict, Whole

MOST_LAYERS: Final = 4_096
"""Layers of a model, at most: each is an object, and models have hundreds."""

WeightFormat = Literal["fp16", "bf16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4"]

Biased = Literal["qkv", "output", "mlp", "norm", "router"]
"""Layers that may have biases: the projections around attention, the MLP with a router, the norms.

`router` is a bias of the router alone, by which DeepSeek-V3 balances its experts.
"""

FAMILIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "gpt": {
        "norm": "layer",
        "mlp": "gelu",
        "positions": "learned",
        "tied": True,
        "biases": ["qkv", "output", "mlp", "norm"],
        "dropout": True,
    },
    "llama": {
        "norm": "rms",
        "mlp": "gated",
        "positions": "rotary",
        "tied": False,
        "biases": [],
        "dropout": False,
    },
}
"""Usual values of a family: of GPT-2 and 3, and of Llama and its successors."""


LETTERS: Final[Mapping[str, str]] = {
    "M": "Mamba-2",
    "*": "attention",
    "-": "MLP",
    "E": "experts",
}
"""Letters of a pattern, as Megatron-Core and Nemotron-H write them."""


class WindowShape(Strict):
    """Sliding-window attention: `tokens` that a query sees, in one of `every` layers, the first.

    Of `full_every` layers the last one has no window. A `chunked` window does not slide: a query
    sees the tokens before it in its chunk of `tokens`.
    """

    tokens: Count
    chunked: bool = False
    every: Count = 1
    full_every: Count | None = None


class IndexerShape(Strict):
    """Sparse attention: an indexer chooses the `tokens` that a query attends to.

    Its `heads` of `head_size` multiply a query with one key of each token before it. DeepSeek-V3.2,
    arXiv:2512.02556, section 2.1.
    """

    heads: Count
    head_size: Count
    tokens: Count


class LatentShape(Strict):
    """Multi-head latent attention: compressed widths of queries, keys and values.

    `query` is missing where queries are not compressed. A head's query and key are `nope` wide
    and `rope` more for the position, its value `value`. DeepSeek-V2, arXiv:2405.04434.
    """

    query: Count | None = None
    keys_values: Count
    nope: Count
    rope: Count
    value: Count
    indexer: IndexerShape | None = None


class GroupsOfExperts(Strict):
    """Groups of experts, each on a node: the experts of a token are in at most `limit` of them."""

    count: Count
    limit: Count

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.limit > self.count:
            raise ValueError(f"limit: {self.limit} of {self.count} groups (at most all)")
        return self


class ExpertShape(Strict):
    """A mixture of experts instead of the MLP: `top_k` of `count` experts for each token.

    Layers from `first_dense` on have experts, one in `every`, the last of each group. `shared`
    experts process every token. `capacity` is the most tokens of an expert, over its even share;
    without it no token is dropped. Where experts form `groups` of equal size, a token chooses its
    experts from the best `limit` groups.
    """

    count: Parts
    top_k: Parts
    ffn: Count
    shared: Whole = 0
    first_dense: Whole = 0
    every: Count = 1
    capacity: Positive | None = None
    groups: GroupsOfExperts | None = None

    @model_validator(mode="after")
    def _enough(self) -> Self:
        groups = 1 if self.groups is None else self.groups.count
        if self.count % groups:
            raise ValueError(f"groups.count: {groups} does not divide {self.count} experts")
        if self.top_k > self.count:
            raise ValueError(f"top_k: {self.top_k} of {self.count} experts (at most all)")
        return self


class MambaShape(Strict):
    """A Mamba-2 mixer: `heads` whose states have `state` numbers for each element of a head.

    Heads of a group share the inputs and outputs of their states, as query heads share keys. The
    `convolution` has as many taps, and the scan computes `chunk` tokens at once. Dao and Gu 2024,
    arXiv:2405.21060.  With the rule `delta` it is a Gated DeltaNet: a state first loses what it
    holds for a key, and groups are heads of keys. Yang et al. 2024, arXiv:2412.06464.
    """

    heads: Count
    head_size: Count
    groups: Count
    state: Count
    convolution: Count = 4
    chunk: Count
    rule: Literal["sum", "delta"] = "sum"

    @property
    def delta(self) -> bool:
        """Whether it is a Gated DeltaNet."""
        return self.rule == "delta"

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return "Gated DeltaNet" if self.delta else "Mamba-2"

    @property
    def inner(self) -> int:
        """Width of all heads."""
        return self.heads * self.head_size

    @property
    def convolved(self) -> int:
        """Columns of the convolution: the heads, and inputs and outputs of the states."""
        return self.inner + 2 * self.groups * self.state

    @property
    def columns(self) -> int:
        """Outputs of the first projection: a gate, what is convolved, and a time step a head.

        A Gated DeltaNet has the share of the state that a token renews as well.
        """
        return self.inner + self.convolved + (2 if self.delta else 1) * self.heads

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.heads % self.groups:
            raise ValueError(f"groups: {self.groups} does not divide the {self.heads} heads")
        return self


class ReleasedFormats(Strict):
    """Number formats of published weights: of linear layers, and of parts that differ."""

    weights: WeightFormat
    attention: WeightFormat | None = None
    experts: WeightFormat | None = None

    @property
    def precision(self) -> str | dict[str, str]:
        """The formats as the key `precision` of a service states them."""
        parts = self.model_dump(exclude_none=True)
        return parts if len(parts) > 1 else self.weights


def _left_to_the_family(schema: dict[str, Any]) -> None:
    """Remove the keys that every family sets from the required keys of a schema."""
    given_by_all = set.intersection(*(set(family) for family in FAMILIES.values()))
    schema["required"] = [key for key in schema["required"] if key not in given_by_all]


ParallelBlock = Literal["one-norm", "own-norms"]
"""Norms of a block whose attention and MLP read the same input."""


class ModelRecord(Record):
    """``workloads/models/*.yaml``: the shape of a transformer, all from one source."""

    model_config = ConfigDict(json_schema_extra=_left_to_the_family)

    kind: Literal["model"]
    family: Literal["gpt", "llama"]
    layers: Annotated[Count, Field(le=MOST_LAYERS)]
    hidden: Count
    heads: Count
    kv_heads: Count | None = Field(None, description="key and value heads; as `heads` if missing")
    head_size: Count | None = Field(None, description="`hidden` / `heads` if missing")
    ffn: Count
    vocab: Count
    sequence: Count
    longest: Count | None = Field(
        None,
        description="tokens that tables and masks of positions are for; as `sequence` if missing",
    )
    norm: Literal["layer", "rms"]
    mlp: Literal["gelu", "gated"]
    positions: Literal["learned", "rotary", "alibi", "none"]
    tied: bool = Field(description="whether the logits share the embedding's weights")
    biases: list[Biased]
    dropout: bool
    qk_norm: bool = Field(False, description="norms of queries and keys, one weight a head width")
    attention_gate: bool = Field(
        False, description="a gate of each query head multiplies the result of attention"
    )
    sinks: bool = Field(False, description="one learned logit a head that every softmax counts in")
    output_norms: bool = Field(
        False, description="norms of the outputs of attention and MLP, before each residual sum"
    )
    embedding_norm: bool = Field(False, description="a norm after the embedding")
    parallel_block: ParallelBlock | None = Field(
        None,
        description="attention and MLP read the same input, through one norm or own norms, and one"
        " all-reduce sums both outputs",
    )
    window: WindowShape | None = None
    latent: LatentShape | None = None
    experts: ExpertShape | None = None
    mamba: MambaShape | None = None
    pattern: str | None = Field(
        None,
        description="what each layer consists of, with a norm of its own: `M` Mamba-2,"
        " `*` attention, `-` an MLP, `E` experts; all layers have attention and an MLP if missing",
    )
    parameters: Fact[Positive]
    active: Fact[Positive] | None = Field(None, description="parameters that are used for a token")
    hugging_face: str | None = Field(
        None, description="name of its weights on Hugging Face; none are published if missing"
    )
    same_shape: list[str] = Field(
        [], description="names there of other weights of this shape, in the same number formats"
    )
    released: ReleasedFormats | None = Field(
        None, description="number formats of its published weights; 16 bits if missing"
    )
    source: str
    assumed: dict[str, str] = Field({})

    @model_validator(mode="before")
    @classmethod
    def _as_in_the_family(cls, data: Any) -> Any:
        family = data.get("family") if isinstance(data, dict) else None
        if isinstance(family, str) and family in FAMILIES:
            return {**FAMILIES[family], **data}
        return data

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.head_size is None and self.latent is None and self.hidden % self.heads:
            raise ValueError(f"heads: {self.heads} does not divide hidden {self.hidden}")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"kv_heads: {self.kv_heads} does not divide heads {self.heads}")
        if self.latent is not None and (self.kv_heads is not None or self.head_size is not None):
            raise ValueError("latent: determines the heads (leave out kv_heads and head_size)")
        if self.latent is not None and self.attention_gate:
            raise ValueError("attention_gate: is not modelled with latent (leave it out)")
        if self.latent is not None and self.latent.indexer is not None and self.window is not None:
            raise ValueError("window: is not modelled with an indexer (leave it out)")
        if self.experts is not None and self.parallel_block:
            raise ValueError("parallel_block: is not modelled with experts (leave it out)")
        if self.experts is not None and self.experts.first_dense >= self.layers:
            raise ValueError("experts.first_dense: leaves no layer with experts")
        return self

    @model_validator(mode="after")
    def _pattern_fits(self) -> Self:
        if problem := next(_pattern_problems(self), None):
            raise ValueError(problem)
        return self


def _pattern_problems(record: ModelRecord) -> Iterator[str]:
    """Yield why the pattern of a model does not fit its other keys."""
    pattern, experts = record.pattern, record.experts
    if record.mamba is not None and "M" not in (pattern or ""):
        yield "mamba: no layer has it (a pattern with M)"
    if pattern is None:
        return
    if unknown := sorted({*pattern} - {*LETTERS}):
        allowed = ", ".join(f"{letter} {what}" for letter, what in LETTERS.items())
        yield f"pattern: unknown letter {unknown[0]!r} (allowed: {allowed})"
    if len(pattern) != record.layers:
        yield f"pattern: {len(pattern)} letters for {record.layers} layers (one for each)"
    if "M" in pattern and record.mamba is None:
        yield "pattern: has M, but the model has no mamba (its heads, groups and state)"
    if ("E" in pattern) != (experts is not None):
        yield "pattern: has E where the model has experts, and only there"
    if experts is not None and (experts.every, experts.first_dense) != (1, 0):
        yield "experts: the pattern has their layers (leave out every and first_dense)"
    if record.parallel_block:
        yield "parallel_block: needs attention and an MLP in each layer (leave out the pattern)"
