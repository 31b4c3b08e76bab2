"""Scaling studies of steps that are made up, which several test files share."""

from clustersim.metrics.attribution import PARTS
from clustersim.runs.variants import INVALID, RAN, Run, Variant
from clustersim.scenario.scaling import CurveFile
from clustersim.studies.scaling.answer import scaled
from clustersim.studies.scaling.arguments import Curve
from clustersim.studies.scaling.points import Point


def answer_of(devices, parts, tokens, name="made-up"):
    """Return the answer of a run with these parts of a step [s]."""
    seconds = sum(parts.values())
    rate = tokens / seconds
    return {
        "name": name,
        "step_time_s": seconds,
        "tokens_per_s": rate,
        "tokens_per_s_per_device": rate / devices,
        "samples_per_s": rate / 1000,
        "tflops_per_device": {"model": 3 * rate / devices, "hardware": 4 * rate / devices},
        "mfu": 0.3,
        "hfu": 0.4,
        "bubble_fraction": parts.get("bubble_fill", 0.0) / seconds,
        "bubble_overhead": 0.0,
        "exposed": [
            {
                "part": "data_communication",
                "seconds": parts["data_communication"],
                "link": "n0.nic0>leaf0",
                "kind": "nic",
            }
        ],
        "memory": {"peak_bytes": 1e9, "capacity_bytes": 2e9, "fits": True},
        "counts": {"devices": devices},
        "attribution": {part: parts.get(part, 0.0) for part in PARTS},
        "published": [],
    }


def made_up():
    """Return the answer of a study of two curves, one of them with a point that cannot be."""
    found = []
    for kind, tokens in (("weak", (1000, 2000, 0)), ("strong", (1000, 1000, 0))):
        points, runs = [], []
        for place, (devices, work) in enumerate(zip((8, 16, 20), tokens, strict=True)):
            points.append(Point(Variant("made-up"), devices, devices // 8, work // 10))
            parts = {"matmul": 8.0 * work / 1000 * 8 / devices, "data_communication": 0.5 * place}
            parts["bubble_fill"] = 0.75 * place
            answer = answer_of(devices, parts, work) if work else None
            why = None if work else "a node has 8 devices (nearest: 16 or 24 devices)"
            runs.append(Run("key" if work else None, RAN if work else INVALID, why, answer))
        told = [{"devices": 16, "metric": "efficiency", "value": 0.9, "source": "a paper"}]
        said = CurveFile(devices=[8, 16, 20], published=told)
        curve = Curve(
            "made-up", "Steps that are made up", kind, "data", tuple(points),
            published=tuple(said.published), assumed={"batch.micro": "not stated"},
        )  # fmt: skip
        found.append(scaled(curve, runs))
    return {"curves": found}
