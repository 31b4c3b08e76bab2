"""A result in about twenty lines: how fast it is, where the time goes, and how sure that is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.cost.power import missing_power
from clustersim.render.tables import (
    UNMASKED,
    Row,
    kind_of,
    percent,
    plain,
    words,
)
from clustersim.reports.evidence import evidence_rows
from clustersim.reports.measures import expectation_rows, hypothetical, summary
from clustersim.reports.published import published_rows
from clustersim.simulation.step.disturbed import is_random
from clustersim.topology.accelerator import slowest_clock
from clustersim.traffic import link_text
from clustersim.units import (
    GIB,
    counted,
    format_bandwidth,
    format_joules,
    format_number,
    format_seconds,
    format_watts,
)

if TYPE_CHECKING:
    from clustersim.metrics.communication import GroupLinks
    from clustersim.scenario.schema import BatchFile, PlacementFile, RecomputeFile
    from clustersim.simulation.step.answer import (
        Blame,
        DisturbanceAnswer,
        Replications,
    )
    from clustersim.simulation.step.result import Result
    from clustersim.simulation.training_run.answer import RunMeasures

_GROUPS: Final = {
    "tensor": "tensor group",
    "context": "context group",
    "expert": "expert group",
    "data": "data group",
    "pipeline": "pipeline",
    "embedding": "embedding",
}
"""Labels of the groups of ranks that communicate."""

MOST: Final = 5
"""Components that a line names; the rest is one number."""


def rows(result: "Result") -> list[Row]:
    """Return the lines of a result: the setting first, or the verdict where it may not fit."""
    verdict = _verdict(result)
    within = result.memory.fits
    return [
        *([] if within else verdict),
        *([] if result.training is None else [Row("run", _whole_run(result.training))]),
        *_setting(result),
        *_software(result),
        *_speed(result),
        Row("time", _components(result)),
        Row("exposed", _exposed(result)),
        *_disturbances(result),
        *(verdict if within else []),
        Row("memory use", _memory(result)),
        Row("busiest link", _busiest(result)),
        Row("power", power_text(result)),
        *_experts(result),
        *(Row(_GROUPS[group.group], _span(group)) for group in result.groups),
        *expectation_rows(result.answer.expectations),
        *published_rows(result.published),
        Row("assumed", _assumed(result)),
    ]


def _whole_run(run: "RunMeasures") -> str:
    """Return days, goodput, energy and price of the whole run."""
    text = summary(("training run",), run.measures(), "days")
    return f"{text} (clustersim train: failures, checkpoints, bill)"


def answer(result: "Result") -> list[str]:
    """Return the result as plain text: the title, then a line for each row."""
    return [result.scenario.title, *plain(rows(result))]


def file_row(folder: Path, formats: Sequence[str] = ()) -> Row:
    """Return the line with the files of a run with figures in some formats."""
    figures = "".join(f", timeline.{format}" for format in formats[:1])
    return Row("files", f"{folder}/: report.html, summary.json{figures}, trace.json and more")


def _verdict(result: "Result") -> list[Row]:
    """Return whether the job fits, and the changes with which it does where it does not."""
    memory = Row("memory", result.memory.reason, not result.memory.fits, result.memory.tight)
    return [memory, *(Row("fits with", remedy) for remedy in remedies(result))]


def _setting(result: "Result") -> list[Row]:
    """Return what is simulated: machine, model, layout, batch."""
    scenario = result.scenario
    cluster, plan, batch = scenario.cluster, scenario.plan, scenario.batch
    machine = f"{counted(cluster.nodes, 'node')} of {cluster.name}, {result.devices:,} x"
    layout = f"tensor {plan.tensor} x pipeline {plan.pipeline} x data {plan.data}"
    layout += f" x context {plan.context}" if plan.context > 1 else ""
    layout += f", expert {plan.expert}" if plan.expert > 1 else ""
    layout += f" x expert tensor {plan.expert_tensor}" if plan.expert_tensor > 1 else ""
    chunks = f", {count} chunks per stage" if (count := result.program.chunks) > 1 else ""
    zero = f", ZeRO-{plan.zero}" if plan.zero else ""
    zero += f" in shards of {plan.shard}" if plan.shard else ""
    placement = _placement(plan.placement)
    return [
        Row("machine", f"{machine} {cluster.node.accelerator.name}{_slowest(result)}"),
        Row("model", f"{scenario.model.name} in {scenario.precision}, {scenario.framework.name}"),
        Row(
            "layout",
            f"{layout}, {plan.schedule}{chunks}{zero}, {_recomputation(scenario.recompute)}",
        ),
        *([Row("placement", placement)] if placement else []),
        Row(
            "batch",
            f"{counted(batch.global_, 'sequence')} of {batch.sequence:,} tokens{_packed(batch)}:"
            f" {counted(result.program.microbatches, 'microbatch')} of {batch.micro}"
            " per replica",
        ),
    ]


def _software(result: "Result") -> list[Row]:
    """Return that the figures of the framework are of machines with other software."""
    framework, library = result.scenario.framework, result.scenario.cluster.node.library
    if framework.libraries is None or library.software in (None, *framework.libraries):
        return []
    usual = f" (usual with it: framework={library.framework})" if library.framework else ""
    text = (
        f"figures of {framework.name} are of machines with {' or '.join(framework.libraries)}, and"
        f" {result.scenario.cluster.name} has {library.software}{usual}"
    )
    return [Row("software", text, caution=True)]


def _slowest(result: "Result") -> str:
    """Return how much slower the slowest device multiplies than the mean one."""
    spread = result.scenario.cluster.node.accelerator.clock_spread
    clock = 1.0 if spread is None else slowest_clock(spread, result.devices)
    return f", the slowest at {percent(clock)} of the mean rate of products" if clock < 1 else ""


def _packed(batch: "BatchFile") -> str:
    """Return the length of packed samples; nothing where each sequence is one."""
    return "" if batch.lengths is None else f" in samples of {batch.lengths.mean:,.0f}"


def _recomputation(given: "str | RecomputeFile") -> str:
    """Return what the backward pass recomputes, in a few words."""
    if isinstance(given, str):
        return f"{'no' if given == 'none' else given} recomputation"
    what = f"{given.mode} recomputation"
    if given.ops:
        what = f"recomputation of {counted(len(given.listed), 'operation')}"
    elif given.modules:
        what = f"recomputation of {', '.join(given.modules)}"
    every = f", one layer in {given.every}" if given.every > 1 else ""
    stages = f", on {counted(len(given.stages), 'stage')}" if given.stages else ""
    return what + every + stages


def _placement(given: "PlacementFile") -> str:
    """Return the placement that a scenario states; nothing if it states none."""
    if given.devices is not None:
        return "device by device, as listed in the scenario"
    parts = []
    if "order" in given.model_fields_set:
        parts.append(f"{', '.join(given.order)} (innermost first)")
    if given.boxes is not None:
        parts.append(f"in boxes of {' x '.join(map(str, given.boxes))} nodes")
    return ", ".join(parts)


def _speed(result: "Result") -> list[Row]:
    """Return how fast it is: step time, tokens, model FLOPs and executed ones."""
    model, executed = (result.flops_per_device(kind) / 1e12 for kind in ("model", "executed"))
    skipped = " without masked attention" if result.masked_flops > 0 else ""
    return [
        Row(
            "step time",
            f"{format_seconds(result.step_time)}, {result.tokens_per_s:,.0f} tokens/s,"
            f" {format_number(result.samples_per_s)} sequences/s"
            f"{hypothetical(result.memory.reason, fits=result.memory.fits)}",
        ),
        *evidence_rows(result),
        Row(
            "FLOP rate",
            f"{model:.1f} model TFLOP/s per device (MFU {percent(result.mfu)}),"
            f" {executed:.1f} executed{skipped} (HFU {percent(result.hfu)})",
        ),
        *([Row("MFU", UNMASKED)] if result.mfu > 1 else []),
        Row(
            "bubble",
            f"{percent(result.bubble_fraction)} of the step time"
            f" ({percent(result.bubble_overhead)} of the time without bubbles)",
        ),
    ]


def _components(result: "Result") -> str:
    """Return the largest components of the step time, all bubbles as one."""
    parts = {part: s for part, s in result.attribution.items() if kind_of(part) != "bubble"}
    parts["bubble"] = result.bubble
    shares = sorted(((s / result.step_time, part) for part, s in parts.items()), reverse=True)
    named = [f"{words(part)} {percent(share)}" for share, part in shares[:MOST]]
    rest = max(0.0, sum(share for share, _ in shares[MOST:]))
    return ", ".join([*named, f"other {percent(rest)}"])


def _exposed(result: "Result") -> str:
    """Return the communication that no computation hides, by kind."""
    exposed = {
        part.removesuffix("_communication"): seconds
        for part, seconds in result.attribution.items()
        if kind_of(part) == "communication" and seconds >= 5e-5 * result.step_time
    }
    if not exposed:
        return "no communication (less than 0.005 % of the step)"
    total = sum(exposed.values()) / result.step_time
    named = [f"{words(kind)} {format_seconds(s, 3)}" for kind, s in exposed.items()]
    largest = list(exposed).index(max(exposed, key=exposed.__getitem__))
    limit = result.program.limits.get(list(exposed)[largest])
    named[largest] += f" over {link_text(limit.link, limit.by)}" if limit else ""
    return f"communication {percent(total)}: {', '.join(named)}"


def _disturbances(result: "Result") -> list[Row]:
    """Return what makes ranks differ, the step time over replications, and what each costs."""
    if not result.disturbances:
        return []
    named = [f"{given.name}{_concerned(given)}" for given in result.disturbances]
    lines = [Row("disturbances", _shortened(named))]
    if result.replications is not None:
        lines += [
            Row("replications", replicated_step(result.replications)),
            Row("cost", _costs(result.replications)),
        ]
    elif is_random(result.loaded):
        text = "one draw of random times: --replications 10 has mean, spread and costs"
        lines.append(Row("", text))
    return lines


def _concerned(given: "DisturbanceAnswer") -> str:
    return "" if given.devices is None else f" ({counted(given.devices, 'device')})"


def _shortened(texts: Sequence[str]) -> str:
    """Return the first of several texts, and the number of the others."""
    more = f" and {len(texts) - MOST} more" if len(texts) > MOST else ""
    return ", ".join(texts[:MOST]) + more


def replicated_step(found: "Replications") -> str:
    """Return the step time over replications."""
    low, high = (format_seconds(s, 4) for s in (found.quantiles.p10_s, found.quantiles.p90_s))
    error = "" if found.error_s is None else f" (standard error {format_seconds(found.error_s, 2)})"
    return (
        f"{counted(found.count, 'step')}: mean {format_seconds(found.mean_s)}{error}, 10th to 90th"
        f" percentile {low} to {high}"
    )


def _costs(found: "Replications") -> str:
    """Return the time that is recovered without each disturbance, and without all of them."""
    costs = [f"{blame.name} {cost_of_blame(blame)}" for blame in found.blame]
    share = percent(found.recovered_s / found.mean_s)
    return f"{_shortened(costs)}; all {format_seconds(found.recovered_s, 3)}, {share} of the step"


def cost_of_blame(blame: "Blame") -> str:
    """Return the time that is recovered without a disturbance, and its share of that of all."""
    share = "" if blame.share is None else f" ({percent(blame.share)})"
    return f"{format_seconds(blame.recovered_s, 3)}{share}"


def _memory(result: "Result") -> str:
    """Return the largest components of the fullest stage's memory, and the host memory."""
    parts = sorted(result.memory.fullest.parts.items(), key=lambda item: -item[1])
    named = [f"{words(part)} {nbytes / GIB:.1f}" for part, nbytes in parts[:MOST] if nbytes]
    rest = sum(nbytes for _, nbytes in parts[MOST:]) / GIB
    host = sum(result.memory.host.values()) / GIB
    device = f"{', '.join(named)}, other {rest:.1f} GiB"
    return f"{device}; host memory of a node {host:.1f} GiB" if host else device


