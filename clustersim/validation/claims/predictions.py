"""What is predicted for each claim, by its number and by the names of its numbers.

    CLAIMS[19]() -> {"22b": 16.1, "175b": 18.5, ...}

Numbers are in the units of ``validation/claims.yaml``.  Claims on pipelines are those of one paper,
and predicted in a module of their own.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from clustersim.cost.compute import chain_seconds
from clustersim.scenario.load import load
from clustersim.simulation.simulate import simulate
from clustersim.validation.claims import frontier as frontier
from clustersim.validation.claims import megatron as megatron
from clustersim.validation.claims.sources import job_of, measured, rate, state_bytes
from clustersim.workload.flops import hardware_flops
from clustersim.workload.kernels import Collective, flat
from clustersim.workload.ops import backward, forward

Numbers = dict[str, float]

GPT3 = "frontier-175b"
"""The scenario that has the shape of GPT-3."""

A100_PEAK = 312e12
"""Dense 16-bit peak of an A100 [FLOP/s]."""

MIXTRAL = "mixtral-ep-imbalance"
"""The scenario of eight experts on eight ranks."""

KORTHIKANTI = ("22b", "175b", "530b", "1t")


def _states() -> Numbers:
    """Claim 1: parameters times the 16 bytes of the recipe of ZeRO's paper."""
    nbytes = state_bytes(GPT3)
    return {"states": nbytes / 1e12, "devices": float(math.ceil(nbytes / 80e9))}


def _gpt3_flops() -> Numbers:
    """Claim 2: FLOPs of a step with recomputation, and how many of them train on 300e9 tokens."""
    job = job_of(GPT3)
    step = hardware_flops(job.model, 1536, job.layers.recomputed)
    steps = 300e9 / (1536 * 2048)
    return {
        "step": step / 1e18,
        "steps": steps,
        "training": step * steps / 1e21,
        "time": step * steps / A100_PEAK / 86400,
    }


FRONTIER_RECIPE = (
    "framework.state.fp16.weights=6",
    "framework.state.fp16.gradients=4",
    "framework.state.fp16.optimiser=4",
    "framework.state.fp16.master=0",
)
"""The 14 bytes that the paper of Frontier counts for each parameter: 6 are both copies of it."""


def _frontier_states() -> Numbers:
    """Claim 3: parameters times the 14 bytes of the recipe of that paper."""
    sizes = ("22b", "175b", "1t")
    return {size: state_bytes(f"frontier-{size}", *FRONTIER_RECIPE) / 1e9 for size in sizes}


def _frontier_signs() -> Numbers:
    """Claim 7: throughput of a device, over that of the layout it is compared with."""
    inside = rate(GPT3, "plan.tensor=8", "plan.pipeline=8")
    across = rate(GPT3, "plan.tensor=16", "plan.pipeline=4")
    few, usual = rate(GPT3, "batch.global=320"), rate(GPT3)
    deep = rate(GPT3, "plan.pipeline=32", "cluster.nodes=32")
    return {
        "tensor 16 over 8": across / inside,
        "twice the microbatches": usual / few,
        "twice the stages": deep / usual,
    }


def _zero_alone() -> Numbers:
    """Claim 9: the rows of Table 2."""
    rows = (
        ("175b", "ZeRO-3", (384, 768, 1536)),
        ("530b", "ZeRO-3", (640, 1120, 2240)),
        ("175b", "PTD-P", (384, 1536)),
        ("530b", "PTD-P", (560, 2240)),
    )
    return {
        f"{size} {way} on {devices}": measured(
            f"megatron21-t2-{way.replace('-', '').lower()}-{size}-{devices}"
        )
        for size, way, counts in rows
        for devices in counts
    }


def _activations() -> Numbers:
    """Claim 19: what a layer keeps, over tensor parallelism alone [%]."""
    found = {size: 100 * _kept_share(size, "seqsel") for size in KORTHIKANTI}
    full = {f"{size} full": 100 * _kept_share(size, "full") for size in ("22b", "1t")}
    return found | full


def _kept_share(size: str, way: str) -> float:
    alone = ("recompute=none", "plan.sequence_parallel=false")
    return _kept(f"korthikanti-{size}-{way}") / _kept(f"korthikanti-{size}-{way}", *alone)


def _kept(name: str, *settings: str) -> float:
    """Return what the first layer keeps for its backward [B]."""
    job = job_of(name, *settings)
    first = job.layers.stacked(0, 0)[0]
    return job.layers.kept(first)


def _recomputation() -> Numbers:
    """Claim 20: time of a layer, over that without recomputation [%]."""
    found = {size: _longer(size, "seqsel") for size in ("22b", "530b", "1t")}
    return found | {f"{size} full": _longer(size, "full") for size in ("22b", "1t")}


def _longer(size: str, way: str) -> float:
    alone = ("recompute=none", "plan.sequence_parallel=false")
    with_it, without = (
        sum(_layer_times(f"korthikanti-{size}-{way}", *settings)) for settings in ((), alone)
    )
    return 100 * (with_it / without - 1)


