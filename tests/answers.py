"""Answers of runs that were made up, for tests of what is made of answers."""

from dataclasses import fields, replace

from hypothesis import strategies as st

from clustersim.evidence import Reach
from clustersim.memory.verdict import HostMemory, MemoryAnswer
from clustersim.metrics.attribution import BUBBLES, PARTS, SlowestStage
from clustersim.metrics.communication import ExposedCommunication
from clustersim.metrics.prediction_interval import Interval
from clustersim.runs.variants import RAN, Run, Variant
from clustersim.simulation.service.answer import (
    Goodput,
    ServeAnswer,
    ServeCounts,
    ServeMemory,
    ServiceCost,
    ServiceEnergy,
    Statistics,
    SteadyState,
)
from clustersim.simulation.step.answer import (
    DeviceTflops,
    Fusion,
    PowerAnswer,
    RunAnswer,
    RunCounts,
)
from clustersim.simulation.training_run.answer import Accounting, CheckpointAnswer, RunMeasures
from clustersim.studies.compare import CompareAnswer, compare_two
from clustersim.studies.compare import files as compare_pages
from clustersim.studies.compare.answer import ComparedRun
from clustersim.studies.whatif import files as whatif_pages
from clustersim.studies.whatif.answer import WhatIfVariants, rank_changes

attributions = st.fixed_dictionaries({part: st.floats(1e-3, 1e3) for part in PARTS})
"""Seconds of a step by part."""


def answer(parts, *, tokens=2**20, devices=8, name="made-up", fits=True, link="n0.nic0>leaf0"):
    """Return the answer of a run with these parts of a step [s]."""
    attribution = dict.fromkeys(PARTS, 0.0) | parts
    step = sum(attribution.values())
    bubble = sum(attribution[part] for part in BUBBLES)
    exposed = ExposedCommunication("data_communication", 1.0, link, "nic")
    return RunAnswer(
        name=name,
        title="A run that was made up",
        step_time_s=step,
        interval=Interval(0.9 * step, 1.2 * step, 0.9, 99, "99 measured runs"),
        tokens_per_s=tokens / step,
        tokens_per_s_per_device=tokens / step / devices,
        samples_per_s=tokens / step / 2048,
        tflops_per_device=DeviceTflops(model=50.0, hardware=60.0, executed=60.0),
        mfu=0.4,
        hfu=0.5,
        bubble_fraction=bubble / step,
        bubble_overhead=bubble / (step - bubble) if step > bubble else 0.0,
        attribution=attribution,
        recomputed_s=0.0,
        exposed=(exposed,) if link else (),
        slowest_stage=SlowestStage(stage=0, seconds=step, mean_s=step),
        memory=MemoryAnswer(
            need_bytes=2.0**30,
            reserve_bytes=0.0,
            capacity_bytes=2.0**31,
            peak_bytes=2.0**30,
            fits=fits,
            tight=False,
            chance=None if fits else 0.0,
            verdict="fits" if fits else "does not fit",
            errors=Reach(1.2, 1.2, 99, "99 measured peaks"),
            stage=0,
            parts={},
            state_bytes=2.0**30,
            host=HostMemory(peak_bytes=0.0, capacity_bytes=None, parts={}),
            advice=(),
        ),
        links=(),
        limits={},
        groups=(),
        experts=None,
        published=(),
        fusion=Fusion(fused=True, bound=0.0, allowed=0.01),
        counts=RunCounts(devices=devices, replica_classes=1, actors=1, blocks=1, activities=1),
        assumed={},
        wall_s=0.0,
        power_w=PowerAnswer(1000.0 * devices, 1000.0 * devices, {}, 1200.0 * devices),
        energy_per_step_j=1000.0 * devices * step,
        usd_per_hour=2.0 * devices,
        quotes=1,
    )


def training_run(days, *, step=None, **changes):
    """Return the answer of a step whose whole run has these days by part."""
    accounting = Accounting(**{
        field.name: 86_400 * days.get(field.name, 0.0) for field in fields(Accounting)
    })  # fmt: skip
    elapsed = accounting.elapsed / 86_400
    checkpoint = CheckpointAnswer(
        bytes=2.0**40, mode="synchronous", block_s=60.0, durable_s=90.0, load_s=60.0,
        every_s=3600.0, every_steps=600, best_s=3600.0, flat_s=None, storage=None, limit="storage",
        bandwidth=1e9, step_slowdown=1.0, drain_slowdown=1.0,
    )  # fmt: skip
    run = RunMeasures(
        days=elapsed,
        goodput=accounting.useful / accounting.elapsed,
        energy_kwh=1000 * elapsed,
        cost=500 * elapsed,
        co2e_kg=300 * elapsed,
        unavailable={},
        tokens=1e12,
        interruptions=10.0 * elapsed,
        accounting=accounting,
        checkpoint=checkpoint,
    )
    return replace(step or answer({"matmul": 6.0}), training=replace(run, **changes))


