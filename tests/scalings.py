"""Scaling curves of steps that were made up, which several test files share."""

from dataclasses import replace

from answers import answer, run_of
from clustersim.metrics.communication import ExposedCommunication
from clustersim.runs.variants import INVALID, Run, Variant
from clustersim.scenario.scaling import CurveFile
from clustersim.simulation.step.answer import DeviceTflops
from clustersim.studies.scale import ScalingAnswer
from clustersim.studies.scale.arguments import CurveRequest
from clustersim.studies.scale.points import PlannedPoint
from clustersim.studies.scale.scaling_curves import curve_of


def answer_of(devices, parts, tokens):
    """Return the answer of a run with these parts of a step [s]."""
    rate = tokens / sum(parts.values()) / devices
    exposed = ExposedCommunication(
        "data_communication", parts["data_communication"], "n0.nic0>leaf0", "nic"
    )
    return replace(
        answer(parts, tokens=tokens, devices=devices),
        tflops_per_device=DeviceTflops(3 * rate, 4 * rate, 4 * rate),
        mfu=0.3,
        hfu=0.4,
        exposed=(exposed,),
    )


def made_up():
    """Return the answer of a study of two curves, one of them with a point that is invalid."""
    curves = []
    for kind, tokens in (("weak", (1000, 2000, 0)), ("strong", (1000, 1000, 0))):
        points, runs = [], []
        for place, (devices, work) in enumerate(zip((8, 16, 20), tokens, strict=True)):
            points.append(PlannedPoint(Variant("made-up"), devices, devices // 8, work // 10))
            parts = {"matmul": 8.0 * work / 1000 * 8 / devices, "data_communication": 0.5 * place}
            parts["bubble_fill"] = 0.75 * place
            why = "a node has 8 devices (nearest: 16 or 24 devices)"
            runs.append(
                run_of(answer_of(devices, parts, work)) if work else Run(None, INVALID, why)
            )
        published = [{"devices": 16, "metric": "efficiency", "value": 0.9, "source": "a paper"}]
        file = CurveFile(devices=[8, 16, 20], published=published)
        request = CurveRequest(
            "made-up", "Steps that were made up", kind, "data", tuple(points),
            published=tuple(file.published), assumed={"batch.micro": "not stated"},
        )  # fmt: skip
        curves.append(curve_of(request, runs))
    return ScalingAnswer(tuple(curves))
