"""A result in about ten lines: what it costs, where the time goes, how far to believe it."""

from pathlib import Path
from typing import TYPE_CHECKING

from clustersim.render.tables import Row, counted, kind_of, number, percent, plain, verdict, words
from clustersim.units import GIB, format_bandwidth, format_seconds

if TYPE_CHECKING:
    from clustersim.metrics.groups import GroupLinks
    from clustersim.metrics.prediction_interval import Interval
    from clustersim.scenario.schema import PlacementFile, RecomputeFile
    from clustersim.simulation.answer import PublishedCheck
    from clustersim.simulation.simulate import Result

_MEMBERS = {
    "tensor": "tensor group",
    "context": "context group",
    "expert": "expert group",
    "data": "data group",
    "pipeline": "stages",
    "embedding": "embedding",
}
"""What the answer calls those who share a group."""

SHOWN = 5
"""Parts of the step time that the answer names; the rest is one number."""


def rows(result: "Result") -> list[Row]:
    """Return the answer line by line, first of all the time of a step."""
    fits = result.memory.fits
    return [
        *_setting(result),
        *_speed(result),
        Row("time", _where_time_goes(result)),
        Row("exposed", _exposed(result)),
        Row("memory", result.memory.reason, alarm=not fits),
        Row("of which", _parts(result)),
        *(Row("it would fit", remedy) for remedy in remedies(result)),
        Row("hottest link", _hottest(result)),
        *_experts(result),
        *(Row(_MEMBERS[group.group], _between(group)) for group in result.groups),
        *(Row("published", _beside(check)) for check in result.published),
        Row("assumed", _assumed(result)),
    ]


def answer(result: "Result") -> list[str]:
    """Return the answer as plain text: the title, then a line for each row."""
    return [result.scenario.title, *plain(rows(result))]


def files(folder: Path) -> Row:
    """Return the line that tells where the files of a run are."""
    return Row("files", f"{folder}/: report.html, summary.json, timeline.png, trace.json and more")


def _setting(result: "Result") -> list[Row]:
    """Return what was simulated: machine, model, layout, batch."""
    given = result.scenario
    cluster, plan, batch = given.cluster, given.plan, given.batch
    machine = f"{counted(cluster.nodes, 'node')} of {cluster.name}, {result.devices:,} x"
    layout = f"tensor {plan.tensor} x pipeline {plan.pipeline} x data {plan.data}"
    layout += f" x context {plan.context}" if plan.context > 1 else ""
    layout += f", experts over {plan.expert}" if plan.expert > 1 else ""
    layout += f" x {plan.expert_tensor}" if plan.expert_tensor > 1 else ""
    chunks = f", {count} chunks a stage" if (count := result.program.chunks) > 1 else ""
    zero = f", ZeRO-{plan.zero}" if plan.zero else ""
    zero += f" in shards of {plan.shard}" if plan.shard else ""
    placed = _placed(plan.placement)
    return [
        Row("machine", f"{machine} {cluster.node.accelerator.name}"),
        Row("model", f"{given.model.name} in {given.precision}, {given.framework.name}"),
        Row(
            "layout",
            f"{layout}, {plan.schedule}{chunks}{zero}, recompute {_again(given.recompute)}",
        ),
        *([Row("placement", placed)] if placed else []),
        Row(
            "batch",
            f"{counted(batch.global_, 'sequence')} of {batch.sequence:,} tokens:"
            f" {counted(result.program.microbatches, 'microbatch')} of {batch.micro}"
            " for each replica",
        ),
    ]


def _again(said: "str | RecomputeFile") -> str:
    """Return what the backward runs again, in a few words."""
    if isinstance(said, str):
        return said
    what = f"{counted(len(said.ops), 'operation')} by name" if said.ops else said.mode
    every = f", of one layer in {said.every}" if said.every > 1 else ""
    return what + every + (f", on {counted(len(said.stages), 'stage')}" if said.stages else "")


def _placed(given: "PlacementFile") -> str:
    """Return what a scenario says about where its ranks run; nothing if it says nothing."""
    if given.devices is not None:
        return "device by device, as the scenario lists them"
    said = []
    if "order" in given.model_fields_set:
        said.append(f"{', '.join(given.order)} (innermost first)")
    if given.boxes is not None:
        said.append(f"in boxes of {' x '.join(map(str, given.boxes))} nodes")
    return ", ".join(said)


def _speed(result: "Result") -> list[Row]:
    """Return how fast it is, in both conventions of counting FLOPs."""
    model, hardware = (result.flops_per_device(kind) / 1e12 for kind in ("model", "hardware"))
    return [
        Row(
            "step",
            f"{format_seconds(result.step_time)}, {result.tokens_per_s:,.0f} tokens/s,"
            f" {number(result.samples_per_s)} samples/s",
        ),
        Row("expected", _expected(result.interval)),
        Row(
            "rate",
            f"{model:.1f} TFLOP/s a device of model FLOPs (MFU {percent(result.mfu)}),"
            f" {hardware:.1f} with recomputation (HFU {percent(result.hfu)})",
        ),
        Row(
            "bubble",
            f"{percent(result.bubble_fraction)} of the step (overhead"
            f" {percent(result.bubble_overhead)} of the time without it)",
        ),
    ]


