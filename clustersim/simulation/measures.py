"""The measures of answers, in the one table that names them, and what every answer has.

    answer.measures()  {name: number}     by which scenarios are compared, ranked, limited, searched
    answer.accounts()  sums whose parts add up: of a step, a token, a first token, a run

Command line, tables, charts, limits, objectives, schemas and documentation read this table.  A
measure that is not known of an answer is absent, never 0.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, Literal, Protocol

from clustersim.answers import record
from clustersim.errors import ScenarioError
from clustersim.metrics.attribution import PARTS
from clustersim.records import dataclass
from clustersim.units import (
    GIB,
    PERCENTILES,
    counted,
    format_joules,
    format_kg,
    format_kwh,
    format_number,
    format_seconds,
    format_usd,
    format_watts,
    parse,
    parse_number,
    percentile_name,
)

Kind = Literal["step", "training run", "service", "shared machine", "trace"]
"""What an answer is of."""


@record
class Measure:
    """A number by which answers are compared.

    Attributes
    ----------
    name : key of JSON objects, column of files, value of options
    kind : of the answers that have it
    label : name in sentences and on axes
    heading : name in the heading of a column
    unit : unit of the number; empty for a plain number or a share
    more_is_better : None where neither is better, so that it ranks nothing
    accounts : accounts that explain it, the preferred one first
    text : formats a number with its unit
    dimension : of values on the command line, as `parse` takes it; plain numbers if empty
    """

    name: str
    kind: Kind
    label: str
    heading: str
    unit: str
    more_is_better: bool | None
    accounts: tuple[str, ...]
    text: Callable[[float], str] = format_number
    dimension: str = ""

    @property
    def axis(self) -> str:
        """Label and unit: ``throughput [tokens/s]``."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    @property
    def column(self) -> str:
        """Heading of a column of cells, with the unit that they leave out."""
        left_out = self.text(0.5).removeprefix(self.cell(0.5)).strip()
        return self.heading if left_out in self.heading else f"{self.heading} [{left_out}]"

    def cell(self, value: float) -> str:
        """Return a number for a column, whose heading has the unit of a rate."""
        text = self.text(value)
        return text if self.unit in ("s", "B", "W", "J") else text.removesuffix(f" {self.unit}")

    def gain(self, before: float, after: float) -> float | None:
        """Return how many times better `after` is; None where that is no ratio."""
        if before <= 0 or after <= 0:
            return None
        return after / before if self.more_is_better else before / after

    def order(self, value: float) -> float:
        """Return a number that is the smaller, the better a value is."""
        return -value if self.more_is_better else value

    def within(self, value: float, limit: float) -> bool:
        """Return whether a value is at least as good as a limit."""
        return self.order(value) <= self.order(limit)

    def read(self, text: str, name: str = "") -> float:
        """Return the value of a text such as ``50 ms``, ``0.4``, ``40 %`` or ``30 days``.

        Parameters
        ----------
        name : by which the measure was named: a plain number has the unit that is part of it

        Raises
        ------
        ValueError
            when it has another dimension, or is no number.
        """
        stated = (name or self.name).rpartition("_")[2] in ("s", "bytes", "w")
        if self.dimension and not (stated and re.fullmatch(r"[-+.\de]+", text.strip())):
            return parse(text, self.dimension)
        factor, unit = (0.01, "%") if "%" in text else (1.0, self.unit)
        return factor * parse_number(text.strip().removesuffix(unit).strip())


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _gib(nbytes: float) -> str:
    return f"{nbytes / GIB:.1f} GiB"


def _with(unit: str) -> Callable[[float], str]:
    return lambda value: f"{format_number(value)} {unit}"


def _quotes(number: float) -> str:
    return counted(round(number), "quote")


QUOTES: Final = "price_quotes"
"""The measure that counts the quotes of which a price is the median."""

