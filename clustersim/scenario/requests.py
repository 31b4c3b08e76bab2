"""The load of a serving scenario: how many requests, when they arrive, and how long they are."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from clustersim.catalog.facts import Fraction, NotNegative, Positive, Strict, Whole
from clustersim.units import parse_rate

MAX_TOKENS: Final = 10**8
"""Maximum length of a prompt or an output."""

MAX_REQUESTS: Final = 10**6
"""Maximum number of requests that are measured."""

MAX_SIMULATED: Final = 10**7
"""Maximum number of requests of users, with those before and after the measured ones."""

Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)]
Requests = Annotated[int, Field(ge=1, le=MAX_REQUESTS, strict=True)]


class UniformLengths(Strict):
    """Lengths between two numbers, all equally likely."""

    uniform: Annotated[list[Tokens], Field(min_length=2, max_length=2)] = Field(
        description="least and most tokens"
    )

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform: must be the least and then the most tokens")
        return self


class LognormalLengths(Strict):
    """Lengths whose logarithms are normally distributed."""

    mean: Positive = Field(description="mean number of tokens")
    deviation: NotNegative = Field(description="standard deviation of the number of tokens")
    most: Tokens | None = Field(None, description="maximum number of tokens; none if missing")


class HistogramLengths(Strict):
    """Lengths by their frequencies."""

    histogram: dict[int, NotNegative] = Field(description="frequency of each number of tokens")

    @model_validator(mode="after")
    def _some(self) -> Self:
        wrong = [tokens for tokens in self.histogram if not 1 <= tokens <= MAX_TOKENS]
        if wrong:
            raise ValueError(f"histogram: {wrong[0]} is no number of tokens (at least 1)")
        if not sum(self.histogram.values()):
            raise ValueError("histogram: needs a frequency above 0 for some number of tokens")
        return self


def _kind(value: object) -> str:
    """Return which form of lengths a value has."""
    if isinstance(value, UniformLengths) or (isinstance(value, dict) and "uniform" in value):
        return "uniform"
    if isinstance(value, HistogramLengths) or (isinstance(value, dict) and "histogram" in value):
        return "histogram"
    return "lognormal" if isinstance(value, dict | LognormalLengths) else "number"


Lengths = Annotated[
    Annotated[Tokens, Tag("number")]
    | Annotated[UniformLengths, Tag("uniform")]
    | Annotated[LognormalLengths, Tag("lognormal")]
    | Annotated[HistogramLengths, Tag("histogram")],
    Discriminator(_kind),
]


class UniformSpread(Strict):
    """Prompts and outputs between a share of their lengths and these, all equally likely."""

    uniform: Fraction = Field(description="least length over the stated one, which is the most")

    def around(self, tokens: int) -> UniformLengths:
        """Return the lengths around a stated one."""
        return UniformLengths(uniform=[max(1, round(self.uniform * tokens)), tokens])


class LognormalSpread(Strict):
    """Prompts and outputs whose means are their lengths, with normally distributed logarithms."""

    lognormal: NotNegative = Field(description="standard deviation of a length over its mean")

    def around(self, tokens: int) -> LognormalLengths:
        """Return the lengths around a stated one."""
        return LognormalLengths(mean=tokens, deviation=self.lognormal * tokens)


FIXED: Final = "fixed"
"""The word for lengths that are all as stated."""


def _spread(value: object) -> str:
    """Return which form of `lengths` a value has."""
    if isinstance(value, UniformSpread) or (isinstance(value, dict) and "uniform" in value):
        return "uniform"
    return "lognormal" if isinstance(value, dict | LognormalSpread) else "word"


Spread = Annotated[
    Annotated[Literal["fixed", "trace"], Tag("word")]
    | Annotated[UniformSpread, Tag("uniform")]
    | Annotated[LognormalSpread, Tag("lognormal")],
    Discriminator(_spread),
]
"""How the lengths of requests differ from those that are stated."""

LOADS: Final = ("batch", "concurrency", "rate", "offline", "trace")
"""The keys that state how requests arrive, of which a load has one."""


def _without(kinds: Sequence[str], kept: str) -> str:
    """Return the settings that leave one kind of load."""
    return " ".join(f"--set load.{name}=null" for name in kinds if name != kept)


class LoadFile(Strict):
    """The requests: one of batch, concurrency, rate, offline and trace states how they arrive."""

    batch: Requests | None = Field(
        None, description="requests that all arrive at the start, and are measured as one batch"
    )
    concurrency: Requests | None = Field(
        None, description="users; each sends the next request when the last one is complete"
    )
    rate: Annotated[Positive | None, BeforeValidator(parse_rate)] = Field(
        None, description="requests that arrive in a second [1/s]; also as 10/s or 600/min"
    )
    offline: Requests | None = Field(
        None, description="requests that are all there at the start, for throughput"
    )
    trace: str | None = Field(
        None,
        description="CSV or JSONL file next to the scenario: arrival [s], input and output [tokens]"
        " of each request",
    )
    arrivals: Literal["poisson", "bursty", "regular"] = Field(
        "poisson",
        description="gaps between arrivals at a rate: exponential, gamma with the coefficient of"
        " variation `burstiness`, or equal",
    )
    burstiness: Positive = Field(
        2.0, description="coefficient of variation of the gaps of bursty arrivals"
    )
    input: Lengths | None = Field(
        None, description="tokens of a prompt: a number or a distribution; a trace has its own"
    )
    output: Lengths | None = Field(
        None, description="tokens that a request generates: a number or a distribution"
    )
    lengths: Spread | None = Field(
        None,
        description="how lengths differ from `input` and `output`: `fixed`, not at all, as if"
        " missing; `{uniform: 0.8}`, between this share of them and them, all equally likely;"
        " `{lognormal: 0.5}`, around them with this deviation over their mean; `trace`, as in the"
        " trace",
    )
    requests: Requests | None = Field(
        None,
        description="measured requests, from the first to the last, as a benchmark has them; if"
        " missing, at a rate as many of the steady state as its mean times need, and 8 for each"
        " user, at least 64, of a concurrency",
    )
    warm_up: Whole | None = Field(
        None,
        description="requests before those that are measured; if missing, 2 for each user of a"
        " concurrency, else 0",
    )
    cached: bool = Field(
        False,
        description="whether the KV cache of every prompt is there already, as for replicas that"
        " decode only",
    )
    seed: Whole = Field(0, description="seed of the random lengths and arrivals")

    @property
    def kind(self) -> str:
        """Which of `LOADS` it is."""
        return next(name for name in LOADS if getattr(self, name) is not None)

    @property
    def prompts(self) -> Lengths | None:
        """The lengths of prompts, as they are drawn; None of a trace."""
        return self._drawn(self.input)

    @property
    def outputs(self) -> Lengths | None:
        """The lengths of outputs, as they are drawn; None of a trace."""
        return self._drawn(self.output)

    def _drawn(self, stated: Lengths | None) -> Lengths | None:
        if isinstance(stated, int) and isinstance(self.lengths, UniformSpread | LognormalSpread):
            return self.lengths.around(stated)
        return stated

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [name for name in LOADS if getattr(self, name) is not None]
        if len(kinds) != 1:
            stated = "has none (state one: --set load.rate=10)"
            if kinds:
                keep = ", or ".join(f"{kept} with {_without(kinds, kept)}" for kept in kinds)
                stated = f"has {' and '.join(kinds)} (keep {keep})"
            raise ValueError(f"needs exactly one of {', '.join(LOADS)}, but {stated}")
        return self

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        keys = [name for name in ("input", "output") if getattr(self, name) is not None]
        if self.trace is not None and keys:
            raise ValueError(f"{keys[0]}: has no effect with a trace, which has its own")
        if self.trace is None and len(keys) < 2:
            missing = "input" if "input" not in keys else "output"
            raise ValueError(f"{missing}: missing (a number of tokens, or a distribution)")
        if self.lengths is None:
            return self
        if (self.lengths == "trace") != (self.trace is not None):
            allowed = "trace" if self.trace is not None else "fixed, uniform or lognormal"
            raise ValueError(f"lengths: of this load must be {allowed}")
        for name in keys:
            if not isinstance(getattr(self, name), int):
                raise ValueError(
                    f"lengths: has no effect on {name}, which is a distribution (state a number of"
                    " tokens there, or remove lengths)"
                )
        return self

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        effects = {
            "arrivals": self.rate is not None,
            "burstiness": self.arrivals == "bursty",
            "requests": self.rate is not None or self.concurrency is not None,
            "warm_up": self.batch is None and self.offline is None,
        }
        for key, effect in effects.items():
            if key in self.model_fields_set and getattr(self, key) is not None and not effect:
                needs = {"burstiness": "arrivals: bursty", "arrivals": "rate"}.get(
                    key, "rate or concurrency"
                )
                raise ValueError(f"{key}: has no effect here (it belongs to {needs})")
        return self