def _expected(interval: "Interval") -> str:
    """Return between which step times most runs are expected, and by which evidence."""
    if interval.low_s is None or interval.high_s is None:
        return f"no interval: {interval.why}"
    low, high = (format_seconds(seconds, 3) for seconds in (interval.low_s, interval.high_s))
    share = f"{10 * interval.level:g} of 10 runs"
    return f"between {low} and {high} in {share} ({interval.why})"


def _where_time_goes(result: "Result") -> str:
    """Return the biggest parts of the step time, bubbles together, in percent."""
    parts = {part: s for part, s in result.attribution.items() if kind_of(part) != "bubble"}
    parts["bubble"] = result.bubble
    shares = sorted(((s / result.step_time, part) for part, s in parts.items()), reverse=True)
    named = [f"{words(part)} {percent(share)}" for share, part in shares[:SHOWN]]
    rest = max(0.0, sum(share for share, _ in shares[SHOWN:]))
    return ", ".join([*named, f"other {percent(rest)}"])


def _exposed(result: "Result") -> str:
    """Return the communication that nothing hides, by kind."""
    shares = {
        part.removesuffix("_communication"): seconds
        for part, seconds in result.attribution.items()
        if kind_of(part) == "communication" and seconds >= 5e-5 * result.step_time
    }
    if not shares:
        return "no communication to speak of"
    total = sum(shares.values()) / result.step_time
    named = [f"{name} {format_seconds(seconds, 3)}" for name, seconds in shares.items()]
    largest = list(shares).index(max(shares, key=shares.__getitem__))
    limit = result.program.limits.get(list(shares)[largest])
    named[largest] += f" over {limit.link}" if limit else ""
    return f"communication {percent(total)}: {', '.join(named)}"


def _parts(result: "Result") -> str:
    """Return the biggest parts of the fullest stage's memory, and what is on its host."""
    verdict = result.memory
    parts = sorted(verdict.fullest.parts.items(), key=lambda item: -item[1])
    named = [f"{words(part)} {nbytes / GIB:.1f}" for part, nbytes in parts[:SHOWN] if nbytes]
    rest = sum(nbytes for _, nbytes in parts[SHOWN:]) / GIB
    host = sum(verdict.host.values()) / GIB
    said = f"{', '.join(named)}, other {rest:.1f} GiB"
    return f"{said}; on the host of a node {host:.1f} GiB" if host else said


def remedies(result: "Result") -> list[str]:
    """Return what would make the job fit and what it costs; or that nothing was found."""
    verdict = result.memory
    if not verdict.fits and not verdict.advice:
        return ["with none of the changes that were tried; more devices, or a smaller model"]
    said = []
    for remedy in verdict.advice:
        peak = f"{remedy.peak_bytes / GIB:.1f} GiB"
        seconds = remedy.step_time_s
        step = "" if seconds is None else f", {format_seconds(seconds)} a step"
        flags = " ".join(f"--set {setting}" for setting in remedy.change.split())
        said.append(f"with {flags}: {peak}{step}")
    return said


def _hottest(result: "Result") -> str:
    """Return the link that is busiest over the step."""
    if not result.links:
        return "none is used"
    link = result.links[0]
    share = f"{percent(link.utilisation)} of {format_bandwidth(link.capacity)}"
    return f"{link.name}, {share} over the step"


def _experts(result: "Result") -> list[Row]:
    """Return how unevenly experts are loaded, and what share of the tokens they drop."""
    routing = result.routing
    if routing is None:
        return []
    dropped = 1 - routing.kept
    lost = f", {percent(dropped)} of the tokens dropped" if dropped > 1e-9 else ""
    return [Row("experts", f"the fullest rank has {routing.skew:.4g} times the mean{lost}")]


def _between(group: "GroupLinks") -> str:
    """Return how far a group reaches, and the links between its neighbours, the narrowest first."""
    fewest, most = group.nodes.fewest, group.nodes.most
    nodes = counted(most, "node") if fewest == most else f"{fewest:,} to {most:,} nodes"
    links = [f"{link.kind} {format_bandwidth(link.bandwidth)}" for link in group.links]
    return f"{group.ranks:,} ranks on {nodes}, over {', '.join(links)}"


def _beside(check: "PublishedCheck") -> str:
    """Return a published number and the predicted one, or both verdicts."""
    if check.error is None:
        published, predicted = verdict(check.value), verdict(check.predicted)
        return f"{published}, predicted: {predicted}; {check.source}"
    convention = f" ({check.convention} FLOPs)" if check.convention else ""
    return (
        f"{check.metric}{convention} {number(check.value)}, predicted {number(check.predicted)}"
        f" ({percent(check.error, '+')}); {check.source}"
    )


def _assumed(result: "Result") -> str:
    """Return which keys of the scenario no source states; those of other runs do not matter."""
    keys = [key for key in result.scenario.assumed if not key.startswith("scaling")]
    if not keys:
        return "nothing in the scenario"
    return f"{len(keys)} {'key' if len(keys) == 1 else 'keys'}: {', '.join(keys)}"


__all__ = ["answer", "files", "remedies", "rows"]
