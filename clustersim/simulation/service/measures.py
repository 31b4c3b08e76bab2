"""The numbers of a service by name, for tables, rankings and differences."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

from clustersim.simulation.service.answer import ServeAnswer

SERVICE_MEASURES: Final[Mapping[str, bool]] = {
    "tokens_per_s_per_device": True,
    "tokens_per_s": True,
    "total_tokens_per_s": True,
    "total_tokens_per_s_per_device": True,
    "tokens_per_s_per_user": True,
    "requests_per_s": True,
    "goodput": True,
    "output_tokens_per_joule": True,
    "output_tokens_per_usd": True,
    "ttft": False,
    "tpot": False,
    "latency": False,
    "devices": False,
}
"""Measures that services can be ranked by, and whether more is better; times are means [s]."""

SERVICE_TIMES: Final = ("ttft", "tpot", "latency")
"""Measures that are times; each may have a limit."""

SPEED: Final = "tokens_per_s_per_user"
RATE: Final = "tokens_per_s_per_device"
"""Measures of the curve that services are judged by."""


class Measured(Protocol):
    """A service with its measures by name."""

    @property
    def measures(self) -> Mapping[str, float]:
        """Measures by name; none where it does not run."""


Service = TypeVar("Service", bound=Measured)


def service_measures(answer: ServeAnswer) -> dict[str, float]:
    """Return the measures of a service; none where it does not fit."""
    if answer.ttft_s is None or answer.latency_s is None:
        return {}
    goodput, rate = answer.goodput, answer.requests_per_s or 0.0
    known = {}
    if answer.energy is not None:
        known["output_tokens_per_joule"] = answer.energy.output_tokens_per_joule
    if answer.cost is not None:
        known["output_tokens_per_usd"] = answer.cost.output_tokens_per_usd
    return {
        **known,
        "tokens_per_s_per_device": answer.output_tokens_per_s_per_device or 0.0,
        "tokens_per_s": answer.output_tokens_per_s or 0.0,
        "total_tokens_per_s": answer.total_tokens_per_s or 0.0,
        "total_tokens_per_s_per_device": answer.total_tokens_per_s_per_device or 0.0,
        "tokens_per_s_per_user": answer.tokens_per_s_per_user or 0.0,
        "requests_per_s": rate,
        "goodput": rate if goodput is None else goodput.requests_per_s,
        "ttft": answer.ttft_s.mean,
        "tpot": 0.0 if answer.tpot_s is None else answer.tpot_s.mean,
        "latency": answer.latency_s.mean,
        "devices": float(answer.counts.devices),
    }


def service_front(services: Sequence[Service]) -> list[Service]:
    """Return the services that no other one beats in both speed and rate, the slowest first."""
    front: list[Service] = []
    most = 0.0
    for one in sorted(services, key=lambda one: (-one.measures[SPEED], -one.measures[RATE])):
        if one.measures[RATE] > most:
            most = one.measures[RATE]
            front.append(one)
    return front[::-1]
