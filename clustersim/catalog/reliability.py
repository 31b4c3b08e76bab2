"""How often machines fail, as a file states it: counts of failures by cause, over a time."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from clustersim.catalog.facts import Count, Fact, NotNegative, Record, Seconds, Strict


def _some_time(value: float) -> float:
    if value <= 0:
        raise ValueError("must be greater than 0 (failures are counted over some time)")
    return value


Duration = Annotated[Seconds, AfterValidator(_some_time)]


class Observation(Strict):
    """A job or machine on which failures were counted; links are its NICs with their cables."""

    duration: Fact[Duration]
    nodes: Fact[Count] | None = None
    devices: Fact[Count] | None = None
    links: Fact[Count] | None = None


class CauseFacts(Strict):
    """One cause of failures: how many there were, and what they need.

    `events` were counted over the time `over` of one part, 1,000 d for 1,000 node-days, or over
    that of `observed`.  `shape` is that of the Weibull distribution of the time between them, 1 if
    missing; `replaces` is whether the node is replaced, and `recovery` the time until work resumes,
    instead of `restart` of the scenario.
    """

    per: Literal["device", "node", "link", "job"] = Field(
        description="parts to which failures are proportional; a link is a NIC with its cables"
    )
    events: Fact[NotNegative]
    over: Fact[Duration] | None = None
    shape: Fact[Annotated[float, Field(ge=0.1, le=10)]] | None = None
    replaces: Fact[bool] | None = None
    recovery: Fact[Seconds] | None = None


class ReliabilityRecord(Record):
    """``topologies/reliability/*.yaml``: failures that were counted on a machine."""

    kind: Literal["reliability"]
    observed: Observation | None = Field(
        None, description="machine and time of counts without `over`"
    )
    causes: dict[str, CauseFacts] = Field(description="causes of failures by name")

    @model_validator(mode="after")
    def _counted_over_something(self) -> Self:
        for name, cause in self.causes.items():
            if cause.over is None and self._parts(cause.per) is None:
                raise ValueError(
                    f"causes.{name}.over: missing (the time of one {cause.per} over which failures"
                    f" were counted, or observed.duration and observed.{cause.per}s)"
                )
        return self

    def _parts(self, per: str) -> int | None:
        """Return the number of observed parts of a kind; None where it is not stated."""
        if self.observed is None:
            return None
        if per == "job":
            return 1
        counted: int | None = getattr(self.observed, f"{per}s")
        return counted

    def rate(self, name: str) -> float:
        """Return the failures of one part by a cause [1/s]."""
        cause = self.causes[name]
        if cause.over is not None:
            return cause.events / cause.over
        parts = self._parts(cause.per)
        assert parts is not None, "checked when the record was made"
        assert self.observed is not None, "checked when the record was made"
        return cause.events / (parts * self.observed.duration)
