"""Fitted coefficients of the machines and the software of graded cases, with the data of each fit.

A number that was fitted states so, and to which data, in the reason of its file.  The measured runs
that a reason does not name were never used for it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from clustersim.catalog.facts import facts
from clustersim.render.tables import ResultTable, Rows
from clustersim.scenario.entries import entry
from clustersim.units import counted
from clustersim.validation.answer import Validation
from clustersim.validation.outcome import CaseAnswer

_FITTED: Final = re.compile(r"\bfit(ted)?\b")


class Coefficient(NamedTuple):
    """A fitted number: the kind and name of its file, its key, value and the data of the fit."""

    kind: str
    name: str
    key: str
    value: float
    data: str


def fits_of(kind: str, name: str) -> list[Coefficient]:
    """Return the numbers of a file of the catalogue whose reason names a fit, in SI units."""
    return [
        Coefficient(kind, name, key, float(fact.value), fact.assumed or "")
        for key, fact in facts(entry(kind, name).record)
        if isinstance(fact.value, int | float) and _FITTED.search(fact.assumed or "")
    ]


def fitted_coefficient_rows(answer: Validation) -> Rows:
    """Yield a row for each fitted coefficient, with the number of graded cases that have it.

    A release has the coefficients of the file that it extends; they stand once, with the former.
    """
    used: dict[Coefficient, int] = {}
    same: dict[tuple[str, str, str], Coefficient] = {}
    for kind, name, cases in _files(answer):
        for found in fits_of(kind, name):
            first = same.setdefault((kind, found.key, found.data), found)
            used[first] = used.get(first, 0) + cases
    for each, cases in used.items():
        yield each.name, each.key, f"{each.value:g}", counted(cases, "run"), each.data


def _files(answer: Validation) -> Iterator[tuple[str, str, int]]:
    """Yield kind and name of each file of graded cases, with their number."""
    counts: dict[tuple[str, str], int] = {}
    for case in answer.cases:
        for file in _files_of(case) if case.gradable else ():
            counts[file] = counts.get(file, 0) + 1
    for (kind, name), cases in sorted(counts.items()):
        yield kind, name, cases


def _files_of(case: CaseAnswer) -> Iterator[tuple[str, str]]:
    if case.accelerator is not None:
        yield "accelerator", case.accelerator
    if case.framework is not None:
        yield "framework", case.framework


FITTED: Final = ResultTable(
    "Fitted coefficients of these runs, and the data of each fit; no other run was used for it",
    ("file", "key", ">value", ">graded with it", "data of the fit"),
    fitted_coefficient_rows,
)