_MORE, _LESS = True, False
_OF_STEP: Final = ("step", "token")
_OF_WORK: Final = ("token", "step")


def _of_a_step() -> Iterable[Measure]:
    """Yield the measures of a training step, in the order of columns."""
    rate, tflops = _with("tokens/s"), _with("TFLOP/s")
    for name, label, heading, unit, better, accounts, text, dimension in (
        ("step_time_s", "step time", "step", "s", _LESS, _OF_STEP, format_seconds, "seconds"),
        ("step_time_low_s", "shortest step time of the interval", "step from", "s", _LESS, _OF_STEP,
         format_seconds, "seconds"),
        ("step_time_high_s", "longest step time of the interval", "step to", "s", _LESS, _OF_STEP,
         format_seconds, "seconds"),
        ("tokens_per_s", "throughput", "tokens/s", "tokens/s", _MORE, _OF_WORK, rate, ""),
        ("tokens_per_s_per_device", "throughput per device", "per device", "tokens/s", _MORE,
         _OF_WORK, rate, ""),
        ("samples_per_s", "samples in a second", "samples/s", "samples/s", _MORE, _OF_WORK,
         _with("samples/s"), ""),
        ("tflops_per_device_model", "model FLOPs per device", "model TFLOP/s", "TFLOP/s", _MORE,
         _OF_WORK, tflops, ""),
        ("tflops_per_device_hardware", "hardware FLOPs per device", "hardware", "TFLOP/s", _MORE,
         _OF_STEP, tflops, ""),
        ("tflops_per_device_executed", "executed FLOPs per device", "executed", "TFLOP/s", _MORE,
         _OF_STEP, tflops, ""),
        ("mfu", "MFU", "MFU", "fraction of peak", _MORE, _OF_WORK, _share, ""),
        ("hfu", "HFU", "HFU", "fraction of peak", _MORE, _OF_STEP, _share, ""),
        ("bubble_fraction", "bubble", "bubble", "fraction of step", _LESS, _OF_STEP, _share, ""),
        ("bubble_overhead", "bubble overhead", "overhead", "fraction of ideal", _LESS, _OF_STEP,
         _share, ""),
        ("exposed_fraction", "exposed communication", "exposed", "fraction of step", _LESS,
         _OF_STEP, _share, ""),
        *((f"{part}_s", part.replace("_", " "), part.replace("_", " "), "s", _LESS, _OF_STEP,
           format_seconds, "seconds") for part in PARTS),
        ("memory_peak_bytes", "memory of the fullest stage", "peak memory", "B", _LESS, _OF_STEP,
         _gib, "bytes"),
        ("memory_capacity_bytes", "memory of a device", "capacity", "B", None, _OF_STEP, _gib,
         "bytes"),
        ("devices", "devices", "devices", "", _LESS, _OF_WORK, format_number, ""),
        ("power_w", "mean power without PUE", "power", "W", _LESS, _OF_STEP,
         format_watts, "watts"),
        ("site_power_w", "mean power with PUE of the site", "site power", "W", _LESS, _OF_STEP,
         format_watts, "watts"),
        ("energy_per_token_j", "energy per token", "J/token", "J", _LESS, _OF_WORK, format_joules,
         ""),
        ("tokens_per_joule", "tokens per joule", "tokens/J", "tokens/J", _MORE, _OF_WORK,
         _with("tokens/J"), ""),
        ("usd_per_hour", "price of an hour", "USD/h", "USD/h", _LESS, _OF_WORK,
         _with("USD/h"), ""),
        (QUOTES, "price from", "price from", "", None, _OF_WORK, _quotes, ""),
        ("tokens_per_dollar", "tokens per dollar", "tokens/USD", "tokens/USD", _MORE, _OF_WORK,
         _with("tokens/USD"), ""),
    ):  # fmt: skip
        yield Measure(name, "step", label, heading, unit, better, accounts, text, dimension)


