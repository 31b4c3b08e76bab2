"""The files of a what-if: its numbers as a table, its waterfall, and a page for a browser."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.studies.whatif.answer import WhatIfAnswer
from clustersim.studies.whatif.charts import savings_chart
from clustersim.studies.whatif.page import page
from clustersim.studies.whatif.text import text_of


def files_of(answer: WhatIfAnswer, command: str = "") -> StudyFiles:
    """Return the files of a what-if; `command` is what made it."""
    chart = savings_chart(answer)
    charts = {} if chart is None else {"waterfall": chart}
    tables = {"whatif.csv": _changes(answer)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    return StudyFiles(page(answer, command), tables, charts)


def _changes(answer: WhatIfAnswer) -> Iterator[Sequence[Any]]:
    """Yield a line for each change, and one for all together."""
    columns, measures = ("verdict", "why", "gain", "change", "part", "fits"), answer.base.measures()
    yield ["settings", *columns, "bottleneck", *measures]
    for change in [*answer.changes, *([answer.together] if answer.together else [])]:
        bottleneck = change.facts.get("bottleneck")
        yield [
            text_of(change),
            *(getattr(change, column) for column in columns),
            None if bottleneck is None else bottleneck.after,
            *(change.measures.get(name) for name in measures),
        ]
