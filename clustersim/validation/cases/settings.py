"""What a run needs to be told of a case: stated, else assumed, else our default.

    Case --settings_of--> Settings

A setting is what the row states, else what its block `assumed` gives, else our stated default;
which of them is kept beside the value.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from clustersim.program.schedules import SCHEDULES
from clustersim.validation.cases.cases import Batch, Case, Parallel
from clustersim.validation.cases.values import count, flag, one_of, whole, word

RECOMPUTE: Final = ("none", "selective", "full")
CHEAPEST: Final = "cheapest"
"""The recomputation of a case that does not tell: the least that fits its devices."""

PRECISIONS: Final = {
    "fp16": "fp16", "float16": "fp16", "half": "fp16", "bf16": "bf16", "bfloat16": "bf16",
    "fp32": "fp32", "float32": "fp32", "tf32": "tf32", "fp8": "fp8", "mxfp8": "mxfp8",
    "amp_fp16": "fp16", "amp_bf16": "bf16", "amp_fp8": "fp8", "bf16-mixed": "bf16",
    "fp16-mixed": "fp16",
}  # fmt: skip
"""What sources call a precision, and its name in a scenario."""


_SCHEDULES: Final = {
    "afab": "gpipe", "interleaved": "interleaved-1f1b", "interleaved1f1b": "interleaved-1f1b",
    "one-forward-one-backward": "1f1b", "loopedbfs": "looped-bfs", "zbv": "zb-v",
    "zbvzerobubble": "zb-v", "dualpipev": "dualpipe-v",
}  # fmt: skip
"""What software calls a schedule, and its name in a scenario."""

_RECOMPUTE: Final = {"true": "full", "false": "none", "off": "none", "no": "none"}
"""Whether all is run again, as some recipes say it."""


@dataclass(frozen=True)
class Settings:
    """What a run needs to be told, None where nobody says it.

    Attributes
    ----------
    devices, tensor, context, pipeline, data : of the job
    expert : ranks that share the experts
    chunks : model chunks of a stage
    zero, shard, reshard : what is sharded, over how many ranks (0 for all), and whether gathered
        weights are given up after the forward
    sequences, micro : of a step and of a microbatch
    vocab : rows of the embedding, before padding for the layout
    assumed : for each setting that the source does not state, why it has its value
    missing : settings that nobody gives and that have no default
    """

    devices: int | None
    tensor: int | None
    context: int
    expert: int
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
    attention: str | None
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Settings that are needed and that nobody gives."""
        optional = {"attention", "sequence_parallel"}
        return [
            f.name for f in fields(self) if f.name not in optional and getattr(self, f.name) is None
        ]

    @property
    def complete(self) -> bool:
        """Whether the source itself states everything that shapes the step."""
        return not set(self.assumed) - {"vocab", "sequence_parallel"}


class _Chooser:
    """Takes settings one by one and remembers which of them were assumed, and why."""

    def __init__(self, case: Case, usual: Mapping[str, Any]) -> None:
        self.given = case.assumed
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
        """Return what is stated, else the first of `keys` that is assumed, else the default."""
        if stated is not None:
            return stated
        for key in keys:
            value = _readable(read, self.given.get(key))
            if value is not None:
                self.assumed[name] = "assumed in the case"
                return value
        if name in self.usual:
            self.assumed[name] = "not stated: as the recipes of its software have it"
            return self.usual[name]
        if default is not None:
            value, self.assumed[name] = default
            return value
        return None


def _readable(read: Callable[[object], Any], value: object) -> Any:
    """Return an assumed value, or None where its text is a remark."""
    try:
        return read(value)
    except ValueError:
        return None


SHARED_TOKENS: Final = True, "tensor ranks must share out the tokens where layers have experts"


def settings_of(case: Case, usual: Mapping[str, Any] | None = None) -> Settings:
    """Return what the row states, else assumes, else what we assume.

    Parameters
    ----------
    usual : settings that the recipes of the case's software have where it does not tell
    """
    chooser = _Chooser(case, usual or {})
    take, parallel, model = chooser.take, case.parallel, case.model
    devices, tensor, pipeline, data = _degrees(chooser, case)
    schedule, chunks = _schedule(chooser, parallel, pipeline)
    sequences, micro = _batch(chooser, case.batch, data, pipeline or 1)
    zero, shard, reshard = _sharding(chooser, case)
    vocab = _readable(count, case.assumed.get("padded_vocab"))
    return Settings(
        devices=devices,
        tensor=tensor,
        context=parallel.cp or 1,
        expert=parallel.ep or 1,
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
            _RECOMPUTE.get(case.recompute or "", case.recompute),
            one_of(*RECOMPUTE),
            ("recompute",),
            (CHEAPEST, "not stated: the least that fits the devices"),
        ),
        precision=take("precision", case.precision, word),
        sequence_parallel=take(
            "sequence_parallel",
            parallel.sequence_parallel,
            flag,
            ("sequence_parallel",),
            SHARED_TOKENS if (model.experts or 0) > 1 else None,
        ),
        attention=_readable(word, case.assumed.get("attention")),
        assumed=chooser.assumed,
    )