def _of_a_run() -> Iterable[Measure]:
    """Yield the measures of a whole training run."""
    for name, label, heading, unit, better, text in (
        ("days", "duration", "days", "days", _LESS, _with("days")),
        ("goodput", "goodput", "goodput", "fraction of time", _MORE, _share),
        ("energy", "energy", "energy", "kWh", _LESS, format_kwh),
        ("cost", "price", "USD", "USD", _LESS, format_usd),
        ("co2e_kg", "emissions", "CO2e", "kg", _LESS, lambda kg: f"{format_kg(kg)} CO2e"),
        ("interruptions", "interruptions", "interruptions", "", _LESS, format_number),
        ("run_tokens", "tokens of the run", "tokens", "tokens", None, format_number),
        *((f"run_{part}_s", f"{part} time", part, "s", better, format_seconds)
          for part, better in (("useful", None), ("lost", _LESS), ("saving", _LESS),
                               ("restarting", _LESS), ("waiting", _LESS), ("planned", _LESS))),
        ("checkpoint_bytes", "checkpoint", "checkpoint", "B", None, _gib),
        ("checkpoint_block_s", "time that a save blocks", "blocks", "s", _LESS, format_seconds),
        ("checkpoint_durable_s", "time until a save is durable", "durable", "s", _LESS,
         format_seconds),
        ("checkpoint_every_s", "checkpoint interval", "interval", "s", None, format_seconds),
    ):  # fmt: skip
        dimension = {"s": "seconds", "B": "bytes"}.get(unit, "")
        accounts = ("run", "token")
        yield Measure(name, "training run", label, heading, unit, better, accounts, text, dimension)


MONEY: Final = ("cost", "usd_per_hour", "tokens_per_dollar", "output_tokens_per_usd")
"""Measures that the price of a device decides."""

QUANTILES: Final = ("p50", "p90", "p95", "p99")
"""Percentiles of the times of requests that every answer has: ``ttft_p99`` is a measure."""

QUEUE_GROWTH: Final = "queue_growth"
"""The measure of a service that is above 0 where it does not sustain the rate of its requests; it
then misses every limit."""


def _growth(value: float) -> str:
    """Return by how much a queue grows: one that does not is stable."""
    return f"unstable, +{format_number(value, 3)}/s" if value else "stable"


def _of_a_service() -> Iterable[Measure]:
    """Yield the measures of a service; times are means, or percentiles."""
    rate, later = _with("tokens/s"), ("token", "first token")
    for name, label, heading, unit, better, text in (
        ("tokens_per_s_per_device", "throughput per device", "per device", "tokens/s", _MORE, rate),
        ("tokens_per_s", "throughput", "tokens/s", "tokens/s", _MORE, rate),
        ("total_tokens_per_s", "throughput with prompts", "total", "tokens/s", _MORE, rate),
        ("total_tokens_per_s_per_device", "throughput per device with prompts", "total per device",
         "tokens/s", _MORE, rate),
        ("tokens_per_s_per_user", "speed of a user", "per user", "tokens/s", _MORE, rate),
        ("requests_per_s", "request rate", "requests/s", "requests/s", _MORE, _with("requests/s")),
        ("goodput", "goodput", "goodput", "requests/s", _MORE, _with("requests/s")),
        ("power_w", "mean power without PUE", "power", "W",
         _LESS, format_watts),
        ("site_power_w", "mean power with PUE of the site", "site power", "W", _LESS,
         format_watts),
        ("output_tokens_per_joule", "tokens per joule", "tokens/J", "tokens/J", _MORE,
         _with("tokens/J")),
        ("output_tokens_per_usd", "tokens per dollar", "tokens/USD", "tokens/USD", _MORE,
         _with("tokens/USD")),
        (QUOTES, "price from", "price from", "", None, _quotes),
        ("sustainable_rate", "sustainable rate", "sustains", "requests/s", _MORE,
         _with("requests/s")),
        (QUEUE_GROWTH, "growth of the queue", "queue", "requests/s", None, _growth),
        *((name + suffix, label + of, heading + of, "s", _LESS, format_seconds)
          for name, label, heading in (("ttft", "time to first token", "first token"),
                                       ("tpot", "time per token", "each token"),
                                       ("latency", "latency", "request"))
          for suffix, of in (("", ""), *((f"_{q}", f", {q}") for q in QUANTILES))),
        ("devices", "devices", "devices", "", _LESS, format_number),
    ):  # fmt: skip
        accounts = ("first token", "token") if name.startswith("ttft") else later
        dimension = {"s": "seconds", "W": "watts"}.get(unit, "")
        yield Measure(name, "service", label, heading, unit, better, accounts, text, dimension)


