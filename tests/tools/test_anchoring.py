"""The table of anchored runs: errors, coverage and lengths with and without the anchor."""

from math import exp

import pytest

from clustersim.evidence import Reach
from tools.anchoring import Anchored, markdown, narrowing, table

REACH = Reach(exp(0.2), exp(0.4), 30, "30 measured runs")


def run(source, before, after, *, near=True, larger=True):
    return Anchored(source, before, after, near, larger, REACH)


def test_errors_are_relative_to_the_end_of_the_interval_on_their_side():
    """An end of a narrowed interval is nearer."""
    assert run("a", 0, 0).relative(0.4) == pytest.approx(1)
    assert run("a", 0, 0).relative(-0.1) == pytest.approx(0.5)
    assert run("a", 0, 0).relative(-0.1, 0.25) == pytest.approx(2)


def test_the_narrowing_has_nine_of_ten_runs_and_the_one_to_come():
    """Nineteen sources with errors of 1 to 19 % of the end: the eighteenth; few have none."""
    runs = [run(f"{i}", 0.4, 0.4 * i / 100) for i in range(1, 20)]

    assert narrowing(runs) == pytest.approx(0.18)
    assert narrowing(runs[:5]) == 1.0


def test_the_table_has_a_row_for_each_source_and_sums():
    """Runs that are unlike their anchor keep their interval."""
    runs = [run(f"{i}", 0.3, 0.02) for i in range(20)]
    runs += [run("far", 0.3, 0.3, near=False), run("small", 0.3, 0.02, larger=False)]
    rows = {row[0]: row[1:] for row in table(runs)}

    assert rows["1"] == ["1", "1", "35.0 %", "2.0 %", "100.0 %", "100.0 %", "0.60", "0.03"]
    assert rows["far"] == ["1", "0", "35.0 %", "35.0 %", "100.0 %", "100.0 %", "0.60", "0.60"]
    assert "small" not in rows
    assert [rows[name][0] for name in ("all", "all, near their anchor")] == ["21", "20"]
    assert len({line.count("|") for line in markdown(table(runs))}) == 1