def _layer_times(name: str, *settings: str) -> tuple[float, float]:
    """Return forward and whole backward of a layer [s]."""
    from clustersim.validation.single_layer import layer_times

    ahead, back, again = layer_times(load(name, settings))
    return ahead, back + again


def _faster() -> Numbers:
    """Claim 21: throughput over that with full recomputation [%]."""
    return {size: 100 * (_t5(size, "full") / _t5(size, "seqsel") - 1) for size in KORTHIKANTI}


def _t5(size: str, way: str) -> float:
    return measured(f"korthikanti22-t5-{size}-{way}")


def _one_layer() -> Numbers:
    """Claim 22: forward and backward of one layer [ms]."""
    alone = ("recompute=none", "plan.sequence_parallel=false")
    ahead, back = _layer_times("korthikanti-22b-full", *alone)
    _, whole = _layer_times("korthikanti-22b-full")
    shared, _ = _layer_times("korthikanti-22b-seqsel", "recompute=none")
    return {
        "forward": 1e3 * ahead,
        "backward": 1e3 * back,
        "backward with full recomputation": 1e3 * whole,
        "forward with sequence parallelism": 1e3 * shared,
    }


def _eight_replicas() -> Numbers:
    """Claim 23: the step over eight replicas, over that of one [s]."""
    eight, one = (measured(f"korthikanti22-{row}") for row in ("530b-dp8-seqsel", "t5-530b-seqsel"))
    return {"longer": eight - one}


def _all_reduces() -> Numbers:
    """Claim 25: all-reduces of a layer over its tensor group, counted."""
    counts = [_count(f"recompute={way}") for way in ("none", "full")]
    return dict(zip(("a layer", "with full recomputation"), counts, strict=True))


def _count(*settings: str) -> float:
    job = job_of(GPT3, *settings)
    first = job.layers.stacked(0, 0)[0]
    ops = job.layers.ops(first.layer)
    kernels = [
        *forward(ops),
        *backward(ops),
        *forward([o for o in ops if o.name in first.recomputed]),
    ]
    found = [k for k in flat(kernels) if isinstance(k, Collective) and k.axis == "tensor"]
    return float(sum(k.operation == "all-reduce" for k in found))


def _two_cards() -> Numbers:
    """Claim 26: memory at the peak of a device [GiB]."""
    rows = {"peak with offload": "qlora-70b-2x3090", "peak without offload": "qlora-70b-no-offload"}
    return {name: simulate(scenario).memory.fullest.peak / 2**30 for name, scenario in rows.items()}


def _offload() -> Numbers:
    """Claim 27: the time of 1,024 samples [s]."""
    plain = measured("fsdpqlora-3090-34b-qlora-2048-b2")
    offloaded = measured("fsdpqlora-3090-34b-qlora-2048-b4-offload")
    return {
        "without offload": plain,
        "with offload": offloaded,
        "with over without": offloaded / plain,
    }


def _slow_links() -> Numbers:
    """Claim 28: the time of 1,024 samples [s]."""
    sharded = measured("fsdpqlora-3090-7b-lora-2048-b4")
    replicas = measured("fsdpqlora-3090-7b-lora-2048-b4-ddp")
    return {
        "sharded": sharded,
        "replicas": replicas,
        "sharded over replicas": sharded / replicas,
    }


def _uneven_experts() -> Numbers:
    """Claim 29: the wait of a step, over what its experts compute when all have as many tokens."""
    job, even = job_of(MIXTRAL, "experts={load: balanced}"), 0.0
    device = job.cluster.accelerator
    for layer, again in job.layers.recomputed:
        for op in job.layers.ops(layer):
            if op.name.startswith("expert "):
                kernels = (*op.forward * (2 if op.name in again else 1), *op.backward)
                even += chain_seconds(kernels, device, lambda _: 0.0).compute
    found = {}
    for most in (1.5, 2.0, 4.0):
        rest = ", ".join([str((8 - most) / 7)] * 7)
        load_ = f"experts={{load: histogram, histogram: [{most}, {rest}]}}"
        wait = simulate(MIXTRAL, [load_]).attribution["imbalance"]
        found[f"{most:g} times the mean"] = 1 + wait / (even * job.plan.microbatches)
    return found


CLAIMS: Final[Mapping[int, Callable[[], Numbers]]] = {
    1: _states,
    2: _gpt3_flops,
    3: _frontier_states,
    5: frontier.weak_scaling,
    6: frontier.strong_scaling,
    7: _frontier_signs,
    9: _zero_alone,
    10: megatron.interleaving,
    11: megatron.two_chunks,
    12: megatron.all_forwards_first,
    13: megatron.tensor_and_pipeline,
    14: megatron.microbatches,
    15: megatron.recomputation,
    16: megatron.scatter_gather,
    17: megatron.fusion,
    18: megatron.trillion,
    19: _activations,
    20: _recomputation,
    21: _faster,
    22: _one_layer,
    23: _eight_replicas,
    24: megatron.strong_scaling,
    25: _all_reduces,
    26: _two_cards,
    27: _offload,
    28: _slow_links,
    29: _uneven_experts,
}
"""By number: functions that return what is predicted, by the names of the claim."""
