"""The file of a new scenario: its values, and comments that explain them."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

from clustersim.catalog.writing import to_yaml
from clustersim.render.tables import Row, format_setting, short_keys
from clustersim.reports.measures import format_causes, goodput_rows, summary
from clustersim.scenario.schema import PlanFile
from clustersim.simulation.step.answer import RunAnswer
from clustersim.studies.new.answer import NewScenario
from clustersim.studies.search import BestSharing, SearchAnswer
from clustersim.units import GIB, counted, format_seconds

AXES: Final[Mapping[str, str]] = {
    "plan.tensor": "ranks that share each layer",
    "plan.pipeline": "stages that share the layers",
    "plan.context": "ranks that share each sequence",
    "plan.data": "replicas that share the batch",
    "plan.replicas": "replicas that share the requests",
    "plan.zero": "ZeRO stage: 1 shards optimiser states, 3 weights as well",
    "batch.micro": "sequences of a microbatch",
    "recompute": "what the backward pass recomputes",
}
"""What a value of a layout is, by key."""

MAIN: Final = ("plan.tensor", "plan.pipeline", "plan.data", "batch.micro", "recompute")
"""Keys that are always part of a layout in words."""

SPACE: Final = {
    False: "tensor ranks of a node, up to 64 stages and 8 sequences of a microbatch, 1, 2 or 4"
    " chunks, layers even or with-ends, contexts of long sequences, whole or selective"
    " recomputation, the usual placement",
    True: "tensor ranks of a node, up to 4 stages, one pool",
}
"""The layouts that are searched, of training and of a service."""


def file_text(new: NewScenario, command: str) -> str:
    """Return the file of a new scenario.

    Parameters
    ----------
    command : that writes it
    """
    lines = to_yaml(dict(new.scenario), [command, *(f"  {line}" for line in remarks(new))])
    notes = {each.key: each.words for each in new.alternatives}
    return "\n".join(_with_comments(lines.split("\n"), notes))


def _with_comments(lines: Sequence[str], notes: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a file; a key of the layout is followed by what it is and costs."""
    section = ""
    for line in lines:
        key, colon, value = line.strip().partition(":")
        if line and not line.startswith((" ", "#")):
            section = key
        path = f"{section}.{key}" if line.startswith(" ") else key
        words = [AXES[path], *([notes[path]] if path in notes else [])] if path in AXES else []
        commented = words and colon and value and not line.startswith("#")
        yield f"{line}  # {'; '.join(words)}" if commented else line


def remarks(new: NewScenario) -> list[str]:
    """Return what is predicted, why this layout, and what the second best would cost."""
    return [f"{row.label}: {row.text}" for row in rows(new)]


def rows(new: NewScenario) -> list[Row]:
    """Return the same as lines with labels."""
    answer = new.search
    assert answer.best is not None, "a layout fits"
    best = answer.ranked[0]
    software = new.scenario.get("framework") or new.scenario.get("engine")
    return [
        Row("predicted", summary(answer.kinds, best.measures, answer.by) + _interval(answer)),
        Row("layout", f"{format_layout(best.set_)}{_devices(answer)}, with {software}"),
        Row("why", f"the best by {_objective(answer)} of {_searched(answer)}{_gap(answer)}"),
        *goodput_rows(answer.goodput, answer.limits),
        Row("second best", _second(answer)),
        Row("memory", answer.best.memory.verdict + _room(answer), caution=best.tight),
        *([Row("offload", answer.offload_text, caution=True)] if answer.offload else []),
        *_others(new),
        Row("searched", f"{SPACE['service' in answer.kinds]}; all: clustersim search"),
        *(Row("assumed", f"{key}: {why}") for key, why in new.scenario.get("assumed", {}).items()),
    ]


