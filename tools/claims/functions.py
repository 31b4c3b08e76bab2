"""Predictions of claims that need an algorithm: a maximum over runs, a count, a formula.

    FUNCTIONS["fastest_tensor_degree"](runs) -> {"tensor degree at 32": 8, ...}

A function takes the runs of its claim by name and returns numbers by name, in the units of
``tools/claims/claims.yaml``.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Final

from clustersim.cost.compute import chain_seconds
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.step_costs import StepCosts
from clustersim.program.schedules.steps import Code
from clustersim.scenario.load import load_service
from clustersim.simulation.service.pools import build_pools
from clustersim.timeline import FORWARD
from clustersim.traffic import Traffic
from clustersim.workload.flops import hardware_flops
from clustersim.workload.kernels import Collective, flat
from clustersim.workload.ops import backward, forward
from tools.claims.runs import ClaimRun

Runs = Mapping[str, ClaimRun]
Numbers = dict[str, float]

PEAK: Final = 312e12
"""Dense 16-bit peak of an A100 [FLOP/s]."""


def training_states(runs: Runs) -> Numbers:
    """Parameters times the 16 bytes of the recipe, and the cards of 80 GB that they fill."""
    nbytes = runs["base"].states
    return {"states": nbytes / 1e12, "devices": float(math.ceil(nbytes / 80e9))}


def training_flops(runs: Runs) -> Numbers:
    """FLOPs of a step with recomputation, and of the steps that train on 300e9 tokens."""
    job = runs["base"].job
    step = hardware_flops(job.model, 1536, job.layers.recomputed)
    steps = 300e9 / (1536 * 2048)
    return {
        "step": step / 1e18,
        "steps": steps,
        "training": step * steps / 1e21,
        "time": step * steps / PEAK / 86400,
    }


def interleaving_gains(runs: Runs) -> Numbers:
    """Throughput with chunks of two layers over that of the plain schedule, by batch [%]."""

    def gain(batch: int) -> float:
        size = f"batch.global={batch}"
        return _gain(runs["plain"].changed(size), runs["chunks"].changed(size))

    gains = {batch: gain(batch) for batch in (12, 24, 36, 48, 60)}
    return {
        "peak gain": max(gains.values()),
        "gain at a batch of 60": gains[60],
        "least loss of gain from batch to batch": min(a - b for a, b in pairwise(gains.values())),
    }


def _gain(base: ClaimRun, changed: ClaimRun) -> float:
    return 100 * (base.result.step_time / changed.result.step_time - 1)


def fastest_tensor_degree(runs: Runs) -> Numbers:
    """The tensor degree of the fastest of the layouts of 64 devices."""

    def fastest(batch: int) -> float:
        seconds = {
            degree: runs["base"]
            .changed(
                f"plan.tensor={degree}",
                f"plan.pipeline={64 // degree}",
                f"batch.global={batch}",
            )
            .result.step_time
            for degree in (2, 4, 8, 16, 32)
        }
        return float(min(seconds, key=seconds.__getitem__))

    return {f"tensor degree at {batch}": fastest(batch) for batch in (32, 128)}


def best_microbatch(runs: Runs) -> Numbers:
    """The gain of the best microbatch over 2 [%], and on one device over 1."""

    def over_two(batch: int) -> float:
        seconds = {
            micro: runs["several devices"]
            .changed(f"batch.micro={micro}", f"batch.global={batch}")
            .result.step_time
            for micro in (1, 2, 4, 8)
        }
        return 100 * (seconds[2] / min(seconds.values()) - 1)

    single = [
        runs["one device"]
        .changed(f"batch.micro={micro}", f"batch.global={micro}")
        .result.samples_per_s
        for micro in (1, 2, 4, 8, 16)
    ]
    gains = {f"best over 2 at {batch}": over_two(batch) for batch in (128, 512)}
    return gains | {"best over 1 on one device": max(single) / single[0]}


def recomputation(runs: Runs) -> Numbers:
    """A step with recomputation over one without, and the best throughput of what fits."""
    sizes = [2**power for power in range(9)]
    recomputed = {size: runs["base"].changed(f"batch.global={size}").result for size in sizes}
    kept = {
        size: runs["base"].changed(f"batch.global={size}", "recompute=none").result
        for size in sizes
    }
    best, best_kept = (
        max(result.samples_per_s for result in results.values() if result.memory.fits)
        for results in (recomputed, kept)
    )
    return {
        "longer at a batch of 1": 100 * (recomputed[1].step_time / kept[1].step_time - 1),
        "best over best without": 100 * best / best_kept,
        "memory without at a batch of 16": kept[16].memory.fullest.peak / 2**30,
    }


def bisection_traffic(runs: Runs) -> Numbers:
    """What crosses the middle of each group in one direction, and what a checkpoint holds.

    A pipeline is cut between its middle stages, which every tensor rank of every replica crosses
    by a message of its own; one rank of each half of a data group sends to the other half.
    """
    result = runs["base"].result
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
        "checkpoint": runs["checkpoint"].states / 1e12,
    }


def _rate(moved: Traffic) -> float:
    """Return the bytes of one flow over its time without other traffic [B/s]."""
    return moved.nbytes / (moved.latency + moved.nbytes / moved.cap)


def all_reduces(runs: Runs) -> Numbers:
    """All-reduces of a layer over its tensor group, counted."""

    def count(run: ClaimRun) -> float:
        job = run.job
        first = job.layers.stacked(0, 0)[0]
        ops = job.layers.ops(first.layer)
        recomputed = [op for op in ops if op.name in first.recomputed]
        kernels = flat([*forward(ops), *backward(ops), *forward(recomputed)])
        return float(sum(k.operation == "all-reduce" for k in _over_tensor_ranks(kernels)))

    return {
        "a layer": count(runs["kept"]),
        "with full recomputation": count(runs["recomputed"]),
    }


def _over_tensor_ranks(kernels: Iterable[object]) -> list[Collective]:
    return [k for k in kernels if isinstance(k, Collective) and k.axis == "tensor"]


def uneven_experts(runs: Runs) -> Numbers:
    """The time of the experts with an uneven load, over that with an even load."""
    job, even = runs["even"].job, 0.0
    device = job.device
    for layer, recomputed in job.layers.recomputed:
        for op in job.layers.ops(layer):
            if op.name.startswith("expert "):
                kernels = (*op.forward * (2 if op.name in recomputed else 1), *op.backward)
                even += chain_seconds(kernels, device, lambda _: 0.0).compute
    times = {}
    for most in (1.5, 2.0, 4.0):
        rest = ", ".join([str((8 - most) / 7)] * 7)
        load = f"experts={{load: histogram, histogram: [{most}, {rest}]}}"
        wait = runs["uneven"].changed(load).result.attribution["imbalance"]
        times[f"{most:g} times the mean"] = 1 + wait / (even * job.plan.microbatches)
    return times


ONE = Batch(1, 1_024)
"""A sequence of 1,024 tokens that decodes alone."""

MANY = Batch(0, 0, (Prompt(8_192),))
"""8,192 tokens of a prompt, which are bound by compute."""


def narrow_weights(runs: Runs) -> Numbers:
    """The time of a step with weights in 16 bits over that with narrow ones."""
    wide = replica_of(runs["base"], "precision=bf16")
    speeds = {}
    for name in ("int8", "int4"):
        narrow = replica_of(runs["base"], f"precision={name}")
        for what, batch in (("one sequence", ONE), ("8,192 tokens", MANY)):
            speeds[f"{name}, {what}"] = wide.step(batch).seconds / narrow.step(batch).seconds
    return speeds


def fused_kernels(runs: Runs) -> Numbers:
    """The time of a step with separate kernels over that with fused ones."""
    separate, fused = replica_of(runs["separate"]), replica_of(runs["fused"])
    return {"one sequence": separate.step(ONE).seconds / fused.step(ONE).seconds}


def replica_of(run: ClaimRun, *settings: str) -> StepCosts:
    """Return the replica of a serving scenario."""
    loaded = load_service(run.name, [*run.set, *settings])
    return build_pools(loaded, MANY.prompts[0].tokens)[-1].costs


FUNCTIONS: Final[Mapping[str, Callable[[Runs], Numbers]]] = {
    function.__name__: function
    for function in (
        training_states, training_flops, interleaving_gains, fastest_tensor_degree,
        best_microbatch, recomputation, bisection_traffic, all_reduces, uneven_experts,
        narrow_weights, fused_kernels,
    )
}  # fmt: skip
"""Functions by the names in ``tools/claims/claims.yaml``."""
