"""Durations of published runs, compared with the step time of the fastest layout.

Most sources state parameters, tokens, devices and device-hours alone.  Shape, layout and framework
are then assumed: those with which the steps are fastest, so that the prediction is a lower bound,
and predicted over measured device-hours is the goodput that the run had with them.  A run cannot
have used software of later years, so that those published before FlashAttention-2 have profiles of
early 2023.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from clustersim.catalog.finding import entry_names
from clustersim.errors import ClustersimError
from clustersim.scenario.machine import load_cluster
from clustersim.studies.size import Machine, Trained, fastest_layout
from clustersim.validation.cases.machines import MachineChoice, machine_of
from clustersim.validation.cases.reasons import Ungradable, not_stated
from clustersim.validation.cases.rows import Missing, Row, Section, family_row
from clustersim.validation.cases.texts import Count, Number, Text
from clustersim.validation.grading import Graded, graded
from clustersim.workload.shapes import FAMILIES, shape_of

FRAMEWORKS: Final = ("megatron-core", "pytorch-fsdp")
"""Profiles that are tried; the faster one is taken."""

EARLIER: Final = ("megatron-lm-2023", "pytorch-fsdp-2.0")
"""The same for runs that were published before FlashAttention-2 was."""

FLASH_ATTENTION_2: Final = 2307
"""Year and month in which FlashAttention-2 was published, as in arXiv:2307.08691."""

BATCH_TOKENS: Final = float(16 * 2**20)
"""Tokens of a step where the source states none: the last batch of Llama 3 405B.

Larger batches make steps more efficient, so that the prediction stays a lower bound.
"""

ASSUMED_DEVICES: Final = 256
"""Devices where the source states device-hours alone, which hardly depend on their number."""


FAMILY: Final = "duration"
"""The family of rows that are graded here."""


class RunModel(Section):
    """The model of a row; `params_b` and `active_b` are in 10^9."""

    params_b: Number = None
    active_b: Number = None
    seq: Count = None
    layers: Count = None
    hidden: Count = None
    heads: Count = None
    vocab: Count = None
    batch_tokens: Number = None


class DurationRow(Section):
    """What a row states in addition to a `Row`."""

    quality: Text = None
    accelerator: Text = None
    devices: Count = None
    tokens_b: Number = None
    days: Number = None
    device_hours: Number = None
    model: Annotated[RunModel, Missing] = RunModel()


def grade_duration_case(row: Row) -> Graded:
    """Return the grade of a row of the family ``duration``, and what was assumed for it.

    Raises
    ------
    Ungradable
        for projections, mixtures of experts without a shape, and rows that measure other work.
    """
    fields = family_row(row, DurationRow)
    _check(fields)
    measured = _measured_hours(fields)
    system = row.system.model_copy(update={"accelerator": fields.accelerator})
    choice = machine_of(row.model_copy(update={"system": system}))
    devices, tokens = fields.devices or ASSUMED_DEVICES, fields.tokens_b
    if tokens is None:
        raise Ungradable(not_stated("tokens"))
    trained, framework = _fastest(row, fields, choice, devices)
    seconds = tokens * 1e9 / trained.result.tokens_per_s
    predicted = seconds / 3600 * trained.result.devices
    layout = trained.layout
    assumed = {
        "machine": choice.assumed or "",
        "framework": f"{framework}, the faster of {' and '.join(_frameworks(row))}",
        "layout": f"tensor {layout.tensor}, pipeline {layout.pipeline}, data {layout.data},"
        f" microbatches of {layout.micro}, recomputation {layout.recompute}",
    }
    if fields.devices is None:
        assumed["devices"] = f"{devices}, as device-hours hardly depend on them"
    if fields.model.layers is None and row.id not in entry_names("model"):
        assumed["model"] = "the shape of a Llama of as many parameters"
    return [graded("device_hours", measured, predicted, is_time=True)], {
        key: text for key, text in assumed.items() if text
    }


def _check(fields: DurationRow) -> None:
    """Reject rows that measure no run of this kind."""
    reasons = {"P": "a projection by a formula, no run", "C": "hours with other work than steps"}
    why = reasons.get(fields.quality or "")
    if why is None and fields.model.active_b is not None:
        why = "experts not stated"
    if why is None and fields.model.params_b is None:
        why = "parameters not stated"
    if why is not None:
        raise Ungradable.because(why)


def _measured_hours(fields: DurationRow) -> float:
    """Return the device-hours of a row; those of its days where it states no hours."""
    if fields.device_hours is not None:
        return fields.device_hours
    if fields.days is None or fields.devices is None:
        raise Ungradable(not_stated("device-hours"))
    return 24 * fields.days * fields.devices


def _fastest(
    row: Row, fields: DurationRow, choice: MachineChoice, devices: int
) -> tuple[Trained, str]:
    """Return the fastest step of a row's model on its machine, and the framework that runs it."""
    cluster = load_cluster(choice.cluster, None)
    per_node = cluster.node.devices
    nodes, more = divmod(devices, per_node)
    if more or not nodes:
        raise Ungradable.because(f"devices that fill no nodes of {per_node}")
    named = row.id in entry_names("model")
    model: str | Mapping[str, Any] = row.id if named else _model(fields.model)
    steps = []
    for framework in _frameworks(row):
        machine = Machine(
            cluster=choice.cluster,
            nodes=nodes,
            per_node=per_node,
            framework=framework,
            precision="bf16",
            batch_tokens=fields.model.batch_tokens or BATCH_TOKENS,
            settings=(
                *_recomputation(row),
                *(f"{key}={value}" for key, value in choice.settings.items()),
            ),
        )
        try:
            step = fastest_layout(model, machine)
        except ClustersimError:
            continue
        if step is not None:
            steps.append((step, framework))
    if not steps:
        raise Ungradable.because("no layout fits", "no layout of those that were searched fits")
    return max(steps, key=lambda pair: pair[0].result.tokens_per_s)


def _frameworks(row: Row) -> tuple[str, ...]:
    """Return the profiles of the time of a run; those of today where no publication dates it."""
    dated = re.search(r"arXiv:(\d{4})\.", row.source.ref or "")
    return EARLIER if dated and int(dated[1]) < FLASH_ATTENTION_2 else FRAMEWORKS


def _recomputation(row: Row) -> tuple[str, ...]:
    """Return the change of a run whose source states that it recomputed activations."""
    return ("recompute=full",) if "recompute" in (row.source.note or "") else ()


def _model(model: RunModel) -> Mapping[str, Any]:
    """Return the keys of a model file: the stated shape, or that of a Llama of the same size."""
    assert model.params_b is not None, "checked before"
    if model.layers is None or model.hidden is None or model.heads is None:
        shape = shape_of(FAMILIES["llama"], model.params_b * 1e9)
        return {**shape, "sequence": model.seq or shape["sequence"]}
    return {
        "kind": "model",
        "name": "stated",
        "family": "gpt",
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "ffn": 4 * model.hidden,
        "vocab": model.vocab or FAMILIES["gpt"].vocab,
        "sequence": model.seq or FAMILIES["gpt"].sequence,
        "parameters": {"value": model.params_b * 1e9, "source": "stated"},
        "source": "stated",
        "sources": {"stated": {"title": "the source of the row"}},
    }
