"""Fully sharded data parallelism of PyTorch, as the files of several trainers state it.

strategy, reshard, offload  -->  plan.zero, plan.reshard, plan.shard, offload

Names are those of huggingface/accelerate, src/accelerate/utils/dataclasses.py,
FullyShardedDataParallelPlugin.
"""

import re
from typing import Final

from clustersim.importers.launch.options import Option
from clustersim.importers.launch.table import Given, Read, Reads, flag, one_of
from clustersim.workload.optimisers import OPTIMISERS

STRATEGIES: Final = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD")
"""Strategies of sharding, in the order of their numbers from 1."""


def strategy(option: Option) -> str:
    """Return a strategy of sharding by its name or its number."""
    stated = option.word()
    names = {str(number): name for number, name in enumerate(STRATEGIES, 1)}
    name = names.get(stated, stated.upper())
    if name not in STRATEGIES:
        raise option.wrong(f"is not modelled (modelled: {', '.join(STRATEGIES)})")
    return name


PREFETCH: Final = one_of(
    "framework.sharding.prefetch", {"BACKWARD_PRE": 1, "BACKWARD_POST": 0, "NO_PREFETCH": 0}
)
"""How the gather of the next layer of a backward is read."""

READS: Final[Reads] = {
    "sharding-strategy": Read("of.strategy", strategy),
    "reshard-after-forward": Read("of.reshard", Option.word),
    "offload-params": flag("of.offload"),
    "activation-checkpointing": flag("recompute", "full"),
    "backward-prefetch": PREFETCH,
}
"""Options of the plugin that are read, without their prefix, each with its key."""


def put_sharding(given: Given, usual: str = "FULL_SHARD") -> None:
    """State the stage, the ranks of a shard and the offload, of a strategy or the usual one."""
    stated = given.pop("strategy", usual)
    reshard = str(given.pop("reshard", "true")).upper()
    name = reshard if reshard in STRATEGIES else stated
    given.put("plan.zero", 0 if name == "NO_SHARD" else 3, "of.strategy")
    if name == "SHARD_GRAD_OP" or reshard == "FALSE":
        given.put("plan.reshard", False, "of.reshard")
    if name == "HYBRID_SHARD" and given.get("of.copies", 1) == 1:
        given.put("plan.shard", given.get("of.each"), "of.strategy")
    put_offload(given)


def put_offload(given: Given) -> None:
    """State weights and moments on the host, where shards are offloaded."""
    if given.pop("offload"):
        given.put("offload.parameters", True, "of.offload")
        given.put("offload.optimiser", True, "of.offload")


def put_narrow_states(given: Given) -> None:
    """State weights, gradients and moments of 16 bits, without copies of 32 bits."""
    for part, width in {"weights": 2, "gradients": 2, "optimiser": 4}.items():
        given.usual(f"framework.state.bf16.{part}", width)
    given.usual("framework.gradients.bytes_each", 2)
    given.usual("framework.sharding.reduce", 2)


_KINDS: Final = ("adafactor", "adam", "lion", "muon", "sgd")
_OTHER: Final = ("galore", "apollo")


def put_optimiser(given: Given) -> None:
    """State an optimiser by its name in a trainer, `paged_adamw_8bit`, unless it is AdamW."""
    name = str(given.pop("optimiser", "adam")).lower().replace("_", "").replace("-", "")
    kind = next((kind for kind in _KINDS if kind in name), None)
    if kind is None or any(part in name for part in _OTHER):
        given.notes.append(f"the optimiser {name} is modelled as AdamW")
        return
    kind, bits = "adamw" if kind == "adam" else kind, re.search(r"[48]", name)
    narrow = f"{kind}-{bits[0]}bit" if bits else kind
    names = (f"paged-{narrow}" if "paged" in name else narrow, narrow, kind)
    known = next(each for each in names if each in OPTIMISERS)
    if known != "adamw":
        given.put("optimiser", known, "of.optimiser")
