"""Answers of runs that were made up, for tests of what is made of answers."""

from hypothesis import strategies as st

from clustersim.memory.verdict import HostMemory, MemoryAnswer
from clustersim.metrics.attribution import BUBBLES, PARTS, SlowestStage
from clustersim.metrics.prediction_interval import Interval
from clustersim.runs.variants import RAN, Run, Variant
from clustersim.simulation.step.answer import (
    DeviceTflops,
    ExposedCommunication,
    Fusion,
    RunAnswer,
    RunCounts,
)
from clustersim.studies.compare import CompareAnswer, compare_runs
from clustersim.studies.compare import page as compare_pages
from clustersim.studies.compare.answer import ComparedRun
from clustersim.studies.whatif import page as whatif_pages
from clustersim.studies.whatif.answer import rank_changes
from clustersim.studies.whatif.arguments import WhatIfVariants

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
        interval=Interval(None, None, 0.9, 0, "no measured runs"),
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
            peak_bytes=2.0**30,
            capacity_bytes=2.0**31,
            fits=fits,
            tight=False,
            verdict="fits" if fits else "does not fit",
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
    )


def run_of(answer):
    """Return a run with an answer."""
    return Run("key", RAN, answer=answer)


def compare_page(*others, name="made-up"):
    """Return the page of a run compared with others with these parts."""
    answers = [answer({"matmul": 4.0, "bubble_fill": 2.0}, name=name), *map(answer, others)]
    names = [name, *(f"run {i}" for i in range(len(others)))]
    runs = [ComparedRun(n, n, (), a) for n, a in zip(names, answers, strict=True)]
    comparisons = [compare_runs((name, run.name), answers[0], run.answer) for run in runs[1:]]
    compared = CompareAnswer(tuple(runs), tuple(comparisons))
    return compare_pages.page(compared, f"clustersim compare {name}")


def whatif_page(name):
    """Return the page of two changes of a scenario of that name."""
    changes = ((f"title={name}",), ("plan.zero=1",))
    base = Variant(name)
    requested = WhatIfVariants(base, changes, (base, base), base, (0, 1), None)
    parts = [{"matmul": seconds} for seconds in (4.0, 3.0, 3.5, 2.5)]
    runs = [run_of(answer(each, name=name)) for each in parts]
    return whatif_pages.page(rank_changes(requested, runs), f"clustersim whatif {name}")