def format_layout(values: Mapping[str, Any]) -> str:
    """Return a layout in words: its main degrees, and values that are not the default.

    >>> format_layout({"plan.tensor": 1, "plan.context": 1, "batch.micro": 2})
    'tensor 1, micro 2'
    """
    usual = {f"plan.{key}": value for key, value in PlanFile().model_dump(mode="json").items()}
    usual |= {"plan.chunks": 1, "plan.attention_data": 1}
    return format_values({k: v for k, v in values.items() if k in MAIN or usual.get(k) != v})


def format_values(values: Mapping[str, Any]) -> str:
    """Return values by key in words.

    >>> format_values({"plan.tensor": 1, "recompute": "none"})
    'tensor 1, recompute none'
    """
    names = zip(short_keys([*values]), values.values(), strict=True)
    return ", ".join(f"{name} {format_setting(value)}" for name, value in names)


def _interval(answer: SearchAnswer) -> str:
    """Return the prediction interval of a step, or why there is none."""
    if not isinstance(answer.best, RunAnswer):
        return ""
    low, high = answer.best.interval.low_s, answer.best.interval.high_s
    if low is None or high is None:
        return f"; {answer.best.interval.why}"
    ends = f"{format_seconds(low, 3)} to {format_seconds(high, 3)}"
    return f"; step time {ends} at level {100 * answer.best.interval.level:g} %"


def _searched(answer: SearchAnswer) -> str:
    counts = answer.layouts
    valid = counts.possible - counts.excluded
    room = "do not fit" if not answer.limits else "do not fit with room for errors of memory"
    room += " or do not sustain the rate" if answer.by == "latency" else ""
    memory = f", of which {counts.memory + counts.limited:,} {room}" if counts.memory else ""
    return f"{counted(valid, 'valid layout')}{memory}"


def _objective(answer: SearchAnswer) -> str:
    """Return by which measure it is the best; a service may use its whole machine."""
    if "service" not in answer.kinds:
        return answer.measure.label
    return f"{answer.measure.label} on up to {counted(answer.devices[0], 'device')},"


def _devices(answer: SearchAnswer) -> str:
    """Return how many of the devices of its machine a service uses."""
    best, most = answer.best, answer.devices[0]
    assert not isinstance(best, BestSharing), "a draft has one job"
    if best is None or "service" not in answer.kinds:
        return ""
    return f" ({best.counts.devices:,} of {counted(most, 'device')})"


def _others(new: NewScenario) -> Iterator[Row]:
    """Yield the best layout with less room in memory than the errors of predictions, or more."""
    for label, other in (("less", new.faster), ("more", new.search.roomy)):
        if other is not None:
            speed = new.search.measure.text(other.value)
            change = 100 * (other.value / new.search.ranked[0].value - 1)
            text = f"{format_layout(other.set_)}: {speed}, {abs(change):.1f} %"
            text += f" {'more' if change > 0 else 'less'}, with {label} room than such errors"
            yield Row(f"{label} room", text)


def _gap(answer: SearchAnswer) -> str:
    """Return how sure that is; the search may have ended before all were examined."""
    if not answer.layouts.open:
        return ", with proof"
    if answer.gap is None:
        return "; the time was over before all of them had a bound"
    most = ceil(1000 * answer.gap) / 10  # no gap is 0.0 %
    return f"; the time was over, another one is better by at most {most:.1f} %"


def _second(answer: SearchAnswer) -> str:
    """Return the second best layout, and what it would cost."""
    for one in answer.differences:
        if one.against == "second" and one.value is not None and one.gain is not None:
            worse = f"{100 * (1 - 1 / one.gain):.1f} % worse"
            causes = format_causes({part: -change for part, change in one.parts.items()})
            value = f"{answer.measure.text(one.value)}, {worse}"
            return f"{format_values(one.set_)}: {value} ({one.label}{causes})"
    return "no other layout was replayed"


def _room(answer: SearchAnswer) -> str:
    """Return the room that a device has left."""
    if answer.best is None or isinstance(answer.best, BestSharing):
        return ""
    memory = answer.best.memory
    room = memory.capacity_bytes - memory.need_bytes
    return f"; need {memory.need_bytes / GIB:.1f} GiB, room {room / GIB:.1f} GiB"
