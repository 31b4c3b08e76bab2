"""The result of a service: what happened to its requests, and what explains it."""

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from clustersim.catalog.stated import STATED, stated_keys
from clustersim.engine.requests.replay import ReplayedRequests
from clustersim.engine.requests.request import Request
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.scenario.serving import PublishedService, ServingScenario
from clustersim.simulation.service.answer import (
    Goodput,
    LimitingKernel,
    LimitingLink,
    LoadPoint,
    ServeAnswer,
    ServeCounts,
    ServedCheck,
    ServeMemory,
    ServiceCost,
    ServiceEnergy,
    Statistics,
)
from clustersim.simulation.service.limiting import limiting_kernel, limiting_link, mean_step
from clustersim.simulation.service.pools import Pool
from clustersim.simulation.service.power import service_cost, service_energy
from clustersim.simulation.service.request_measures import (
    first_token_times,
    goodput_of,
    kv_cache,
    mean_batch,
    queue,
    statistics,
    times_per_token,
)
from clustersim.simulation.service.token_time import first_token_attribution, token_attribution
from clustersim.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class ServeResult:
    """A simulated service.

    Attributes
    ----------
    name : stem of the scenario file
    scenario : the checked scenario
    pools : its replicas, with the costs of their steps
    memory : of the fullest device, and whether it fits
    model : a replica as requests see it, of those for decode where they are separate
    replayed : what happened to the requests; None where the service does not fit
    before : time of a request before it reaches a replica [s]
    wall : time that the simulation took [s]
    departures : keys whose values differ from those of the scenario file, so that its published
        numbers belong to another service
    curve : the service over its load, if loads were given
    """

    name: str
    scenario: ServingScenario
    pools: tuple[Pool, ...]
    memory: ServeMemory
    model: ReplicaModel
    replayed: ReplayedRequests | None
    before: float
    wall: float
    departures: tuple[str, ...] = ()
    curve: tuple[LoadPoint, ...] = ()

    def __repr__(self) -> str:
        """Return the result in one line."""
        if self.ttft is None or self.latency is None:
            return f"<ServeResult {self.name}: {self.memory.verdict}>"
        each = "" if self.tpot is None else f", time per token {format_seconds(self.tpot.mean)}"
        return (
            f"<ServeResult {self.name}: first token {format_seconds(self.ttft.mean)}{each},"
            f" {self.output_rate:,.0f} output tokens/s on {self.devices:,} devices>"
        )

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        title = escape(self.scenario.title)
        return f"<table><caption>{title}</caption><tr><td>{escape(repr(self))}</td></tr></table>"

    # --- requests -------------------------------------------------------------------------------

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.scenario.devices

    @cached_property
    def requests(self) -> list[Request]:
        """Measured requests, in the order of their ends; none where the service does not fit."""
        return [] if self.replayed is None else self.replayed.measured

    @cached_property
    def seconds(self) -> float:
        """Time in which tokens are counted [s]."""
        return 0.0 if self.replayed is None else self.replayed.end - self.replayed.begin

    @cached_property
    def ttft(self) -> Statistics | None:
        """Time to the first token; None where the service does not fit."""
        return statistics(first_token_times(self.requests)) if self.requests else None

    @cached_property
    def tpot(self) -> Statistics | None:
        """Time per token after the first; None if requests have one token."""
        times = times_per_token(self.requests)
        return statistics(times) if times else None

    @cached_property
    def latency(self) -> Statistics | None:
        """Time to the last token; None where the service does not fit."""
        return statistics([r.finish - r.arrival for r in self.requests]) if self.requests else None

    # --- rates ------------------------------------------------------------------------------------

    @property
    def output_rate(self) -> float:
        """Tokens generated in a second [1/s]."""
        return self.replayed.emitted / self.seconds if self.replayed is not None else 0.0

    @cached_property
    def input_rate(self) -> float:
        """Tokens of the prompts of completed requests in a second [1/s]."""
        if self.replayed is None or self.scenario.load.cached:
            return 0.0
        return sum(request.input for request in self.requests) / self.seconds

    @property
    def request_rate(self) -> float:
        """Requests completed in a second [1/s]."""
        return len(self.requests) / self.seconds if self.replayed is not None else 0.0

    @cached_property
    def goodput(self) -> Goodput | None:
        """Requests within the limits; None without limits."""
        if self.replayed is None:
            return None
        return goodput_of(self.requests, self.scenario.limits, self.seconds)

    # --- why --------------------------------------------------------------------------------------

    @cached_property
    def attribution(self) -> dict[str, float]:
        """Seconds of the mean time per token by cause; of the first token if it is the only one."""
        if self.replayed is None:
            return {}
        if self.tpot is None:
            return self.first_attribution
        return token_attribution(
            self.replayed.steps, [request for request in self.requests if request.output > 1],
            self.pools[-1].costs.step, self.tpot.mean, self.model.gain,
        )  # fmt: skip

    @cached_property
    def first_attribution(self) -> dict[str, float]:
        """Seconds of the mean time to the first token by cause."""
        if self.replayed is None:
            return {}
        steps = self.replayed.prefill_steps or self.replayed.steps
        return first_token_attribution(self.requests, steps, self.pools[0].costs.step, self.before)

    @property
    def limiting(self) -> str | None:
        """The largest cause of the time per token."""
        return max(self.attribution, key=self.attribution.__getitem__, default=None)

    @cached_property
    def limiting_kernel(self) -> LimitingKernel | None:
        """The kernel that takes longest in a step of mean size."""
        if self.replayed is None:
            return None
        return limiting_kernel(self.pools[-1], mean_step(self.replayed.steps))

    @cached_property
    def limiting_link(self) -> LimitingLink | None:
        """The narrowest link of the longest communication of a token; else of the first one."""
        first, last = self.pools[0], self.pools[-1]
        return limiting_link(self.pools, last, self.attribution) or limiting_link(
            self.pools, first, self.first_attribution
        )

    @cached_property
    def energy(self) -> ServiceEnergy | str:
        """Power and energy per token; or why they are not known."""
        replayed = self.replayed
        if replayed is None:
            return "the service does not fit"
        steps = [replayed.prefill_steps, replayed.steps][2 - len(self.pools) :]
        window = replayed.begin, replayed.end
        return service_energy(self.scenario, self.pools, steps, window, self._tokens)

    @cached_property
    def cost(self) -> ServiceCost | str:
        """Cost of tokens; or why it is not known."""
        if self.replayed is None:
            return "the service does not fit"
        return service_cost(self.scenario, "costs.site: ", self.devices, self.energy, self._tokens)

    @property
    def _tokens(self) -> tuple[float, float]:
        """Output tokens, and all tokens, in a second."""
        return self.output_rate, self.output_rate + self.input_rate

    @property
    def substitutes(self) -> dict[str, str]:
        """Kernels that are not measured on the device, and whose measurement they have."""
        found: dict[str, str] = {}
        for pool in self.pools:
            found |= pool.costs.replica.kernels.substitutes
        return dict(sorted(found.items()))

    # --- published numbers ------------------------------------------------------------------------

    def metric(self, name: str, statistic: str = "mean") -> float | None:
        """Return a metric of published numbers; None where the service does not fit."""
        if name == "fits":
            return float(self.memory.fits)
        if self.replayed is None:
            return None
        times = {"ttft_s": self.ttft, "tpot_s": self.tpot, "latency_s": self.latency}
        if name in times:
            found = times[name]
            return None if found is None else float(getattr(found, statistic))
        rates = {
            "output_tokens_per_s": self.output_rate,
            "total_tokens_per_s": self.output_rate + self.input_rate,
            "output_tokens_per_s_per_device": self.output_rate / self.devices,
            "input_tokens_per_s_per_device": self.input_rate / self.devices,
            "requests_per_s": self.request_rate,
        }
        return rates[name]

    @cached_property
    def published(self) -> tuple[ServedCheck, ...]:
        """Each published number with the predicted one."""
        return tuple(self._check(given) for given in self.scenario.published)

    def _check(self, given: PublishedService) -> ServedCheck:
        predicted = self.metric(given.metric, given.statistic)
        compared = given.metric != "fits" and not self.departures and predicted is not None
        return ServedCheck(
            metric=given.metric,
            statistic=given.statistic,
            value=given.value,
            predicted=predicted,
            error=predicted / given.value - 1 if compared and predicted is not None else None,
            source=given.source,
            changed=self.departures,
        )

    # --- the answer -------------------------------------------------------------------------------

    @cached_property
    def assumed(self) -> dict[str, str]:
        """Keys that no source states, with the reason."""
        stated = dict.fromkeys(stated_keys(self.scenario), STATED)
        return {**self.scenario.assumed, **stated}

    @cached_property
    def answer(self) -> ServeAnswer:
        """What ``serve --json`` prints."""
        ran, each = self.replayed is not None, self.devices
        total = self.output_rate + self.input_rate
        return ServeAnswer(
            name=self.name,
            title=self.scenario.title,
            ttft_s=self.ttft,
            tpot_s=self.tpot,
            latency_s=self.latency,
            output_tokens_per_s=self.output_rate if ran else None,
            total_tokens_per_s=total if ran else None,
            output_tokens_per_s_per_device=self.output_rate / each if ran else None,
            total_tokens_per_s_per_device=total / each if ran else None,
            tokens_per_s_per_user=None if self.tpot is None else 1 / self.tpot.mean,
            requests_per_s=self.request_rate if ran else None,
            goodput=self.goodput,
            kv=None
            if self.replayed is None
            else kv_cache(self.replayed, self.model, self.pools[-1].costs.memory.token),
            queue=None if self.replayed is None else queue(self.replayed, self.before),
            memory=self.memory,
            attribution=self.attribution,
            ttft_attribution=self.first_attribution,
            limiting=self.limiting,
            limiting_kernel=self.limiting_kernel,
            limiting_link=self.limiting_link,
            energy=None if isinstance(self.energy, str) else self.energy,
            cost=None if isinstance(self.cost, str) else self.cost,
            unavailable={
                name: found
                for name, found in (("energy", self.energy), ("cost", self.cost))
                if isinstance(found, str)
            },
            substitutes=self.substitutes,
            published=self.published,
            counts=self._counts(),
            assumed=self.assumed,
            wall_s=self.wall,
            curve=self.curve,
        )

    def _counts(self) -> ServeCounts:
        replayed = self.replayed
        steps = () if replayed is None else (*replayed.steps, *replayed.prefill_steps)
        return ServeCounts(
            devices=self.devices,
            replicas=sum(pool.replicas for pool in self.pools),
            requests=len(self.requests),
            steps=sum(map(len, steps)),
            mean_batch=0.0 if replayed is None else mean_batch(replayed),
        )

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Every measured request: arrival, first and last token [s], tokens, preemptions."""
        import pandas as pd  # 0.3 s, only for tables

        names = "number", "arrival", "admitted", "first", "finish", "input", "output", "preemptions"
        rows: list[dict[str, Any]] = [
            {name: getattr(request, name) for name in names} for request in self.requests
        ]
        return pd.DataFrame(rows, columns=list(names)).sort_values("number", ignore_index=True)