def _degrees(
    chooser: _Chooser, case: Case
) -> tuple[int | None, int | None, int | None, int | None]:
    """Return devices, tensor, pipeline and data; one of them may follow from the others."""
    tensor = chooser.take("tensor", case.parallel.tp, count, ("tp",))
    pipeline = chooser.take("pipeline", case.parallel.pp, count, ("pp",))
    data = chooser.take("data", case.parallel.dp, count, ("dp",))
    devices = chooser.take("devices", case.system.gpus, count, ("gpus",))
    context = case.parallel.cp or 1
    data = data or _quotient(devices, tensor, context, pipeline)
    return devices or _product(tensor, context, pipeline, data), tensor, pipeline, data


def _batch(
    chooser: _Chooser, batch: Batch, data: int | None, pipeline: int
) -> tuple[int | None, int | None]:
    """Return the sequences of a step and of a microbatch; one may follow from the other.

    Software may cut what a replica has of a step into as many microbatches as its pipeline has
    ranks, however many chunks each of them holds.
    """
    micro = batch.micro or _quotient(batch.global_, data, batch.grad_accum)
    if micro is None and chooser.usual.get("microbatches") == "pipeline" and pipeline > 1:
        micro = _quotient(batch.global_, data, pipeline)
        chooser.assumed["micro"] = "not stated: as many microbatches as pipeline ranks, its default"
    micro = chooser.take("micro", micro, count, ("micro",), (1, "not stated: the smallest"))
    steps = batch.grad_accum or _readable(count, chooser.given.get("microbatches"))
    sequences = chooser.take("sequences", batch.global_, count, ("global_batch",))
    return sequences or _product(data, micro, steps), micro


def _schedule(
    chooser: _Chooser, parallel: Parallel, pipeline: int | None
) -> tuple[str | None, int | None]:
    """Return the schedule and its chunks; without a pipeline there is nothing to choose."""
    if pipeline == 1:
        return "1f1b", 1
    chunks = chooser.take("chunks", parallel.interleave, count, ("interleave",))
    usual = "1f1b" if chunks in (None, 1) else "interleaved-1f1b"
    told = (parallel.schedule or "").replace(" ", "-").replace("_", "-")
    schedule = chooser.take(
        "schedule",
        _SCHEDULES.get(told, told) or None,
        one_of("none", *SCHEDULES),
        ("schedule",),
        (usual, "not stated: the usual one"),
    )
    known = SCHEDULES.get(schedule or "")
    least = 1 if known is None else known.chunks[0]
    if known is not None and known.chunks == (least, least):
        return schedule, least
    if chunks is None and least > 1:
        return schedule, chooser.take("chunks", None, count, (), (least, "not stated: the fewest"))
    return schedule, chunks or 1


def _sharding(chooser: _Chooser, case: Case) -> tuple[int | None, int, bool]:
    """Return the ZeRO stage, the ranks that share, and whether gathered weights are given up.

    PyTorch's ``SHARD_GRAD_OP`` keeps what it gathered until the backward; ``HYBRID_SHARD`` shares
    inside a node.  A text such as *FSDP2 over the FSDP column = 8* names the ranks that share.
    """
    parallel, way = case.parallel, (case.parallel.sharding or "").upper()
    told = _COLUMN.search(str(chooser.given.get("zero_stage") or ""))
    stated = parallel.zero_stage
    if stated is None and (parallel.fsdp or way):
        stated = 0 if told and int(told[1]) == 1 else 3
    if way == "SHARD_GRAD_OP":
        stated = 3
    zero = chooser.take("zero", stated, whole, ("zero_stage",), (0, "not stated"))
    ranks = int(told[1]) if told else 0
    if way.startswith("HYBRID"):
        ranks = case.system.gpus_per_node or 0
    return zero, ranks if zero else 0, way != "SHARD_GRAD_OP"


_COLUMN: Final = re.compile(r"FSDP column = (\d+)")


def _quotient(total: int | None, *parts: int | None) -> int | None:
    """Return `total` over the product of `parts` where that is a whole number."""
    product = _product(*parts)
    if total is None or not product or total % product:
        return None
    return total // product


def _product(*parts: int | None) -> int | None:
    product = 1
    for part in parts:
        if part is None:
            return None
        product *= part
    return product