def _of_a_shared_machine() -> Iterable[Measure]:
    """Yield the measures of several jobs on one machine."""
    times = _with("times")
    for name, label, heading, unit, better, text in (
        ("slowdown", "largest slowdown", "slowdown", "times", _LESS, times),
        ("slowdown_most", "largest slowdown of all draws", "at most", "times", _LESS, times),
        ("slowdown_mean", "mean slowdown of the jobs", "mean slowdown", "times", _LESS, times),
        ("fairness", "fairness", "fairness", "", _MORE, lambda index: f"{index:.3f}"),
        ("lost_devices", "capacity lost to neighbours", "lost", "devices", _LESS,
         _with("devices")),
        ("tokens_per_s", "throughput of all training", "tokens/s", "tokens/s", _MORE,
         _with("tokens/s")),
        ("busiest_link", "load of the fullest shared link", "fullest link", "of capacity", None,
         _share),
        ("devices", "devices", "devices", "", _LESS, format_number),
    ):  # fmt: skip
        yield Measure(name, "shared machine", label, heading, unit, better, (), text)


def _of_a_trace() -> Iterable[Measure]:
    """Yield the measures of a replayed trace."""
    for name, label, heading, unit, better, text in (
        ("step_time_s", "step time", "step", "s", _LESS, format_seconds),
        ("compute_s", "compute", "compute", "s", _LESS, format_seconds),
        ("exposed_s", "exposed communication", "exposed", "s", _LESS, format_seconds),
        ("waiting_s", "waiting", "waiting", "s", _LESS, format_seconds),
        ("exposed_fraction", "exposed communication", "exposed share", "fraction of step", _LESS,
         _share),
        ("devices", "devices", "devices", "", _LESS, format_number),
    ):  # fmt: skip
        dimension = "seconds" if unit == "s" else ""
        yield Measure(name, "trace", label, heading, unit, better, ("step",), text, dimension)


ALL: Final = (
    *_of_a_step(), *_of_a_run(), *_of_a_service(), *_of_a_shared_machine(), *_of_a_trace()
)  # fmt: skip
"""All measures of all kinds."""

HEADLINES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "training run": ("days", "goodput", "energy", "cost"),
    "step": ("step_time_s", "tokens_per_s", "tokens_per_s_per_device", "tflops_per_device_model",
             "mfu", "memory_peak_bytes"),
    "service": ("ttft", "tpot", "latency", "tokens_per_s", "tokens_per_s_per_device",
                "tokens_per_s_per_user"),
    "shared machine": ("slowdown", "slowdown_most", "slowdown_mean", "fairness", "lost_devices",
                       "tokens_per_s"),
    "trace": ("step_time_s", "compute_s", "exposed_s", "waiting_s", "devices"),
}  # fmt: skip
"""Measures of an answer's tables, by kind."""

