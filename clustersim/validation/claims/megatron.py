"""What is predicted for the claims of the paper of Megatron-LM's pipelines (arXiv:2104.04473).

Shapes, batches and devices of its figures are those of ``examples/sc21/run_figure_*.sh`` in
NVIDIA/Megatron-LM.  All are set on one of the rows of its Table 1, which names machine, framework
and recomputation.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from clustersim.program.steps import FORWARD, Code
from clustersim.simulation.simulate import Result, simulate
from clustersim.traffic import Traffic
from clustersim.validation.claims.sources import state_bytes

Numbers = dict[str, float]

ROW: Final = "megatron21-t1-145b"
"""The row of Table 1 that the settings below change: 145B parameters on Selene."""

TRILLION: Final = "megatron21-t1-1t"

PLAIN: Final = ("plan.schedule=1f1b", "plan.chunks=1")
GPIPE: Final = ("plan.schedule=gpipe", "plan.chunks=1")
CHUNKS: Final = ("plan.schedule=interleaved-1f1b", "plan.chunks=4")
TWO_CHUNKS: Final = ("plan.schedule=interleaved-1f1b", "plan.chunks=2")
WHOLE: Final = ("framework.pipeline.sharded=false",)
"""Without scatter-gather: every tensor rank sends all of what a stage hands on."""

GPT3: Final = ("model=gpt-175b", "cluster.nodes=12", "plan.pipeline=12", "plan.data=1")
"""GPT-3 on 96 A100, run_figure_12.sh and run_figure_18.sh."""

WIDE: Final = ("model=megatron-530b", "model.layers=32", "cluster.nodes=8", "plan.data=1", *PLAIN)
"""162B parameters on 64 A100, run_figure_13.sh."""

NINETY_ONE: Final = ("model.hidden=15360", "model.ffn=61440", "plan.pipeline=8")
"""91B parameters in as many layers as `WIDE`, run_figure_16.sh."""

ONE_BILLION: Final = (
    *("model=megatron-1.7b", "model.layers=4", "model.hidden=4096", "model.heads=128"),
    *("model.ffn=16384", "plan.tensor=1", "plan.pipeline=1", "plan.data=1", *PLAIN),
    *("cluster=dgx-a100", "cluster.nodes=1"),
    *("cluster.node.devices.value=1", "cluster.node.nics.devices.value=[0]"),
)
"""A billion parameters on one A100: 4 layers, hidden size 4,096, 128 heads (Figure 7)."""

DEEP: Final = ("plan.pipeline=16", "plan.data=1", "cluster.nodes=16", *PLAIN)
"""145B parameters on 128 A100, run_figure_17.sh."""

TABLE_2: Final = {
    "175b": (*GPT3, "cluster.nodes=48", "plan.data=4", "batch.global=1536", *PLAIN),
    "530b": (
        *("model=megatron-530b", "cluster.nodes=70", "plan.pipeline=35", "plan.data=2"),
        *("batch.global=2240", *PLAIN),
    ),
}
"""Its first rows of pipelines: 175B on 384 and 530B on 560 A100."""

FREE: Final = (
    "cluster.nic.bandwidth=x1000000",
    "cluster.node.nics.bus=x1000000",
    "cluster.fabric.link.bandwidth=x1000000",
    "cluster.node.library.message=x1000000",
    *WHOLE,
)
"""Stages hand on what they have in no time."""

EQUAL: Final = ("model.layers=960", "model.vocab=8", "framework.vocab_multiple=1")
"""Embedding and logits are a thousandth of a stage: its stages are equal."""

UNFUSED: Final = (
    "framework.kernels.attention=unfused",
    "framework.kernels.bias_gelu_fused=false",
    "framework.kernels.bias_dropout_fused=false",
)
"""Without the three fused kernels of section 4.2: softmax, bias and GELU, bias and dropout."""

SAVED: Final = ("framework.state.fp16.gradients=0", "framework.state.fp16.optimiser=8")
"""What a checkpoint has of the states: weights in 16 and 32 bits and two moments, no gradients."""


def interleaving() -> Numbers:
    """Claim 10: throughput with chunks of two layers over that of the plain schedule [%]."""
    gain = {batch: _gain(batch) for batch in (12, 24, 36, 48, 60)}
    whole = _seconds(*GPT3, "batch.global=240", *WHOLE, *CHUNKS)
    plain = _seconds(*GPT3, "batch.global=240", *WHOLE, *PLAIN)
    return {
        "peak gain": max(gain.values()),
        "gain at a batch of 60": gain[60],
        "least loss of gain from batch to batch": _least_loss(list(gain.values())),
        "gain at 240, without scatter-gather": 100 * (plain / whole - 1),
    }


def _gain(batch: int) -> float:
    plain, chunks = (_seconds(*GPT3, f"batch.global={batch}", *way) for way in (PLAIN, CHUNKS))
    return 100 * (plain / chunks - 1)


def _least_loss(gains: Sequence[float]) -> float:
    return min(before - after for before, after in pairwise(gains))


def two_chunks() -> Numbers:
    """Claim 11: bubble of equal stages with two chunks over that with one."""
    one, two = (
        _result(*GPT3, *FREE, *EQUAL, "batch.global=48", *way).bubble for way in (PLAIN, TWO_CHUNKS)
    )
    return {"two chunks over one": two / one}


def all_forwards_first() -> Numbers:
    """Claim 12: GPipe beside 1F1B, 48 microbatches on 12 stages."""
    first, one = (_result(*GPT3, *FREE, "batch.global=48", *way) for way in (GPIPE, PLAIN))
    return {
        "step of GPipe over 1F1B": first.step_time / one.step_time,
        "held by GPipe": first.memory.stages[0].in_flight,
        "held by 1F1B": one.memory.stages[0].in_flight,
    }


def tensor_and_pipeline() -> Numbers:
    """Claim 13: the tensor degree of the fastest of the layouts that share 64 devices."""
    return {f"tensor degree at {batch}": _fastest_degree(batch) for batch in (32, 128)}


def _fastest_degree(batch: int) -> float:
    taken = {
        degree: _seconds(
            *WIDE,
            f"plan.tensor={degree}",
            f"plan.pipeline={64 // degree}",
            f"batch.global={batch}",
        )
        for degree in (2, 4, 8, 16, 32)
    }
    return float(min(taken, key=taken.__getitem__))


def microbatches() -> Numbers:
    """Claim 14: what the best microbatch gains over 2 [%], and on one device over 1."""
    found = {f"best over 2 at {batch}": _over_two(batch) for batch in (128, 512)}
    alone = [_one_billion(micro) for micro in (1, 2, 4, 8, 16)]
    return found | {"best over 1 on one device": max(alone) / alone[0]}


def _over_two(batch: int) -> float:
    taken = {
        micro: _seconds(*WIDE, *NINETY_ONE, f"batch.micro={micro}", f"batch.global={batch}")
        for micro in (1, 2, 4, 8)
    }
    return 100 * (taken[2] / min(taken.values()) - 1)


def _one_billion(micro: int) -> float:
    """Return sequences in a second of one device that takes one microbatch a step."""
    sizes = f"batch.micro={micro}", f"batch.global={micro}"
    return _result(*ONE_BILLION, *sizes).samples_per_s


def recomputation() -> Numbers:
    """Claim 15: a step with recomputation over one without, and what fits because of it."""
    sizes = [2**power for power in range(9)]
    again = {size: _result(*DEEP, f"batch.global={size}") for size in sizes}
    kept = {size: _result(*DEEP, f"batch.global={size}", "recompute=none") for size in sizes}
    best, best_kept = (
        max(each.samples_per_s for each in ways.values() if each.memory.fits)
        for ways in (again, kept)
    )
    return {
        "longer at a batch of 1": 100 * (again[1].step_time / kept[1].step_time - 1),
        "best over best without": 100 * best / best_kept,
        "memory without at a batch of 16": kept[16].memory.fullest.peak / 2**30,
    }


def scatter_gather() -> Numbers:
    """Claim 16: throughput with scatter-gather over that without it [%]."""
    shares, whole = (_seconds(*GPT3, *CHUNKS, "batch.global=60", *way) for way in ((), WHOLE))
    return {"gain at a batch of 60": 100 * (whole / shares - 1)}


def fusion() -> Numbers:
    """Claim 17: throughput with fused kernels over that without [%], laid out as in Table 2."""
    return {
        size: 100 * (_seconds(*layout, *UNFUSED) / _seconds(*layout) - 1)
        for size, layout in TABLE_2.items()
    }


def trillion() -> Numbers:
    """Claim 18: what crosses the middle of each group in one direction, and what is saved.

    A pipeline is cut between its middle stages, which every tensor rank of every replica crosses
    by a message of its own; the ring of a data group leaves each of its halves by one rank.
    """
    result = simulate(TRILLION)
    actors, middle = result.program.actors, result.program.stages // 2 - 1
    messages = [
        (actor.multiplicity, actor.send[Code(FORWARD, 0)])
        for actor in actors
        if actor.position.stage == middle
    ]
    rings = [
        (actor.multiplicity / result.scenario.plan.data, moved)
        for actor in actors
        for pieces in actor.tail.gradients
        for moved in pieces
    ]
    return {
        "pipelines": sum(count * _rate(moved) for count, moved in messages if moved) / 1e9,
        "data groups": sum(count * _rate(moved) for count, moved in rings) / 1e12,
        "checkpoint": state_bytes(TRILLION, *SAVED) / 1e12,
    }


def _rate(moved: Traffic) -> float:
    """Return the bytes of one flow over the time that it takes alone [B/s]."""
    return moved.nbytes / (moved.latency + moved.nbytes / moved.cap)


def strong_scaling() -> Numbers:
    """Claim 24: steps of Megatron-Turing NLG 530B [s], and their efficiency [%]."""
    steps = {
        nodes: simulate(
            "mtnlg-530b", [f"cluster.nodes={nodes}", f"plan.data={nodes // 35}"]
        ).step_time
        for nodes in (280, 350, 420)
    }
    efficiency = {nodes: 100 * 280 * steps[280] / (nodes * steps[nodes]) for nodes in (350, 420)}
    return {f"step on {nodes} nodes": seconds for nodes, seconds in steps.items()} | {
        f"efficiency on {nodes} nodes": share for nodes, share in efficiency.items()
    }


# --- what they are made of ------------------------------------------------------------------------


def _result(*settings: str) -> Result:
    """Return the step of the row with these settings, in microbatches of one sequence."""
    return simulate(ROW, ["batch.micro=1", *settings])


def _seconds(*settings: str) -> float:
    return _result(*settings).step_time
