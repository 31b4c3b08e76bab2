"""The files of a sweep of a service: its answer and its combinations as a table."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.studies.service_sweep.answer import MEASURES, ServiceSweep


def files_of(answer: ServiceSweep) -> StudyFiles:
    """Return the files of a sweep."""
    return StudyFiles(None, {"sweep.csv": _rows(answer)})


def _rows(answer: ServiceSweep) -> Iterator[Sequence[Any]]:
    keys = [*answer.points[0].point]
    yield [*keys, "verdict", "why", *MEASURES]
    for point in answer.points:
        measures = [point.measures.get(name) for name in MEASURES]
        yield [*(point.point[key] for key in keys), point.verdict, point.why, *measures]


__all__ = ["files_of"]
