"""A service in about twelve lines: the rates and times first, then their causes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from clustersim.inference.memory import share_behind_windows
from clustersim.render.tables import Row, percent
from clustersim.reports.evidence import evidence_rows
from clustersim.reports.measures import expectation_rows, part_name
from clustersim.reports.published import published_rows
from clustersim.simulation.measures import QUEUE_GROWTH, measures_of
from clustersim.units import (
    GIB,
    counted,
    format_joules,
    format_number,
    format_seconds,
    format_watts,
)

if TYPE_CHECKING:
    from clustersim.scenario.requests import Lengths, LoadFile
    from clustersim.scenario.serving import ReplicaFile, ServingScenario, Speculation
    from clustersim.simulation.service.answer import (
        Goodput,
        LoadPoint,
        Statistics,
        SteadyState,
    )
    from clustersim.simulation.service.result import ServeResult

MOST: Final = 6
"""Causes that a line names; the rest is one number."""


def rows(result: "ServeResult") -> list[Row]:
    """Return the lines of a result: the setting first, or the verdict where it does not fit."""
    memory = result.memory
    verdict = Row("memory", memory.verdict, warning=not memory.fits)
    return [
        *([] if memory.fits else [verdict]),
        *_setting(result.scenario),
        *_context(result),
        *_times(result),
        *_rates(result),
        *evidence_rows(result),
        *_energy(result),
        *_limits(result),
        *([verdict] if memory.fits else []),
        *_cache(result),
        *expectation_rows(result.answer.expectations),
        *published_rows(result.published),
        *_assumed(result),
    ]


def _setting(given: "ServingScenario") -> list[Row]:
    """Return what is simulated: machine, model, layout, load."""
    cluster, plan = given.cluster, given.plan
    every = cluster.nodes * cluster.node.devices
    used = f"{given.devices:,} of {every:,}" if given.devices < every else f"{every:,}"
    precision = given.precision if isinstance(given.precision, str) else given.precision.weights
    if plan.prefill is not None and plan.decode is not None:
        layout = f"prefill {layout_text(plan.prefill)}; decode {layout_text(plan.decode)}"
    else:
        layout = layout_text(plan)
    return [
        Row(
            "machine",
            f"{counted(cluster.nodes, 'node')} of {cluster.name}, {used} x"
            f" {cluster.node.accelerator.name}",
        ),
        Row("model", f"{given.model.name} in {precision}, {given.engine.name}"),
        Row("layout", layout),
        Row("load", load_text(given.load)),
        *_speculation(given.speculation),
    ]


def _speculation(given: "Speculation | None") -> list[Row]:
    """Return what drafts tokens, and what a step gains by them."""
    if given is None:
        return []
    text = (
        f"{counted(given.tokens, 'drafted token')} in a step, of which each is accepted with"
        f" {percent(given.acceptance)}: {given.gain:.2f} tokens of a sequence in a step; "
    )
    if given.draft is not None:
        return [Row("speculation", f"{text}{given.draft.name} drafts")]
    if given.share is not None:
        share = f"takes {percent(given.share)} of the step that verifies it"
        return [Row("speculation", f"{text}a drafted token {share}")]
    ((key, why),) = given.assumed.items()
    return [Row("speculation", f"{text}assumed: {key} {why}", caution=True)]


def _context(result: "ServeResult") -> list[Row]:
    """Return a warning where requests are longer than the sequences of the model."""
    model, longest = result.scenario.model, result.memory.longest_request
    if longest <= model.sequence:
        return []
    text = (
        f"the longest request has {longest:,} tokens, sequences of {model.name} have"
        f" {model.sequence:,} in its file: its positions must have been extended"
    )
    return [Row("context", text, warning=True)]


def load_text(load: "LoadFile") -> str:
    """Return how requests arrive and how long they are."""
    how = {
        "batch": f"a batch of {counted(load.batch or 0, 'request')}",
        "concurrency": f"{counted(load.concurrency or 0, 'concurrent user')}",
        "rate": f"{load.rate or 0:g} requests/s ({load.arrivals})",
        "offline": f"{counted(load.offline or 0, 'request')}, all at the start",
        "trace": f"trace {load.trace}",
    }[load.kind]
    if load.input is None or load.output is None:
        return how
    cached = " (cached)" if load.cached else ""
    return f"{how}, {_tokens(load.input)} input{cached} and {_tokens(load.output)} output tokens"


def _tokens(lengths: "Lengths") -> str:
    if isinstance(lengths, int):
        return f"{lengths:,}"
    given = lengths.model_dump(exclude_none=True)
    if "uniform" in given:
        return "{:,} to {:,}".format(*given["uniform"])
    if "histogram" in given:
        return f"{min(given['histogram']):,} to {max(given['histogram']):,} (histogram)"
    return f"about {given['mean']:,.0f}"


WHOLE_TIME: Final = "all requests over the whole time, with ramp and drain"
"""What times and rates of requests are of that have no rate."""


# --- times and rates ------------------------------------------------------------------------------


def _times(result: "ServeResult") -> list[Row]:
    found = [
        ("first token", result.ttft, result.first_attribution),
        ("each token", result.tpot, result.attribution),
        ("request", result.latency, None),
    ]
    lines: list[Row] = []
    for label, times, parts in found:
        if times is not None:
            lines.append(Row(label, times_text(times)))
        if times is not None and parts:
            lines.append(Row("", f"of which {shares_text(parts)}"))
    steady = result.steady
    if steady is None:
        return [*lines, *([Row("measured", WHOLE_TIME)] if result.whole_time else [])]
    return [Row("queue", steady.verdict, warning=not steady.stable), *lines, *_measured(steady)]


def _measured(steady: "SteadyState") -> list[Row]:
    """Return what times and rates are of, where that is not a steady state that is known well."""
    texts = {
        "backlog": "a backlog, at the sustainable rate; the time to the first token has no bound",
        "all requests": "all requests of load.requests, with ramp and drain (leave it out for the"
        " steady state)",
    }
    text = texts.get(steady.measured)
    if text is None and not steady.settled:
        text = "a steady state whose mean times vary by over 5 %: the rate is near the highest"
    return [] if text is None else [Row("measured", text)]


def times_text(times: "Statistics") -> str:
    """Return mean and percentiles of a time, the mean with its interval."""
    shares = {"median" if name == "p50" else f"{name[1:]} % within": seconds
              for name, seconds in times.shown.items()}  # fmt: skip
    shown = ", ".join(f"{share} {format_seconds(seconds, 3)}" for share, seconds in shares.items())
    low, high = (format_seconds(s, 3) for s in times.intervals.get("mean", (0.0, 0.0)))
    between = f" [{low}, {high}]" if times.intervals else ""
    return f"{format_seconds(times.mean)}{between} ({shown})"


def _rates(result: "ServeResult") -> list[Row]:
    rates = result.rates
    if not rates:
        return []
    user = rates.get("tokens_per_s_per_user")
    each = f"; {user:,.1f} for each user" if user else ""
    only_prompts = result.tpot is None
    shown = rates["total_tokens_per_s" if only_prompts else "output_tokens_per_s"]
    rate = shown / result.devices
    kind = "input and output" if only_prompts else "output"
    lines = [
        Row(
            "throughput",
            f"{format_number(shown, 3)} {kind} tokens/s, {format_number(rate, 3)} per device{each};"
            f" {format_number(result.rates['requests_per_s'], 3)} requests/s",
        )
    ]
    return lines if result.goodput is None else [*lines, _goodput(result.goodput)]


def _goodput(found: "Goodput") -> Row:
    """Return the requests within the limits; of a limit that none meets, by how much."""
    limits = [
        f"{name} {format_seconds(limit, 3)} ({_met(limit, share, best)})"
        for name, limit, share, best in (
            ("first token", found.ttft_s, found.ttft_share, found.ttft_least_s),
            ("each token", found.tpot_s, found.tpot_share, found.tpot_least_s),
        )
        if limit is not None and share is not None
    ]
    met = "no request" if not found.share else f"{percent(found.share)} of the requests"
    rate = f"{format_number(found.requests_per_s, 3)} requests/s"
    text = f"{met} within the limits, {rate}: {', '.join(limits)}"
    return Row("goodput", text, warning=not found.share)


def _met(limit: float, share: float, best: float) -> str:
    if share:
        return percent(share)
    times = format_number(best / limit, 3)
    return f"none: the shortest is {format_seconds(best, 3)}, {times} times as long"


# --- causes ---------------------------------------------------------------------------------------


def shares_text(parts: Mapping[str, float]) -> str:
    """Return the largest causes of a time, as shares of it."""
    whole = sum(parts.values())
    ranked = sorted(parts.items(), key=lambda part: -part[1])
    named = [f"{part_name(name)} {percent(s / whole)}" for name, s in ranked[:MOST]]
    rest = sum(s for _, s in ranked[MOST:]) / whole
    return ", ".join([*named, *([f"other {percent(rest)}"] if rest > 5e-4 else [])])


def _limits(result: "ServeResult") -> list[Row]:
    """Return the kernel that takes longest, and the link that limits communication."""
    kernel, link = result.limiting_kernel, result.limiting_link
    if kernel is None:
        return []
    text = f"{kernel.kernel} ({part_name(kernel.part)}), {percent(kernel.share)} of a step"
    if link is not None:
        text += (
            f"; link {link.link} ({link.bandwidth / 1e9:.4g} GB/s), {part_name(link.part)}"
            f" {percent(link.share)}"
        )
    return [Row("limited by", text)]


def _energy(result: "ServeResult") -> list[Row]:
    """Return power and cost of tokens, as far as they are known."""
    energy, cost = result.energy, result.cost
    prompts_only = result.tpot is None
    token = "a token" if prompts_only else "an output token"
    texts = []
    if not isinstance(energy, str):
        site = energy.site_power_w
        of_site = "" if site is None else f"; {format_watts(site)} with the PUE of its site"
        output, total = energy.output_tokens_per_joule, energy.total_tokens_per_joule
        texts.append(
            f"{format_watts(energy.power_w)} ({format_watts(energy.device_w)} a device{of_site}),"
            f" {format_joules(1 / (total if prompts_only else output))} for {token}"
        )
    if not isinstance(cost, str):
        rate = cost.total_tokens_per_usd if prompts_only else cost.output_tokens_per_usd
        texts.append(
            f"{format_number(1e6 / rate, 3)} USD for a million of them, at {cost.rate_text}"
        )
    elif result.replayed is not None:
        texts.append(f"cost not known: {cost}")
    return [Row("energy, cost", "; ".join(texts))] if texts else []


def _cache(result: "ServeResult") -> list[Row]:
    memory, answer = result.memory, result.answer
    parts = ", ".join(
        f"{part_name(name)} {nbytes / GIB:.1f}" for name, nbytes in memory.parts.items() if nbytes
    )
    lines = [Row("memory use", f"{parts} GiB of a device")]
    cache, queue = answer.kv, answer.queue
    if cache is None:
        return lines
    preemptions = 0 if queue is None else queue.preemptions
    preempted = f", {counted(preemptions, 'preemption')}" if preemptions else ""
    states = f" (states of a sequence: {cache.state_tokens:,})" if cache.state_tokens else ""
    kept = share_behind_windows(result.pools[-1].costs.replica, memory.longest_request)
    behind = f"; {percent(kept)} of the longest request is kept behind windows" if kept else ""
    lines.append(
        Row(
            "KV cache",
            f"{cache.capacity_tokens:,} tokens{states}, {percent(cache.mean_occupancy)} used"
            f" (at most {percent(cache.peak_occupancy)}); room for"
            f" {counted(memory.largest_batch, 'sequence')},"
            f" {answer.counts.mean_batch:,.1f} decode together{preempted}{behind}",
        )
    )
    if queue is None:
        return lines
    text = (
        f"{format_seconds(queue.wait_s.mean, 3)} from arrival to admission (99 % within"
        f" {format_seconds(queue.wait_s.p99, 3)}), at most {counted(queue.most, 'request')}"
    )
    waits = queue.wait_s.mean or queue.most
    return [*lines, Row("admission", text if waits else "at once: no request waits")]


# --- published numbers ----------------------------------------------------------------------------


def _assumed(result: "ServeResult") -> list[Row]:
    given, found = [*result.assumed], result.substitutes
    lines = [Row("assumed", ", ".join(given))] if given else []
    if found:
        named = [f"{kernel}: {origin}" for kernel, origin in [*found.items()][:MOST]]
        lines.append(Row("not measured", "; ".join(named)))
    return lines


def curve_table(curve: "Sequence[LoadPoint]") -> list[list[str]]:
    """Return the service over its load as a table, its headings first."""
    heads = ["load", "first token", "99 %", "each token", "99 %", "request", "tokens/s",
             "per device", "per user"]  # fmt: skip
    goodput = any(point.goodput_share is not None for point in curve)
    table = [[*heads, *(["within limits"] if goodput else [])]]
    for point in curve:
        first, each = point.times.get("ttft"), point.times.get("tpot")
        user, share = point.tokens_per_s_per_user, point.goodput_share
        table.append(
            [
                format_number(point.load),
                format_seconds(first.mean, 3) if first is not None else _growth(point),
                "-" if first is None else format_seconds(first.p99, 3),
                "-" if each is None else format_seconds(each.mean, 3),
                "-" if each is None else format_seconds(each.p99, 3),
                "-" if point.latency_s is None else format_seconds(point.latency_s, 3),
                format_number(point.output_tokens_per_s, 3),
                format_number(point.output_tokens_per_s_per_device, 3),
                "-" if user is None else format_number(user, 3),
                *([] if not goodput else ["-" if share is None else percent(share)]),
            ]
        )
    return table


def _growth(point: "LoadPoint") -> str:
    """Return by how much the queue of a load grows."""
    return measures_of(("service",))[QUEUE_GROWTH].text(point.queue_growth_per_s or 0.0)


_NAMES: Final = {"ttft": "first token", "tpot": "each token", "latency": "request"}
"""Times of a request, as the tables name them."""


def times_table(curve: "Sequence[LoadPoint]") -> list[list[str]]:
    """Return mean and percentiles of times over the load, each with half its interval."""
    every = [each for point in curve for each in point.times.values()]
    percentiles = [f"{name[1:]} %" for name in (every[0].shown if every else ())]
    table = [["load", "time", "mean", *percentiles]]
    for point in curve:
        for name, times in point.times.items():
            statistics = {"mean": times.mean, **times.shown}
            cells = [_with_interval(times, *each) for each in statistics.items()]
            table.append([format_number(point.load), _NAMES[name], *cells])
    return table


def _with_interval(times: "Statistics", name: str, seconds: float) -> str:
    """Return a statistic with half the width of its 95 % interval, where it has one."""
    text = format_seconds(seconds, 3)
    if name not in times.intervals:
        return text
    low, high = times.intervals[name]
    share = (high / low) ** 0.5 - 1 if low else 0.0
    return f"{text} +/- {format_number(100 * share, 2)} %" if share < 1 else f"{text} (uncertain)"


def layout_text(plan: "ReplicaFile") -> str:
    """Return a layout: ``'2 replicas of tensor 4 x pipeline 2'``."""
    degrees = [f"tensor {plan.tensor}"]
    for name in ("pipeline", "context", "attention_data"):
        degree = getattr(plan, name)
        degrees += [f"{name.replace('_', ' ')} {degree}"] if degree > 1 else []
    expert = f", expert {plan.expert}" if plan.expert > 1 else ""
    return f"{counted(plan.replicas, 'replica')} of {' x '.join(degrees)}{expert}"
