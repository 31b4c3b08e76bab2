"""A sizing as text: the finding, then its law, layout, loss and cost."""

from collections.abc import Iterator
from typing import Final

from clustersim.render.tables import Row, percent
from clustersim.studies.size.answer import (
    GAP,
    NODES_GAP,
    LawOptimum,
    SizeAnswer,
    SizeLayout,
    TrainedSize,
)
from clustersim.units import (
    GIB,
    counted,
    format_days,
    format_kg,
    format_kwh,
    format_number,
    format_seconds,
    format_usd,
    format_watts,
)
from clustersim.workload.scaling_laws import DEFAULT_LAW

COMPARED: Final = (
    "chinchilla-20",
    "chinchilla-3",
    "chinchilla-3-unrounded",
    "replication",
    "llama3",
)
"""Laws that the text compares; the page has all."""

_COUNTS: Final = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def count_text(number: float, digits: int = 3) -> str:
    """Return a count of parameters or tokens: ``'30.2 B'``.

    >>> count_text(30157331456), count_text(2.94e12), count_text(12)
    ('30.2 B', '2.94 T', '12')
    """
    for factor, symbol in _COUNTS:
        if number >= factor:
            return f"{number / factor:.{digits}g} {symbol}"
    return f"{number:.{digits}g}"


def finding(answer: SizeAnswer) -> str:
    """Return the finding in a sentence."""
    model = f"{count_text(answer.parameters)} parameters on {count_text(answer.tokens)} tokens"
    machine = f"{answer.devices:,} {answer.accelerator}"
    days = format_days(answer.days)
    if answer.question == "model":
        return f"{model}: the best model by {answer.law} for {days} on {machine}"
    if answer.question == "days":
        return f"{days}: {answer.model}, {model}, on {machine}"
    return f"{answer.nodes:,} nodes, {machine}: {answer.model}, {model}, in {days}"


def rows(answer: SizeAnswer) -> Iterator[Row]:
    """Return the lines of a sizing."""
    law = answer.laws[0]
    fewest = f", the fewest to {100 * NODES_GAP:g} %" if answer.question == "devices" else ""
    yield Row("machine", f"{counted(answer.nodes, 'node')} of {answer.cluster}{fewest}")
    yield Row("budget", _budget(answer))
    note = f"; {law.note}" if law.note else ""
    chosen = "" if answer.law != DEFAULT_LAW else " (the default; --law names another)"
    yield Row("law", f"{law.law}{chosen}, {law.source}: {range_text(law)}{note}")
    ratio = format_number(law.tokens_per_parameter, 3)
    yield Row("", f"{law.formula}; at this budget {ratio} tokens a parameter")
    yield Row("model", f"{answer.model}: {_shape(answer)}")
    yield Row("steps", _steps(answer))
    yield Row("layout", _layout(answer))
    yield Row("loss", _loss(answer))
    if answer.question == "model":
        yield from _neighbours(answer)
    else:
        yield Row("by the law", _optimum(law))
    others = [other for other in answer.laws[1:] if other.law in COMPARED]
    yield Row("other laws", "; ".join(map(_optimum, others)))
    yield Row("energy", _energy(answer))
    yield Row("cost", _cost(answer))


def _budget(answer: SizeAnswer) -> str:
    return (
        f"{answer.flops:.3g} FLOP (6 x parameters x tokens) in {format_days(answer.days)}, of which"
        f" {percent(answer.goodput)} are useful steps ({answer.goodput_note})"
    )


def range_text(law: LawOptimum) -> str:
    """Return whether a budget is in the range of a law's experiments."""
    if law.extrapolated == 1:
        return "within the budgets of its experiments"
    times = format_number(law.extrapolated, 3)
    return f"extrapolated, {times} times beyond the budgets of its experiments"


def _shape(answer: SizeAnswer) -> str:
    named = {key.replace("_", " "): value for key, value in answer.shape.items()}
    return ", ".join(f"{value:,} {key}" for key, value in named.items())


def _steps(answer: SizeAnswer) -> str:
    return (
        f"{answer.tokens_per_s:,.0f} tokens/s, MFU {percent(answer.mfu)},"
        f" {format_seconds(answer.layout.step_time_s)} for {answer.layout.batch:,} sequences of"
        f" {answer.layout.sequence:,} tokens"
    )


def _layout(answer: SizeAnswer) -> str:
    text = f"{format_layout(answer.layout)}, {answer.framework} in {answer.precision}"
    if answer.layout.gap <= GAP:
        return text
    return f"{text}; another one may be up to {percent(answer.layout.gap)} faster"


def format_layout(layout: SizeLayout) -> str:
    """Return a layout in words."""
    zero = f", ZeRO-{layout.zero}" if layout.zero else ""
    recompute = "no" if layout.recompute == "none" else layout.recompute
    chunks = f" with {layout.chunks} chunks" if layout.chunks > 1 else ""
    host = f", {' and '.join(layout.offload)} on the host" if layout.offload else ""
    schedule = f", {layout.schedule}{chunks}" if layout.pipeline > 1 else ""
    return (
        f"tensor {layout.tensor} x pipeline {layout.pipeline} x data {layout.data}{zero}{schedule},"
        f" microbatches of {layout.micro}, {recompute} recomputation{host},"
        f" {layout.memory_bytes / GIB:.1f} GiB{' (tight)' if layout.tight else ''}"
    )


def _loss(answer: SizeAnswer) -> str:
    ratio = f"{format_number(answer.tokens_per_parameter, 3)} tokens for each parameter"
    if answer.loss is None:
        return f"none: {answer.law} has no loss; {ratio}"
    return f"{answer.loss:.4f} nats per token, {ratio}"


def _neighbours(answer: SizeAnswer) -> Iterator[Row]:
    """Yield what half and twice the size would give."""
    for label, factor in (("half the size", 0.5), ("twice the size", 2.0)):
        near = nearest_size(answer, factor)
        if near is not None:
            yield Row(label, _size(answer, near))


def nearest_size(answer: SizeAnswer, factor: float) -> TrainedSize | None:
    """Return the size nearest to a multiple of the best one, if within 30 %."""
    wish = answer.parameters * factor
    near = min(answer.sizes, key=lambda one: abs(one.parameters / wish - 1))
    return near if abs(near.parameters / wish - 1) < 0.3 else None


def _size(answer: SizeAnswer, one: TrainedSize) -> str:
    text = f"{count_text(one.parameters)} on {count_text(one.tokens)} tokens, MFU"
    text += f" {percent(one.mfu)}"
    if one.loss is None or answer.loss is None:
        return text
    less = ": the law's optimum is for equal MFU" if one.loss < answer.loss else ""
    return f"{text}, loss {one.loss:.4f} ({one.loss - answer.loss:+.4f}{less})"


def _optimum(law: LawOptimum) -> str:
    ratio = f"{format_number(law.tokens_per_parameter, 3)} a parameter"
    return f"{law.law} {count_text(law.parameters)} on {count_text(law.tokens)} tokens ({ratio})"


def _energy(answer: SizeAnswer) -> str:
    bill = answer.bill
    if bill is None:
        return f"not known: no power of {answer.cluster} or its devices"
    emitted = "" if bill.co2e_kg is None else f", {format_kg(bill.co2e_kg)} CO2e"
    energy = f"{format_kwh(bill.energy_kwh)} {bill.energy_of}"
    return f"{energy}, {format_watts(bill.mean_w)} mean{emitted}"


def _cost(answer: SizeAnswer) -> str:
    if answer.cost is None:
        return f"not known: {answer.price}"
    return f"{format_usd(answer.cost)}, {answer.price}"