def remedies(result: "Result") -> list[str]:
    """Return changes that make the job fit, with their cost; or that none was found."""
    memory = result.memory
    if not memory.fits and not memory.advice:
        return ["none of the changes that were tried; use more devices or a smaller model"]
    lines = []
    for remedy in memory.advice:
        seconds = remedy.step_time_s
        step = "" if seconds is None else f", step time {format_seconds(seconds)}"
        options = " ".join(f"--set {setting}" for setting in remedy.change.split())
        trained = ", training adapters only" if remedy.adapters else ""
        tight = ", tight" if remedy.tight else ""
        lines.append(f"{options}: {remedy.peak_bytes / GIB:.1f} GiB{tight}{step}{trained}")
    return lines


def _busiest(result: "Result") -> str:
    """Return the link with the highest utilisation over the step."""
    if not result.links:
        return "no link is used"
    link = result.links[0]
    share = f"{percent(link.utilisation)} of {format_bandwidth(link.capacity)}"
    return f"{link.name}, {share}, mean of the step"


def power_text(result: "Result") -> str:
    """Return the electrical power of the machine and its energy in a step, with its power cap."""
    energy, trace = result.energy, result.power
    cluster = result.scenario.cluster
    if energy is None or trace is None:
        return f"not known: {missing_power(cluster)}"
    mean, peak = format_watts(energy.mean.total), format_watts(trace.peak)
    site = result.site_watts
    of_site = "" if site is None else f" ({format_watts(site)} with the PUE of its site)"
    per_token = energy.joules / result.tokens_per_s / result.step_time
    cap = cluster.node.accelerator.power_cap
    capped = "" if cap is None else f", capped at {format_watts(cap)}"
    clock = energy.machine.device.clock
    slower = f": products at {percent(clock)} of the clock" if clock < 1 else ""
    return (
        f"{mean} mean{of_site}, {peak} peak;"
        f" {format_watts(energy.device)} per device{capped}{slower};"
        f" {format_joules(energy.joules)} per step, {format_joules(per_token)} per token"
    )


