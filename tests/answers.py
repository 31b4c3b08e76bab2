"""Answers of runs that never were, for tests of what is made of answers."""

from hypothesis import strategies as st

from clustersim.metrics.attribution import BUBBLES, PARTS
from clustersim.runs.variants import RAN, Run, Variant
from clustersim.studies.compare import page as of_compare
from clustersim.studies.compare.answer import Comparison
from clustersim.studies.whatif import page as of_whatif
from clustersim.studies.whatif.answer import Asked, answered

attributions = st.fixed_dictionaries({part: st.floats(1e-3, 1e3) for part in PARTS})
"""Seconds of a step by part."""


def answer(parts, *, tokens=2**20, devices=8, name="fake", fits=True, link="n0.nic0>leaf0"):
    """Return an answer as `run --json` prints it, with what studies read of one."""
    attribution = dict.fromkeys(PARTS, 0.0) | parts
    step = sum(attribution.values())
    bubble = sum(attribution[part] for part in BUBBLES)
    exposed = {"part": "data_communication", "seconds": 1.0, "link": link, "kind": "nic"}
    return {
        "name": name,
        "title": "A run that never was",
        "step_time_s": step,
        "tokens_per_s": tokens / step,
        "tokens_per_s_per_device": tokens / step / devices,
        "samples_per_s": tokens / step / 2048,
        "tflops_per_device": {"model": 50.0, "hardware": 60.0},
        "mfu": 0.4,
        "hfu": 0.5,
        "bubble_fraction": bubble / step,
        "bubble_overhead": bubble / (step - bubble) if step > bubble else 0.0,
        "attribution": attribution,
        "exposed": [exposed] if link else [],
        "slowest_stage": {"stage": 0, "seconds": step, "mean_s": step},
        "memory": {
            "fits": fits,
            "stage": 0,
            "peak_bytes": 2.0**30,
            "capacity_bytes": 2.0**31,
            "verdict": "fits" if fits else "does not fit",
        },
        "counts": {"devices": devices},
    }


def compare_page(*others, name="fake"):
    """Return the page of a run, and of others with these parts beside it."""
    first = answer({"matmul": 4.0, "bubble_fill": 2.0}, name=name)
    runs = [answer(parts) for parts in others]
    found = [Comparison((name, f"run {i}"), first, run).to_json() for i, run in enumerate(runs)]
    names = [name, *(each["after"] for each in found)]
    said = [{"name": n, "answer": a} for n, a in zip(names, [first, *runs], strict=True)]
    return of_compare.page({"runs": said, "comparisons": found}, f"clustersim compare {name}")


def whatif_page(name):
    """Return the page of two changes of a scenario of that name."""
    changes = ((f"title={name}",), ("plan.zero=1",))
    base = Variant(name)
    question = Asked(base, changes, (base, base), base, (0, 1), None)
    parts = [{"matmul": seconds} for seconds in (4.0, 3.0, 3.5, 2.5)]
    runs = [Run("key", RAN, answer=answer(each, name=name)) for each in parts]
    return of_whatif.page(answered(question, runs).to_json(), f"clustersim whatif {name}")
