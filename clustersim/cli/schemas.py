"""The schemas by name: of the files that clustersim reads, and of what its verbs print."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from clustersim import answers
from clustersim.calibration.kernels.fits import KernelFits, KernelGrades
from clustersim.calibration.runs.answer import Calibration
from clustersim.engine.network.flows import FinishTimes
from clustersim.exporters import ExportAnswer, TraceExport
from clustersim.importers.registry import ImportAnswer
from clustersim.reports.doctor.answer import Diagnosis
from clustersim.reports.listing.answer import ListedEntry
from clustersim.reports.show.answer import EntryAnswer
from clustersim.reports.show.schedules import ComparedSchedules
from clustersim.scenario.entries import RECORDS, file_schema
from clustersim.scenario.schema import json_schema
from clustersim.scenario.serving import ServingScenarioFile
from clustersim.scenario.sharing import SharingFile
from clustersim.scenario.traced import TracedFile
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.step.answer import RunAnswer
from clustersim.simulation.trace.answer import TraceAnswer
from clustersim.simulation.training_run.answer import TrainAnswer
from clustersim.studies.check import CheckAnswer
from clustersim.studies.check_trace import TraceCheckAnswer
from clustersim.studies.collective.answer import Timing
from clustersim.studies.compare import CompareAnswer
from clustersim.studies.new import NewScenario
from clustersim.studies.scale import ScalingAnswer
from clustersim.studies.search import SearchAnswer
from clustersim.studies.size import SizeAnswer
from clustersim.studies.study.answer import StoredRuns, StoredStudies
from clustersim.studies.sweep import SweepAnswer
from clustersim.studies.whatif import WhatIfAnswer
from clustersim.validation.answer import Validation

ANSWERS: Final[Mapping[str, Any]] = {
    "run": RunAnswer | ServeAnswer | ShareAnswer | TraceAnswer,
    "serve": ServeAnswer,
    "scale": ScalingAnswer,
    "check": CheckAnswer | TraceCheckAnswer,
    "compare": CompareAnswer,
    "whatif": WhatIfAnswer,
    "sweep": SweepAnswer,
    "search": SearchAnswer,
    "new": NewScenario,
    "size": SizeAnswer,
    "train": TrainAnswer,
    "share": ShareAnswer,
    "study": StoredStudies | StoredRuns,
    "validate": Validation,
    "calibrate": Calibration | KernelFits | KernelGrades,
    "collective": list[Timing],
    "flows": dict[str, FinishTimes],
    "show": EntryAnswer | ComparedSchedules,
    "list": dict[str, list[ListedEntry]],
    "import": ImportAnswer,
    "export": ExportAnswer | TraceExport,
    "doctor": Diagnosis,
}
"""What each verb prints with `--json`."""

SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "scenario": json_schema,
    "serving": partial(json_schema, ServingScenarioFile),
    "sharing": partial(json_schema, SharingFile),
    "traced": partial(json_schema, TracedFile),
    **{kind: partial(file_schema, kind) for kind in RECORDS},
    **{verb: partial(answers.schema, answer) for verb, answer in ANSWERS.items()},
}
"""Kinds of files, and verbs whose `--json` has a schema."""