BRIEF: Final[Mapping[Kind, tuple[str, ...]]] = {
    "training run": ("days", "goodput", "energy", "cost"),
    "step": ("step_time_s", "tokens_per_s", "mfu", "memory_peak_bytes"),
    "service": ("ttft", "tpot", "tokens_per_s_per_device", "tokens_per_s_per_user"),
    "shared machine": ("slowdown", "slowdown_mean", "lost_devices", "tokens_per_s"),
    "trace": ("step_time_s", "exposed_s", "waiting_s", "devices"),
}  # fmt: skip
"""The few of them that a line has room for."""


ALIASES: Final = {"memory": "memory_peak_bytes", "rate": "requests_per_s"}
"""Short names of measures."""


class MeasureTable(dict[str, Measure]):
    """Measures by name; that of a percentile is made when it is named: `ttft_p37`, `tpot_p99.9`."""

    def __missing__(self, name: str) -> Measure:
        """Return the measure of a percentile of times of which the table has the median."""
        time, _, number = name.rpartition("_p")
        if f"{time}_p50" not in self:
            raise KeyError(name)
        percentile, median = percentile_name(parse_number(number)), self[f"{time}_p50"]
        label, heading = (f"{text.removesuffix('p50')}{percentile}"
                          for text in (median.label, median.heading))  # fmt: skip
        return replace(median, name=f"{time}_{percentile}", label=label, heading=heading)

    def named(self, name: str) -> Measure | None:
        """Return the measure of a name or short name; None if there is none.

        Raises
        ------
        ValueError
            when it names a percentile that there is not.
        """
        try:
            return self[ALIASES.get(name, name)]
        except KeyError:
            return None


def measures_of(kinds: Iterable[Kind]) -> MeasureTable:
    """Return the measures of answers of some kinds by name; a run has those of its step as well."""
    requested = tuple(kinds)
    return MeasureTable((measure.name, measure) for measure in ALL if measure.kind in requested)


def further_percentiles(names: Iterable[str]) -> tuple[str, ...]:
    """Return the percentiles that are part of names of measures, those of every answer excepted.

    >>> further_percentiles(["ttft_p37", "tpot_p99.9", "ttft_p99", "latency"])
    ('p37', 'p99.9')
    """
    table, usual = measures_of(("service",)), {measure.name for measure in ALL}
    others = (name for name in names if name not in usual and table.named(name) is not None)
    return tuple(dict.fromkeys(name.rpartition("_")[2] for name in others))


_PLURALS: Final[Mapping[Kind, str]] = {
    "service": "services",
    "shared machine": "shared machines",
    "trace": "traces",
}
"""Kinds that an error about an unknown measure names."""


def check_measure(option: str, name: str, kinds: Iterable[Kind], where: str) -> Measure:
    """Return the measure of that name by which answers of some kinds are ranked.

    Parameters
    ----------
    option : that names it, with which the message begins
    where : name of the scenario

    Raises
    ------
    ScenarioError
        in one line, when there is none.
    """
    kinds = tuple(kinds)
    every = measures_of(kinds).items()
    ranked = MeasureTable((n, m) for n, m in every if m.more_is_better is not None)
    return find_measure(name, ranked, kinds, (f"{option} {name}", where))


def find_measure(
    name: str,
    measures: MeasureTable,
    kinds: Sequence[Kind],
    places: tuple[str, str],
    others: Iterable[str] = (),
) -> Measure:
    """Return the measure of a name or short name.

    Parameters
    ----------
    measures : by name, of answers of some `kinds`
    places : with what a message begins, and the name of the scenario
    others : names of what is no number, which a message suggests as well

    Raises
    ------
    ScenarioError
        in one line, when there is none.
    """
    place, where = places
    try:
        measure = measures.named(name)
    except ValueError:
        time, _, number = name.rpartition("_p")
        raise ScenarioError(
            f"{place}: '{number}' is no percentile ({PERCENTILES}: {time}_p37, {time}_p99.9)"
        ) from None
    if measure is not None:
        return measure
    if name in measures_of(("training run",)) and "step" in kinds:
        raise ScenarioError(f"{place}: {where} has no section training, whose run it is of")
    of = f" of {_PLURALS[kinds[0]]}" if kinds[0] in _PLURALS else ""
    raise ScenarioError(
        f"{place}: unknown measure{of} ({_nearest(name, measures, kinds, others)} all: clustersim"
        " list measures)"
    )


