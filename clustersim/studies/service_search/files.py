"""The files of a search of a service: the best layouts as a table, and the page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.page.page import Column, Page, Section, Table
from clustersim.render.study_folder import StudyFiles
from clustersim.simulation.serving.service_measures import SERVICE_MEASURES
from clustersim.studies.service_search.answer import ServiceSearch
from clustersim.studies.service_search.text import found_table, found_text, rows


def files_of(answer: ServiceSearch, command: str = "") -> StudyFiles:
    """Return the files of a search; `command` is what made it."""
    lines = tuple((row.label, row.text) for row in rows(answer))
    blocks = [Table("result", (Column("item"), Column("result")), lines)]
    if table := found_table(answer):
        columns = tuple(Column(name, place > 0) for place, name in enumerate(table[0]))
        blocks.append(Table("best layouts", columns, tuple(map(tuple, table[1:]))))
    section = Section("Best layout", "answer", (), tuple(blocks))
    page = Page(f"Search: {answer.title}", lines[0][1], (section,), command)
    return StudyFiles(page, {"search.csv": _rows(answer)})


def _rows(answer: ServiceSearch) -> Iterator[Sequence[Any]]:
    yield ["layout", "bound", *SERVICE_MEASURES]
    for found in answer.ranked:
        measures = (found.measures[name] for name in SERVICE_MEASURES)
        yield [found_text(found), found.bound, *measures]


__all__ = ["files_of"]
