"""The settings of a measured run: stated, else assumed in its row, else a documented default.

    Row --case_settings--> Settings

A setting has the value that the row states, else that of its section `assumed`, else that of the
recipes of its software, else a default; `Settings.assumed` has the reason of every other value than
a stated one.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from math import prod
from typing import Any, Final

from clustersim.program.schedules import SCHEDULES
from clustersim.records import dataclass
from clustersim.validation.cases.rows import Batch, Parallel, Row
from clustersim.validation.cases.texts import (
    count,
    flag,
    sharding_ranks,
    whole_number,
    word,
    word_among,
)

KERNELS: Final = ("unfused", "math", "fused-softmax", "flash")
"""Kernels of attention, by the names of framework files."""

RECOMPUTE: Final = ("none", "selective", "full")
CUSTOM: Final = "custom"
"""Selective recomputation of what a case lists."""
CHEAPEST: Final = "cheapest"
"""The recomputation of a case that does not state it: the least that fits its devices."""

PRECISIONS: Final = {
    "fp16": "fp16", "float16": "fp16", "half": "fp16", "bf16": "bf16", "bfloat16": "bf16",
    "fp32": "fp32", "float32": "fp32", "tf32": "tf32", "fp8": "fp8", "mxfp8": "mxfp8",
    "nvfp4": "nvfp4",
    "amp_fp16": "fp16", "amp_bf16": "bf16", "amp_fp8": "fp8", "bf16-mixed": "bf16",
    "fp16-mixed": "fp16",
}  # fmt: skip
"""Names of precisions in sources and in scenarios."""


_SCHEDULES: Final = {
    "afab": "gpipe", "interleaved": "interleaved-1f1b", "interleaved1f1b": "interleaved-1f1b",
    "one-forward-one-backward": "1f1b", "loopedbfs": "looped-bfs", "zbv": "zb-v",
    "vhalf": "v-half", "vmin": "v-min", "zbvzerobubble": "zb-v", "dualpipev": "dualpipe-v",
}  # fmt: skip
"""Names of schedules in other software and in scenarios."""

_RECOMPUTE: Final = {"true": "full", "false": "none", "off": "none", "no": "none"}
"""Values of flags in recipes and the recomputation that they select."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run; None where neither the case nor a default gives a value.

    Attributes
    ----------
    devices, tensor, context, pipeline, data : of the job
    expert, expert_tensor : ranks that share the experts, and those that share one
    chunks : model chunks of a stage
    zero, shard, reshard : the ZeRO stage, the ranks that share the states (0 for all), and whether
        gathered weights are released after the forward
    sequences, micro : of a step and of a microbatch
    vocab : rows of the embedding, before padding for the layout
    kernel : of attention; None for that of the software
    assumed : the reason for each value that the source does not state
    """

    devices: int | None
    tensor: int | None
    context: int
    expert: int
    expert_tensor: int
    pipeline: int | None
    data: int | None
    chunks: int | None
    schedule: str | None
    zero: int | None
    shard: int
    reshard: bool
    sequences: int | None
    micro: int | None
    sequence: int | None
    vocab: int | None
    recompute: str | None
    precision: str | None
    sequence_parallel: bool | None
    kernel: str | None
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Required settings without a value."""
        optional = {"kernel", "sequence_parallel"}
        return [
            f.name for f in fields(self) if f.name not in optional and getattr(self, f.name) is None
        ]

    @property
    def complete(self) -> bool:
        """Whether the source states every setting that changes the step time."""
        return not set(self.assumed) - {"vocab", "sequence_parallel"}


class _Chooser:
    """Chooses settings one by one and records the reason of every assumed one."""

    def __init__(self, row: Row, usual: Mapping[str, Any]) -> None:
        self.given = row.assumed
        self.usual = usual
        self.assumed: dict[str, str] = {}

    def take(
        self,
        name: str,
        stated: Any,
        read: Callable[[object], Any],
        keys: tuple[str, ...] = (),
        default: tuple[Any, str] | None = None,
    ) -> Any:
        """Return the stated value, else the first assumed one of `keys`, else the default."""
        if stated is not None:
            return stated
        for key in keys:
            value = _readable(read, self.given.get(key))
            if value is not None:
                self.assumed[name] = "assumed in the case"
                return value
        if name in self.usual:
            self.assumed[name] = "not stated: the value in the recipes of its software"
            return self.usual[name]
        if default is not None:
            value, self.assumed[name] = default
            return value
        return None