def _nearest(
    name: str, measures: Mapping[str, Measure], kinds: Iterable[Kind], others: Iterable[str]
) -> str:
    """Return the measures whose names or labels are nearest, or those of tables as examples."""
    words = {measure.label: each for each, measure in measures.items()}
    words |= {short: each for short, each in ALIASES.items() if each in measures}
    words |= {"_".join(sorted(each.split("_"))): each for each in measures}
    words |= {each: each for each in (*others, *measures)}
    matches = get_close_matches(name, words, 3, 0.5)
    close = dict.fromkeys(words[word] for word in matches)
    if name in ("cost", "price"):
        close = dict.fromkeys(each for each in MONEY if each in measures)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    usual = [each for kind in kinds for each in HEADLINES[kind]]
    return f"such as {', '.join(map(repr, usual[:3]))};"


def pareto_front(
    numbers: Sequence[Mapping[str, float]], by: Measure, cost: Measure
) -> tuple[int, ...]:
    """Return the positions of answers that no other beats in two measures, the cheapest first.

    >>> by, cost = (measures_of(["step"])[name] for name in ("tokens_per_s", "devices"))
    >>> points = [(8, 3.0), (4, 2.0), (6, 1.0)]
    >>> pareto_front([{"devices": n, "tokens_per_s": rate} for n, rate in points], by, cost)
    (1, 0)
    """
    known = [at for at, each in enumerate(numbers) if by.name in each and cost.name in each]
    value = {at: by.order(numbers[at][by.name]) for at in known}
    positions: list[int] = []
    for at in sorted(known, key=lambda at: (cost.order(numbers[at][cost.name]), value[at], at)):
        if not positions or value[at] < value[positions[-1]]:
            positions.append(at)
    return tuple(positions)


@record
class ParetoFront:
    """Layouts that no other one beats in two measures.

    Attributes
    ----------
    against : measure that the ranking one is compared with: `memory_peak_bytes`, `devices`, ...
    positions : positions of these layouts among all of the answer, the cheapest first
    """

    against: str
    positions: tuple[int, ...]


# --- answers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Account:
    """A sum whose parts add up to it.

    Attributes
    ----------
    name : `step`, `token`, `first token`, `run`, or `step of` a job
    label : what it is the sum of
    unit : `s`, or `d` of a run
    parts : amounts by part
    basis : work that it is for, such as tokens of a step; only accounts for equal work are compared
    """

    name: str
    label: str
    unit: str
    parts: Mapping[str, float]
    basis: float = 1.0

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return sum(self.parts.values())


class Memory(Protocol):
    """The verdict on the memory of an answer."""

    @property
    def fits(self) -> bool:
        """Whether the devices have room."""

    @property
    def tight(self) -> bool:
        """Whether it fits with less room than the errors of predictions."""

    @property
    def verdict(self) -> str:
        """The same in words, with the reason."""


class Answer(Protocol):
    """What steps, training runs, services and shared machines have in common, for studies."""

    @property
    def name(self) -> str:
        """File name of the scenario without its suffix."""

    @property
    def title(self) -> str:
        """Title of the scenario."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of its measures, the one that headlines begin with first."""

    @property
    def memory(self) -> Memory:
        """Whether it fits."""

    def measures(self) -> dict[str, float]:
        """Return its measures by name; none of a service that does not fit."""

    def accounts(self) -> tuple[Account, ...]:
        """Return its sums, the headline first."""

    def facts(self) -> dict[str, str]:
        """Return what else explains it, in words by label: the bottleneck first."""

    def why_missing(self, name: str) -> str:
        """Return why a measure is not known."""
