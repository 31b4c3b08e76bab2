"""The answer of a service: what `clustersim serve --json` prints and `summary.json` holds.

Keys are added, never changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field

from clustersim.answers import record
from clustersim.cost.prices import NO_SITE
from clustersim.metrics.prediction_interval import Bounds, NearRun
from clustersim.simulation.expectations import Expectation
from clustersim.simulation.measures import QUANTILES, QUEUE_GROWTH, QUOTES, Account, Kind
from clustersim.simulation.published import PublishedCheck
from clustersim.units import format_number


@record
class Statistics:
    """A time over the measured requests.

    Attributes
    ----------
    mean : mean [s]
    p50 : median [s]
    p90 : 90th percentile [s]
    p95 : 95th percentile [s]
    p99 : 99th percentile [s]
    percentiles : those that the scenario or the study names next to these, by name: `p99.9` [s]
    intervals : 95 % interval of each of them [s]; empty unless they are of a steady state
    """

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    percentiles: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def by_name(self) -> dict[str, float]:
        """All percentiles by name, in ascending order."""
        return self._sorted(QUANTILES)

    @property
    def shown(self) -> dict[str, float]:
        """Percentiles of tables and charts by name, in ascending order."""
        return self._sorted(("p50", "p90", "p99"))

    def _sorted(self, names: Iterable[str]) -> dict[str, float]:
        known = {name: getattr(self, name) for name in names} | dict(self.percentiles)
        return dict(sorted(known.items(), key=lambda each: float(each[0][1:])))


@record
class Goodput:
    """Requests within the limits of the scenario.

    Attributes
    ----------
    share : of the measured requests that meet all limits
    requests_per_s : requests in a second that do
    ttft_s : limit of the time to the first token [s]; null without one
    tpot_s : limit of the time per token [s]; null without one
    ttft_share : of the requests that meet the first limit; null without one
    tpot_share : of the requests that meet the second limit; null without one
    ttft_least_s : shortest time to the first token [s]
    tpot_least_s : shortest time per token [s]
    """

    share: float
    requests_per_s: float
    ttft_s: float | None
    tpot_s: float | None
    ttft_share: float | None
    tpot_share: float | None
    ttft_least_s: float
    tpot_least_s: float


@record
class KvCache:
    """The KV cache of a replica, of those for decode where they are separate.

    Attributes
    ----------
    capacity_tokens : tokens that it has room for
    block_tokens : tokens of a block
    bytes_per_token : bytes of a token on all devices of the replica [B]
    state_tokens : tokens that take as much as the states of a sequence in layers of Mamba-2
    mean_occupancy : share of the blocks in use, mean over time
    peak_occupancy : most blocks in use, of all blocks
    mean_context : cached tokens of a decoding sequence, mean over steps
    """

    capacity_tokens: int
    block_tokens: int
    bytes_per_token: float
    state_tokens: int
    mean_occupancy: float
    peak_occupancy: float
    mean_context: float


@record
class ServeMemory:
    """Memory of the fullest device.

    Attributes
    ----------
    need_bytes : weights, activations, buffers and the KV cache of the longest request [B]
    reserve_bytes : the rest of the KV cache, which the engine allocates for other requests [B]
    capacity_bytes : memory of a device [B]
    usable_bytes : share of the device that the engine may take [B]
    fits : whether the need is within what the engine may take
    verdict : the same in words, with the reason
    parts : bytes by part [B]
    largest_batch : sequences of mean final length that the KV cache of a replica has room for, of
        those for decode where they are separate
    longest_request : prompt and output of the longest request [tokens]
    """

    need_bytes: float
    reserve_bytes: float
    capacity_bytes: float
    usable_bytes: float
    fits: bool
    verdict: str
    parts: Mapping[str, float]
    largest_batch: int
    longest_request: int

    @property
    def tight(self) -> bool:
        """Whether it has less room than the errors: no memory of an engine is measured."""
        return False


@record
class SteadyState:
    """Whether a service sustains the rate at which its requests arrive.

    Attributes
    ----------
    stable : whether the queue stays finite
    rate : requests that arrive in a second
    sustainable_requests_per_s : the highest rate at which the queue stays finite
    half_width : half-width of its 95 % interval [1/s]; null where too few requests are complete
    queue_growth_per_s : requests by which the queue grows in a second
    measured : `steady state`, `backlog` of an unstable service, or `all requests`, where the
        scenario names their number and ramp and drain are measured with them
    settled : whether intervals of the mean times are narrow
    """

    stable: bool
    rate: float
    sustainable_requests_per_s: float
    half_width: float | None
    queue_growth_per_s: float
    measured: str
    settled: bool

    @property
    def verdict(self) -> str:
        """Whether the rate is sustained, in words."""
        width = f" (+/- {format_number(self.half_width, 2)})" if self.half_width else ""
        most = f"{format_number(self.sustainable_requests_per_s, 3)} requests/s{width}"
        if not self.stable:
            growth = format_number(self.queue_growth_per_s, 3)
            return f"unstable: the queue grows by {growth} requests a second; it sustains {most}"
        used = self.rate / self.sustainable_requests_per_s
        return f"stable: it sustains {most}, of which {100 * used:.1f} % arrive"


@record
class Queue:
    """Requests on their way to an engine.

    Attributes
    ----------
    wait_s : time from arrival to admission
    mean : requests that wait for KV blocks or a place in the batch, mean over steps
    most : the most of them
    preemptions : sequences that lost their KV blocks
    """

    wait_s: Statistics
    mean: float
    most: int
    preemptions: int


@record
class ServiceEnergy:
    """Electrical power and energy of a service.

    Attributes
    ----------
    power_w : mean power of its devices, with their share of hosts, fans, supplies and switches [W]
    device_w : mean power of a device [W]
    joules_per_output_token : energy of an output token [J]
    output_tokens_per_joule : output tokens for a joule
    total_tokens_per_joule : the same with the tokens of prompts
    site_power_w : `power_w` with the PUE of the site; null without `costs.site` [W]
    """

    power_w: float
    device_w: float
    joules_per_output_token: float
    output_tokens_per_joule: float
    total_tokens_per_joule: float
    site_power_w: float | None = None


@record
class ServiceCost:
    """What the tokens of a service cost.

    Attributes
    ----------
    usd_per_device_hour : rate of a device, without electricity if purchased [USD/h]
    quote : the quotes that it is from, with their dates
    usd_per_million_output_tokens : cost of a million output tokens [USD]
    output_tokens_per_usd : output tokens for a dollar
    total_tokens_per_usd : the same with the tokens of prompts
    quotes : how many quotes these are; null for a stated rate
    """

    usd_per_device_hour: float
    quote: str
    usd_per_million_output_tokens: float
    output_tokens_per_usd: float
    total_tokens_per_usd: float
    quotes: int | None = None

    @property
    def rate_text(self) -> str:
        """The rate of a device with its quotes."""
        return f"{self.usd_per_device_hour:.3g} USD per device and hour: {self.quote}"


@record
class LimitingKernel:
    """The kernel of a step of mean size that takes longest.

    Attributes
    ----------
    part : its part of the time of a token, as in `attribution`
    kernel : what it computes: shape and number format of a product, or the kind of kernel
    seconds : its time in a step, of all layers [s]
    share : of the time of the step
    """

    part: str
    kernel: str
    seconds: float
    share: float


@record
class LimitingLink:
    """The link that limits the communication that takes longest.

    Attributes
    ----------
    part : the communication, as in `attribution`
    link : name of the narrowest link between its devices
    bandwidth : payload that it carries [B/s]
    share : of the communication in the time of a token
    """

    part: str
    link: str
    bandwidth: float
    share: float


@record
class ServeCounts:
    """Sizes of the service and of its replay.

    Attributes
    ----------
    devices : devices of all replicas
    replicas : replicas, those for prefill included
    requests : measured requests
    steps : steps that all replicas made
    mean_batch : sequences of a step that decodes, mean
    """

    devices: int
    replicas: int
    requests: int
    steps: int
    mean_batch: float


@record
class LoadPoint:
    """A service at one size of its load.

    Attributes
    ----------
    load : users, requests in a second, or requests of a batch
    ttft_s : mean time to the first token [s]; null where the queue grows
    tpot_s : mean time per token after the first [s]; null if requests have one token
    latency_s : mean time of a request [s]; null where the queue grows
    latency_p99_s : 99th percentile of it [s]; null where the queue grows
    output_tokens_per_s : tokens that are generated in a second
    output_tokens_per_s_per_device : over the number of devices
    tokens_per_s_per_user : tokens that one user sees in a second
    goodput_share : share of the requests within the limits; null without limits
    kv_occupancy : most blocks of the KV cache in use, of all blocks
    times : these times with their percentiles and intervals: `ttft`, `tpot`, `latency`
    stable : whether it sustains the rate of its requests; null where they have none
    queue_growth_per_s : requests by which its queue grows in a second; null where they have no rate
    """

    load: float
    ttft_s: float | None
    tpot_s: float | None
    latency_s: float | None
    latency_p99_s: float | None
    output_tokens_per_s: float
    output_tokens_per_s_per_device: float
    tokens_per_s_per_user: float | None
    goodput_share: float | None
    kv_occupancy: float
    times: Mapping[str, Statistics] = field(default_factory=dict)
    stable: bool | None = None
    queue_growth_per_s: float | None = None


@record
class ServeAnswer:
    """A service: how long requests take, how many tokens it generates, where the time goes.

    All times and rates are null where the service does not fit in memory.  Where the queue grows,
    there is no time to the first token and no latency; all else is of the backlog.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    ttft_s : time from the arrival of a request to its first token
    tpot_s : time per token after the first: (latency - first) / (output - 1); null if all requests
        have one token, or get all their tokens with the first
    latency_s : time from the arrival of a request to its last token
    output_tokens_per_s : tokens that are generated in a second
    total_tokens_per_s : the same with the tokens of prompts
    output_tokens_per_s_per_device : over the number of devices
    total_tokens_per_s_per_device : over the number of devices
    tokens_per_s_per_user : tokens that one user sees in a second: 1 / mean time per token
    requests_per_s : requests that are completed in a second
    goodput : requests within the limits; null without limits
    steady : whether it sustains the rate of its requests; null where they have none
    whole_time : whether times and rates are of all requests over the whole time, ramp and drain
        included
    kv : the KV cache
    queue : requests that wait
    memory : memory of the fullest device
    attribution : seconds of the mean time per token by cause, which add up to it; of the mean time
        to the first token where requests have one token [s]
    ttft_attribution : seconds of the mean time to the first token by cause [s]
    limiting : the largest cause in `attribution`
    limiting_kernel : the kernel that takes longest; null where the service does not fit
    limiting_link : the link that limits the longest communication; null where there is none
    energy : power and energy per token; null where no source states the power of the machine
    cost : cost of tokens; null where no price of the device is known
    unavailable : for `energy` and `cost`, the reason where they are null
    substitutes : kernels that are not measured on the device, and whose measurement they have
    published : published numbers of the scenario and the predicted ones
    counts : sizes of the service and of its replay
    assumed : keys that no source states, with the reason
    wall_s : time that the simulation took [s]
    curve : the service over its load; empty unless loads were given
    expectations : limits of the section `expect` of the scenario, and whether each is held
    intervals : where measured services like it are expected, by key: means of `ttft_s`, `tpot_s`
        and `latency_s`, and `output_tokens_per_s`, unless a rate that is sustained states it;
        those that are null have none
    nearest : measured services that are most like it, with the errors of their predictions
    """

    name: str
    title: str
    ttft_s: Statistics | None
    tpot_s: Statistics | None
    latency_s: Statistics | None
    output_tokens_per_s: float | None
    total_tokens_per_s: float | None
    output_tokens_per_s_per_device: float | None
    total_tokens_per_s_per_device: float | None
    tokens_per_s_per_user: float | None
    requests_per_s: float | None
    goodput: Goodput | None
    steady: SteadyState | None
    kv: KvCache | None
    queue: Queue | None
    memory: ServeMemory
    attribution: Mapping[str, float]
    ttft_attribution: Mapping[str, float]
    limiting: str | None
    limiting_kernel: LimitingKernel | None
    limiting_link: LimitingLink | None
    energy: ServiceEnergy | None
    cost: ServiceCost | None
    unavailable: Mapping[str, str]
    substitutes: Mapping[str, str]
    published: tuple[PublishedCheck, ...]
    counts: ServeCounts
    assumed: Mapping[str, str]
    wall_s: float
    curve: tuple[LoadPoint, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    whole_time: bool = False
    intervals: Mapping[str, Bounds] = field(default_factory=dict)
    nearest: tuple[NearRun, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of its measures."""
        return ("service",)

    def measures(self) -> dict[str, float]:
        """Return its measures: times are means and percentiles [s]; none where it does not fit."""
        energy, cost, steady = self.energy, self.cost, self.steady
        rate = self.requests_per_s
        if rate is None:
            return {}
        unstable = steady is not None and not steady.stable
        numbers = {
            "tokens_per_s_per_device": self.output_tokens_per_s_per_device,
            "tokens_per_s": self.output_tokens_per_s,
            "total_tokens_per_s": self.total_tokens_per_s,
            "total_tokens_per_s_per_device": self.total_tokens_per_s_per_device,
            "tokens_per_s_per_user": self.tokens_per_s_per_user,
            "requests_per_s": rate,
            "goodput": _goodput(rate, self.goodput, unstable),
            "sustainable_rate": None if steady is None else steady.sustainable_requests_per_s,
            QUEUE_GROWTH: None if steady is None else steady.queue_growth_per_s,
            "power_w": None if energy is None else energy.power_w,
            "site_power_w": None if energy is None else energy.site_power_w,
            "output_tokens_per_joule": None if energy is None else energy.output_tokens_per_joule,
            "output_tokens_per_usd": None if cost is None else cost.output_tokens_per_usd,
            QUOTES: None if cost is None else cost.quotes,
            **_times("ttft", self.ttft_s),
            **_times("tpot", self.tpot_s),
            **_times("latency", self.latency_s),
            "devices": float(self.counts.devices),
        }
        return {name: value for name, value in numbers.items() if value is not None}

    def accounts(self) -> tuple[Account, ...]:
        """Return the mean time per token and the mean time to the first one, where they ran."""
        of_token = {} if self.tpot_s is None else self.attribution
        sums = (
            Account("token", "time per token", "s", of_token),
            Account("first token", "time to first token", "s", self.ttft_attribution),
        )
        return tuple(account for account in sums if account.parts)

    def facts(self) -> dict[str, str]:
        """Return bottleneck, slowest kernel and link, and memory."""
        kernel, link = self.limiting_kernel, self.limiting_link
        unknown = self.unavailable.get("cost")
        rate = unknown if self.cost is None else self.cost.rate_text
        return {
            **({} if self.limiting is None else {"bottleneck": self.limiting.replace("_", " ")}),
            **({} if kernel is None else {"slowest kernel": kernel.kernel}),
            **({} if link is None else {"slowest link": link.link}),
            **({} if self.steady is None else {"queue": self.steady.verdict}),
            "memory": self.memory.verdict,
            "largest batch": f"{self.memory.largest_batch:,} sequences",
            **({} if rate is None else {"rate": rate}),
        }

    def why_missing(self, name: str) -> str:
        """Return why a measure is not known."""
        if not self.memory.fits:
            return self.memory.verdict
        if self.steady is not None and not self.steady.stable:
            return self.steady.verdict
        if name == "site_power_w" and self.energy is not None:
            return NO_SITE
        energy = dict.fromkeys(("power_w", "site_power_w", "output_tokens_per_joule"), "energy")
        key = {**energy, "output_tokens_per_usd": "cost"}.get(name, name)
        return self.unavailable.get(key, f"{name} is not known")


def _times(name: str, times: Statistics | None) -> dict[str, float]:
    """Return the mean and the percentiles of a time by measure."""
    if times is None:
        return {}
    return {name: times.mean} | {f"{name}_{p}": value for p, value in times.by_name.items()}


def _goodput(rate: float, goodput: Goodput | None, unstable: bool) -> float | None:
    """Return the requests in a second within the limits; not known of a queue that grows."""
    if goodput is not None:
        return goodput.requests_per_s
    return None if unstable else rate
