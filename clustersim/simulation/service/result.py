"""The result of a service: what happened to its requests, and what explains it."""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from clustersim.answers import Presentable, answer_from
from clustersim.arrays import Floats
from clustersim.catalog.facts import STATED, stated_keys
from clustersim.engine.requests.completed import NO_REQUESTS, CompletedRequests
from clustersim.engine.requests.replay import ReplayedRequests
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.evidence import Metric
from clustersim.metrics.prediction_interval import (
    Bounds,
    NearRun,
    bounds,
    shipped_nearest,
    shipped_reach,
)
from clustersim.records import dataclass
from clustersim.scenario.load import LoadedService
from clustersim.scenario.serving import ServingScenario
from clustersim.scenario.traits import service_traits
from clustersim.simulation.expectations import Expected, compare_with
from clustersim.simulation.measures import further_percentiles
from clustersim.simulation.published import PublishedCheck, compared
from clustersim.simulation.service.answer import (
    Goodput,
    LimitingKernel,
    LimitingLink,
    LoadPoint,
    Queue,
    ServeAnswer,
    ServeCounts,
    ServeMemory,
    ServiceCost,
    ServiceEnergy,
    Statistics,
    SteadyState,
)
from clustersim.simulation.service.attribution import (
    first_token_attribution,
    limiting_kernel,
    limiting_link,
    mean_step,
    token_attribution,
)
from clustersim.simulation.service.deployment import passage_between
from clustersim.simulation.service.pools import Pool
from clustersim.simulation.service.power import service_cost, service_energy
from clustersim.simulation.service.request_statistics import (
    NO_TIMES,
    first_token_times,
    goodput_of,
    kv_cache,
    mean_batch,
    queue,
    statistics,
    times_per_token,
    waits,
)
from clustersim.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd


WHOLE: Final = ("batch", "offline", "trace")
"""Kinds of loads of which all requests are measured."""

RATES: Final = (
    "output_tokens_per_s", "total_tokens_per_s", "output_tokens_per_s_per_device",
    "total_tokens_per_s_per_device", "tokens_per_s_per_user", "requests_per_s",
)  # fmt: skip
"""Keys of the answer that are rates."""


