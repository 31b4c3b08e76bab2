"""The files of a collective: its table and its chart."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.studies.collective.answer import CollectiveAnswer, Timing
from clustersim.studies.collective.charts import bandwidth_chart


def files_of(answer: CollectiveAnswer) -> StudyFiles:
    """Return the files; a barrier, which has no sizes, has no chart."""
    drawn = answer.timings[0].bytes > 0
    charts = {"collective": bandwidth_chart(answer)} if drawn else {}
    return StudyFiles(None, {"collective.csv": _timings(answer)}, charts)


def _timings(answer: CollectiveAnswer) -> Iterator[Sequence[Any]]:
    columns = [field.name for field in fields(Timing)]
    yield columns
    for timing in answer.timings:
        yield [getattr(timing, column) for column in columns]