def _experts(result: "Result") -> list[Row]:
    """Return how unevenly experts are loaded, and the share of tokens that they drop."""
    routing = result.routing
    if routing is None:
        return []
    dropped = 1 - routing.kept
    lost = f", {percent(dropped)} of the tokens are dropped" if dropped > 1e-9 else ""
    ratio = f"{routing.skew:.4g}"
    load = (
        "all ranks have the same load"
        if ratio == "1"
        else f"the fullest rank has {ratio} times the mean load"
    )
    return [Row("experts", f"{load}{lost}")]


def _span(group: "GroupLinks") -> str:
    """Return how many nodes a group spans, and the links between its neighbours."""
    fewest, most = group.nodes.fewest, group.nodes.most
    nodes = counted(most, "node") if fewest == most else f"{fewest:,} to {most:,} nodes"
    links = [f"{link.kind} {format_bandwidth(link.bandwidth)}" for link in group.links]
    return f"{group.ranks:,} ranks on {nodes}, over {', '.join(links)}"


def _assumed(result: "Result") -> str:
    """Return the keys of the scenario that no source states, without those of other runs."""
    stated, several = result.stated, len(result.stated) > _MOST_STATED
    others = [key for key in result.assumed if key not in {*stated}]
    keys = [key for key in others if not key.startswith("scaling")]
    given = f"{counted(len(keys), 'key')}: {', '.join(keys)}" if keys else "no key of the scenario"
    if not stated:
        return given
    more = f" and {len(stated) - _MOST_STATED} more" if several else ""
    return f"{given}; stated by the user: {', '.join(stated[:_MOST_STATED])}{more}"


_MOST_STATED: Final = 6
"""Maximum number of keys in this line that the user states; `--json` and the page have all."""