def service(token, *, first=None, devices=8, fits=True, name="made-up"):
    """Return the answer of a service with these parts of the time per token [s]."""
    first = first or {"queue": 0.5, "prefill": 0.5}
    tpot, ttft = sum(token.values()), sum(first.values())
    memory = ServeMemory(
        need_bytes=2.0**29,
        reserve_bytes=2.0**29,
        fits=fits,
        verdict="fits" if fits else "does not fit: a device needs 2 GiB",
        parts={},
        usable_bytes=2.0**30,
        capacity_bytes=2.0**31,
        largest_batch=64,
        longest_request=4096,
    )
    empty = dict.fromkeys(field.name for field in fields(ServeAnswer))
    rest = {
        "name": name,
        "title": "A service that was made up",
        "memory": memory,
        "attribution": {},
        "ttft_attribution": {},
        "unavailable": {},
        "substitutes": {},
        "published": (),
        "counts": ServeCounts(devices=devices, replicas=1, requests=8, steps=8, mean_batch=4.0),
        "assumed": {},
        "wall_s": 0.0,
        "curve": (),
        "intervals": {},
        "nearest": (),
        "whole_time": False,
    }
    if not fits:
        return ServeAnswer(**(empty | rest))
    rate = 32 / tpot
    numbers = {
        "ttft_s": Statistics(*[ttft] * 5),
        "tpot_s": Statistics(*[tpot] * 5) if tpot else None,
        "latency_s": Statistics(*[ttft + 100 * tpot] * 5),
        "output_tokens_per_s": rate,
        "total_tokens_per_s": 2 * rate,
        "output_tokens_per_s_per_device": rate / devices,
        "total_tokens_per_s_per_device": 2 * rate / devices,
        "tokens_per_s_per_user": 1 / tpot,
        "requests_per_s": rate / 100,
        "steady": SteadyState(True, rate / 100, rate / 50, None, 0.0, "steady state", True),
        "goodput": Goodput(0.5, rate / 200, 2.0, None, 0.5, None, ttft, tpot),
        "attribution": token,
        "ttft_attribution": first,
        "limiting": max(token, key=token.__getitem__),
        "energy": ServiceEnergy(
            1e3 * devices, 1e3, 1e3 / rate, rate / 1e3, 2 * rate / 1e3, 1.2e3 * devices
        ),
        "cost": ServiceCost(2.0, "a quote", 1.0, rate * 1800 / devices, rate * 3600 / devices, 1),
    }
    return ServeAnswer(**(empty | rest | numbers | {"expectations": ()}))


def made_up(kind, size=1.0, *, fits=True):
    """Return an answer of a kind; a larger size takes longer in every account."""
    if kind == "service":
        token, first = {"matmul": 0.01 * size, "kv": 0.02}, {"queue": 0.5 * size, "kv": 0.5}
        return service(token, first=first, fits=fits)
    step = dict.fromkeys(PARTS, 0.1) | {"matmul": 6.0 * size, "bubble_fill": 2.0}
    if kind == "step":
        return answer(step, fits=fits)
    days = dict.fromkeys((field.name for field in fields(Accounting)), 1.0) | {"useful": 20 * size}
    return training_run(days, step=answer(step, fits=fits))


KINDS = ("step", "training run", "service")
"""What an answer is of."""


def run_of(answer):
    """Return a run with an answer."""
    return Run("key", RAN, answer=answer)


def compared(first, *others, names=None, by=None):
    """Return the comparison of answers with the first one, as `compare` does of their runs."""
    answers = [first, *others]
    names = names or [first.name, *(f"run {number}" for number in range(len(others)))]
    runs = [ComparedRun(n, n, (), each) for n, each in zip(names, answers, strict=True)]
    by = by or {"service": "tpot", "step": "step_time_s"}.get(first.kinds[0], "days")
    each = [compare_two((names[0], run.name), first, run.answer, by) for run in runs[1:]]
    return CompareAnswer(by, tuple(runs), tuple(each))


def compare_page(*others, name="made-up"):
    """Return the page of a step compared with others with these parts."""
    first = answer({"matmul": 4.0, "bubble_fill": 2.0}, name=name)
    result = compared(first, *map(answer, others))
    return compare_pages.page(result, f"clustersim compare {name}")


def whatif_page(name):
    """Return the page of two changes of a scenario of that name."""
    changes = ((f"title={name}",), ("plan.zero=1",))
    base = Variant(name)
    requested = WhatIfVariants(base, changes, (base, base), base, (0, 1), None)
    parts = [{"matmul": seconds} for seconds in (4.0, 3.0, 3.5, 2.5)]
    runs = [run_of(answer(each, name=name)) for each in parts]
    answered = rank_changes(requested, runs, "step_time_s")
    return whatif_pages.page(answered, f"clustersim whatif {name}")