def _readable(read: Callable[[object], Any], value: object) -> Any:
    """Return an assumed value; None where its text is a remark."""
    try:
        return read(value)
    except ValueError:
        return None


SHARED_TOKENS: Final = True, "tensor ranks must divide the tokens where layers have experts"


def case_settings(row: Row, usual: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings of a row: stated, else assumed, else a default.

    Parameters
    ----------
    usual : settings in the recipes of the software, for those that the row does not state
    """
    chooser = _Chooser(row, usual or {})
    take, parallel, model = chooser.take, row.parallel, row.model
    devices, tensor, pipeline, data = _degrees(chooser, row)
    schedule, chunks = _schedule(chooser, parallel, pipeline, model.layers or 0)
    sequences, micro = _batch(chooser, row.batch, data, pipeline or 1)
    zero, shard, reshard = _sharding(chooser, row)
    vocab = _readable(count, row.assumed.get("padded_vocab"))
    return Settings(
        devices=devices,
        tensor=tensor,
        context=parallel.cp or 1,
        expert=parallel.ep or 1,
        expert_tensor=parallel.expert_tp or 1,
        pipeline=pipeline,
        data=data,
        chunks=chunks,
        schedule=schedule,
        zero=zero,
        shard=0 if shard == (data or 0) * (parallel.cp or 1) else shard,
        reshard=reshard,
        sequences=sequences,
        micro=micro,
        sequence=take("sequence", model.seq, count, ("seq",)),
        vocab=vocab or take("vocab", model.vocab, count, ("vocab",), (50257, "that of GPT-2")),
        recompute=take(
            "recompute",
            _RECOMPUTE.get(row.recompute or "", row.recompute),
            word_among(*RECOMPUTE),
            ("recompute",),
            (CHEAPEST, "not stated: the least that fits the devices"),
        ),
        precision=take("precision", row.precision, word),
        sequence_parallel=take(
            "sequence_parallel",
            parallel.sequence_parallel,
            flag,
            ("sequence_parallel",),
            SHARED_TOKENS if (model.experts or 0) > 1 else None,
        ),
        kernel=_kernel(row.attention or _readable(word, row.assumed.get("attention")) or ""),
        assumed=chooser.assumed,
    )


def _kernel(words: str) -> str | None:
    """Return the kernel of attention that some words name: *flash_attention_2* is a flash one."""
    return next((name for name in KERNELS if words.startswith(name)), None)


def _degrees(chooser: _Chooser, row: Row) -> tuple[int | None, int | None, int | None, int | None]:
    """Return devices, tensor, pipeline and data; one of them may follow from the others."""
    tensor = chooser.take("tensor", row.parallel.tp, count, ("tp",))
    pipeline = chooser.take("pipeline", row.parallel.pp, count, ("pp",))
    data = chooser.take("data", row.parallel.dp, count, ("dp",))
    devices = chooser.take("devices", row.system.gpus, count, ("gpus",))
    context = row.parallel.cp or 1
    data = data or _quotient(devices, tensor, context, pipeline)
    return devices or _product(tensor, context, pipeline, data), tensor, pipeline, data


def _batch(
    chooser: _Chooser, batch: Batch, data: int | None, pipeline: int
) -> tuple[int | None, int | None]:
    """Return the sequences of a step and of a microbatch; one may follow from the other.

    Some software divides the share of a replica into as many microbatches as the pipeline has
    ranks, whatever the number of chunks.
    """
    micro = batch.micro or _quotient(batch.global_, data, batch.grad_accum)
    if micro is None and chooser.usual.get("microbatches") == "pipeline" and pipeline > 1:
        micro = _quotient(batch.global_, data, pipeline)
        chooser.assumed["micro"] = "not stated: as many microbatches as pipeline ranks, its default"
    micro = chooser.take("micro", micro, count, ("micro",), (1, "not stated: the smallest"))
    steps = batch.grad_accum or _readable(count, chooser.given.get("microbatches"))
    sequences = chooser.take("sequences", batch.global_, count, ("global_batch",))
    return sequences or _product(data, micro, steps or _usual_steps(chooser, pipeline)), micro


def _usual_steps(chooser: _Chooser, pipeline: int) -> int | None:
    """Return the microbatches of a replica where neither they nor the batch are stated.

    Those of its recipes, else one. A pipeline of one microbatch is unusual, so it needs a number.
    """
    if "grad_accum" in chooser.usual:
        chooser.assumed["sequences"] = "not stated: the microbatches in the recipes of its software"
        return int(chooser.usual["grad_accum"])
    if pipeline > 1:
        return None
    chooser.assumed["sequences"] = "not stated: one microbatch of each replica"
    return 1


def _schedule(
    chooser: _Chooser, parallel: Parallel, pipeline: int | None, layers: int
) -> tuple[str | None, int | None]:
    """Return the schedule and its chunks; without a pipeline there is no choice.

    Chunks that are not stated are the fewest that the schedule supports and the layers fill.
    """
    if pipeline == 1:
        return "1f1b", 1
    chunks = chooser.take("chunks", parallel.interleave, count, ("interleave",))
    usual = "1f1b" if chunks in (None, 1) else "interleaved-1f1b"
    stated = (parallel.schedule or "").replace(" ", "-").replace("_", "-")
    schedule = chooser.take(
        "schedule",
        _SCHEDULES.get(stated, stated) or None,
        word_among("none", *SCHEDULES),
        ("schedule",),
        (usual, "not stated: the usual one"),
    )
    known = SCHEDULES.get(schedule or "")
    least = 1 if known is None else known.chunks[0]
    if known is not None and known.chunks == (least, least):
        return schedule, least
    if chunks is None and least > 1:
        fewest = _fewest_chunks(layers, pipeline or 1, least)
        return schedule, chooser.take("chunks", None, count, (), (fewest, "not stated: the fewest"))
    return schedule, chunks or 1


def _fewest_chunks(layers: int, pipeline: int, least: int) -> int:
    """Return the fewest chunks, at least some, that layers divide into, alone or with both ends."""
    whole = (
        chunks
        for chunks in range(least, layers // pipeline + 1)
        if 0 in (layers % (pipeline * chunks), (layers + 2) % (pipeline * chunks))
    )
    return next(whole, least)


def _sharding(chooser: _Chooser, row: Row) -> tuple[int | None, int, bool]:
    """Return the ZeRO stage, the ranks that share, and whether gathered weights are released.

    PyTorch's ``SHARD_GRAD_OP`` keeps gathered weights until the backward; ``HYBRID_SHARD`` shares
    the states inside a node.
    """
    parallel, strategy = row.parallel, (row.parallel.sharding or "").upper()
    sharing = sharding_ranks(chooser.given.get("zero_stage"))
    stated = parallel.zero_stage
    if stated is None and (parallel.fsdp or strategy):
        stated = 0 if sharing == 1 else 3
    if strategy == "SHARD_GRAD_OP":
        stated = 3
    zero = chooser.take("zero", stated, whole_number, ("zero_stage",), (0, "not stated"))
    ranks = sharing or 0
    if strategy.startswith("HYBRID"):
        ranks = row.system.gpus_per_node or 0
    return zero, ranks if zero else 0, strategy != "SHARD_GRAD_OP"


def _quotient(total: int | None, *parts: int | None) -> int | None:
    """Return `total` over the product of `parts` where that is a whole number."""
    product = _product(*parts)
    if total is None or not product or total % product:
        return None
    return total // product


def _product(*parts: int | None) -> int | None:
    stated = [part for part in parts if part is not None]
    return prod(stated) if len(stated) == len(parts) else None
