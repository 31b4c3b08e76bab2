"""How often measured runs fall into their intervals, in a sentence and by group."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clustersim.render.tables import counted, percent


def coverage_line(coverage: Mapping[str, Any]) -> str:
    """Return the coverage of all cases of ``clustersim validate --json`` in a line.

    >>> sums = {"count": 40, "inside": 37, "share": 0.925, "without": 2}
    >>> print(coverage_line({"level": 0.9, "all": sums}))
    Intervals of 90 % hold 37 of 40 measured runs (92.5 %); no interval for 2.
    """
    whole = coverage["all"]
    if not whole["count"]:
        return f"Intervals: none for {counted(whole['without'], 'measured run')}."
    without = f"; no interval for {whole['without']:,}" if whole["without"] else ""
    held = f"{whole['inside']:,} of {counted(whole['count'], 'measured run')}"
    level = f"{100 * coverage['level']:g} %"
    return f"Intervals of {level} hold {held} ({percent(whole['share'])}){without}."


COVERAGE_TITLE: Final = "Intervals: runs inside, each judged without those of its own source"
COVERAGE_HEADINGS: Final = ("group", ">runs with an interval", ">inside", ">share", ">without")


def coverage_rows(coverage: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each group, and one for all."""
    for name, sums in [*coverage["groups"].items(), ("all", coverage["all"])]:
        share = "" if sums["share"] is None else percent(sums["share"])
        yield name, f"{sums['count']:,}", f"{sums['inside']:,}", share, f"{sums['without']:,}"
