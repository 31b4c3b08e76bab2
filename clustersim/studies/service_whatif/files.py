"""The files of a what-if of a service: its numbers as a table, waterfall and page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.simulation.service.measures import SERVICE_MEASURES
from clustersim.studies.service_whatif.answer import ServiceWhatIf
from clustersim.studies.service_whatif.page import best_waterfall, page
from clustersim.studies.service_whatif.text import change_text


def files_of(answer: ServiceWhatIf, command: str = "") -> StudyFiles:
    """Return the files of a what-if; `command` is what made it."""
    chart = best_waterfall(answer)
    charts = {} if chart is None else {"waterfall": chart}
    tables = {"whatif.csv": _changes(answer)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    return StudyFiles(page(answer, command), tables, charts)


def _changes(answer: ServiceWhatIf) -> Iterator[Sequence[Any]]:
    """Yield a line for each change, and one for all together."""
    yield ["change", "verdict", "why", "gain", "part", *SERVICE_MEASURES]
    for one in [*answer.changes, *([answer.together] if answer.together else [])]:
        measures = (one.measures.get(name) for name in SERVICE_MEASURES)
        yield [change_text(one), one.verdict, one.why, one.gain, one.part, *measures]