@dataclass(frozen=True, repr=False)
class ServeResult(Presentable):
    """A simulated service.

    Attributes
    ----------
    name : stem of the scenario file
    loaded : the checked scenario with the sources of its values
    pools : its replicas, with the costs of their steps
    memory : of the fullest device, and whether it fits
    model : a replica as requests see it, of those for decode where they are separate
    replayed : what happened to the requests; None where the service does not fit
    steady : whether it sustains the rate of its requests; None where they have none
    mean_tokens : of prompts and outputs of the requests that arrive
    wall : time that the simulation took [s]
    spread : of the mean wait, as of `Saturated`
    departures : keys whose values differ from those of the scenario file, so that its published
        numbers belong to another service
    curve : the service over its load, if loads were given
    expected : expectations of the scenario
    """

    name: str
    loaded: LoadedService
    pools: tuple[Pool, ...]
    memory: ServeMemory
    model: ReplicaModel
    replayed: ReplayedRequests | None
    steady: SteadyState | None
    mean_tokens: tuple[float, float]
    wall: float
    spread: float = 0.0
    departures: tuple[str, ...] = ()
    curve: tuple[LoadPoint, ...] = ()
    expected: tuple[Expected, ...] = ()

    def __repr__(self) -> str:
        """Return the result in one line."""
        if self.replayed is None:
            return f"<ServeResult {self.name}: {self.memory.verdict}>"
        if self.ttft is None:
            assert self.steady is not None, "the queue grows"
            return f"<ServeResult {self.name}: {self.steady.verdict}>"
        each = "" if self.tpot is None else f", time per token {format_seconds(self.tpot.mean)}"
        output = f"{self.rates['output_tokens_per_s']:,.0f} output tokens/s"
        return (
            f"<ServeResult {self.name}: first token {format_seconds(self.ttft.mean)}{each},"
            f" {output} on {self.devices:,} devices>"
        )

    @property
    def scenario(self) -> ServingScenario:
        """The checked scenario."""
        return self.loaded.scenario

    # --- requests -------------------------------------------------------------------------------

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.scenario.devices

    @cached_property
    def requests(self) -> CompletedRequests:
        """Measured requests; none where the service does not fit."""
        return NO_REQUESTS if self.replayed is None else self.replayed.measured

    @property
    def unstable(self) -> bool:
        """Whether the queue grows, and what is measured is a backlog."""
        return self.steady is not None and self.steady.measured == "backlog"

    @property
    def _is_steady(self) -> bool:
        """Whether the measured requests are those of a steady state."""
        return self.steady is not None and self.steady.measured == "steady state"

    @property
    def _waits(self) -> Floats:
        return waits(self.requests)

    def _statistics(self, times: Floats, waiting: Floats = NO_TIMES) -> Statistics | None:
        if not len(times):
            return None
        return statistics(
            times, steady=self._is_steady, waiting=waiting, spread=self.spread,
            percentiles=self.percentiles,
        )  # fmt: skip

    @property
    def percentiles(self) -> tuple[str, ...]:
        """Percentiles that the scenario names, also in its expectations."""
        measures = [line.measure for line in self.expected if line.measure is not None]
        expected = further_percentiles(measure.name for measure in measures)
        return *self.scenario.percentile_names, *expected

    @cached_property
    def ttft(self) -> Statistics | None:
        """Time to the first token; None where the service does not fit, or the queue grows."""
        times = first_token_times(self.requests)
        return None if self.unstable else self._statistics(times, self._waits)

    @cached_property
    def tpot(self) -> Statistics | None:
        """Time per token after the first; None if requests have one token, or get all together."""
        times = times_per_token(self.requests)
        return self._statistics(times) if times.any() else None

    @cached_property
    def latency(self) -> Statistics | None:
        """Time to the last token; None where the service does not fit, or the queue grows."""
        times = self.requests.finish - self.requests.arrival
        return None if self.unstable else self._statistics(times, self._waits)

    # --- rates ------------------------------------------------------------------------------------

    @cached_property
    def rates(self) -> dict[str, float]:
        """Tokens and requests in a second, by key of the answer; none where it does not fit.

        In a steady state as many requests are completed as arrive.
        """
        if self.replayed is None:
            return {}
        seconds = self.replayed.seconds
        requests, output = len(self.requests) / seconds, self.replayed.emitted / seconds
        prompts = int(self.requests.input.sum()) / seconds
        if self.steady is not None and self.steady.measured != "all requests":
            requests = min(self.steady.rate, self.steady.sustainable_requests_per_s)
            prompts, output = (requests * tokens for tokens in self.mean_tokens)
        if self.scenario.load.cached:
            prompts = 0.0
        return {
            "output_tokens_per_s": output,
            "total_tokens_per_s": output + prompts,
            "output_tokens_per_s_per_device": output / self.devices,
            "input_tokens_per_s_per_device": prompts / self.devices,
            "total_tokens_per_s_per_device": (output + prompts) / self.devices,
            "requests_per_s": requests,
            **({} if self.tpot is None else {"tokens_per_s_per_user": 1 / self.tpot.mean}),
        }

    @cached_property
    def goodput(self) -> Goodput | None:
        """Requests within the limits; None without limits, or where the queue grows."""
        if self.replayed is None or self.unstable:
            return None
        rate = self.rates["requests_per_s"]
        return goodput_of(self.requests, self.scenario.limits, rate)

    # --- why --------------------------------------------------------------------------------------

    @cached_property
    def attribution(self) -> dict[str, float]:
        """Seconds of the mean time per token by cause; of the first token if it is the only one."""
        if self.replayed is None:
            return {}
        if self.tpot is None:
            return self.first_attribution
        return token_attribution(
            self.replayed.steps, self.requests,
            self.pools[-1].costs.step, self.tpot.mean, self.model.gain,
        )  # fmt: skip

    @cached_property
    def first_attribution(self) -> dict[str, float]:
        """Seconds of the mean time to the first token by cause; none where the queue grows."""
        if self.replayed is None or self.unstable:
            return {}
        steps = self.replayed.prefill_steps or self.replayed.steps
        engine, cost = self.scenario.engine, self.pools[0].costs.step
        between = passage_between(self.pools, engine).seconds
        return first_token_attribution(self.requests, steps, cost, engine.first, between)

    @property
    def limiting(self) -> str | None:
        """The largest cause of the time per token."""
        return max(self.attribution, key=self.attribution.__getitem__, default=None)

    @cached_property
    def limiting_kernel(self) -> LimitingKernel | None:
        """The kernel that takes longest in a step of mean size."""
        if self.replayed is None:
            return None
        if not any(map(len, self.replayed.steps)):  # the first token is the only one
            return limiting_kernel(self.pools[0], mean_step(self.replayed.prefill_steps))
        return limiting_kernel(self.pools[-1], mean_step(self.replayed.steps))

    @cached_property
    def limiting_link(self) -> LimitingLink | None:
        """The narrowest link of the longest communication of a token; else of the first one."""
        first, last = self.pools[0], self.pools[-1]
        further = {} if self.tpot is None else self.attribution
        return limiting_link(self.pools, last, further) or limiting_link(
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
        return service_energy(self.scenario, self.pools, steps, window, self.rates)

    @cached_property
    def cost(self) -> ServiceCost | str:
        """Cost of tokens; or why it is not known."""
        if self.replayed is None:
            return "the service does not fit"
        return service_cost(self.scenario, self.devices, self.energy, self.rates)

    @property
    def substitutes(self) -> dict[str, str]:
        """Kernels that are not measured on the device, and whose measurement they have."""
        kernels = [pool.costs.replica.kernels for pool in self.pools]
        return dict(sorted(item for each in kernels for item in each.substitutes.items()))

    # --- evidence ---------------------------------------------------------------------------------

    @property
    def intervals(self) -> dict[str, Bounds]:
        """Where measured services like it are expected, by key of the answer.

        A rate of requests that is sustained states the throughput, which has no interval then.
        """
        times: dict[str, tuple[Metric, Statistics | None]] = {
            "ttft_s": ("ttft", self.ttft),
            "tpot_s": ("tpot", self.tpot),
            "latency_s": ("latency", self.latency),
        }
        traits = service_traits(self.scenario)
        found = {
            key: bounds(time.mean, shipped_reach(traits, metric), is_rate=False)
            for key, (metric, time) in times.items()
            if time is not None
        }
        rate = self.rates.get("output_tokens_per_s")
        if rate is not None and (self.steady is None or not self.steady.stable):
            reach = shipped_reach(traits, "throughput")
            found["output_tokens_per_s"] = bounds(rate, reach, is_rate=True)
        return found

    @property
    def nearest(self) -> tuple[NearRun, ...]:
        """Measured services that are most like it, the nearest first."""
        return shipped_nearest(service_traits(self.scenario), services=True)

    # --- published numbers ------------------------------------------------------------------------

    def metric(self, name: str, statistic: str = "mean") -> float | None:
        """Return a metric of published numbers; None where the service does not fit."""
        if name == "fits":
            return float(self.memory.fits)
        if self.replayed is None:
            return None
        times = {"ttft_s": self.ttft, "tpot_s": self.tpot, "latency_s": self.latency}
        if name not in times:
            return self.rates[name]
        time = times[name]
        return None if time is None else float(getattr(time, statistic))

    @cached_property
    def published(self) -> tuple[PublishedCheck, ...]:
        """Each published number with the predicted one."""
        return tuple(
            compared(number, self.metric(number.metric, number.statistic), self.departures)
            for number in self.scenario.published
        )

    # --- the answer -------------------------------------------------------------------------------

    @property
    def whole_time(self) -> bool:
        """Whether times and rates are of all requests over the whole time, with ramp and drain."""
        if self.steady is not None:
            return self.steady.measured == "all requests"
        return self.replayed is not None and self.scenario.load.kind in WHOLE

    @cached_property
    def assumed(self) -> dict[str, str]:
        """Keys that no source states, with the reason."""
        stated = dict.fromkeys(stated_keys(self.scenario), STATED)
        usual: dict[str, str] = {}
        for table in (self.scenario.experts, self.scenario.speculation):
            usual |= {} if table is None else table.assumed
        return {**usual, **self.scenario.assumed, **stated}

    @cached_property
    def answer(self) -> ServeAnswer:
        """What ``serve --json`` prints, with the expectations of the scenario."""
        answer = self._answer()
        return replace(answer, expectations=compare_with(self.expected, answer))

    def _answer(self) -> ServeAnswer:
        replayed, token = self.replayed, self.pools[-1].costs.memory.token
        money = {"energy": self.energy, "cost": self.cost}
        return answer_from(
            ServeAnswer,
            self,
            **{name: self.rates.get(name) for name in RATES},
            **{name: None if isinstance(value, str) else value for name, value in money.items()},
            title=self.scenario.title,
            ttft_s=self.ttft,
            tpot_s=self.tpot,
            latency_s=self.latency,
            kv=None if replayed is None else kv_cache(replayed, self.model, token),
            queue=self._queue(),
            ttft_attribution=self.first_attribution,
            unavailable={name: why for name, why in money.items() if isinstance(why, str)},
            counts=self._counts(),
            wall_s=self.wall,
            expectations=(),
        )

    def _queue(self) -> Queue | None:
        waited = None if self.unstable else self._statistics(self._waits, self._waits)
        return None if self.replayed is None or waited is None else queue(self.replayed, waited)

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
        columns = {name: getattr(self.requests, name) for name in names}
        return pd.DataFrame(columns).sort_values("number", ignore_index=True)
